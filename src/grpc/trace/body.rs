//! A response's body that knows when its call is over.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;
use tonic::body::Body;
use tonic::{Code, Status};
use tracing::Span;

use super::RpcTelemetry;

/// A call under way. Told when it is over; dropped before that, its client has gone away.
pub(super) struct Watch {
    telemetry: Arc<dyn RpcTelemetry>,
    method: &'static str,
    began: Instant,
    span: Span,
    code: Option<Code>,
}

impl Watch {
    pub(super) fn begin(telemetry: Arc<dyn RpcTelemetry>, method: &'static str, span: Span) -> Self {
        Self { telemetry, method, began: Instant::now(), span, code: None }
    }

    fn hear(&mut self, headers: &HeaderMap) {
        if let Some(status) = Status::from_header_map(headers) {
            self.code = Some(status.code());
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let code = self.code.unwrap_or(Code::Cancelled);
        self.span.record("rpc.response.status_code", code_name(code));
        let took = self.began.elapsed();
        tracing::debug!(parent: &self.span, method = self.method, code = code_name(code), ?took, "a call ended");
        self.telemetry.ended(self.method, code, took);
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("method", &self.method).finish_non_exhaustive()
    }
}

/// The body of a response, in its call's span.
#[derive(Debug)]
pub(super) struct Watched {
    body: Body,
    watch: Watch,
}

impl Watched {
    /// A refusal has its status in the headers, and no body.
    pub(super) fn new(body: Body, mut watch: Watch, headers: &HeaderMap) -> Self {
        watch.hear(headers);
        Self { body, watch }
    }
}

impl HttpBody for Watched {
    type Data = <Body as HttpBody>::Data;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = &mut *self;
        let frame = {
            let _within = this.watch.span.enter();
            ready!(Pin::new(&mut this.body).poll_frame(cx))
        };
        if let Some(Ok(frame)) = &frame
            && let Some(trailers) = frame.trailers_ref()
        {
            this.watch.hear(trailers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// As the conventions for calls spell it.
pub const fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
