//! The server: all services of the contract behind one door, on any number of listeners.
//!
//! ```text
//!  Unix sockets, TCP, in-process pipes ──► connection (HTTP/2) ──► door: access, bounds ──► services ──► host
//! ```
//!
//! It ends in this order: health says NOT_SERVING; the host drains, so that streams say so and processes end; listeners
//! close; connections finish their calls; what is left after a while is dropped. Until listeners close, callers still
//! get answers, if only refusals: better than a connection that breaks.

use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, duplex};
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout_at};
use tonic::service::Routes;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use super::auth::{Access, Caller, Entry, Tokens};
use super::connection::{self, Ending};
use super::door::Door;
use super::health;
use super::listen::Socket;
use super::tls::Tls;
use super::trace::{OnlyNames, RpcTelemetry};
use super::{pb, services};
use crate::core::policy::Rights;
use crate::host::{Host, Settings};

/// What is offered, and so listed by reflection and known to health. `ReviewerService` is called, not offered.
const SERVICES: [&str; 4] = [
    pb::session_service_server::SERVICE_NAME,
    pb::exec_service_server::SERVICE_NAME,
    pb::approval_service_server::SERVICE_NAME,
    pb::environment_service_server::SERVICE_NAME,
];
/// What every gRPC server offers.
const STANDARD_SERVICES: [&str; 3] = [
    tonic_health::pb::health_server::SERVICE_NAME,
    tonic_reflection::pb::v1::server_reflection_server::SERVICE_NAME,
    tonic_reflection::pb::v1alpha::server_reflection_server::SERVICE_NAME,
];
/// Once processes have ended, connections get at least this for their last words.
const FAREWELL: Duration = Duration::from_secs(1);
/// Bytes on the way in an in-process connection, in each direction.
const PIPE_BYTES: usize = 256 * 1024;

/// What a session gets that asks for nothing, and the most it may get.
#[derive(Clone, Debug)]
pub struct SessionDefaults {
    /// Given to a session that asks for nothing.
    pub settings: Settings,
    /// The widest rights that even a reviewer can give.
    pub ceiling: Rights,
    /// The most that an agent may ask for itself.
    pub agent_ceiling: Rights,
}

/// How the server behaves.
#[derive(Clone, Debug)]
pub struct EdgeOptions {
    /// For new sessions.
    pub defaults: SessionDefaults,
    /// Origins of web pages that may call, such as `https://tools.example`; none by default.
    pub allowed_origins: Vec<String>,
    /// How long a shutdown waits for processes and connections to end before it drops them.
    pub drain: Duration,
    /// Sees the calls.
    pub telemetry: Arc<dyn RpcTelemetry>,
}

impl EdgeOptions {
    /// Time that [`EdgeOptions::new`] gives a shutdown: the kill ladder takes up to 3 s, streams need a moment after it.
    pub const DRAIN_DEFAULT: Duration = Duration::from_secs(10);

    /// With these sessions, no web page, the default drain time, and nobody who counts calls.
    pub fn new(defaults: SessionDefaults) -> Self {
        let telemetry = Arc::new(OnlyNames);
        Self { defaults, allowed_origins: Vec::new(), drain: Self::DRAIN_DEFAULT, telemetry }
    }
}

/// A TCP listener was refused: whoever is on the way could read and change everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{address} can be reached from other machines, so it needs TLS: \
     configure a certificate, or listen on a loopback address"
)]
pub struct PlaintextRefused {
    /// The address.
    pub address: SocketAddr,
}

