//! HTTP/1.1 of a client: CONNECT becomes a tunnel, a request for a whole `http://` address is passed on.
//!
//! Each request stands for itself: it passes the gate again, on a connection of its own, also if the client sends many
//! over one connection.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::http::uri::{Authority, Scheme};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

use super::connection::let_go;
use super::dial::{DialError, Dialer, Target};
use super::relay::{self, Ahead, RelayError};
use super::{REQUEST_MAX, tunnel};
use crate::core::policy::{Host, HostError};

/// Request line and headers together. Servers take 8 to 64 KiB.
pub const HEADER_BYTES_MAX: usize = 64 * 1024;
/// Headers of one request. Browsers send dozens.
const HEADERS_MAX: usize = 256;

/// The body of an answer, ours or an origin's.
pub(super) type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// Where the other end of a tunnel waits until its request has been answered.
type Waiting = Arc<Mutex<Option<TcpStream>>>;

/// Why a request is not served.
#[derive(Debug, thiserror::Error)]
enum Rejection {
    #[error(
        "this is the proxy of a sandbox: it takes CONNECT host:port, and requests for a whole address as in \
         GET http://host/path"
    )]
    Form,
    #[error("only http:// can be passed on; for {scheme}:// open a tunnel with CONNECT")]
    Scheme { scheme: String },
    #[error("the address has a user name or a password in front of the host; send them in a header")]
    Credentials,
    #[error("the address has no port, or one outside 1..=65535")]
    Port,
    #[error("{0}")]
    Host(#[from] HostError),
    #[error("connections to {target} do not pass: {error}")]
    Dial { target: Target, error: DialError },
    #[error("the exchange with {target} failed: {error}")]
    Relay { target: Target, error: RelayError },
}

/// Serves one client until it ends.
pub(super) async fn serve(mut client: TcpStream, dialer: Arc<Dialer>) {
    let waiting = Waiting::default();
    let service = service_fn(|request| {
        let (dialer, waiting) = (Arc::clone(&dialer), Arc::clone(&waiting));
        Box::pin(async move { Ok::<_, Infallible>(answer(request, &dialer, &waiting).await) })
    });
    let mut builder = Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_MAX)
        .max_header_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .preserve_header_case(true)
        // The origin sends one, and nobody reads ours.
        .auto_date_header(false);
    let ended = builder.serve_connection(TokioIo::new(&mut client), service).without_shutdown().await;
    let early = match ended {
        Ok(parts) => parts.read_buf,
        Err(error) => {
            tracing::debug!(%error, "a child's HTTP connection ended");
            return let_go(client).await;
        }
    };
    let origin = waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
    match origin {
        Some(origin) => tunnel::carry(client, early, origin).await,
        None => let_go(client).await,
    }
}

async fn answer(request: Request<Incoming>, dialer: &Dialer, waiting: &Waiting) -> Response<Body> {
    let answered = if request.method() == Method::CONNECT {
        open(request.uri(), dialer, waiting).await
    } else {
        pass_on(request, dialer).await
    };
    answered.unwrap_or_else(|rejection| reject(&rejection))
}

/// CONNECT: the tunnel begins once the answer has been written.
async fn open(uri: &Uri, dialer: &Dialer, waiting: &Waiting) -> Result<Response<Body>, Rejection> {
    let authority = uri.authority().ok_or(Rejection::Form)?;
    let target = target(authority, None)?;
    let origin = dialer.dial(&target).await.map_err(|error| Rejection::Dial { target, error })?;
    *waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(origin);
    Ok(Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync()))
}

/// A request for a whole address: one exchange with its origin.
async fn pass_on(request: Request<Incoming>, dialer: &Dialer) -> Result<Response<Body>, Rejection> {
    let scheme = request.uri().scheme().ok_or(Rejection::Form)?;
    if *scheme != Scheme::HTTP {
        return Err(Rejection::Scheme { scheme: scheme.as_str().chars().take(16).collect() });
    }
    let authority = request.uri().authority().ok_or(Rejection::Form)?;
    let target = target(authority, Some(80))?;
    let mut request = request.map(Ahead::new);
    let dialed = tokio::select! {
        dialed = dialer.dial(&target) => dialed,
        // Reading the body is how the end of a client that sends one is noticed.
        never = request.body_mut().read_ahead() => match never {},
    };
    match dialed {
        Ok(origin) => {
            let exchanged = relay::exchange(request, &target, origin).await;
            exchanged.map_err(|error| Rejection::Relay { target, error })
        }
        Err(error) => Err(Rejection::Dial { target, error }),
    }
}

fn target(authority: &Authority, default_port: Option<u16>) -> Result<Target, Rejection> {
    if authority.as_str().contains('@') {
        return Err(Rejection::Credentials);
    }
    // `host:` is written with a colon and no port, which is the same as none.
    let bare = authority.as_str().strip_suffix(':').unwrap_or(authority.as_str());
    let port = match (authority.port_u16(), default_port) {
        (Some(port), _) => port,
        (None, Some(port)) if bare == authority.host() => port,
        (None, _) => return Err(Rejection::Port),
    };
    if port == 0 {
        return Err(Rejection::Port);
    }
    Ok(Target { host: Host::parse(authority.host())?, port })
}

fn reject(rejection: &Rejection) -> Response<Body> {
    let status = rejection.status();
    let mut response = Response::new(text(format_args!("{rejection}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if status == StatusCode::FORBIDDEN {
        // Many clients show this line and nothing else, and 403 alone looks like the origin's own word.
        response
            .extensions_mut()
            .insert(ReasonPhrase::from_static(b"Forbidden by the sandbox's network rules"));
    }
    response
}

fn text(text: fmt::Arguments<'_>) -> Body {
    Full::new(Bytes::from(text.to_string())).map_err(|never| match never {}).boxed_unsync()
}

impl Rejection {
    fn status(&self) -> StatusCode {
        match self {
            Self::Form | Self::Scheme { .. } | Self::Credentials | Self::Port => StatusCode::BAD_REQUEST,
            Self::Host(HostError::OddAddress { .. }) => StatusCode::FORBIDDEN,
            Self::Host(_) => StatusCode::BAD_REQUEST,
            Self::Dial { error, .. } if error.is_refusal() => StatusCode::FORBIDDEN,
            Self::Dial { error: DialError::LookupTimeout | DialError::ConnectTimeout, .. } => {
                StatusCode::GATEWAY_TIMEOUT
            }
            Self::Dial { .. } | Self::Relay { .. } => StatusCode::BAD_GATEWAY,
        }
    }
}
