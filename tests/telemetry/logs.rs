//! The log.

use std::time::Duration;

use unified_exec::grpc::pb;

use crate::server::Server;

#[tokio::test]
async fn a_log_that_nobody_reads_holds_up_nobody() {
    let server = Server::start_unread(&["--log", "trace"], &[]).await;
    let mut sessions = server.sessions().await;
    // Each call logs kilobytes at this level; a pipe holds 64 KiB.
    let calls = async {
        for _ in 0..200 {
            sessions.list_sessions(pb::ListSessionsRequest::default()).await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(30), calls).await.expect("calls are answered");
    tokio::time::timeout(Duration::from_secs(30), server.end()).await.expect("it ends");
}

#[tokio::test]
async fn a_line_of_a_call_carries_the_trace_that_its_answer_names() {
    let server =
        Server::start(&["--log", "debug", "--log-format", "json", "--metrics", "127.0.0.1:0"], &[]).await;
    let answer = server.sessions().await.list_sessions(pb::ListSessionsRequest::default()).await.unwrap();
    let trace = answer.metadata().get("x-trace-id").unwrap().to_str().unwrap().to_owned();
    let log = server.end().await;
    let of_call = |line: &&str| line.contains("ListSessions");
    let lines: Vec<serde_json::Value> =
        log.lines().filter(of_call).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!lines.is_empty(), "{log}");
    for line in lines {
        assert_eq!(line["span"]["trace"], trace.as_str(), "{line}");
    }
}

#[tokio::test]
async fn what_happens_again_and_again_is_not_logged_each_time() {
    let server = Server::start(&["--log", "debug", "--log-format", "json"], &[]).await;
    let mut sessions = server.sessions().await;
    for _ in 0..700 {
        sessions.list_sessions(pb::ListSessionsRequest::default()).await.unwrap();
    }
    sessions.create_session(pb::CreateSessionRequest::default()).await.unwrap();
    let log = server.end().await;
    let lines = |method: &str| log.lines().filter(|line| line.contains(method)).count();
    assert_eq!(lines("ListSessions"), 500, "as many as one place may log in 10 s");
    // A place is one line of code, whichever method it is about.
    assert_eq!(lines("CreateSession"), 0);
}
