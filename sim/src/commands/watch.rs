//! Real time.

use std::time::{Duration, Instant};

/// Real time, which says how fast the simulator is and nothing of what it plays.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "speed and budgets are real time")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }
}

/// A length of time: 500ms, 40s, 10m, 2h.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    match number.parse::<u64>().ok().and_then(|number| number.checked_mul(millis)) {
        Some(length) if millis > 0 => Ok(Duration::from_millis(length)),
        _ => Err(format!("{text:?} is no length of time, such as 500ms, 40s, 10m or 2h")),
    }
}
