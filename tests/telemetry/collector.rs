//! A collector of OTLP in the test's process.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1 as metrics;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1 as trace;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// Longer than a batch of spans waits before it is sent, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// What has arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collector {
    spans: Arc<Mutex<Vec<Span>>>,
    metrics: Arc<Mutex<Vec<String>>>,
    /// Everything, as text: where secrets are looked for.
    all: Arc<Mutex<String>>,
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<trace::ExportTraceServiceRequest>,
    ) -> Result<Response<trace::ExportTraceServiceResponse>, Status> {
        let request = request.into_inner();
        self.all.lock().unwrap().push_str(&format!("{request:?}"));
        let spans = request.resource_spans.into_iter().flat_map(|of| of.scope_spans).flat_map(|of| of.spans);
        self.spans.lock().unwrap().extend(spans);
        Ok(Response::new(trace::ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: Request<metrics::ExportMetricsServiceRequest>,
    ) -> Result<Response<metrics::ExportMetricsServiceResponse>, Status> {
        let request = request.into_inner();
        self.all.lock().unwrap().push_str(&format!("{request:?}"));
        let named = request.resource_metrics.into_iter().flat_map(|of| of.scope_metrics);
        let names = named.flat_map(|of| of.metrics).map(|metric| metric.name);
        self.metrics.lock().unwrap().extend(names);
        Ok(Response::new(metrics::ExportMetricsServiceResponse::default()))
    }
}

impl Collector {
    /// Listens.
    pub(crate) async fn start() -> (Self, SocketAddr) {
        let collector = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::builder()
            .add_service(TraceServiceServer::new(collector.clone()))
            .add_service(MetricsServiceServer::new(collector.clone()));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        (collector, address)
    }

    /// Waits for a span that is as wanted.
    pub(crate) async fn span(&self, what: &str, wanted: impl Fn(&Span) -> bool) -> Span {
        let found = async {
            loop {
                if let Some(span) = self.spans.lock().unwrap().iter().find(|span| wanted(span)) {
                    return span.clone();
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        match tokio::time::timeout(PATIENCE, found).await {
            Ok(span) => span,
            Err(_) => {
                let came: Vec<String> =
                    self.spans.lock().unwrap().iter().map(|span| span.name.clone()).collect();
                panic!("no span: {what}; there are {came:?}")
            }
        }
    }

    /// The spans within this one, by their beginnings.
    pub(crate) fn within(&self, parent: &Span) -> Vec<Span> {
        let spans = self.spans.lock().unwrap();
        let mut within: Vec<Span> =
            spans.iter().filter(|span| span.parent_span_id == parent.span_id).cloned().collect();
        within.sort_by_key(|span| span.start_time_unix_nano);
        within
    }

    /// Names of measurements so far.
    pub(crate) fn measured(&self) -> Vec<String> {
        self.metrics.lock().unwrap().clone()
    }

    /// Everything that came, as text.
    pub(crate) fn everything(&self) -> String {
        self.all.lock().unwrap().clone()
    }
}

/// What a span says of `key`, as text.
pub(crate) fn says(span: &Span, key: &str) -> Option<String> {
    let value = span.attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?.value?;
    Some(match value {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(truth) => truth.to_string(),
        other => format!("{other:?}"),
    })
}
