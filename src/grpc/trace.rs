//! Trace context (W3C): each call runs in a span that names its caller's trace, or begins one, and its response says
//! which in `x-trace-id`.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use sha2::{Digest as _, Sha256};
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;
use tracing::Instrument as _;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACE_ID: HeaderName = HeaderName::from_static("x-trace-id");

/// A service whose calls are traced.
#[derive(Clone, Debug)]
pub(super) struct Traced<S>(pub(super) S);

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
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let trace = of_caller(request.headers()).unwrap_or_else(begun);
        let span = tracing::info_span!("call", method = request.uri().path(), trace);
        let answer = span.in_scope(|| self.0.call(request));
        Box::pin(
            async move {
                let mut response = answer.await?;
                if let Ok(trace) = HeaderValue::from_str(&trace) {
                    response.headers_mut().insert(TRACE_ID, trace);
                }
                Ok(response)
            }
            .instrument(span),
        )
    }
}

/// The trace id of `version-trace-parent-flags`.
fn of_caller(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(TRACEPARENT)?.to_str().ok()?;
    let mut parts = text.split('-');
    let (version, trace, parent) = (parts.next()?, parts.next()?, parts.next()?);
    let hex = |part: &str, len: usize| {
        part.len() == len && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let known = hex(version, 2) && version != "ff" && hex(trace, 32) && hex(parent, 16);
    (known && trace.bytes().any(|byte| byte != b'0')).then(|| trace.to_owned())
}

/// An id that no other call of this process has, nor one of another process by any likelihood.
fn begun() -> String {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let digest = Sha256::new()
        .chain_update(std::process::id().to_be_bytes())
        .chain_update(std::ptr::from_ref(&CALLS).addr().to_be_bytes())
        .chain_update(call.to_be_bytes())
        .finalize();
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_taken_from_its_caller_or_begun() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(TRACEPARENT, text.parse().unwrap());
            of_caller(&headers)
        };
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(of(&format!("00-{trace}-00f067aa0ba902b7-01")).as_deref(), Some(trace));
        for wrong in [
            "",
            "00",
            "00-xyz-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_ne!(begun(), begun());
    }
}
