//! `[limits]`: the bounds of a session that an operator may move. The others are rules.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bounded::Bounded;
use crate::core::{limits, process};

/// An hour more than a day would still be a mistake: longer work belongs into `ExecCommand`.
const ONE_SHOT_MAX_MS: u64 = 86_400_000;

/// A month: what waits longer for an answer is better asked again.
const APPROVAL_EXPIRY_MAX_MS: u64 = 30 * 86_400_000;

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
    /// After this long an open approval question expires; 0 is never.
    pub approval_expiry_ms: Bounded<0, APPROVAL_EXPIRY_MAX_MS>,
    /// The least confidence of evidence that may lead to a second attempt.
    pub min_confidence: Confidence,
    /// An exit within this time of the start is early.
    pub early_exit_window_ms: Bounded<0, 10_000>,
}

/// How sure it is that a failure came from the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// The output has an errno word.
    Likely,
    /// The word is about something that the profile forbids.
    Checked,
    /// The kernel says so.
    Certain,
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
            approval_expiry_ms: milliseconds(core.approval_expiry.unwrap_or_default()),
            min_confidence: match core.min_confidence {
                process::Confidence::Likely => Confidence::Likely,
                process::Confidence::Checked => Confidence::Checked,
                process::Confidence::Certain => Confidence::Certain,
            },
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
            approval_expiry: match self.approval_expiry_ms.get() {
                0 => None,
                expiry => Some(Duration::from_millis(expiry)),
            },
            min_confidence: match self.min_confidence {
                Confidence::Likely => process::Confidence::Likely,
                Confidence::Checked => process::Confidence::Checked,
                Confidence::Certain => process::Confidence::Certain,
            },
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
