//! Traces and metrics, by OpenTelemetry. Answers the host's port [`Telemetry`](crate::host::ports::Telemetry) and the edge's
//! [`RpcTelemetry`](crate::grpc::RpcTelemetry).
//!
//! ```text
//!  edge: calls ──► rpc ──┬─► spans (tracing) ──► sampler ──► batches ──► OTLP
//!  host: sessions ─► session ─┴─► meters ──────────────────┬─► OTLP
//!                                                          └─► page that Prometheus reads
//! ```
//! Nothing here waits: what cannot be exported is dropped by the batch that is full, and counted by the exporter's own log.
//!
//! Refuses to know: output, input, environments, and arguments beyond a program's name.

mod export;
mod meters;
mod page;
mod rpc;
mod session;
mod spans;
mod words;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use export::{ExportError, Exporters, Options, Protocol};
pub use meters::{Described, INSTRUMENTS};
pub use page::{MetricsPage, PageError};

use crate::core::ids::SessionId;
use crate::host::ports::{Read, SessionTelemetry, Telemetry};
use meters::Meters;
use session::Observer;

/// Makes traces and metrics of everything that a server does. A cheap clone.
#[derive(Clone)]
pub struct Observability {
    meters: Arc<Meters>,
    traces: bool,
}

impl Observability {
    /// What these exporters carry away; spans are made only if traces are.
    pub fn new(exporters: &Exporters) -> Self {
        Self { meters: Arc::new(Meters::new(&exporters.meter())), traces: exporters.carries_traces() }
    }
}

impl fmt::Debug for Observability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observability").field("traces", &self.traces).finish_non_exhaustive()
    }
}

impl Telemetry for Observability {
    fn session(&self, session: &SessionId, early_window: Duration) -> Box<dyn SessionTelemetry> {
        Box::new(Observer::new(session, early_window, Arc::clone(&self.meters), self.traces))
    }

    fn read(&self, read: Read) {
        match read {
            Read::OutputGap(bytes) => self.meters.output_gaps.add(bytes, &[]),
            Read::FeedGap(events) => self.meters.feed_gaps.add(events, &[]),
            Read::Event(lag) => self.meters.feed_lag.record(lag.as_secs_f64(), &[]),
        }
    }
}
