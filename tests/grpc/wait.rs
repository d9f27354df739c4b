//! Waits for something about a process.

use tokio::time::{Duration, Instant};
use tonic::Code;
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::WaitOutcome;
use unified_exec::grpc::pb::wait_request::Condition;

use crate::support::{Bench, PATIENCE, assert_refused};

async fn talking(bench: &Bench) -> u32 {
    let mut start = bench.cmd("echo ready; while read line; do echo \"got $line\"; done; echo bye");
    start.stdin = true;
    bench.start_ready(start).await
}

#[tokio::test]
async fn text_and_expressions_are_found_with_their_places() {
    let bench = Bench::start().await;
    let process = talking(&bench).await;
    let waiting = tokio::spawn({
        let bench = bench.clone();
        async move { bench.wait(bench.wait_request(process, Condition::Text("got 42".into()))).await }
    });
    bench.send(bench.write(process, "42\n")).await.unwrap();
    let found = waiting.await.unwrap().unwrap();
    assert_eq!(found.outcome(), WaitOutcome::Matched);
    assert_eq!(found.match_data.as_ref(), b"got 42");
    assert_eq!(found.match_start, Some(pb::Cursor { attempt: 1, offset: 6 }));
    assert_eq!(found.next, found.match_end);
    assert_eq!(found.state(), pb::ProcessState::Running);
    let found =
        bench.wait(bench.wait_request(process, Condition::Regex("g.t ([0-9]+)\n".into()))).await.unwrap();
    assert_eq!((found.outcome(), found.match_data.as_ref()), (WaitOutcome::Matched, &b"got 42\n"[..]));
    // From behind the match there is no other.
    let later = pb::WaitRequest {
        cursor: found.next,
        timeout_ms: Some(200),
        ..bench.wait_request(process, Condition::Literal("got".into()))
    };
    let missed = bench.wait(later).await.unwrap();
    assert_eq!((missed.outcome(), missed.match_start), (WaitOutcome::Timeout, None));
    assert!(missed.waited_ms >= 190);
}

#[tokio::test]
async fn a_wait_of_no_time_only_looks() {
    let bench = Bench::start().await;
    let process = talking(&bench).await;
    let look = |condition| pb::WaitRequest { timeout_ms: Some(0), ..bench.wait_request(process, condition) };
    for (condition, outcome) in [
        (Condition::Text("ready".into()), WaitOutcome::Matched),
        (Condition::Regex("^rea.y".into()), WaitOutcome::Matched),
        (Condition::Text("nothing".into()), WaitOutcome::Timeout),
        (Condition::Exit(true), WaitOutcome::Timeout),
        (Condition::Closed(true), WaitOutcome::Timeout),
        (Condition::QuietMs(60_000), WaitOutcome::Timeout),
    ] {
        assert_eq!(bench.wait(look(condition.clone())).await.unwrap().outcome(), outcome, "{condition:?}");
    }
    bench.clean().await;
    for (condition, outcome) in [
        (Condition::Exit(true), WaitOutcome::Matched),
        (Condition::Closed(true), WaitOutcome::Matched),
        (Condition::Text("ready".into()), WaitOutcome::Matched),
        (Condition::Text("nothing".into()), WaitOutcome::Exited),
    ] {
        let answer = bench.wait(look(condition.clone())).await.unwrap();
        assert_eq!(answer.outcome(), outcome, "{condition:?}");
        assert!(answer.exit.is_some());
    }
}

#[tokio::test]
async fn exit_close_and_silence_are_waited_for() {
    let bench = Bench::start().await;
    let process = talking(&bench).await;
    let quiet = bench.wait(bench.wait_request(process, Condition::QuietMs(200))).await.unwrap();
    assert_eq!(quiet.outcome(), WaitOutcome::Matched);
    assert!(quiet.waited_ms >= 190);
    let waiting = tokio::spawn({
        let bench = bench.clone();
        async move { bench.wait(bench.wait_request(process, Condition::Exit(true))).await }
    });
    let mut eof = bench.write(process, "");
    (eof.content, eof.eof) = (None, true);
    bench.send(eof).await.unwrap();
    let ended = waiting.await.unwrap().unwrap();
    assert_eq!((ended.outcome(), ended.exit.unwrap().shell_code), (WaitOutcome::Matched, 0));
    let gone = bench.wait(bench.wait_request(process, Condition::Text("never".into()))).await.unwrap();
    assert_eq!((gone.outcome(), gone.state()), (WaitOutcome::Exited, pb::ProcessState::Closed));
    assert_eq!(gone.next.unwrap().offset, 10);
}

