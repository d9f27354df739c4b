//! The proxy of children whose network is `proxied`: the only way out of their network namespaces.
//!
//! ```text
//!  child ── 127.0.0.1:3128 of its own network ──► listener ─► connection ─┬► http   CONNECT, http://…
//!                                                              first byte └► socks  SOCKS5 CONNECT
//!                                                                               │ host, port
//!                                             Gate (may ask a person) ◄── dial ─┤
//!                                                    Resolve ◄────────────┘     ▼
//!                                                                        tunnel, or one exchange of HTTP
//! ```
//!
//! The composition root gives an [`AllowListProxy`] to the host, which serves one listener for each child. What may be
//! reached is not decided here: a [`Gate`] answers for what was asked for, and the rules that come with its answer judge
//! each address that a name resolves to. A name is resolved once, and connections go to the addresses that were judged,
//! so that a name that changes its mind in between gains nothing.
//!
//! It refuses to know sessions, questions and policies, and it never looks into what it carries: neither the name in a
//! TLS greeting nor anything after it. Logs name hosts and ports; never paths, headers, or credentials.

mod connection;
mod dial;
mod http;
mod relay;
mod resolve;
mod socks;
mod tunnel;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::sleep;

pub use dial::{ADDRESSES_MAX, CONNECT_MAX, LOOKUP_MAX, LOOKUPS_PER_CHILD};
pub use http::HEADER_BYTES_MAX;
pub use resolve::{LOOKUPS_MAX, Resolve, SystemResolver};

use crate::host::ports::{BoxFuture, Gate, Proxy};
use dial::Dialer;

/// Connections of one child at once; more wait in the listener's queue. A browser or a package manager needs dozens, and
/// each takes two descriptors, which all children share.
pub const CONNECTIONS_MAX: usize = 256;
/// How long a client may take to say what it wants, and how long it may be idle between two requests: one that says
/// nothing holds a place.
pub const REQUEST_MAX: Duration = Duration::from_secs(30);
/// Bytes a client may send ahead of an answer, one that a person gives perhaps. Reading them is how its end is noticed.
pub const EARLY_BYTES_MAX: usize = 64 * 1024;
/// Pause after a failed accept: it fails for want of descriptors, and trying at once burns a core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Lets through what gates and rules allow. One serves all children.
#[derive(Debug)]
pub struct AllowListProxy {
    resolver: Arc<dyn Resolve>,
}

impl AllowListProxy {
    /// Resolves names as the machine does.
    pub fn new() -> Self {
        Self::with_resolver(Arc::new(SystemResolver::new()))
    }

    /// Resolves names otherwise.
    pub fn with_resolver(resolver: Arc<dyn Resolve>) -> Self {
        Self { resolver }
    }
}

impl Default for AllowListProxy {
    fn default() -> Self {
        Self::new()
    }
}

impl Proxy for AllowListProxy {
    fn serve(&self, listener: std::net::TcpListener, gate: Arc<dyn Gate>) -> BoxFuture<()> {
        let dialer = Arc::new(Dialer::new(gate, Arc::clone(&self.resolver)));
        Box::pin(async move {
            match adopt(listener) {
                Ok(listener) => accept_all(listener, dialer).await,
                Err(error) => {
                    tracing::error!(%error, "the proxy of a child cannot listen; it reaches nothing")
                }
            }
        })
    }
}

fn adopt(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Accepts until it is dropped. Connections are its own, and end with it.
async fn accept_all(listener: TcpListener, dialer: Arc<Dialer>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = next(&listener, &places) => {
                let Some((client, place)) = accepted else { return };
                let dialer = Arc::clone(&dialer);
                connections.spawn(async move {
                    connection::serve(client, dialer).await;
                    drop(place);
                });
            }
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a connection of a child's proxy broke");
                }
            }
        }
    }
}

/// The next connection, and its place.
async fn next(listener: &TcpListener, places: &Arc<Semaphore>) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    loop {
        match listener.accept().await {
            Ok((client, _)) => return Some((client, place)),
            Err(error) => {
                tracing::warn!(%error, "the proxy of a child cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
