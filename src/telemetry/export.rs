//! Where spans and measurements go.

use std::time::Duration;

use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, MetricExporter, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use prometheus::Registry;

/// The instrumentation scope of everything that is made here.
const SCOPE: &str = "unified-exec";

/// How OTLP is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// gRPC, usually at port 4317.
    Grpc,
    /// Protobuf over HTTP, usually at port 4318; `/v1/traces` and `/v1/metrics` are appended.
    Http,
}

/// What is exported, and where to.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where OTLP goes; absent is nowhere.
    pub endpoint: Option<String>,
    /// How it is spoken.
    pub protocol: Protocol,
    /// How long one export may take; what takes longer is dropped.
    pub timeout: Duration,
    /// Which part of the traces that begin here is kept, from 0 to 1; a caller's decision is followed.
    pub sample_ratio: f64,
    /// How often measurements are pushed.
    pub interval: Duration,
    /// What this server is called, as `service.name`.
    pub service_name: String,
    /// Whether a page for Prometheus is wanted.
    pub page: bool,
}

/// Why nothing can be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The exporter cannot be made.
    #[error("OTLP cannot be exported to {endpoint:?}: {source}")]
    Otlp {
        /// Where to.
        endpoint: String,
        /// Why.
        source: ExporterBuildError,
    },
    /// The page cannot be made.
    #[error("measurements cannot be collected for a page: {reason}")]
    Page {
        /// Why.
        reason: String,
    },
}

/// What carries spans and measurements away.
#[derive(Debug)]
pub struct Exporters {
    traces: Option<SdkTracerProvider>,
    metrics: SdkMeterProvider,
    registry: Option<Registry>,
}

impl Exporters {
    /// Begins to export. Must be called within a runtime.
    pub fn start(options: &Options) -> Result<Self, ExportError> {
        let resource = Resource::builder()
            .with_service_name(options.service_name.clone())
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let mut metrics = SdkMeterProvider::builder().with_resource(resource.clone());
        let mut traces = None;
        if let Some(endpoint) = &options.endpoint {
            let failed = |source| ExportError::Otlp { endpoint: endpoint.clone(), source };
            let (spans, measurements) = otlp(options, endpoint).map_err(failed)?;
            let reader = opentelemetry_sdk::metrics::PeriodicReader::builder(measurements)
                .with_interval(options.interval)
                .build();
            metrics = metrics.with_reader(reader);
            let root = Sampler::TraceIdRatioBased(options.sample_ratio);
            traces = Some(
                SdkTracerProvider::builder()
                    .with_resource(resource)
                    .with_sampler(Sampler::ParentBased(Box::new(root)))
                    .with_batch_exporter(spans)
                    .build(),
            );
        }
        let mut registry = None;
        if options.page {
            let kept = Registry::new();
            let reader = opentelemetry_prometheus::exporter()
                .with_registry(kept.clone())
                .build()
                .map_err(|error| ExportError::Page { reason: error.to_string() })?;
            metrics = metrics.with_reader(reader);
            registry = Some(kept);
        }
        Ok(Self { traces, metrics: metrics.build(), registry })
    }

    /// Whether traces go anywhere.
    pub const fn carries_traces(&self) -> bool {
        self.traces.is_some()
    }

    /// What spans are made with, for a layer of `tracing`.
    pub fn tracer(&self) -> Option<SdkTracer> {
        self.traces.as_ref().map(|traces| traces.tracer(SCOPE))
    }

    pub(super) fn meter(&self) -> Meter {
        self.metrics.meter_with_scope(InstrumentationScope::builder(SCOPE).build())
    }

    /// What the page for Prometheus shows, if one is wanted.
    pub const fn registry(&self) -> Option<&Registry> {
        self.registry.as_ref()
    }

    /// Sends what is left, for at most `patience`. Blocks.
    pub fn shutdown(&self, patience: Duration) {
        if let Some(traces) = &self.traces
            && let Err(error) = traces.shutdown_with_timeout(patience)
        {
            tracing::debug!(%error, "the last spans were not exported");
        }
        if let Err(error) = self.metrics.shutdown_with_timeout(patience) {
            tracing::debug!(%error, "the last measurements were not exported");
        }
    }
}

fn otlp(options: &Options, endpoint: &str) -> Result<(SpanExporter, MetricExporter), ExporterBuildError> {
    let timeout = options.timeout;
    match options.protocol {
        Protocol::Grpc => Ok((
            SpanExporter::builder().with_tonic().with_endpoint(endpoint).with_timeout(timeout).build()?,
            MetricExporter::builder().with_tonic().with_endpoint(endpoint).with_timeout(timeout).build()?,
        )),
        Protocol::Http => {
            let of = |signal: &str| format!("{}/v1/{signal}", endpoint.trim_end_matches('/'));
            Ok((
                SpanExporter::builder()
                    .with_http()
                    .with_endpoint(of("traces"))
                    .with_timeout(timeout)
                    .build()?,
                MetricExporter::builder()
                    .with_http()
                    .with_endpoint(of("metrics"))
                    .with_timeout(timeout)
                    .build()?,
            ))
        }
    }
}
