//! The page that Prometheus reads: `GET /metrics`.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus::{Encoder as _, Registry, TextEncoder};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Readers at once: a page is made for each, so that strangers must not ask for many.
const READERS_MAX: usize = 8;
/// A reader says what it wants within this.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause after a failed accept: it fails for want of descriptors, and trying at once burns a core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for readers of metrics: {source}")]
pub struct PageError {
    /// Where.
    pub address: SocketAddr,
    /// Why.
    pub source: io::Error,
}

/// A page that waits for readers.
#[derive(Debug)]
pub struct MetricsPage {
    listener: TcpListener,
    registry: Registry,
}

impl MetricsPage {
    /// Listens.
    pub async fn bind(address: SocketAddr, registry: Registry) -> Result<Self, PageError> {
        let listener = TcpListener::bind(address).await.map_err(|source| PageError { address, source })?;
        Ok(Self { listener, registry })
    }

    /// Where.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until it is dropped.
    pub async fn serve(self) {
        let places = Arc::new(Semaphore::new(READERS_MAX));
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::debug!(%error, "a reader of metrics was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let registry = self.registry.clone();
            tokio::spawn(async move {
                let answer = service_fn(|request| {
                    std::future::ready(Ok::<_, Infallible>(answer(&request, &registry)))
                });
                let served = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(PATIENCE)
                    .keep_alive(false)
                    .serve_connection(TokioIo::new(stream), answer);
                if let Err(error) = served.await {
                    tracing::debug!(%error, "a reader of metrics went away");
                }
                drop(place);
            });
        }
    }
}

fn answer(request: &Request<Incoming>, registry: &Registry) -> Response<Full<Bytes>> {
    if request.uri().path() != "/metrics" {
        return told(StatusCode::NOT_FOUND, "metrics are at /metrics\n");
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return told(StatusCode::METHOD_NOT_ALLOWED, "metrics are only read\n");
    }
    let encoder = TextEncoder::new();
    let mut text = Vec::new();
    if let Err(error) = encoder.encode(&registry.gather(), &mut text) {
        tracing::warn!(%error, "metrics cannot be written down");
        return told(StatusCode::INTERNAL_SERVER_ERROR, "metrics cannot be written down; the log says why\n");
    }
    let mut response = Response::new(Full::from(text));
    if let Ok(kind) = header::HeaderValue::from_str(encoder.format_type()) {
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    response
}

fn told(status: StatusCode, words: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(words));
    *response.status_mut() = status;
    response
}
