//! `[server]`: how the service itself runs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bounded::Bounded;

/// Two keep the service at eight threads with room to spare, and it is the children that do the work.
const WORKER_THREADS: u64 = 2;
/// Long enough for the kill ladder of every session (a second's grace, two for reaping) and a slow disk.
const DRAIN_MS: u64 = 10_000;

/// How the service runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Threads that serve.
    pub worker_threads: Bounded<1, 256>,
    /// Longest time that a graceful end may take, milliseconds.
    pub drain_ms: Bounded<0, 600_000>,
}

impl Default for Server {
    fn default() -> Self {
        Self { worker_threads: Bounded::clamped(WORKER_THREADS), drain_ms: Bounded::clamped(DRAIN_MS) }
    }
}

impl Server {
    /// Longest time that a graceful end may take.
    pub fn drain(&self) -> Duration {
        Duration::from_millis(self.drain_ms.get())
    }
}
