//! The same request twice.

use tonic::Code;
use unified_exec::grpc::pb;

use crate::support::{Bench, assert_refused};

#[tokio::test]
async fn a_repeated_start_answers_as_the_first_and_starts_nothing() {
    let bench = Bench::start().await;
    let mut request = bench.cmd("echo ran >> \"$OUT\"; echo $RANDOM");
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    request.request_id = "start-1".into();
    request.command.as_mut().unwrap().env =
        vec![pb::EnvVar { name: "OUT".into(), value: out.to_str().unwrap().as_bytes().to_vec().into() }];
    let first = bench.run(request.clone()).await.unwrap();
    let again = bench.run(request.clone()).await.unwrap();
    assert_eq!((first.bytes, first.result.next), (again.bytes, again.result.next));
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "ran\n");
    let other = pb::ExecCommandRequest { tty: true, ..request };
    let refused = assert_refused(bench.run(other).await, Code::AlreadyExists, "REQUEST_ID_REUSED");
    assert_eq!(refused.fact("request_id"), "start-1");
}

#[tokio::test]
async fn a_repeat_of_a_start_in_flight_joins_it() {
    let bench = Bench::start().await;
    let mut request = bench.cmd("sleep 0.5; echo done");
    request.request_id = "start-2".into();
    let (first, second) = tokio::join!(bench.run(request.clone()), bench.run(request.clone()));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(
        (first.text(), first.result.attempts[0].os_pid),
        (second.text(), second.result.attempts[0].os_pid)
    );
}

#[tokio::test]
async fn a_repeated_write_writes_once() {
    let bench = Bench::start().await;
    let mut start = bench.cmd("echo ready; exec cat");
    start.stdin = true;
    let process = bench.start_ready(start).await;
    let mut write = bench.write(process, "once\n");
    write.request_id = "write-1".into();
    let first = bench.send(write.clone()).await.unwrap();
    let again = bench.send(write.clone()).await.unwrap();
    assert_eq!((first.result.stdin_end, again.result.stdin_end), (Some(5), Some(5)));
    assert_eq!(bench.process(process).await.unwrap().stdin_committed, 5);
    let other = pb::WriteStdinRequest { eof: true, ..write.clone() };
    assert_refused(bench.send(other).await, Code::AlreadyExists, "REQUEST_ID_REUSED");
    let long = pb::WriteStdinRequest { request_id: "x".repeat(129), ..write };
    assert_eq!(
        assert_refused(bench.send(long).await, Code::InvalidArgument, "INVALID_FIELD").field(),
        "request_id"
    );
}
