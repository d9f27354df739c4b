//! How a server ends.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, timeout};
use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use unified_exec::core::command::{Command, Program};
use unified_exec::core::ids::TurnId;
use unified_exec::core::output::Flow;
use unified_exec::core::session::{Exec, Mode};
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::session_service_client::SessionServiceClient;
use unified_exec::grpc::server::Edge;
use unified_exec::host::stream::{Item, StreamOptions};
use unified_exec::host::{Host, Owner};

use crate::support::{
    PATIENCE, agent, assert_status, edge, host, list, on_tcp, options, plain, settings, token,
};

/// Starts a process that outlives TERM, so that draining takes the whole kill grace of 1 s.
async fn start_stubborn(host: &Host) {
    let session = host.create(Owner::new("somebody"), settings()).unwrap();
    let cmd = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
    let exec = Exec::new(
        TurnId::new("t"),
        Command {
            program: Program::Shell { cmd: cmd.into(), shell: None, login: None },
            cwd: None,
            env: Vec::new(),
            terminal: None,
            stdin: false,
            full_terminal: false,
        },
        Mode::Interactive { yield_time: None },
    );
    let mut stream = session.exec(exec, StreamOptions::new(Flow::Block, 100)).await;
    while let Some(item) = timeout(PATIENCE, stream.next()).await.unwrap() {
        if matches!(item.unwrap(), Item::Output { .. }) {
            return;
        }
    }
    panic!("it never was ready");
}

#[tokio::test]
async fn health_says_so_first_then_processes_end_then_listeners_and_streams() {
    let host = host();
    let edge = Edge::new(host.clone(), options());
    let address = on_tcp(&edge).await;
    start_stubborn(&host).await;
    let mut health = HealthClient::new(plain(address));
    let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watch.next().await.unwrap().unwrap().status(), ServingStatus::Serving);

    let ending = tokio::spawn({
        let edge = edge.clone();
        async move { edge.shutdown().await }
    });
    let told = timeout(PATIENCE, watch.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(told.status(), ServingStatus::NotServing);
    // The process is still being ended, and whoever asks still gets an answer: on a new connection too.
    assert!(!ending.is_finished());
    let answer = HealthClient::new(plain(address)).check(HealthCheckRequest::default()).await.unwrap();
    assert_eq!(answer.into_inner().status(), ServingStatus::NotServing);
    let mut sessions = SessionServiceClient::new(edge.channel(agent("me")));
    let create = sessions.create_session(pb::CreateSessionRequest::default()).await;
    assert_status(create, Code::Unavailable, "SERVER_DRAINING");

    assert!(timeout(PATIENCE, ending).await.unwrap().unwrap(), "nothing had to be dropped");
    assert!(watch.next().await.is_none(), "the watch ended in order");
    list(plain(address), &[]).await.unwrap_err();
}

#[tokio::test]
async fn a_client_that_never_ends_its_call_is_dropped_after_the_drain_time() {
    let mut options = options();
    options.drain = Duration::from_millis(200);
    let edge = Edge::new(host(), options);
    let mut client = ServerReflectionClient::new(edge.channel(agent("me")));
    let endless = tokio_stream::pending::<v1::ServerReflectionRequest>();
    let mut answers = client.server_reflection_info(endless).await.unwrap().into_inner();
    let started = Instant::now();
    assert!(!edge.shutdown().await, "it had to be dropped");
    assert!(started.elapsed() < PATIENCE);
    timeout(PATIENCE, answers.next()).await.unwrap().unwrap().unwrap_err();
}

#[tokio::test]
async fn clients_that_are_only_connected_hold_nothing_up() {
    let edge = edge();
    let address = on_tcp(&edge).await;
    let credential = format!("Bearer {}", token("a").expose());
    let channel = plain(address);
    list(channel.clone(), &[("authorization", &credential)]).await.unwrap();
    let _silent = tokio::net::TcpStream::connect(address).await.unwrap();
    let mut halfway = tokio::net::TcpStream::connect(address).await.unwrap();
    halfway.write_all(b"PRI * HTTP").await.unwrap();
    // Until the server has taken them in.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let started = Instant::now();
    assert!(edge.shutdown().await);
    assert!(started.elapsed() < Duration::from_secs(5), "not the whole drain time");
    drop(channel);
}
