//! Lists and their pages.

use tonic::Code;
use unified_exec::grpc::auth::Role;
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::environment_service_client::EnvironmentServiceClient;
use unified_exec::grpc::pb::session_service_client::SessionServiceClient;

use crate::support::{Bench, assert_refused, caller};

fn list(bench: &Bench, size: i32, token: &str) -> pb::ListProcessesRequest {
    pb::ListProcessesRequest {
        session_id: bench.session.clone(),
        include_ended: true,
        page_size: size,
        page_token: token.into(),
        ..Default::default()
    }
}

#[tokio::test]
async fn processes_are_listed_in_order_of_their_start_page_by_page() {
    let bench = Bench::start().await;
    let mut started = Vec::new();
    for _ in 0..5 {
        started.push(bench.start_ready(bench.cmd("echo ready; sleep 60")).await);
    }
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let page = bench.exec.clone().list_processes(list(&bench, 2, &token)).await.unwrap().into_inner();
        assert!(page.processes.len() <= 2);
        seen.extend(page.processes.iter().map(|process| process.process_id));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
        let live = pb::ListProcessesRequest { include_ended: false, ..list(&bench, 2, &token) };
        assert_refused(
            bench.exec.clone().list_processes(live).await,
            Code::InvalidArgument,
            "INVALID_PAGE_TOKEN",
        );
    }
    assert_eq!(seen, started);
    let negative = bench.exec.clone().list_processes(list(&bench, -1, "")).await;
    assert_eq!(assert_refused(negative, Code::InvalidArgument, "INVALID_FIELD").field(), "page_size");
    let junk = bench.exec.clone().list_processes(list(&bench, 0, "junk")).await;
    assert_refused(junk, Code::InvalidArgument, "INVALID_PAGE_TOKEN");
    bench.clean().await;
    let ended = bench.exec.clone().list_processes(list(&bench, 0, "")).await.unwrap().into_inner();
    assert!(ended.processes.iter().all(|process| process.tombstone && process.expire_time.is_some()));
    let live = pb::ListProcessesRequest { include_ended: false, ..list(&bench, 0, "") };
    assert!(bench.exec.clone().list_processes(live).await.unwrap().into_inner().processes.is_empty());
}

#[tokio::test]
async fn owners_see_their_own_sessions_only_oldest_first() {
    let bench = Bench::start().await;
    let mut mine = vec![bench.session.clone()];
    let mut client = bench.sessions.clone();
    for label in ["b", "c"] {
        let labels = [("name".to_owned(), label.to_owned())].into();
        let request = pb::CreateSessionRequest { config: None, labels };
        let session = client.create_session(request).await.unwrap().into_inner().session.unwrap();
        assert_eq!(session.labels["name"], label);
        mine.push(session.session_id);
    }
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let request = pb::ListSessionsRequest { page_size: 2, page_token: token };
        let page = client.list_sessions(request).await.unwrap().into_inner();
        seen.extend(page.sessions.into_iter().map(|session| session.session_id));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, mine);
    let mut other = SessionServiceClient::new(bench.edge.channel(caller("other", Role::Agent)));
    assert!(
        other
            .list_sessions(pb::ListSessionsRequest::default())
            .await
            .unwrap()
            .into_inner()
            .sessions
            .is_empty()
    );
    let theirs = other.get_session(pb::GetSessionRequest { session_id: bench.session.clone() }).await;
    let refused = assert_refused(theirs, Code::NotFound, "SESSION_NOT_FOUND");
    assert_eq!(refused.fact("session_id"), bench.session);
    let mut reviewer = SessionServiceClient::new(bench.edge.channel(caller("other", Role::Reviewer)));
    let all = reviewer.list_sessions(pb::ListSessionsRequest::default()).await.unwrap().into_inner();
    let all: Vec<String> = all.sessions.into_iter().map(|session| session.session_id).collect();
    assert_eq!(all, mine, "a reviewer sees those of everybody");
}

#[tokio::test]
async fn the_one_environment_says_what_it_can_do() {
    let bench = Bench::start().await;
    let mut client = EnvironmentServiceClient::new(bench.edge.channel(caller("me", Role::Agent)));
    let listed = client.list_environments(pb::ListEnvironmentsRequest::default()).await.unwrap().into_inner();
    assert_eq!((listed.environments.len(), listed.next_page_token.as_str()), (1, ""));
    let local = &listed.environments[0];
    assert_eq!(
        (local.environment_id.as_str(), local.available, local.os.as_str()),
        ("local", true, std::env::consts::OS)
    );
    assert!(local.shells[0].ends_with("bash") && !local.user.is_empty());
    let can = client.get_capabilities(pb::GetCapabilitiesRequest::default()).await.unwrap().into_inner();
    let limits = can.limits.unwrap();
    assert_eq!((limits.exec_yield_default_ms, limits.poll_max_ms, limits.tombstones), (10_000, 300_000, 64));
    assert_eq!((limits.output_frame_bytes, limits.processes_per_session), (65_536, 64));
    assert!(!can.kernel.is_empty() && !can.version.is_empty());
    assert_eq!(can.default_config.unwrap().sandbox.unwrap().kind(), pb::SandboxKind::FullAccess);
    let elsewhere = pb::GetCapabilitiesRequest { environment_id: "moon".into() };
    assert_refused(client.get_capabilities(elsewhere).await, Code::NotFound, "ENVIRONMENT_NOT_FOUND");
}
