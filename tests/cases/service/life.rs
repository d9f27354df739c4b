//! Who lives, who is listed, and who ends with whom.

use std::time::Duration;

use unified_exec::grpc::pb;

use super::{Stage, code, on_terminal, output, short};
use crate::procfs::{until, with_argument};
use crate::refusal::reason;

async fn alive(stage: &Stage) -> Vec<u32> {
    let listed = stage.session.list().await;
    listed.iter().filter(|process| process.exit.is_none()).map(|process| process.process_id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o06_the_list_is_true() {
    let stage = Stage::set().await;
    let session = &stage.session;
    let a = session.run(short(session.line("exec sleep 8906.11"))).await.unwrap().process_id.unwrap();
    let b = session.run(short(session.line("exec sleep 1"))).await.unwrap().process_id.unwrap();
    assert_eq!(alive(&stage).await, [a, b]);
    let listed = session.list().await;
    assert!(listed[0].argv.last().unwrap().contains("sleep 8906.11"), "the list carries the command");
    session.wait(b, pb::wait_request::Condition::Exit(true), 2000).await.unwrap();
    assert_eq!(alive(&stage).await, [a]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let listed: Vec<u32> = session.list().await.iter().map(|process| process.process_id).collect();
    assert_eq!(listed, [a]);
    session.clean().await.unwrap();
    assert_eq!(alive(&stage).await, [0; 0]);
    assert!(with_argument("8906.11").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p06_a_caller_that_leaves_ends_nothing() {
    let stage = Stage::set().await;
    let session = &stage.session;
    let line = "trap 'echo end > end.txt; exit 0' TERM HUP; echo up; while :; do sleep 0.1; done";
    let mut stream = session.client.exec.clone().exec_command(session.line(line)).await.unwrap().into_inner();
    let id = loop {
        match stream.message().await.unwrap().unwrap().item.unwrap() {
            pb::exec_command_response::Item::Started(started) => break started.process_id,
            other => assert!(!matches!(other, pb::exec_command_response::Item::Result(_))),
        }
    };
    session.wait(id, pb::wait_request::Condition::Text("up".into()), 3000).await.unwrap();
    drop(stream);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(alive(&stage).await, [id]);
    let cleaned = session.clean().await.unwrap();
    assert_eq!(cleaned.ended.iter().map(|ended| ended.process_id).collect::<Vec<_>>(), [id]);
    assert_eq!(cleaned.ended[0].exit.as_ref().unwrap().reason(), pb::ExitReason::Cleaned);
    assert!(stage.dir.path().join("end.txt").exists(), "it was asked politely first");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p06_a_deadline_of_the_call_ends_nothing() {
    let stage = Stage::set().await;
    let session = &stage.session;
    let mut request = tonic::Request::new(session.line("sleep 8906.12"));
    request.set_timeout(Duration::from_millis(700));
    let mut stream = session.client.exec.clone().exec_command(request).await.unwrap().into_inner();
    let end = loop {
        match stream.message().await {
            Ok(message) => assert!(message.is_some(), "ended without a result"),
            Err(status) => break status,
        }
    };
    // The client's own clock may end the call as CANCELLED, with nothing from the server.
    assert!([tonic::Code::DeadlineExceeded, tonic::Code::Cancelled].contains(&end.code()), "{end:?}");
    assert_eq!(with_argument("8906.12").len(), 1);
    session.clean().await.unwrap();
    assert!(with_argument("8906.12").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o03_a_full_table_ends_the_least_recently_used() {
    let stage = Stage::set().await;
    let session = &stage.session;
    let mut ids = Vec::new();
    for batch in [10; 7] {
        let starts = (0..batch).map(|_| {
            let session = session.clone();
            tokio::spawn(async move { session.run(short(session.line("exec sleep 8903.11"))).await.unwrap() })
        });
        for start in starts.collect::<Vec<_>>() {
            ids.push(start.await.unwrap().process_id.unwrap());
        }
        assert!(with_argument("8903.11").len() <= 64, "more than the limit lives");
    }
    assert!(until(Duration::from_secs(3), || with_argument("8903.11").len() == 64).await);
    let living = alive(&stage).await;
    assert_eq!(living.len(), 64);
    for id in ids.iter().filter(|id| !living.contains(id)) {
        let exit = session.get(*id).await.unwrap().exit.unwrap();
        assert_eq!(exit.reason(), pb::ExitReason::Pruned);
    }
    session.clean().await.unwrap();
    assert!(with_argument("8903.11").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b01_what_is_left_over_is_listed_and_ends_with_clean() {
    let stage = Stage::set().await;
    let session = &stage.session;
    let result = session.sh("sleep 8101.11 & echo done").await;
    assert_eq!((code(&result), output(&result), result.outputs_closed), (Some(0), "done\n", false));
    assert!(result.wall_time_ms < 2000, "{} ms", result.wall_time_ms);
    let descendants = async || -> Vec<String> {
        let listed = session.list().await;
        listed.into_iter().flat_map(|process| process.descendants).map(|child| child.command).collect()
    };
    assert_eq!(descendants().await, ["sleep"]);
    session.clean().await.unwrap();
    assert!(with_argument("8101.11").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b01_cleaning_at_once_misses_nobody() {
    let stage = Stage::set().await;
    let session = &stage.session;
    for line in
        ["sleep 8101.12 & exit 0", "setsid sleep 8101.12 & exit 0", "(setsid sleep 8101.12 &) & exit 0"]
    {
        for round in 0..15 {
            let request = session.line(line);
            let request = if round % 3 == 0 { on_terminal(request) } else { request };
            session.run(request).await.unwrap();
            let cleaned = session.clean().await.unwrap();
            assert!(cleaned.survivors.is_empty());
            // One that was just starting has its arguments a moment later.
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert!(with_argument("8101.12").is_empty(), "{line:?}, round {round}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k03_an_end_says_whose_doing_it_was() {
    use pb::exit::Status;
    let stage = Stage::set().await;
    let session = &stage.session;
    let exit = session.sh("exit 143").await.exit.unwrap();
    assert_eq!((exit.status.as_ref(), exit.reason()), (Some(&Status::Code(143)), pb::ExitReason::Exited));
    let exit = session.sh("kill -TERM $$").await.exit.unwrap();
    assert!(matches!(exit.status, Some(Status::Signal(pb::ExitSignal { number: 15, .. }))), "{exit:?}");
    assert_eq!((exit.reason(), exit.shell_code), (pb::ExitReason::Signalled, 143));
    let id = session.run(short(session.line("exec sleep 60"))).await.unwrap().process_id.unwrap();
    session.clean().await.unwrap();
    let exit = session.get(id).await.unwrap().exit.unwrap();
    assert_eq!((exit.reason(), exit.shell_code), (pb::ExitReason::Cleaned, 143));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c10_interrupting_a_turn_ends_its_waits_and_no_process() {
    let stage = Stage::set().await;
    let session = stage.session.clone();
    let id = session.run(short(session.line("exec sleep 8210.11"))).await.unwrap().process_id.unwrap();
    let waiting = session.clone();
    let poll = tokio::spawn(async move {
        let request = pb::WriteStdinRequest { process_id: id, turn_id: "turn".into(), ..Default::default() };
        waiting.write(request).await
    });
    let interrupt = pb::InterruptRequest { session_id: session.id.clone(), turn_id: "turn".into() };
    let mut ended = 0;
    for _ in 0..100 {
        let answer = session.client.sessions.clone().interrupt(interrupt.clone()).await.unwrap().into_inner();
        ended = answer.waits_ended;
        if ended > 0 {
            assert_eq!(answer.alive_process_ids, [id]);
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(ended, 1);
    let result = poll.await.unwrap().unwrap();
    assert_eq!((result.wait_end(), result.process_id), (pb::WaitEnd::Interrupted, Some(id)));
    assert_eq!(with_argument("8210.11").len(), 1);
    session.clean().await.unwrap();
    let late = session.input(id, b"x").await.unwrap();
    assert_eq!(
        late.exit.unwrap().reason(),
        pb::ExitReason::Cleaned,
        "the first call after the end brings it"
    );
    let later = session.input(id, b"x").await.unwrap_err();
    assert_eq!(reason(&later), "PROCESS_ENDED");
}
