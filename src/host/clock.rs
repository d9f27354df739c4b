//! The one place that reads clocks: tokio's for everything that is decided, the wall's for what people read.

use std::time::SystemTime;

use crate::core::time::Instant;

/// Tells the time on one scale for a whole host. Copies tell the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: tokio::time::Instant,
    epoch_on_the_wall: SystemTime,
}

impl Clock {
    /// A clock whose epoch is now.
    #[expect(clippy::disallowed_methods, reason = "the licence to read the wall clock, once")]
    pub fn start() -> Self {
        Self { epoch: tokio::time::Instant::now(), epoch_on_the_wall: SystemTime::now() }
    }

    /// Time since the epoch. Follows tokio's paused clock where a test has paused it.
    pub fn now(&self) -> Instant {
        let since = tokio::time::Instant::now().duration_since(self.epoch);
        Instant::ZERO + since
    }

    /// The same point for `tokio::time::sleep_until`.
    pub fn to_tokio(&self, at: Instant) -> tokio::time::Instant {
        let since = at.since(Instant::ZERO);
        // A point that tokio cannot represent is never reached within the life of a process.
        self.epoch
            .checked_add(since)
            .unwrap_or_else(|| self.epoch + std::time::Duration::from_secs(86_400 * 365 * 30))
    }

    /// The same point as people read it. Steps of the wall clock after the start are not followed.
    pub fn to_wall(&self, at: Instant) -> SystemTime {
        self.epoch_on_the_wall.checked_add(at.since(Instant::ZERO)).unwrap_or(self.epoch_on_the_wall)
    }
}
