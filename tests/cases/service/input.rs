//! Input that comes too late, to the wrong process, or to one that takes none.

use tonic::Code;
use unified_exec::grpc::pb;

use super::{Stage, code, on_terminal, output, short};
use crate::refusal::{reason, show, words};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e14_a_process_without_stdin_refuses_input_and_goes_on() {
    let stage = Stage::set().await;
    let session = &stage.session;
    let line = "sleep 1.2; echo untouched; exit 2";
    let id = session.run(short(session.line(line))).await.unwrap().process_id.unwrap();
    let refused = session.input(id, b"text\n").await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{}", show(&refused));
    assert_eq!(reason(&refused), "STDIN_CLOSED");
    assert!(words(&refused).contains("tty") && words(&refused).contains("stdin"), "{}", show(&refused));
    let result = session.poll(id).await.unwrap();
    assert_eq!((code(&result), output(&result)), (Some(2), "untouched\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e14_the_interrupt_key_reaches_a_process_without_stdin() {
    let stage = Stage::set().await;
    let session = &stage.session;
    let line = "trap 'echo got-int; exit 42' INT; echo armed; while :; do sleep 0.1; done";
    let id = session.run(short(session.line(line))).await.unwrap().process_id.unwrap();
    session.input(id, b"\x03").await.unwrap();
    let exit = session.wait(id, pb::wait_request::Condition::Exit(true), 2000).await.unwrap().exit.unwrap();
    assert_eq!(exit.shell_code, 42);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d07_a_key_for_a_terminal_that_is_over_is_told_so() {
    let stage = Stage::set().await;
    let session = &stage.session;
    let request = short(on_terminal(session.line("sleep 0.6")));
    let id = session.run(request).await.unwrap().process_id.unwrap();
    let result = session.poll(id).await.unwrap();
    assert_eq!((code(&result), result.process_id), (Some(0), None));
    let late = session.input(id, b"\x03").await.unwrap_err();
    assert_eq!((late.code(), reason(&late).as_str()), (Code::FailedPrecondition, "PROCESS_ENDED"));
    assert!(words(&late).contains("code=0"), "{}", show(&late));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o05_input_for_an_ended_process_reaches_no_other() {
    let stage = Stage::set().await;
    let session = &stage.session;
    let start = || short(on_terminal(session.line("cat")));
    let a = session.run(start()).await.unwrap().process_id.unwrap();
    session.input(a, b"\x04").await.unwrap();
    let b = session.run(start()).await.unwrap().process_id.unwrap();
    assert_ne!(a, b);
    let late = session.input(a, b"for-a\n").await.unwrap_err();
    assert_eq!(reason(&late), "PROCESS_ENDED", "{}", show(&late));
    assert!(session.read(b, 0).await.unwrap().chunks.is_empty(), "b has seen what was meant for a");
    let never = (1000..=99_999).find(|id| ![a, b].contains(id)).unwrap();
    let unknown = session.input(never, b"x").await.unwrap_err();
    assert_eq!((unknown.code(), reason(&unknown).as_str()), (Code::NotFound, "PROCESS_NOT_FOUND"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n05_a_poll_tells_the_end_once() {
    let stage = Stage::set().await;
    let session = &stage.session;
    let request = short(session.line("sleep 0.8; echo bye; exit 2"));
    let id = session.run(request).await.unwrap().process_id.unwrap();
    let result = session.poll(id).await.unwrap();
    assert_eq!((code(&result), output(&result), result.process_id), (Some(2), "bye\n", None));
    assert!(session.list().await.iter().all(|process| process.exit.is_some()), "nothing is alive");
    let again = session.poll(id).await.unwrap_err();
    assert_eq!(reason(&again), "PROCESS_ENDED", "{}", show(&again));
    assert!(words(&again).contains("code=2"), "{}", show(&again));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n06_many_polls_do_not_end_a_program() {
    let stage = Stage::set().await;
    let session = &stage.session;
    let line = "trap 'echo TERM-SEEN' TERM; sleep 2 & wait $!; echo ok";
    let id = session.run(short(session.line(line))).await.unwrap().process_id.unwrap();
    let polls = (0..15).map(|_| {
        let session = session.clone();
        tokio::spawn(async move { session.poll(id).await.unwrap() })
    });
    for poll in polls.collect::<Vec<_>>() {
        let result = poll.await.unwrap();
        assert_eq!((code(&result), output(&result)), (Some(0), "ok\n"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e07_a_repeated_write_with_an_offset_is_not_written_twice() {
    let stage = Stage::set().await;
    let session = &stage.session;
    let request = pb::ExecCommandRequest { stdin: true, ..short(session.line("cat")) };
    let id = session.run(request).await.unwrap().process_id.unwrap();
    let at = |offset: u64, text: &str| pb::WriteStdinRequest {
        process_id: id,
        content: Some(pb::write_stdin_request::Content::Text(text.into())),
        offset: Some(offset),
        ..Default::default()
    };
    session.write(at(0, "one\n")).await.unwrap();
    session.write(at(0, "one\ntwo\n")).await.unwrap();
    let gap = session.write(at(99, "x")).await.unwrap_err();
    assert_eq!((gap.code(), reason(&gap).as_str()), (Code::OutOfRange, "STDIN_OFFSET_OUT_OF_RANGE"));
    let end = pb::WriteStdinRequest { process_id: id, eof: true, ..Default::default() };
    session.write(end).await.unwrap();
    let chunks = session.read(id, 0).await.unwrap().chunks;
    let bytes: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.data.clone()).collect();
    assert_eq!(String::from_utf8_lossy(&bytes), "one\ntwo\n");
}
