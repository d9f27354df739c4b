//! Reading along, and coming back.

use tokio::time::timeout;
use tonic::{Code, Streaming};
use unified_exec::grpc::pb;

use crate::support::{Bench, PATIENCE, Seen, assert_refused, code};

/// What a reader got.
#[derive(Debug, Default)]
struct Read {
    bytes: Vec<u8>,
    gaps: Vec<(u64, u64)>,
    attached: Option<pb::Attached>,
    exit: Option<pb::Exit>,
    closed: Option<u64>,
}

/// Reads until the end, or until `enough` bytes are there; checks that frames follow one another.
async fn read(stream: &mut Streaming<pb::AttachResponse>, enough: Option<usize>) -> Read {
    let mut read = Read::default();
    let mut next = None;
    while enough.is_none_or(|enough| read.bytes.len() < enough) {
        let Some(item) = timeout(PATIENCE, stream.message()).await.unwrap().unwrap() else { break };
        match item.item.unwrap().into() {
            Seen::Attached(attached) => {
                assert!(next.is_none(), "first, and once");
                next = Some(attached.cursor.as_ref().unwrap().offset);
                read.attached = Some(*attached);
            }
            Seen::Output(output) => {
                assert!(next.is_none_or(|next| next == output.offset), "{next:?}, {}", output.offset);
                next = Some(output.offset + output.data.len() as u64);
                read.bytes.extend_from_slice(&output.data);
            }
            Seen::Gap(gap) => {
                assert!(next.is_none_or(|next| next == gap.start), "{next:?}, {gap:?}");
                next = Some(gap.end);
                read.gaps.push((gap.start, gap.end));
            }
            Seen::Exited(exit) => read.exit = Some(exit),
            Seen::Closed(end) => read.closed = Some(end.offset),
            Seen::Keepalive | Seen::AttemptStarted(_) => {}
            other => panic!("{other:?}"),
        }
    }
    read
}

#[tokio::test]
async fn a_reader_sees_all_output_the_exit_and_the_close_then_the_end() {
    let bench = Bench::start().await;
    let process = bench.start_ready(bench.cmd("echo ready; read x <<<x; echo more; exit 4")).await;
    let mut stream = bench.attach(bench.attach_request(process)).await.unwrap();
    let whole = read(&mut stream, None).await;
    assert_eq!(whole.bytes, b"ready\nmore\n");
    assert_eq!((code(whole.exit.as_ref()), whole.closed), (4, Some(11)));
    assert_eq!(whole.attached.unwrap().process.unwrap().process_id, process);
    // Again, from the tombstone, and from its end.
    let again = read(&mut bench.attach(bench.attach_request(process)).await.unwrap(), None).await;
    assert_eq!((again.bytes, code(again.exit.as_ref())), (whole.bytes, 4));
    let from_end = pb::AttachRequest { from_end: true, ..bench.attach_request(process) };
    let rest = read(&mut bench.attach(from_end).await.unwrap(), None).await;
    assert_eq!((rest.bytes.len(), rest.closed), (0, Some(11)));
}

#[tokio::test]
async fn a_reader_that_comes_back_at_its_offset_loses_and_repeats_nothing() {
    let bench = Bench::start().await;
    let process = bench.start_ready(bench.cmd("echo ready; seq 1 40000")).await;
    let mut bytes = Vec::new();
    while bytes.len() < 228_900 {
        let cursor = Some(pb::Cursor { attempt: 1, offset: bytes.len() as u64 });
        let request = pb::AttachRequest { cursor, max_frame_bytes: 4_000, ..bench.attach_request(process) };
        let mut stream = bench.attach(request).await.unwrap();
        let part = read(&mut stream, Some(50_000)).await;
        assert!(part.gaps.is_empty());
        bytes.extend(part.bytes);
        if part.exit.is_some() && part.closed.is_some() {
            break;
        }
    }
    let mut expected = b"ready\n".to_vec();
    (1..=40_000).for_each(|number| expected.extend_from_slice(format!("{number}\n").as_bytes()));
    assert!(bytes == expected, "{} of {} bytes", bytes.len(), expected.len());
}

