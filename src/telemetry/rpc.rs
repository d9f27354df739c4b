//! Calls: their spans, within their callers' traces, and how many there are of which kind.

use std::time::Duration;

use http::HeaderMap;
use opentelemetry::KeyValue;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tonic::Code;
use tracing::field::Empty;
use tracing::{Level, Span, span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::Observability;
use super::meters::label;
use crate::grpc::{RpcTelemetry, code_name};
use crate::host::ports::TRACE_TARGET;

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}

impl RpcTelemetry for Observability {
    fn call(&self, method: &'static str, headers: &HeaderMap) -> (Span, String) {
        self.meters.rpc_active.add(1, &[label("rpc.method", method)]);
        if !self.traces {
            return crate::grpc::untraced(method, headers);
        }
        let caller = TraceContextPropagator::new().extract(&Headers(headers));
        let span = span!(
            target: TRACE_TARGET,
            parent: None,
            Level::INFO,
            "rpc",
            otel.name = method,
            otel.kind = "server",
            otel.status_code = Empty,
            rpc.system.name = "grpc",
            rpc.method = method,
            rpc.response.status_code = Empty,
            trace = Empty,
        );
        if caller.span().span_context().is_valid() {
            // Fails only once the span has begun, which it has not.
            drop(span.set_parent(caller));
        }
        let trace = span.context().span().span_context().trace_id().to_string();
        // For the lines of the log.
        span.record("trace", trace.as_str());
        (span, trace)
    }

    fn ended(&self, method: &'static str, code: Code, took: Duration) {
        self.meters.rpc_active.add(-1, &[label("rpc.method", method)]);
        self.meters.rpc_duration.record(
            took.as_secs_f64(),
            &[
                KeyValue::new("rpc.system.name", "grpc"),
                label("rpc.method", method),
                label("rpc.response.status_code", code_name(code)),
            ],
        );
    }
}
