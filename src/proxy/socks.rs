//! SOCKS5 (RFC 1928), as far as a proxy of outgoing connections needs it: CONNECT without authentication.
//!
//! Names are resolved by us, never by the client, whose network has no name server. The protocol is written out here:
//! crates that speak it keep the client's stream to themselves between request and reply, where we must see it end
//! while a question is open.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::connection::let_go;
use super::dial::{DialError, Dialer, Target};
use super::{EARLY_BYTES_MAX, REQUEST_MAX, tunnel};
use crate::core::policy::Host;

/// The first byte of everything that is SOCKS5.
pub(super) const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_ACCEPTABLE_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

/// What a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Reply {
    Succeeded = 0,
    GeneralFailure = 1,
    NotAllowed = 2,
    NetworkUnreachable = 3,
    HostUnreachable = 4,
    ConnectionRefused = 5,
    TimedOut = 6,
    CommandNotSupported = 7,
    AddressTypeNotSupported = 8,
}

/// Why a client is not served.
#[derive(Debug, thiserror::Error)]
enum Rejection {
    #[error("the client is gone or breaks the protocol: {0}")]
    Io(#[from] io::Error),
    #[error("the client wants to authenticate")]
    NoMethod,
    #[error("{reason}")]
    Request { reply: Reply, reason: String },
}

/// Serves one client until it ends.
pub(super) async fn serve(mut client: TcpStream, dialer: &Dialer) {
    let target = match timeout(REQUEST_MAX, greet(&mut client)).await {
        Ok(Ok(target)) => target,
        Ok(Err(Rejection::Request { reply, reason })) => {
            tracing::debug!(%reason, "a child's SOCKS request is refused");
            return refuse(client, reply).await;
        }
        Ok(Err(Rejection::NoMethod)) => return let_go(client).await,
        Ok(Err(error @ Rejection::Io(_))) => {
            tracing::debug!(%error, "a child's SOCKS request is not served");
            return;
        }
        Err(_) => {
            tracing::debug!("a child's SOCKS request took too long");
            return;
        }
    };
    let mut early = BytesMut::new();
    let dialed = tokio::select! {
        dialed = dialer.dial(&target) => dialed,
        () = gone(&mut client, &mut early) => {
            tracing::debug!(%target, "a child gave up a connection before it was settled");
            return;
        }
    };
    match dialed {
        Ok(origin) => connected(client, early.freeze(), origin).await,
        Err(error) => refuse(client, reply_to(&error)).await,
    }
}

async fn connected(mut client: TcpStream, early: Bytes, origin: TcpStream) {
    if client.write_all(&encode(Reply::Succeeded)).await.is_ok() {
        tunnel::carry(client, early, origin).await;
    }
}

async fn refuse(mut client: TcpStream, reply: Reply) {
    if client.write_all(&encode(reply)).await.is_ok() {
        let_go(client).await;
    }
}

/// Resolves when the client has ended or broken its side. What it sends ahead is kept in `early`, up to a bound, behind
/// which its end cannot be seen.
async fn gone(client: &mut TcpStream, early: &mut BytesMut) {
    while early.len() < EARLY_BYTES_MAX {
        if !matches!(client.read_buf(early).await, Ok(1..)) {
            return;
        }
    }
    std::future::pending().await
}

/// Reads the greeting and the request.
async fn greet(client: &mut TcpStream) -> Result<Target, Rejection> {
    let [_, methods] = read(client).await?;
    let mut offered = vec![0; usize::from(methods)];
    client.read_exact(&mut offered).await?;
    if !offered.contains(&NO_AUTHENTICATION) {
        client.write_all(&[VERSION, NO_ACCEPTABLE_METHOD]).await?;
        return Err(Rejection::NoMethod);
    }
    client.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let [version, command, _, kind] = read(client).await?;
    if version != VERSION {
        return Err(request(Reply::GeneralFailure, "the request is not SOCKS5"));
    }
    let host = host(client, kind).await?;
    let port = u16::from_be_bytes(read(client).await?);
    if command != CONNECT {
        return Err(request(Reply::CommandNotSupported, "only CONNECT is supported"));
    }
    if port == 0 {
        return Err(request(Reply::GeneralFailure, "0 is no port"));
    }
    Ok(Target { host: host?, port })
}

/// The host of a request. The inner error is one that may wait until the whole request has been read.
async fn host(client: &mut TcpStream, kind: u8) -> Result<Result<Host, Rejection>, Rejection> {
    match kind {
        1 => Ok(Ok(Host::address(IpAddr::V4(Ipv4Addr::from(read::<4>(client).await?))))),
        4 => Ok(Ok(Host::address(IpAddr::V6(Ipv6Addr::from(read::<16>(client).await?))))),
        3 => {
            let [length] = read(client).await?;
            let mut name = vec![0; usize::from(length)];
            client.read_exact(&mut name).await?;
            let name = String::from_utf8_lossy(&name);
            Ok(Host::parse(&name).map_err(|error| request(Reply::NotAllowed, error)))
        }
        kind => Err(request(Reply::AddressTypeNotSupported, format!("{kind} is no type of address"))),
    }
}

fn request(reply: Reply, reason: impl ToString) -> Rejection {
    Rejection::Request { reply, reason: reason.to_string() }
}

async fn read<const N: usize>(client: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// A reply. Where we connect from is none of the client's business, so the address in it is empty.
fn encode(reply: Reply) -> [u8; 10] {
    [VERSION, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]
}

fn reply_to(error: &DialError) -> Reply {
    match error {
        error if error.is_refusal() => Reply::NotAllowed,
        DialError::Lookup(_) | DialError::LookupTimeout => Reply::HostUnreachable,
        DialError::ConnectTimeout => Reply::TimedOut,
        DialError::Connect(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => Reply::ConnectionRefused,
            io::ErrorKind::NetworkUnreachable => Reply::NetworkUnreachable,
            io::ErrorKind::HostUnreachable => Reply::HostUnreachable,
            _ => Reply::GeneralFailure,
        },
        DialError::Refused { .. } | DialError::Inside { .. } | DialError::OwnMachine { .. } => {
            Reply::NotAllowed
        }
    }
}