#[tokio::test]
async fn a_stalled_reader_that_blocks_stalls_the_child_and_loses_nothing() {
    let bench = Bench::start().await;
    let mut start = bench.cmd("echo ready; read go; head -c 8388608 /dev/zero; echo end");
    start.stdin = true;
    let process = bench.start_ready(start).await;
    let blocking = pb::AttachRequest { flow: pb::Flow::Block.into(), ..bench.attach_request(process) };
    let mut stalled = bench.attach(blocking).await.unwrap();
    read(&mut stalled, Some(6)).await;
    bench.send(bench.write(process, "go\n")).await.unwrap();
    // Everybody else is free to look, and sees that it has not run to its end.
    let quiet = pb::wait_request::Condition::QuietMs(300);
    bench.wait(bench.wait_request(process, quiet)).await.unwrap();
    let view = bench.process(process).await.unwrap();
    assert_eq!(view.state(), pb::ProcessState::Running);
    assert!(view.outputs[0].end < 8_388_608, "it is stalled");
    let rest = read(&mut stalled, None).await;
    assert_eq!((rest.bytes.len(), rest.gaps.len()), (8_388_608 + 4, 0));
    assert_eq!(code(rest.exit.as_ref()), 0);
}

#[tokio::test]
async fn a_reader_outside_the_retained_window_gets_an_exact_gap() {
    let bench = Bench::start().await;
    let mut request = bench.cmd("head -c 4194304 /dev/zero");
    (request.follow, request.stream_output) = (true, Some(false));
    bench.run(request).await.unwrap();
    let list = pb::ListProcessesRequest {
        session_id: bench.session.clone(),
        include_ended: true,
        ..Default::default()
    };
    let listed = bench.exec.clone().list_processes(list).await.unwrap().into_inner().processes;
    let log = listed[0].outputs[0];
    assert_eq!((log.end, log.closed), (4_194_304, true));
    assert_eq!(log.omitted_bytes, log.tail_start - log.head_end);
    let whole =
        read(&mut bench.attach(bench.attach_request(listed[0].process_id)).await.unwrap(), None).await;
    assert_eq!(whole.gaps, [(log.head_end, log.tail_start)]);
    assert_eq!(whole.bytes.len() as u64 + log.omitted_bytes, log.end);
}

#[tokio::test]
async fn a_reader_counts_as_a_client() {
    let bench = Bench::start().await;
    let mut request = bench.cmd("sleep 60");
    (request.yield_time_ms, request.after_disconnect_timeout_ms) = (Some(250), 1_000);
    let process = bench.run(request).await.unwrap().process();
    let stream = bench.attach(bench.attach_request(process)).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(1_800)).await;
    assert_eq!(bench.process(process).await.unwrap().exit, None);
    drop(stream);
    let ended = bench.attach(bench.attach_request(process)).await;
    drop(ended);
    let started = tokio::time::Instant::now();
    while bench.process(process).await.unwrap().exit.is_none() {
        assert!(started.elapsed() < PATIENCE);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn places_that_are_not_there_are_refused() {
    let bench = Bench::start().await;
    let process = bench.start_ready(bench.cmd("echo ready; sleep 60")).await;
    let at = |attempt, offset| pb::AttachRequest {
        cursor: Some(pb::Cursor { attempt, offset }),
        ..bench.attach_request(process)
    };
    let refused = assert_refused(bench.attach(at(1, 7)).await, Code::OutOfRange, "CURSOR_OUT_OF_RANGE");
    assert_eq!(
        (refused.fact("offset"), refused.fact("end"), refused.fact("attempt")),
        ("7".into(), "6".into(), "1".into())
    );
    for attempt in [2, 3, u32::MAX] {
        let refused = assert_refused(bench.attach(at(attempt, 0)).await, Code::NotFound, "ATTEMPT_NOT_FOUND");
        assert_eq!(refused.fact("attempt"), attempt.to_string());
    }
    let both = pb::AttachRequest { from_end: true, ..at(1, 0) };
    assert_eq!(
        assert_refused(bench.attach(both).await, Code::InvalidArgument, "INVALID_FIELD").field(),
        "from_end"
    );
    let unknown = pb::AttachRequest { flow: 99, ..bench.attach_request(process) };
    assert_eq!(
        assert_refused(bench.attach(unknown).await, Code::InvalidArgument, "INVALID_FIELD").field(),
        "flow"
    );
}
