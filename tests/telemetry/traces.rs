//! Traces.

use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::Span;
use tonic::Request;
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::exec_command_response::Item;

use crate::collector::{Collector, says};
use crate::server::Server;

const CALLER: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn names(spans: &[Span]) -> Vec<&str> {
    spans.iter().map(|span| span.name.as_str()).collect()
}

fn of_caller<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    let parent = format!("00-{CALLER}-00f067aa0ba902b7-01");
    request.metadata_mut().insert("traceparent", parent.parse().unwrap());
    request
}

fn line(session: &str, line: &str) -> pb::ExecCommandRequest {
    pb::ExecCommandRequest {
        session_id: session.to_owned(),
        command: Some(pb::Command { cmd: line.to_owned(), ..Default::default() }),
        ..Default::default()
    }
}

async fn process_of(mut answers: tonic::Streaming<pb::ExecCommandResponse>) -> Option<u32> {
    let mut process = None;
    while let Some(answer) = answers.message().await.unwrap() {
        if let Some(Item::Result(result)) = answer.item {
            process = result.process_id;
        }
    }
    process
}

#[tokio::test]
async fn an_early_denial_and_its_retry_are_one_trace_from_the_caller_to_the_second_attempt() {
    let (collector, address) = Collector::start().await;
    let server = Server::start(&["--otlp", &format!("http://{address}")], &[]).await;
    let session = server.careful_session().await;
    let mut exec = server.exec().await;
    let request = of_caller(line(&session, "touch /etc/is-not-written; exit 1"));
    let (answers, ()) = tokio::join!(exec.exec_command(request), server.approve_next());
    let answers = answers.unwrap();
    assert_eq!(answers.metadata().get("x-trace-id").unwrap(), CALLER);
    assert_eq!(process_of(answers.into_inner()).await, None);
    std::fs::remove_file("/etc/is-not-written").ok();

    let rpc = collector.span("the call", |span| span.name == "unified_exec.v1.ExecService/ExecCommand").await;
    assert_eq!((hex(&rpc.trace_id), hex(&rpc.parent_span_id)), (CALLER.into(), "00f067aa0ba902b7".into()));
    assert_eq!(says(&rpc, "rpc.response.status_code").as_deref(), Some("OK"));
    let within = collector.within(&rpc);
    assert_eq!(names(&within), ["exec", "result"]);
    let steps = collector.within(&within[0]);
    assert_eq!(names(&steps), ["requirement", "approval", "start", "attempt", "start", "attempt"]);
    assert_eq!(says(&steps[1], "unified_exec.approval.state").as_deref(), Some("approved"));
    assert_eq!(names(&collector.within(&steps[2])), ["sandbox", "spawn"]);
    let [first, second] = [&steps[3], &steps[5]];
    assert_eq!(says(first, "unified_exec.confinement").as_deref(), Some("sandbox"));
    assert_eq!(says(first, "unified_exec.denial").as_deref(), Some("checked"));
    assert_eq!(names(&collector.within(first)), ["early_window"]);
    assert_eq!(says(second, "unified_exec.confinement").as_deref(), Some("bypassed"));
    assert_eq!(names(&collector.within(&steps[4])), ["spawn"], "no sandbox is set up for it");
    assert!(steps.iter().all(|step| step.trace_id == rpc.trace_id));
    server.end().await;
}

#[tokio::test]
async fn a_process_has_a_span_of_its_own_that_every_later_write_is_linked_to() {
    let (collector, address) = Collector::start().await;
    let server = Server::start(&["--otlp", &format!("http://{address}")], &[]).await;
    let session = server.careful_session().await;
    let mut exec = server.exec().await;
    let mut start = line(&session, "exec cat");
    start.stdin = true;
    start.yield_time_ms = Some(250);
    let (answers, ()) = tokio::join!(exec.exec_command(of_caller(start)), server.approve_next());
    let process_id = process_of(answers.unwrap().into_inner()).await.expect("it lives on");
    for text in ["one\n", "two\n"] {
        let write = pb::WriteStdinRequest {
            session_id: session.clone(),
            process_id,
            content: Some(pb::write_stdin_request::Content::Text(text.to_owned())),
            ..Default::default()
        };
        let mut answers = exec.write_stdin(write).await.unwrap().into_inner();
        while answers.message().await.unwrap().is_some() {}
    }
    let clean = pb::CleanBackgroundTerminalsRequest { session_id: session, ..Default::default() };
    server.sessions().await.clean_background_terminals(clean).await.unwrap();

    let life = collector.span("the process", |span| span.name == "process").await;
    assert!(life.parent_span_id.is_empty() && hex(&life.trace_id) != CALLER, "a trace of its own");
    assert_eq!(says(&life, "unified_exec.end").as_deref(), Some("cleaned"));
    assert_eq!(hex(&life.links[0].trace_id), CALLER, "linked to the call that started it");
    let start = collector.span("the start", |span| span.name == "exec").await;
    assert_eq!(start.links[0].span_id, life.span_id);
    assert!(names(&collector.within(&start)).contains(&"yield"));
    let is_write =
        |span: &Span| span.name == "write" && span.links.iter().any(|link| link.span_id == life.span_id);
    let first = collector.span("a write", is_write).await;
    collector.span("another write", |span| is_write(span) && span.span_id != first.span_id).await;
    server.end().await;
}

#[tokio::test]
async fn what_a_caller_decided_about_its_trace_is_followed_and_the_rest_is_sampled() {
    let (collector, address) = Collector::start().await;
    let config = tempfile::NamedTempFile::new().unwrap();
    let text = format!("[telemetry]\notlp_endpoint = 'http://{address}'\nsample_ratio = 0.0\n");
    std::fs::write(config.path(), text).unwrap();
    let server = Server::start(&["--config", config.path().to_str().unwrap()], &[]).await;
    let list = pb::ListSessionsRequest::default;
    server.sessions().await.list_sessions(list()).await.unwrap();
    server.sessions().await.list_sessions(of_caller(list())).await.unwrap();
    let kept = collector.span("the caller's", |span| span.name.ends_with("/ListSessions")).await;
    assert_eq!(hex(&kept.trace_id), CALLER);
    server.end().await;
    assert_eq!(collector.everything().matches("SessionService/ListSessions\", kind").count(), 1);
}

#[tokio::test]
async fn a_collector_that_is_not_there_breaks_nothing() {
    let server = Server::start(&["--otlp", "http://127.0.0.1:1"], &[]).await;
    let session = server.careful_session().await;
    let mut exec = server.exec().await;
    for _ in 0..3 {
        let (answers, ()) = tokio::join!(exec.exec_command(line(&session, "echo on")), server.approve_next());
        assert_eq!(process_of(answers.unwrap().into_inner()).await, None);
    }
    let ended = tokio::time::timeout(Duration::from_secs(20), server.end());
    ended.await.expect("the end does not wait for it");
}
