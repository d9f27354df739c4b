//! The event feed.

use tokio::time::timeout;
use tonic::{Code, Streaming};
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::event::Kind;
use unified_exec::grpc::pb::watch_session_response::Item;

use crate::support::{Bench, PATIENCE, assert_refused};

async fn watch(bench: &Bench, after: Option<u64>) -> Streaming<pb::WatchSessionResponse> {
    let request = pb::WatchSessionRequest {
        session_id: bench.session.clone(),
        after_sequence: after,
        ..Default::default()
    };
    bench.sessions.clone().watch_session(request).await.unwrap().into_inner()
}

async fn next(stream: &mut Streaming<pb::WatchSessionResponse>) -> Option<pb::Event> {
    loop {
        match timeout(PATIENCE, stream.message()).await.unwrap().unwrap()?.item.unwrap() {
            Item::Event(event) => return Some(event),
            Item::Keepalive(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

const fn name(kind: &Kind) -> &'static str {
    match kind {
        Kind::AttemptStarted(_) => "attempt_started",
        Kind::ProcessStarted(_) => "process_started",
        Kind::SpawnFailed(_) => "spawn_failed",
        Kind::Output(_) => "output",
        Kind::StdinWritten(_) => "stdin_written",
        Kind::ProcessExited(_) => "process_exited",
        Kind::OutputsClosed(_) => "outputs_closed",
        Kind::PolicyChanged(_) => "policy_changed",
        Kind::Interrupted(_) => "interrupted",
        Kind::Cleaned(_) => "cleaned",
        _ => "other",
    }
}

#[tokio::test]
async fn events_come_in_order_with_the_call_they_belong_to() {
    let bench = Bench::start().await;
    let mut live = watch(&bench, None).await;
    let mut start = bench.cmd("echo ready; read line; echo \"$line\"");
    start.stdin = true;
    (start.turn_id, start.request_id) = ("first".into(), "r1".into());
    let process = bench.start_ready(start).await;
    let mut write = bench.write(process, "x\n");
    (write.turn_id, write.request_id, write.yield_time_ms) = ("second".into(), "r2".into(), Some(30_000));
    bench.send(write).await.unwrap();
    bench.ended(process).await;
    let mut names = Vec::new();
    loop {
        let event = next(&mut live).await.unwrap();
        assert_eq!(event.sequence, names.len() as u64 + 1, "no number is left out");
        assert!(event.time.is_some());
        let kind = event.kind.unwrap();
        let of = (event.turn_id.as_str(), event.request_id.as_str());
        assert_eq!(
            of,
            if matches!(kind, Kind::StdinWritten(_)) { ("second", "r2") } else { ("first", "r1") }
        );
        assert_eq!(event.process_id, process);
        names.push(name(&kind));
        if names.contains(&"process_exited") && names.contains(&"outputs_closed") {
            break;
        }
    }
    names.dedup();
    assert_eq!(names[..3], ["attempt_started", "process_started", "output"]);
    assert!(names.contains(&"stdin_written"));
    // Taken up again from any number, the rest is the same.
    let request = pb::GetSessionRequest { session_id: bench.session.clone() };
    let session = bench.sessions.clone().get_session(request).await.unwrap().into_inner().session.unwrap();
    assert_eq!(session.first_sequence, 1);
    for after in 0..session.last_sequence {
        assert_eq!(next(&mut watch(&bench, Some(after)).await).await.unwrap().sequence, after + 1);
    }
    let request = pb::WatchSessionRequest {
        session_id: bench.session.clone(),
        after_sequence: Some(session.last_sequence + 1),
        ..Default::default()
    };
    let refused = assert_refused(
        bench.sessions.clone().watch_session(request).await,
        Code::OutOfRange,
        "CURSOR_OUT_OF_RANGE",
    );
    assert_eq!(refused.fact("end"), session.last_sequence.to_string());
}

#[tokio::test]
async fn failures_interrupts_cleans_and_changes_are_events_and_the_close_is_the_end() {
    let bench = Bench::start().await;
    let mut feed = watch(&bench, Some(0)).await;
    let mut missing = bench.cmd("");
    missing.command = Some(pb::Command { argv: vec!["/no/such".into()], ..Default::default() });
    assert_refused(bench.run(missing).await, Code::NotFound, "PROGRAM_NOT_FOUND");
    let Kind::SpawnFailed(failed) = next(&mut feed).await.unwrap().kind.unwrap() else { panic!() };
    let failure = failed.failure.unwrap();
    assert_eq!((failure.kind(), failure.path.as_str()), (pb::SpawnFailureKind::ProgramNotFound, "/no/such"));
    bench.interrupt("some turn").await;
    let event = next(&mut feed).await.unwrap();
    assert_eq!((event.turn_id.as_str(), name(event.kind.as_ref().unwrap())), ("some turn", "interrupted"));
    let update = pb::UpdateSessionRequest {
        session_id: bench.session.clone(),
        config: Some(pb::SessionConfig { cwd: "/usr".into(), ..Default::default() }),
        update_mask: Some(prost_types::FieldMask { paths: vec!["cwd".into()] }),
        policy_revision: 0,
    };
    bench.sessions.clone().update_session(update).await.unwrap();
    let Kind::PolicyChanged(changed) = next(&mut feed).await.unwrap().kind.unwrap() else { panic!() };
    assert_eq!((changed.policy_revision, changed.fields), (2, vec!["cwd".to_owned()]));
    bench.clean().await;
    assert_eq!(name(&next(&mut feed).await.unwrap().kind.unwrap()), "cleaned");
    let close = pb::CloseSessionRequest { session_id: bench.session.clone() };
    bench.sessions.clone().close_session(close).await.unwrap();
    while next(&mut feed).await.is_some() {}
}
