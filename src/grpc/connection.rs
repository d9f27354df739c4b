//! Connections: accepted, shaken hands with, served over HTTP/2, and closed.
//!
//! This is a small server of its own rather than tonic's: tonic's cannot close connections that outlive a shutdown,
//! forgets TCP_NODELAY on a listener that is handed to it, and cuts calls at their deadline with a bare status.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustix::process::geteuid;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_rustls::{Accept, TlsAcceptor};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::auth::{Caller, Entry, Role, owner_of_uid};
use super::door::Door;
use super::listen::Socket;

/// Connections of one listener at once; more wait in its queue. Strangers must not use up the descriptors of sessions.
const CONNECTIONS_MAX: usize = 4096;
/// A TLS handshake takes a few round trips; one that takes longer holds a place that others need.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// So does a connection that nobody calls on. Clients reconnect by themselves.
const UNUSED_MAX: Duration = Duration::from_secs(60);
/// Pause after a failed accept: it fails for want of descriptors, and trying at once burns a core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Calls of one connection at once.
const STREAMS_MAX: u32 = 1024;
/// Bytes a client may send ahead in one call: input is pasted by the megabyte.
const STREAM_WINDOW: u32 = 1024 * 1024;
/// Bytes a client may send ahead in all calls.
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// Silence after which the server asks whether a client is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// How long the client has to answer that.
const KEEPALIVE_ANSWER: Duration = Duration::from_secs(20);
/// Headers of one request; a token and a trace fit many times.
const HEADERS_MAX: u32 = 16 * 1024;

/// Tells listeners and connections when to end.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending {
    /// Listeners close; connections finish their calls and take no more.
    pub(super) closing: CancellationToken,
    /// Connections are dropped.
    pub(super) dropping: CancellationToken,
    /// All that must have ended.
    pub(super) tasks: TaskTracker,
}

/// Serves one connection until it ends.
pub(super) async fn serve<I>(io: I, door: Door, ending: Ending)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new()).http2_only();
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(STREAMS_MAX)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE_ANSWER)
        .max_header_list_size(HEADERS_MAX)
        // Nobody reads it, and recorded conversations differ by nothing else.
        .auto_date_header(false);
    let usage = door.usage();
    let mut connection = pin!(builder.serve_connection(TokioIo::new(io), TowerToHyperService::new(door)));
    tokio::select! {
        ended = connection.as_mut() => return log_end(ended),
        () = usage.none_for(UNUSED_MAX) => return,
        () = ending.closing.cancelled() => {}
    }
    if !usage.any() {
        // It may not even have said that it speaks HTTP/2, and a farewell would wait for that.
        return;
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        ended = connection => log_end(ended),
        () = ending.dropping.cancelled() => {}
    }
}

/// Bad bytes and lost peers are everyday.
fn log_end(ended: Result<(), impl fmt::Display>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Accepts from a Unix socket. The socket's file goes away at the end.
pub(super) async fn accept_unix(socket: Socket, door: impl Fn(Entry) -> Door, ending: Ending) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Some((stream, place)) = next(&places, &ending, || socket.listener().accept()).await {
        let (stream, _) = stream;
        let door = door(entry_of_peer(&stream, socket.role()));
        let connection = serve(stream, door, ending.clone());
        spawn(&ending, place, connection);
    }
}

/// The server's own user and root may come in.
fn entry_of_peer(stream: &UnixStream, role: Role) -> Entry {
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == geteuid().as_raw() || peer.uid() == 0 => {
            Entry::Known(Caller { owner: owner_of_uid(peer.uid()), role })
        }
        _ => Entry::Closed,
    }
}

/// Accepts from a TCP listener.
pub(super) async fn accept_tcp(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    door: impl Fn(SocketAddr) -> Door,
    ending: Ending,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Some((accepted, place)) = next(&places, &ending, || listener.accept()).await {
        let (stream, peer) = accepted;
        // Small answers must not wait for the acknowledgement of the ones before.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
        }
        let door = door(peer);
        match &tls {
            None => spawn(&ending, place, serve(stream, door, ending.clone())),
            Some(tls) => spawn(&ending, place, shake_hands(tls.accept(stream), peer, door, ending.clone())),
        }
    }
}

/// Lets a TLS client in, then serves it.
async fn shake_hands(handshake: Accept<TcpStream>, peer: SocketAddr, door: Door, ending: Ending) {
    let shaken = tokio::select! {
        shaken = timeout(HANDSHAKE_MAX, handshake) => shaken,
        () = ending.closing.cancelled() => return,
    };
    match shaken {
        Ok(Ok(stream)) => serve(stream, door, ending).await,
        Ok(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
        Err(_) => tracing::debug!(%peer, "a TLS handshake took too long"),
    }
}

fn spawn(
    ending: &Ending,
    place: OwnedSemaphorePermit,
    connection: impl Future<Output = ()> + Send + 'static,
) {
    ending.tasks.spawn(async move {
        connection.await;
        drop(place);
    });
}

/// The next connection and its place; nothing once the listener is to close.
async fn next<T, F>(
    places: &Arc<Semaphore>,
    ending: &Ending,
    mut accept: impl FnMut() -> F,
) -> Option<(T, OwnedSemaphorePermit)>
where
    F: Future<Output = io::Result<T>>,
{
    let accepted = async {
        if places.available_permits() == 0 {
            tracing::warn!("a listener has as many connections as it may; others wait");
        }
        let place = Arc::clone(places).acquire_owned().await.ok()?;
        loop {
            match accept().await {
                Ok(accepted) => return Some((accepted, place)),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        accepted = accepted => accepted,
        () = ending.closing.cancelled() => None,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::Instant;
    use tonic::service::Routes;

    use super::*;
    use crate::grpc::auth::Access;

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_nobody_calls_on_is_closed_in_time() {
        for greeting in [&b""[..], b"PRI * HTTP/2.0", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"]
        {
            let door = Door::new(Routes::default(), Arc::new(Access::new(Vec::new())), Entry::Closed);
            let (mut client, server) = duplex(1024);
            client.write_all(greeting).await.unwrap();
            let started = Instant::now();
            let serving = tokio::spawn(serve(server, door, Ending::default()));
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            serving.await.unwrap();
            assert!(started.elapsed() < UNUSED_MAX + Duration::from_secs(1), "{greeting:?}");
        }
    }
}
