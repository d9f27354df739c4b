//! Instants: those at which something is decided, their neighbours, and any.

use super::random::{Random, Stream};

/// The window, the drains after an exit, and the grace of the kill ladder, each with its neighbours.
const CRITICAL: [u64; 16] = [0, 0, 1, 19, 20, 21, 50, 100, 149, 150, 151, 250, 999, 1_000, 1_001, 3_000];

#[derive(Debug)]
pub(crate) struct Times {
    random: Random,
}

impl Times {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed, Stream::Times) }
    }

    /// A delay, most often one at which something is decided.
    pub(crate) fn delay(&mut self) -> u64 {
        match self.random.below(4) {
            0 => self.random.between(0, 600),
            1 => self.random.between(0, 20),
            _ => self.random.one_of(CRITICAL),
        }
    }

    /// A delay that is most often around `deadline`.
    pub(crate) fn around(&mut self, deadline: u64) -> u64 {
        match self.random.below(3) {
            0 => self.delay(),
            _ => (deadline + self.random.below(3)).saturating_sub(1),
        }
    }

    /// When a program ends, most often around the end of the early window.
    pub(crate) fn end(&mut self, window: u64) -> u64 {
        match self.random.below(5) {
            0 => self.random.between(0, 2_000),
            1 => self.random.between(0, window),
            2 => self.random.one_of([0, 1, 80]),
            _ => (window + self.random.below(3)).saturating_sub(1),
        }
    }

    /// How long a call asks to wait.
    pub(crate) fn yields(&mut self) -> Option<u64> {
        self.random.one_of([None, Some(0), Some(250), Some(251), Some(300), Some(1_000), Some(40_000)])
    }

    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        self.random.between(low, high)
    }
}
