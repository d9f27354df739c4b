//! Metrics.

use std::collections::BTreeSet;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use unified_exec::grpc::pb;

use crate::collector::Collector;
use crate::server::Server;

async fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

fn page_of(server: &Server) -> String {
    let page = server.page.clone().expect("it says where its page is");
    page.trim_start_matches("http://").trim_end_matches("/metrics").to_owned()
}

/// The value of the first series that begins so; 0 if there is none.
fn count(page: &str, series: &str) -> u64 {
    let line = page.lines().find(|line| line.starts_with(series));
    line.and_then(|line| line.split_whitespace().last()?.parse().ok()).unwrap_or(0)
}

async fn run(server: &Server, session: &str, line: &str) {
    let mut exec = server.exec().await;
    let request = pb::ExecCommandRequest {
        session_id: session.to_owned(),
        command: Some(pb::Command { cmd: line.to_owned(), ..Default::default() }),
        ..Default::default()
    };
    let (answers, ()) = tokio::join!(exec.exec_command(request), server.approve_next());
    let mut answers = answers.unwrap().into_inner();
    while answers.message().await.unwrap().is_some() {}
}

#[tokio::test]
async fn the_page_counts_what_was_done_and_names_nobody() {
    let server = Server::start(&["--metrics", "127.0.0.1:0"], &[]).await;
    let session = server.careful_session().await;
    run(&server, &session, "echo 12345678; exit 3").await;
    run(&server, &session, "touch /etc/is-not-counted; exit 1").await;
    std::fs::remove_file("/etc/is-not-counted").ok();
    let address = page_of(&server);
    let text = get(&address, "/metrics").await;
    let has = |line: &str| assert!(text.lines().any(|has| has == line), "no {line:?} in {text}");
    let scope = "otel_scope_name=\"unified-exec\"";
    has(&format!("unified_exec_exits_total{{unified_exec_end=\"exited\",{scope}}} 2"));
    has(&format!("unified_exec_retries_total{{unified_exec_outcome=\"started\",{scope}}} 1"));
    has(&format!(
        "unified_exec_denials_total{{unified_exec_confidence=\"checked\",unified_exec_phase=\"early\",{scope}}} 1"
    ));
    has(&format!(
        "unified_exec_approval_duration_seconds_count{{unified_exec_approval_kind=\"command\",\
         unified_exec_approval_state=\"approved\",{scope}}} 2"
    ));
    has(&format!("unified_exec_processes{{unified_exec_spawner=\"pipes\",{scope}}} 0"));
    has(&format!("unified_exec_sessions{{{scope}}} 1"));
    for named in [session.as_str(), "touch", "12345678", "/etc", "bash"] {
        assert!(!text.contains(named), "{named:?} is in {text}");
    }
    assert!(get(&address, "/").await.starts_with("HTTP/1.1 404"));
    server.end().await;
}

#[tokio::test]
async fn what_readers_lose_and_how_late_watchers_are_is_measured() {
    let server = Server::start(&["--metrics", "127.0.0.1:0"], &[]).await;
    let session = server.careful_session().await;
    let watch = pb::WatchSessionRequest { session_id: session.clone(), ..Default::default() };
    let mut events = server.sessions().await.watch_session(watch).await.unwrap().into_inner();
    run(&server, &session, "head -c 3000000 /dev/zero").await;
    let process_id = loop {
        let item = events.message().await.unwrap().unwrap().item;
        if let Some(pb::watch_session_response::Item::Event(event)) = item
            && matches!(event.kind, Some(pb::event::Kind::ProcessExited(_)))
        {
            break event.process_id;
        }
    };
    let address = page_of(&server);
    // The caller itself may have been too slow.
    let before = count(&get(&address, "/metrics").await, "unified_exec_output_gap_bytes_total");
    let cursor = Some(pb::Cursor { attempt: 0, offset: 524_288 });
    let read =
        pb::ReadOutputRequest { session_id: session.clone(), process_id, cursor, ..Default::default() };
    let read = server.exec().await.read_output(read).await.unwrap().into_inner();
    let lost: u64 = read.gaps.iter().map(|gap| gap.end - gap.start).sum();
    assert_eq!(lost, 3_000_000 - 1_048_576);
    let text = get(&address, "/metrics").await;
    assert_eq!(count(&text, "unified_exec_output_gap_bytes_total") - before, lost);
    assert!(count(&text, "unified_exec_feed_lag_seconds_count") >= 5, "{text}");
    for queue in ["calls", "events"] {
        let series = format!("unified_exec_driver_queue_count{{unified_exec_queue=\"{queue}\"");
        assert!(count(&text, &series) > 0, "no {series} in {text}");
    }
    server.end().await;
}

#[tokio::test]
async fn strange_methods_have_one_name() {
    let server = Server::start(&["--metrics", "127.0.0.1:0"], &[]).await;
    let mut client = tonic::client::Grpc::new(server.channel_of_agents().await);
    for path in ["/unified_exec.v1.ExecService/Strange1", "/unified_exec.v1.ExecService/Strange2"] {
        client.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<pb::ListSessionsRequest, pb::ListSessionsResponse>::default();
        let request = tonic::Request::new(pb::ListSessionsRequest::default());
        client.unary(request, path.parse().unwrap(), codec).await.unwrap_err();
    }
    let text = get(&page_of(&server), "/metrics").await;
    assert!(text.contains("rpc_method=\"_OTHER\",rpc_response_status_code=\"UNIMPLEMENTED\""), "{text}");
    assert!(!text.contains("Strange"), "{text}");
    server.end().await;
}

#[tokio::test]
async fn measurements_are_pushed_too_under_the_same_names() {
    let (collector, address) = Collector::start().await;
    let server = Server::start(&["--otlp", &format!("http://{address}")], &[]).await;
    let session = server.careful_session().await;
    run(&server, &session, "true").await;
    server.end().await;
    let measured: BTreeSet<String> = collector.measured().into_iter().collect();
    for name in ["rpc.server.call.duration", "unified_exec.spawn.duration", "unified_exec.exits"] {
        assert!(measured.contains(name), "no {name} in {measured:?}");
    }
}
