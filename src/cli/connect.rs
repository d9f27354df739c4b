//! The way to a server: by socket, by TCP, or within this process.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Uri};
use tonic::{Request, Status};

use super::failure::Failure;
use crate::grpc::auth::Role;
use crate::grpc::listen::{self, ListenError};
use crate::grpc::pb::approval_service_client::ApprovalServiceClient;
use crate::grpc::pb::environment_service_client::EnvironmentServiceClient;
use crate::grpc::pb::exec_service_client::ExecServiceClient;
use crate::grpc::pb::session_service_client::SessionServiceClient;

/// A server that takes longer to answer a connection is not there.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How often a silent connection is tried: often enough that a lost server is noticed, too rarely to cost anything.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Told to connections whose own address says nothing; never resolved.
const NOWHERE: &str = "http://localhost";

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Server {
    /// A Unix socket.
    Unix(PathBuf),
    /// An address, with or without TLS.
    Tcp {
        /// `http://` or `https://`, host and port.
        uri: Uri,
        /// Whether it is `https`.
        tls: bool,
    },
}

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "give unix:///path/to/agent.sock, http://host:port or https://host:port";
        if let Some(path) = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:")) {
            return if path.starts_with('/') {
                Ok(Self::Unix(path.into()))
            } else {
                Err(format!("the path of a socket must be absolute; {FORMS}"))
            };
        }
        let uri: Uri = text.parse().map_err(|error| format!("{error}; {FORMS}"))?;
        match (uri.scheme_str(), uri.port()) {
            (Some("http"), Some(_)) => Ok(Self::Tcp { uri, tls: false }),
            (Some("https"), Some(_)) => Ok(Self::Tcp { uri, tls: true }),
            (Some("http" | "https"), None) => Err(format!("the port is missing; {FORMS}")),
            _ => Err(FORMS.to_owned()),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp { uri, .. } => write!(f, "{}", uri.to_string().trim_end_matches('/')),
        }
    }
}

/// What a client presents and trusts, by file.
#[derive(Clone, Debug, Default)]
pub(super) struct Credentials {
    /// A bearer token.
    pub(super) token: Option<PathBuf>,
    /// Certificates that sign the server's.
    pub(super) authority: Option<PathBuf>,
    /// The client's own certificate and key.
    pub(super) identity: Option<(PathBuf, PathBuf)>,
}

/// Adds the token to every request.
#[derive(Clone, Debug)]
pub(super) struct Bearer(Option<MetadataValue<Ascii>>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(credential) = &self.0 {
            request.metadata_mut().insert("authorization", credential.clone());
        }
        Ok(request)
    }
}

type Wire = InterceptedService<Channel, Bearer>;

/// A connection.
#[derive(Clone, Debug)]
pub(super) struct Client {
    /// Commands.
    pub(super) exec: ExecServiceClient<Wire>,
    /// Sessions.
    pub(super) session: SessionServiceClient<Wire>,
    /// Questions.
    pub(super) approval: ApprovalServiceClient<Wire>,
    /// What the server can do.
    pub(super) environment: EnvironmentServiceClient<Wire>,
    /// Whether the server sees the same files as we.
    pub(super) same_machine: bool,
}

/// Largest answer that is taken: far above what the contract allows, so that no limit of ours is ever the reason.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

impl Client {
    fn new(channel: Channel, bearer: Bearer, same_machine: bool) -> Self {
        let wire = InterceptedService::new(channel, bearer);
        Self {
            exec: ExecServiceClient::new(wire.clone()).max_decoding_message_size(ANSWER_BYTES_MAX),
            session: SessionServiceClient::new(wire.clone()).max_decoding_message_size(ANSWER_BYTES_MAX),
            approval: ApprovalServiceClient::new(wire.clone()).max_decoding_message_size(ANSWER_BYTES_MAX),
            environment: EnvironmentServiceClient::new(wire),
            same_machine,
        }
    }

    /// Connects to `server`.
    pub(super) async fn connect(server: &Server, credentials: &Credentials) -> Result<Self, Failure> {
        match server {
            Server::Unix(path) => {
                let channel = unix(path).await.map_err(|error| unreachable_socket(path, &error))?;
                // A socket knows its caller.
                Ok(Self::new(channel, Bearer(None), true))
            }
            Server::Tcp { uri, tls } => {
                let mut endpoint = Endpoint::from(uri.clone())
                    .connect_timeout(CONNECT_MAX)
                    .tcp_nodelay(true)
                    .http2_keep_alive_interval(PING_INTERVAL)
                    .keep_alive_timeout(CONNECT_MAX);
                if *tls {
                    endpoint =
                        endpoint.tls_config(client_tls(credentials)?).map_err(|error| tls_failed(&error))?;
                }
                let channel =
                    endpoint.connect().await.map_err(|error| unreachable_address(server, &error))?;
                Ok(Self::new(channel, bearer(credentials.token.as_deref())?, false))
            }
        }
    }

