//! A server with a real host, and clients of it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, UnixStream};
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;
use unified_exec::core::command::{Defaults, EnvPolicy, EnvVar};
use unified_exec::core::limits::Limits;
use unified_exec::core::policy::Rights;
use unified_exec::core::spawn::ResourceLimits;
use unified_exec::grpc::auth::{Caller, Role, Token, Tokens, own_owner};
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::session_service_client::SessionServiceClient;
use unified_exec::grpc::server::{Edge, EdgeOptions, SessionDefaults};
use unified_exec::host::clock::Clock;
use unified_exec::host::{Host, Owner, Ports, Settings};
use unified_exec::spawn::{LocalSpawner, Options};

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn host() -> Host {
    let clock = Clock::start();
    let spawner = LocalSpawner::start(clock, Options::default()).unwrap();
    Host::new(Ports::of(Arc::new(spawner)), clock, vec![EnvVar::new("PATH", "/usr/bin:/bin")], 1)
}

pub(crate) fn settings() -> Settings {
    Settings {
        defaults: Defaults {
            cwd: "/tmp".into(),
            shell: "bash".into(),
            allow_login: false,
            env: EnvPolicy::default(),
            inherited: vec![EnvVar::new("PATH", "/usr/bin:/bin")],
        },
        rights: Rights::unrestricted(),
        process_limits: ResourceLimits::default(),
        limits: Limits::default(),
        interactive: true,
    }
}

pub(crate) fn options() -> EdgeOptions {
    EdgeOptions::new(SessionDefaults {
        settings: settings(),
        ceiling: Rights::unrestricted(),
        agent_ceiling: Rights::unrestricted(),
    })
}

pub(crate) fn edge() -> Edge {
    Edge::new(host(), options())
}

pub(crate) fn token(letter: &str) -> Token {
    Token::parse(&letter.repeat(64)).unwrap()
}

/// Agent `aaaa…` and reviewer `rrrr…` of the server's own user.
pub(crate) fn tokens() -> Tokens {
    let caller = |role| Caller { owner: own_owner(), role };
    Tokens::new().with(&token("a"), caller(Role::Agent)).with(&token("r"), caller(Role::Reviewer))
}

pub(crate) fn agent(owner: &str) -> Caller {
    Caller { owner: Owner::new(owner), role: Role::Agent }
}

/// Serves loopback TCP with [`tokens`].
pub(crate) async fn on_tcp(edge: &Edge) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    edge.serve_tcp(listener, tokens(), None).unwrap();
    address
}

pub(crate) fn plain(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy()
}

pub(crate) fn unix(path: &Path) -> Channel {
    let path = path.to_owned();
    let connect = move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    };
    Endpoint::from_static("http://unix").connect_with_connector_lazy(tower::service_fn(connect))
}

/// A request with these headers.
pub(crate) fn request<T>(message: T, headers: &[(&'static str, &str)]) -> Request<T> {
    let mut request = Request::new(message);
    let metadata: &mut MetadataMap = request.metadata_mut();
    for (name, value) in headers {
        metadata.append(*name, value.parse().unwrap());
    }
    request
}

pub(crate) fn bearer<T>(message: T, letter: &str) -> Request<T> {
    request(message, &[("authorization", &format!("Bearer {}", token(letter).expose()))])
}

/// The simplest call that needs a credential.
pub(crate) async fn list(channel: Channel, headers: &[(&'static str, &str)]) -> Result<usize, Status> {
    let request = request(pb::ListSessionsRequest::default(), headers);
    let answer = SessionServiceClient::new(channel).list_sessions(request).await?;
    Ok(answer.into_inner().sessions.len())
}

/// Asserts code and reason, and that the reason comes in our domain.
#[track_caller]
pub(crate) fn assert_status<T: std::fmt::Debug>(answer: Result<T, Status>, code: Code, reason: &str) {
    let status = answer.unwrap_err();
    let info = status.get_details_error_info();
    let found = info.as_ref().map(|info| (info.domain.as_str(), info.reason.as_str()));
    assert_eq!((status.code(), found), (code, Some(("unified-exec", reason))), "{status:?}");
}