#[tokio::test]
async fn an_interrupt_ends_a_wait() {
    let bench = Bench::start().await;
    let process = talking(&bench).await;
    let waiting = tokio::spawn({
        let bench = bench.clone();
        async move { bench.wait(bench.wait_request(process, Condition::Exit(true))).await }
    });
    let started = Instant::now();
    while bench.interrupt("turn").await.waits_ended == 0 {
        assert!(started.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(waiting.await.unwrap().unwrap().outcome(), WaitOutcome::Interrupted);
}

#[tokio::test]
async fn output_that_is_lost_before_it_was_searched_is_told() {
    let bench = Bench::start().await;
    let mut flood = bench.cmd("echo ready; head -c 4194304 /dev/zero; echo; echo needle; sleep 60");
    (flood.stream_output, flood.yield_time_ms) = (Some(false), Some(250));
    let process = bench.run(flood).await.unwrap().process();
    // All of it has come by now; a search from the start finds its middle gone.
    let quiet = Condition::QuietMs(500);
    bench.wait(bench.wait_request(process, quiet)).await.unwrap();
    let lost = bench.wait(bench.wait_request(process, Condition::Text("needle".into()))).await.unwrap();
    assert_eq!(lost.outcome(), WaitOutcome::Gap);
    let gap = lost.gap.unwrap();
    assert_eq!(lost.next.as_ref().unwrap().offset, gap.end);
    let behind = pb::WaitRequest {
        cursor: lost.next,
        ..bench.wait_request(process, Condition::Text("needle".into()))
    };
    assert_eq!(bench.wait(behind).await.unwrap().outcome(), WaitOutcome::Matched);
    bench.clean().await;
}

#[tokio::test]
async fn what_cannot_be_waited_for_is_refused() {
    let bench = Bench::start().await;
    let process = talking(&bench).await;
    let wait = |condition| bench.wait(bench.wait_request(process, condition));
    let refused =
        assert_refused(wait(Condition::Regex("a(b".into())).await, Code::InvalidArgument, "INVALID_PATTERN");
    assert_eq!((refused.field().as_str(), refused.fact("position").as_str()), ("regex", "1"));
    let large = wait(Condition::Regex("(a{1000}){1000}".into())).await;
    assert_refused(large, Code::InvalidArgument, "INVALID_PATTERN");
    for (condition, field) in [
        (Condition::Regex(String::new()), "regex"),
        (Condition::Regex("a".repeat(1_025)), "regex"),
        (Condition::Literal(vec![0; 4_097].into()), "literal"),
        (Condition::Text(String::new()), "text"),
        (Condition::QuietMs(0), "quiet_ms"),
        (Condition::QuietMs(300_001), "quiet_ms"),
        (Condition::Exit(false), "exit"),
    ] {
        assert_eq!(
            assert_refused(wait(condition).await, Code::InvalidArgument, "INVALID_FIELD").field(),
            field
        );
    }
    let nothing = pb::WaitRequest { condition: None, ..bench.wait_request(process, Condition::Exit(true)) };
    assert_eq!(
        assert_refused(bench.wait(nothing).await, Code::InvalidArgument, "INVALID_FIELD").field(),
        "condition"
    );
    let behind = pb::WaitRequest {
        cursor: Some(pb::Cursor { attempt: 1, offset: 1_000 }),
        ..bench.wait_request(process, Condition::Text("x".into()))
    };
    assert_refused(bench.wait(behind).await, Code::OutOfRange, "CURSOR_OUT_OF_RANGE");
}
