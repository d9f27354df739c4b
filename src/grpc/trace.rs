//! Every call of the contract in a span, from its headers to its last byte, and its end told to whoever counts. Its
//! response says which trace it belongs to, in `x-trace-id`.

mod body;
mod context;
mod method;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tonic::Code;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;
use tracing::{Instrument as _, Span};

pub use body::code_name;
pub(super) use method::Methods;

use body::Watched;
use context::{begun, of_caller};

const TRACE_ID: HeaderName = HeaderName::from_static("x-trace-id");

/// Sees calls, for traces and metrics. Returns at once.
pub trait RpcTelemetry: Send + Sync + fmt::Debug {
    /// The span of a call, within its caller's trace if its headers name one, and the id of its trace in 32 hex digits.
    /// `method` is one of the contract, or `_OTHER`.
    fn call(&self, method: &'static str, headers: &HeaderMap) -> (Span, String);

    /// A call ended, so long after its headers came. One whose client went away was cancelled.
    fn ended(&self, method: &'static str, code: Code, took: Duration);
}

/// Names the traces of callers, and counts nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnlyNames;

/// The span of a call, for logs alone.
pub fn untraced(method: &'static str, headers: &HeaderMap) -> (Span, String) {
    let trace = of_caller(headers).unwrap_or_else(begun);
    (tracing::info_span!("call", method, trace), trace)
}

impl RpcTelemetry for OnlyNames {
    fn call(&self, method: &'static str, headers: &HeaderMap) -> (Span, String) {
        untraced(method, headers)
    }

    fn ended(&self, _: &'static str, _: Code, _: Duration) {}
}

/// A service whose calls are seen.
#[derive(Clone, Debug)]
pub(super) struct Traced<S> {
    pub(super) service: S,
    pub(super) methods: Arc<Methods>,
    pub(super) telemetry: Arc<dyn RpcTelemetry>,
}

impl<S: NamedService> NamedService for Traced<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Traced<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let method = self.methods.known(request.uri().path());
        let (span, trace) = self.telemetry.call(method, request.headers());
        let watch = body::Watch::begin(Arc::clone(&self.telemetry), method, span.clone());
        let answer = span.in_scope(|| self.service.call(request));
        Box::pin(
            async move {
                let mut response = answer.await?;
                if let Ok(trace) = HeaderValue::from_str(&trace) {
                    response.headers_mut().insert(TRACE_ID, trace);
                }
                let (parts, body) = response.into_parts();
                let watched = Watched::new(body, watch, &parts.headers);
                Ok(Response::from_parts(parts, Body::new(watched)))
            }
            .instrument(span),
        )
    }
}
