//! What we log, to stderr; and the spans that traces are made of, where they are.

mod limit;

use std::sync::mpsc;
use std::time::Duration;

use opentelemetry_sdk::trace::SdkTracer;
use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{FilterExt as _, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use self::limit::Limit;
use super::failure::Failure;
use crate::config::{Format, Logging};
use crate::host::ports::TRACE_TARGET;

/// Lines that may wait for whoever reads stderr; what comes then is left out.
const LINES_MAX: usize = 8_192;

/// Writes the log; what waits is written when this is dropped.
#[derive(Debug)]
#[must_use]
pub(super) struct Log(Option<WorkerGuard>);

/// How long an end waits for the last lines to be taken.
const LAST_LINES: Duration = Duration::from_millis(1_500);

impl Drop for Log {
    #[expect(
        clippy::disallowed_methods,
        reason = "once, at the end: the guard itself may wait for stderr for ever"
    )]
    fn drop(&mut self) {
        let guard = self.0.take();
        let (written, told) = mpsc::channel();
        std::thread::spawn(move || {
            drop(guard);
            written.send(()).ok();
        });
        told.recv_timeout(LAST_LINES).ok();
    }
}

/// Starts to log, and to trace with `tracer`. The second time it does nothing, since there is only one stderr.
pub(super) fn start(logging: &Logging, tracer: Option<SdkTracer>) -> Result<Log, Failure> {
    let filter = EnvFilter::try_new(&logging.filter).map_err(|error| {
        Failure::usage(format!("{:?} is no log filter: {error}", logging.filter))
            .hint("give a level (error, warn, info, debug, trace), or target=level pairs with commas between")
    })?;
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(LINES_MAX)
        .thread_name("log")
        .finish(std::io::stderr());
    // The limit is asked last, so that only what would be written counts.
    let filter = filter.and(Limit::new(writer.clone(), logging.format));
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
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
            .with_filter(Targets::new().with_target(TRACE_TARGET, LevelFilter::TRACE))
    });
    tracing_subscriber::registry().with(lines).with(traces).try_init().ok();
    Ok(Log(Some(guard)))
}
