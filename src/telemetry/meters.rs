//! The instruments: one meter for OTLP and for the page that Prometheus reads. No label is an id, a command or a path.
//! `docs/observability.md` lists them, which a test holds against this file.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, UpDownCounter};

/// Seconds, for what takes from tens of microseconds to minutes.
const SECONDS: [f64; 18] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 10.0,
    60.0, 300.0,
];
/// The bounds that the conventions for calls name.
const CALL_SECONDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

/// Items of a queue; the queues of a driver hold a few hundred.
const SIZES: [f64; 9] = [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0, 1024.0];

/// One instrument, as the documentation lists it.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    /// Its name.
    pub name: &'static str,
    /// `histogram`, `counter` or `updowncounter`.
    pub kind: &'static str,
    /// Its unit, by UCUM.
    pub unit: &'static str,
    /// Its attributes.
    pub attributes: &'static [&'static str],
    /// What it says.
    pub says: &'static str,
}

macro_rules! instruments {
    ($($(#[doc = $says:literal])+ $field:ident: $kind:ident $name:literal $unit:literal [$($attribute:literal),*];)*) => {
        /// Every instrument.
        #[derive(Debug)]
        pub(super) struct Meters {
            $(pub(super) $field: instruments!(@type $kind),)*
        }

        impl Meters {
            pub(super) fn new(meter: &Meter) -> Self {
                Self { $($field: instruments!(@build $kind meter $name $unit concat!($($says),+)),)* }
            }
        }

        /// Every instrument, as the documentation lists it.
        pub const INSTRUMENTS: &[Described] = &[
            $(Described {
                name: $name,
                kind: instruments!(@word $kind),
                unit: $unit,
                attributes: &[$($attribute),*],
                says: concat!($($says),+),
            },)*
        ];
    };
    (@type seconds) => { Histogram<f64> };
    (@type calls) => { Histogram<f64> };
    (@type sizes) => { Histogram<u64> };
    (@type counter) => { Counter<u64> };
    (@type gauge) => { UpDownCounter<i64> };
    (@word seconds) => { "histogram" };
    (@word calls) => { "histogram" };
    (@word sizes) => { "histogram" };
    (@word counter) => { "counter" };
    (@word gauge) => { "updowncounter" };
    (@build seconds $meter:ident $name:literal $unit:literal $says:expr) => {
        $meter.f64_histogram($name).with_unit($unit).with_description($says.trim()).with_boundaries(SECONDS.to_vec()).build()
    };
    (@build calls $meter:ident $name:literal $unit:literal $says:expr) => {
        $meter.f64_histogram($name).with_unit($unit).with_description($says.trim()).with_boundaries(CALL_SECONDS.to_vec()).build()
    };
    (@build sizes $meter:ident $name:literal $unit:literal $says:expr) => {
        $meter.u64_histogram($name).with_unit($unit).with_description($says.trim()).with_boundaries(SIZES.to_vec()).build()
    };
    (@build counter $meter:ident $name:literal $unit:literal $says:expr) => {
        $meter.u64_counter($name).with_unit($unit).with_description($says.trim()).build()
    };
    (@build gauge $meter:ident $name:literal $unit:literal $says:expr) => {
        $meter.i64_up_down_counter($name).with_unit($unit).with_description($says.trim()).build()
    };
}

instruments! {
    /// From a call's headers to its last byte or its client's going away
    rpc_duration: calls "rpc.server.call.duration" "s" ["rpc.system.name", "rpc.method", "rpc.response.status_code"];
    /// Calls that are being served
    rpc_active: gauge "unified_exec.rpc.active" "{call}" ["rpc.method"];
    /// Sessions that are open
    sessions: gauge "unified_exec.sessions" "{session}" [];
    /// Processes that are alive
    processes: gauge "unified_exec.processes" "{process}" ["unified_exec.spawner"];
    /// From the order to start an attempt until its program runs, the sandbox's set-up included
    spawn: seconds "unified_exec.spawn.duration" "s" ["unified_exec.spawner", "unified_exec.sandboxed", "error.type"];
    /// From an attempt's start to its first output
    first_byte: seconds "unified_exec.first_byte.duration" "s" ["unified_exec.spawner"];
    /// From a process's exit, as its reaper saw it, to the answer of each call that waited for it
    exit_to_result: seconds "unified_exec.exit_to_result.duration" "s" [];
    /// From a question to its answer or withdrawal
    approval: seconds "unified_exec.approval.duration" "s" ["unified_exec.approval.kind", "unified_exec.approval.state"];
    /// Questions that are open
    approvals_open: gauge "unified_exec.approvals.open" "{approval}" [];
    /// Starts that were refused before anything ran
    starts_refused: counter "unified_exec.starts.refused" "{start}" ["error.type"];
    /// Ends that a sandbox is believed to have caused
    denials: counter "unified_exec.denials" "{denial}" ["unified_exec.confidence", "unified_exec.phase"];
    /// Second attempts
    retries: counter "unified_exec.retries" "{attempt}" ["unified_exec.outcome"];
    /// Processes that ended
    exits: counter "unified_exec.exits" "{process}" ["unified_exec.end"];
    /// Bytes of output that were read from children
    output: counter "unified_exec.output" "By" [];
    /// Bytes of output that readers were told they lost: they were slower than the log keeps
    output_gaps: counter "unified_exec.output.gap" "By" [];
    /// From an event of a session's feed until a watcher that was there has it
    feed_lag: seconds "unified_exec.feed.lag" "s" [];
    /// Events that watchers were told they lost
    feed_gaps: counter "unified_exec.feed.gap" "{event}" [];
    /// Bytes of input that children took
    input: counter "unified_exec.input" "By" [];
    /// Processes that were ended to make room
    prunes: counter "unified_exec.prunes" "{process}" [];
    /// Connections that the proxy was asked for
    connections: counter "unified_exec.connections" "{connection}" ["unified_exec.outcome"];
    /// What waits for a session's driver as it begins a turn
    queued: sizes "unified_exec.driver.queue" "{item}" ["unified_exec.queue"];
    /// What a session's driver takes for one turn; a long one holds up the session
    turn: seconds "unified_exec.driver.turn.duration" "s" [];
}

/// A label.
pub(super) fn label(key: &'static str, value: &'static str) -> KeyValue {
    KeyValue::new(key, value)
}