/// Why a TCP listener is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Plaintext where others could read it.
    #[error(transparent)]
    Plaintext(#[from] PlaintextRefused),
    /// The listener does not say where it listens.
    #[error("cannot find out where a listener listens")]
    Address(#[from] io::Error),
}

/// The server. A cheap clone; serving needs a tokio runtime.
#[derive(Clone, Debug)]
pub struct Edge(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    host: Host,
    routes: Routes,
    access: Arc<Access>,
    health: health::Switch,
    ending: Ending,
    drain: Duration,
}

impl Edge {
    /// A server of `host` that nobody can reach yet.
    pub fn new(host: Host, options: EdgeOptions) -> Self {
        let ending = Ending::default();
        let (health, health_service) = health::service(&SERVICES, ending.closing.clone());
        let routes = reflection().add_service(health_service);
        let routes = services::add(routes, &host, &options.defaults, &options.telemetry).prepare();
        let access = Arc::new(Access::new(options.allowed_origins));
        Self(Arc::new(Inner { host, routes, access, health, ending, drain: options.drain }))
    }

    /// Serves a Unix socket: its peers are the server's own user or root, in the role of the socket.
    pub fn serve_unix(&self, socket: Socket) {
        let edge = self.clone();
        let door = move |entry| edge.door(entry);
        self.0.ending.tasks.spawn(connection::accept_unix(socket, door, self.0.ending.clone()));
    }

    /// Serves a TCP listener: each request needs one of `tokens`. Without `tls` only on a loopback address.
    pub fn serve_tcp(
        &self,
        listener: TcpListener,
        tokens: Tokens,
        tls: Option<&Tls>,
    ) -> Result<(), ServeError> {
        let address = listener.local_addr()?;
        if tls.is_none() && !address.ip().to_canonical().is_loopback() {
            return Err(PlaintextRefused { address }.into());
        }
        let edge = self.clone();
        let tokens = Arc::new(tokens);
        let door = move |peer| edge.door(Entry::ByToken { tokens: Arc::clone(&tokens), peer });
        let acceptor = tls.map(Tls::acceptor);
        self.0.ending.tasks.spawn(connection::accept_tcp(listener, acceptor, door, self.0.ending.clone()));
        Ok(())
    }

    /// Serves one connection whose caller is known, such as an in-process pipe.
    pub fn serve_io<I>(&self, io: I, caller: Caller)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let door = self.door(Entry::Known(caller));
        self.0.ending.tasks.spawn(connection::serve(io, door, self.0.ending.clone()));
    }

    /// A client of this server in the same process.
    pub fn channel(&self, caller: Caller) -> Channel {
        let edge = self.clone();
        let connect = move |_: Uri| {
            let (client, server) = duplex(PIPE_BYTES);
            edge.serve_io(server, caller.clone());
            ready(Ok::<_, io::Error>(TokioIo::new(client)))
        };
        // The address only fills a header.
        Endpoint::from_static("http://in-process").connect_with_connector_lazy(service_fn(connect))
    }

    /// Requests refused for a missing or wrong credential so far.
    pub fn refused_credentials(&self) -> u64 {
        self.0.access.refused()
    }

    /// Ends everything. False if some connections had to be dropped.
    pub async fn shutdown(&self) -> bool {
        let Inner { host, health, ending, drain, .. } = &*self.0;
        let deadline = Instant::now() + *drain;
        health.stop_serving();
        if timeout_at(deadline, host.shutdown()).await.is_err() {
            tracing::warn!("processes outlived the drain time");
        }
        ending.closing.cancel();
        ending.tasks.close();
        let finished = timeout_at(deadline.max(Instant::now() + FAREWELL), ending.tasks.wait()).await.is_ok();
        if !finished {
            tracing::warn!(connections = ending.tasks.len(), "connections outlived the drain time; dropped");
            ending.dropping.cancel();
            ending.tasks.wait().await;
        }
        finished
    }

    fn door(&self, entry: Entry) -> Door {
        Door::new(self.0.routes.clone(), Arc::clone(&self.0.access), entry)
    }
}

/// Reflection, made once for all servers of the program: descriptors take milliseconds to read.
fn reflection() -> Routes {
    static ROUTES: OnceLock<Routes> = OnceLock::new();
    ROUTES.get_or_init(|| add_reflection(Routes::default())).clone()
}

/// Both versions: older tools still ask for v1alpha.
fn add_reflection(routes: Routes) -> Routes {
    let configure = || {
        let builder = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(pb::DESCRIPTORS)
            // So that clients can decode error details.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET);
        SERVICES
            .iter()
            .chain(&STANDARD_SERVICES)
            .fold(builder, |builder, name| builder.with_service_name(*name))
    };
    match (configure().build_v1(), configure().build_v1alpha()) {
        (Ok(v1), Ok(v1alpha)) => routes.add_service(v1).add_service(v1alpha),
        // Only if the descriptors that were compiled in are broken, which a test would see.
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "reflection is not available");
            routes
        }
    }
}
