//! TCP: a bearer token a role.

use tokio::net::TcpListener;
use tonic::Code;
use tonic::transport::Channel;
use unified_exec::grpc::auth::{Caller, Role, Tokens};
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::session_service_client::SessionServiceClient;
use unified_exec::grpc::server::{Edge, ServeError};
use unified_exec::host::Owner;

use crate::support::{agent, assert_status, bearer, edge, list, on_tcp, options, plain, token, tokens};

#[tokio::test]
async fn a_missing_or_wrong_token_is_refused_and_counted_and_the_right_one_works() {
    let edge = edge();
    let address = on_tcp(&edge).await;
    let wrong = format!("Bearer {}", token("w").expose());
    let lower = format!("bearer {}", token("a").expose());
    assert_status(list(plain(address), &[]).await, Code::Unauthenticated, "CREDENTIAL_REFUSED");
    let headers = [("authorization", wrong.as_str())];
    assert_status(list(plain(address), &headers).await, Code::Unauthenticated, "CREDENTIAL_REFUSED");
    assert_eq!(edge.refused_credentials(), 2);
    assert_eq!(list(plain(address), &[("authorization", &lower)]).await.unwrap(), 0);
    assert_eq!(edge.refused_credentials(), 2);
}

#[tokio::test]
async fn without_configured_tokens_nobody_gets_in() {
    let edge = edge();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    edge.serve_tcp(listener, Tokens::new(), None).unwrap();
    assert_status(list(plain(address), &[]).await, Code::Unauthenticated, "CREDENTIAL_REFUSED");
}

#[tokio::test]
async fn a_web_page_is_refused_unless_its_origin_was_configured() {
    let mut options = options();
    options.allowed_origins = vec!["https://tools.example".into()];
    let edge = Edge::new(crate::support::host(), options);
    let channel = edge.channel(agent("me"));
    let foreign = list(channel.clone(), &[("origin", "https://evil.example")]).await;
    assert_status(foreign, Code::PermissionDenied, "ORIGIN_REFUSED");
    assert_eq!(list(channel.clone(), &[("origin", "https://tools.example")]).await.unwrap(), 0);
    assert_eq!(list(channel, &[]).await.unwrap(), 0);
}

async fn create(channel: Channel, letter: &str) -> String {
    let mut client = SessionServiceClient::new(channel);
    let created = client.create_session(bearer(pb::CreateSessionRequest::default(), letter)).await.unwrap();
    created.into_inner().session.unwrap().session_id
}

#[tokio::test]
async fn a_session_of_another_owner_is_not_found_and_not_listed() {
    let edge = edge();
    let caller = |owner: &str| Caller { owner: Owner::new(owner), role: Role::Agent };
    let two = Tokens::new().with(&token("x"), caller("x")).with(&token("y"), caller("y"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let channel = plain(listener.local_addr().unwrap());
    edge.serve_tcp(listener, two, None).unwrap();
    let session_id = create(channel.clone(), "x").await;
    let mut client = SessionServiceClient::new(channel);
    let get = pb::GetSessionRequest { session_id: session_id.clone() };
    let foreign = client.get_session(bearer(get.clone(), "y")).await;
    assert_status(foreign, Code::NotFound, "SESSION_NOT_FOUND");
    client.get_session(bearer(get, "x")).await.unwrap();
    let listed = async |client: &mut SessionServiceClient<Channel>, letter: &str| {
        let answer = client.list_sessions(bearer(pb::ListSessionsRequest::default(), letter)).await.unwrap();
        answer.into_inner().sessions.len()
    };
    assert_eq!(listed(&mut client, "x").await, 1);
    assert_eq!(listed(&mut client, "y").await, 0);
    let close = client.close_session(bearer(pb::CloseSessionRequest { session_id }, "y")).await;
    assert_status(close, Code::NotFound, "SESSION_NOT_FOUND");
}

#[tokio::test]
async fn the_same_user_sees_the_same_sessions_over_tcp_and_unix() {
    let edge = edge();
    let directory = tempfile::tempdir().unwrap();
    let runtime = unified_exec::grpc::listen::RuntimeDirectory::open(&directory.path().join("run")).unwrap();
    edge.serve_unix(runtime.bind(Role::Agent).unwrap());
    let address = on_tcp(&edge).await;
    create(plain(address), "a").await;
    assert_eq!(list(crate::support::unix(&runtime.socket_path(Role::Agent)), &[]).await.unwrap(), 1);
}

#[tokio::test]
async fn plaintext_is_refused_on_every_address_that_others_can_reach() {
    let edge = edge();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let listener = TcpListener::bind(address).await.unwrap();
        let refused = edge.serve_tcp(listener, tokens(), None).unwrap_err();
        assert!(matches!(refused, ServeError::Plaintext(_)), "{refused:?}");
        let text = refused.to_string();
        assert!(text.contains("TLS") && text.contains("loopback"), "{text}");
    }
    for address in ["127.0.0.1:0", "127.9.9.9:0", "[::1]:0"] {
        let listener = TcpListener::bind(address).await.unwrap();
        edge.serve_tcp(listener, tokens(), None).unwrap();
    }
}

/// The sockets of this process whose other end is `peer`.
fn sockets_to(peer: std::net::SocketAddr) -> Vec<std::os::fd::OwnedFd> {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let fds = std::fs::read_dir("/proc/self/fd").unwrap();
    let numbers = fds.filter_map(|fd| fd.unwrap().file_name().to_str()?.parse().ok()).collect::<Vec<i32>>();
    let copies = numbers.into_iter().filter_map(|fd| pidfd_getfd(&own, fd, PidfdGetfdFlags::empty()).ok());
    copies
        .filter(|fd| {
            let found = rustix::net::getpeername(fd).ok().flatten();
            found.is_some_and(|found| std::net::SocketAddr::try_from(found).is_ok_and(|found| found == peer))
        })
        .collect()
}

#[tokio::test]
async fn small_answers_leave_at_once_on_every_accepted_socket() {
    let edge = edge();
    let address = on_tcp(&edge).await;
    let client = tokio::net::TcpStream::connect(address).await.unwrap();
    let ours = client.local_addr().unwrap();
    let find = async {
        loop {
            let accepted = sockets_to(ours);
            if accepted.iter().any(|socket| rustix::net::sockopt::tcp_nodelay(socket).unwrap()) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, find).await.expect("TCP_NODELAY is set");
}
