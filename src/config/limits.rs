//! `[limits]`: the bounds of a session that an operator may move. The others are rules.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bounded::Bounded;
use crate::core::limits;

/// An hour more than a day would still be a mistake: longer work belongs into `ExecCommand`.
const ONE_SHOT_MAX_MS: u64 = 86_400_000;

/// Bounds; times in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Live processes of a session.
    pub processes_per_session: Bounded<1, 4096>,
    /// What happens when a session has that many.
    pub when_full: WhenFull,
    /// Largest wait of a poll.
    pub poll_max_ms: Bounded<5_000, 300_000>,
    /// Longest life of a command that is run to completion.
    pub one_shot_timeout_max_ms: Bounded<1, ONE_SHOT_MAX_MS>,
    /// Most tokens of text for a model.
    pub output_tokens: Bounded<0, 1_000_000>,
    /// An exit within this time of the start is early.
    pub early_exit_window_ms: Bounded<0, 10_000>,
}

/// What a full session does when one more process is to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// Makes room.
    Evict,
    /// Refuses.
    Reject,
}

impl Default for Limits {
    fn default() -> Self {
        let core = limits::Limits::default();
        Self {
            processes_per_session: Bounded::clamped(core.processes_max as u64),
            when_full: match core.when_full {
                limits::WhenFull::Evict => WhenFull::Evict,
                limits::WhenFull::Reject => WhenFull::Reject,
            },
            poll_max_ms: milliseconds(core.poll_yield_max),
            one_shot_timeout_max_ms: milliseconds(core.one_shot_timeout_max),
            output_tokens: Bounded::clamped(u64::from(core.output_tokens_max)),
            early_exit_window_ms: milliseconds(core.early_window),
        }
    }
}

fn milliseconds<const MIN: u64, const MAX: u64>(duration: Duration) -> Bounded<MIN, MAX> {
    Bounded::clamped(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

impl Limits {
    /// In the core's words.
    pub fn limits(&self) -> limits::Limits {
        limits::Limits {
            poll_yield_max: Duration::from_millis(self.poll_max_ms.get()),
            one_shot_timeout_max: Duration::from_millis(self.one_shot_timeout_max_ms.get()),
            processes_max: self.processes_per_session.as_usize(),
            when_full: match self.when_full {
                WhenFull::Evict => limits::WhenFull::Evict,
                WhenFull::Reject => limits::WhenFull::Reject,
            },
            output_tokens_max: u32::try_from(self.output_tokens.get()).unwrap_or(u32::MAX),
            early_window: Duration::from_millis(self.early_exit_window_ms.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_cores() {
        assert_eq!(Limits::default().limits(), limits::Limits::default());
    }
}
