//! A bound on how often one place in the code may log: what happens ten thousand times a second says nothing more by being
//! said each time, and hides everything else.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::{Context, Filter};

use crate::config::Format;

/// Lines of one place in each [`PERIOD`].
pub(super) const LINES_MAX: u32 = 500;
const PERIOD: Duration = Duration::from_secs(10);

/// A place in the code, by its file and line.
type Place = (&'static str, u32);

/// Lets through so many lines of each place and says, with the next one, how many it left out.
#[derive(Debug)]
pub(super) struct Limit<W> {
    writer: W,
    format: Format,
    places: Mutex<BTreeMap<Place, Said>>,
}

#[derive(Debug)]
struct Said {
    since: Instant,
    lines: u32,
}

impl<W> Limit<W> {
    /// `writer` is where lines go, in this format.
    pub(super) const fn new(writer: W, format: Format) -> Self {
        Self { writer, format, places: Mutex::new(BTreeMap::new()) }
    }

    /// Whether a line of `place` may be said at `now`, and how many were left out before it.
    fn admit(&self, place: Place, now: Instant) -> (bool, u32) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let said = places.entry(place).or_insert(Said { since: now, lines: 0 });
        if now.duration_since(said.since) >= PERIOD {
            let left_out = said.lines.saturating_sub(LINES_MAX);
            *said = Said { since: now, lines: 1 };
            return (true, left_out);
        }
        said.lines = said.lines.saturating_add(1);
        (said.lines <= LINES_MAX, 0)
    }
}

impl<W: for<'w> MakeWriter<'w>> Limit<W> {
    fn say(&self, left_out: u32, of: &Metadata<'_>) {
        let mut time = String::new();
        // Writing to a string does not fail.
        let _ = SystemTime.format_time(&mut Writer::new(&mut time));
        let target = of.target();
        let mut line = String::new();
        let _ = match self.format {
            Format::Text => writeln!(
                line,
                "{time}  WARN {target}: lines like the next one were left out left_out={left_out}"
            ),
            Format::Json => writeln!(
                line,
                "{}",
                json!({
                    "timestamp": time, "level": "WARN", "target": target,
                    "message": "lines like the next one were left out", "left_out": left_out,
                })
            ),
        };
        // A log that cannot be written holds up nobody.
        self.writer.make_writer().write_all(line.as_bytes()).ok();
    }
}

impl<S: Subscriber, W: for<'w> MakeWriter<'w> + Send + Sync + 'static> Filter<S> for Limit<W> {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "logs are bounded in real time, also where a test has paused the other"
    )]
    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let of = event.metadata();
        let (admitted, left_out) =
            self.admit((of.file().unwrap_or_else(|| of.target()), of.line().unwrap_or(0)), Instant::now());
        if left_out > 0 {
            self.say(left_out, of);
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a moment to count from")]
    fn each_place_has_its_own_bound_and_what_was_left_out_is_counted() {
        let limit = Limit::new(std::io::sink, Format::Text);
        let (start, noisy, other) = (Instant::now(), ("a.rs", 1), ("a.rs", 2));
        let admitted = (0..LINES_MAX + 30).filter(|_| limit.admit(noisy, start).0).count();
        assert_eq!(admitted, LINES_MAX as usize);
        assert_eq!(limit.admit(other, start), (true, 0));
        assert_eq!(limit.admit(noisy, start + PERIOD - Duration::from_millis(1)), (false, 0));
        assert_eq!(limit.admit(noisy, start + PERIOD), (true, 31));
        assert_eq!(limit.admit(noisy, start + PERIOD), (true, 0));
    }
}
