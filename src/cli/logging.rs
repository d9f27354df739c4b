//! What we log, to stderr; and the spans that traces are made of, where they are.

use opentelemetry_sdk::trace::SdkTracer;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use super::failure::Failure;
use crate::config::{Format, Logging};
use crate::telemetry::SPAN_TARGET;

/// Starts to log, and to trace with `tracer`. The second time it does nothing, since there is only one stderr.
pub(super) fn start(logging: &Logging, tracer: Option<SdkTracer>) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&logging.filter).map_err(|error| {
        Failure::usage(format!("{:?} is no log filter: {error}", logging.filter))
            .hint("give a level (error, warn, info, debug, trace), or target=level pairs with commas between")
    })?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match logging.format {
        Format::Text => Box::new(
            lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).with_filter(filter),
        ),
        Format::Json => Box::new(lines.json().flatten_event(true).with_filter(filter)),
    };
    let traces = tracer.map(|tracer| {
        // Our own spans and nothing else: an exporter that traced its own connection would never come to rest.
        tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(Targets::new().with_target(SPAN_TARGET, LevelFilter::INFO))
    });
    tracing_subscriber::registry().with(lines).with(traces).try_init().ok();
    Ok(())
}