    /// Connects to the socket if somebody listens there; `None` if nobody does.
    pub(super) async fn connect_if_there(path: &Path) -> Result<Option<Self>, Failure> {
        match unix(path).await {
            Ok(channel) => Ok(Some(Self::new(channel, Bearer(None), true))),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                Ok(None)
            }
            Err(error) => Err(unreachable_socket(path, &error)),
        }
    }

    /// Speaks to a server within this process.
    pub(super) fn within(channel: Channel) -> Self {
        Self::new(channel, Bearer(None), true)
    }
}

/// Connects first and speaks HTTP then, so that the system's error is at hand. When the connection ends, so does the
/// channel: a server that was started anew has none of our sessions.
async fn unix(path: &Path) -> io::Result<Channel> {
    let stream = tokio::net::UnixStream::connect(path).await?;
    let stream = Arc::new(Mutex::new(Some(stream)));
    let connector = tower::service_fn(move |_: Uri| {
        let stream = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        std::future::ready(
            stream.map(TokioIo::new).ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected)),
        )
    });
    Endpoint::from_static(NOWHERE).connect_with_connector(connector).await.map_err(io::Error::other)
}

fn bearer(file: Option<&Path>) -> Result<Bearer, Failure> {
    let Some(file) = file else { return Ok(Bearer(None)) };
    let token = listen::read_token(file).map_err(|error| {
        let source =
            std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
        let failure = Failure::usage(format!("the token cannot be used: {error}{source}"));
        match error {
            ListenError::System { .. } => {
                failure.hint("the server prints at its start where its token files are")
            }
            _ => failure,
        }
    })?;
    let value = format!("Bearer {}", token.expose());
    let mut value: MetadataValue<Ascii> =
        value.parse().map_err(|_| Failure::usage(format!("{} holds no token", file.display())))?;
    value.set_sensitive(true);
    Ok(Bearer(Some(value)))
}

fn client_tls(credentials: &Credentials) -> Result<ClientTlsConfig, Failure> {
    let Some(authority) = &credentials.authority else {
        return Err(Failure::usage("https needs the certificate that the server's is checked against").hint(
            "name it with --tls-ca FILE or $UEXEC_TLS_CA; for a self-signed server it is its own certificate",
        ));
    };
    let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(authority)?));
    if let Some((certificate, key)) = &credentials.identity {
        tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
    }
    Ok(tls)
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(file).map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))
}

fn tls_failed(error: &tonic::transport::Error) -> Failure {
    Failure::usage(format!("the certificates cannot be used: {}", causes(error)))
}

fn unreachable_socket(path: &Path, error: &io::Error) -> Failure {
    let failure = Failure::new(format!("no server answers at {}: {error}", path.display()));
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            failure.hint("start one with `uexec serve`, or name another with --server")
        }
        io::ErrorKind::PermissionDenied => {
            failure.hint("only the user that runs the server can use its sockets")
        }
        _ => failure,
    }
}

fn unreachable_address(server: &Server, error: &tonic::transport::Error) -> Failure {
    Failure::new(format!("no server answers at {server}: {}", causes(error)))
        .hint("check address and port; a server with TLS is https://, one without is http://")
}

/// An error with what is behind it; tonic's own words alone are "transport error".
fn causes(error: &dyn std::error::Error) -> String {
    let mut words = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let word = error.to_string();
        if word != "transport error" && words.last() != Some(&word) {
            words.push(word);
        }
        next = error.source();
    }
    words.join(": ")
}

/// The token file that a server on this machine writes for callers of this role.
pub(super) fn local_token(runtime: &Path, role: Role) -> Option<PathBuf> {
    let file = runtime.join(format!("{role}.token"));
    file.is_file().then_some(file)
}

/// The socket that a server on this machine has for callers of this role.
pub(super) fn local_socket(runtime: &Path, role: Role) -> PathBuf {
    runtime.join(format!("{role}.sock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_in_three_forms() {
        assert_eq!("unix:///run/a.sock".parse(), Ok(Server::Unix("/run/a.sock".into())));
        for (text, tls) in [("http://127.0.0.1:7070", false), ("https://host:1", true)] {
            let server: Server = text.parse().expect(text);
            assert!(matches!(server, Server::Tcp { tls: t, .. } if t == tls));
            assert_eq!(server.to_string(), text);
        }
        for text in ["", "unix://relative", "127.0.0.1:1", "http://host", "ftp://host:1"] {
            assert!(text.parse::<Server>().is_err(), "{text}");
        }
    }
}
