//! One exchange of HTTP with an origin, for a request that is passed on.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper::header::{
    CONNECTION, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VIA,
};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

use super::EARLY_BYTES_MAX;
use super::dial::Target;
use super::http::Body;

/// What is said between two neighbours only (RFC 9110, 7.6.1), besides what `Connection` names. Credentials for a proxy
/// are for this one, which takes none. We have answered `Expect` ourselves.
const HOP_BY_HOP: [HeaderName; 10] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    EXPECT,
];
/// What we call ourselves to those who want to know the way of a message.
const VIA_US: HeaderValue = HeaderValue::from_static("1.1 uexec");

/// Pieces of a body that are kept ahead of an answer: a client may send it byte by byte, and each piece has its price.
const EARLY_FRAMES_MAX: usize = 256;

/// Why there is no answer of an origin.
#[derive(Debug, thiserror::Error)]
pub(super) enum RelayError {
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("the host cannot be written in a header")]
    Host,
    #[error("the origin wants to change the protocol, which was not asked for")]
    Switch,
}

/// Sends the request and answers with the origin's response, whose body follows as it comes. The connection ends with
/// the response's body.
pub(super) async fn exchange(
    request: Request<Ahead>,
    target: &Target,
    origin: TcpStream,
) -> Result<Response<Body>, RelayError> {
    let request = outgoing(request, target)?;
    let mut builder = http1::Builder::new();
    builder.preserve_header_case(true);
    let (mut sender, connection) = builder.handshake(TokioIo::new(origin)).await?;
    let connection = AbortOnDropHandle::new(tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to an origin broke");
        }
    }));
    let mut response = sender.send_request(request).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(RelayError::Switch);
    }
    strip(response.headers_mut());
    response.headers_mut().append(VIA, VIA_US);
    Ok(response.map(|body| Answer { body, _connection: connection }.boxed_unsync()))
}

/// The request as the origin gets it: for a path, with the host that was judged and not the one the client may have
/// written into its headers.
fn outgoing(request: Request<Ahead>, target: &Target) -> Result<Request<Ahead>, RelayError> {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().cloned();
    parts.uri = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    parts.version = Version::HTTP_11;
    strip(&mut parts.headers);
    let text = target.to_string();
    let host = if target.port == 80 { text.strip_suffix(":80").unwrap_or(&text) } else { &text };
    parts.headers.insert(HOST, HeaderValue::from_str(host).map_err(|_| RelayError::Host)?);
    parts.headers.append(VIA, VIA_US);
    // What hyper keeps of the client's own connection means nothing on this one.
    parts.extensions.clear();
    Ok(Request::from_parts(parts, body))
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// The body of a request, of which a part may have been read already.
#[derive(Debug)]
pub(super) struct Ahead {
    read: VecDeque<Result<Frame<Bytes>, hyper::Error>>,
    rest: Incoming,
}

impl Ahead {
    pub(super) fn new(rest: Incoming) -> Self {
        Self { read: VecDeque::new(), rest }
    }

    /// Reads as much as may be kept; then waits for ever. An error waits for whoever reads the body.
    pub(super) async fn read_ahead(&mut self) -> Infallible {
        while self.read_bytes() < EARLY_BYTES_MAX as u64 && self.read.len() < EARLY_FRAMES_MAX {
            let Some(frame) = self.rest.frame().await else { break };
            let broken = frame.is_err();
            self.read.push_back(frame);
            if broken {
                break;
            }
        }
        std::future::pending().await
    }

    fn read_bytes(&self) -> u64 {
        self.read.iter().flatten().filter_map(Frame::data_ref).map(|data| data.len() as u64).sum()
    }
}

impl hyper::body::Body for Ahead {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.read.pop_front() {
            Some(frame) => Poll::Ready(Some(frame)),
            None => Poll::Ready(ready!(Pin::new(&mut self.rest).poll_frame(cx))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (read, rest) = (self.read_bytes(), self.rest.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(read));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(read));
        }
        hint
    }
}

/// The body of an origin's response, with the connection that it comes over.
#[derive(Debug)]
struct Answer {
    body: Incoming,
    _connection: AbortOnDropHandle<()>,
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
