//! Every bound of the service, with its reason. Values marked *fixed* are rules, the rest are defaults of [`Limits`].

use std::time::Duration;

use crate::core::process::Confidence;

/// Wait of a start when the caller names none.
pub const EXEC_YIELD_DEFAULT: Duration = Duration::from_secs(10);
/// Wait of a write when the caller names none: long enough for a prompt's answer.
pub const WRITE_YIELD_DEFAULT: Duration = Duration::from_millis(250);
/// Shortest wait of a start or a write; above the early window, so that a yield never falls inside it.
pub const YIELD_MIN: Duration = Duration::from_millis(250);
/// Longest wait of a start or a write.
pub const YIELD_MAX: Duration = Duration::from_secs(30);
/// Shortest wait of a poll: a model that polls faster burns tokens for nothing.
pub const POLL_YIELD_MIN: Duration = Duration::from_secs(5);
/// Longest wait of a poll, unless the setting says otherwise.
pub const POLL_YIELD_MAX_DEFAULT: Duration = Duration::from_secs(300);
/// An exit this soon after the spawner returned is early; the bound itself counts as early (fixed tie).
pub const EARLY_WINDOW: Duration = Duration::from_millis(150);
/// How long trailing output may take before a denial is judged.
pub const DENIAL_DRAIN: Duration = Duration::from_millis(20);
/// Pause after input to a terminal before output is collected: the program needs a moment to react.
pub const TERMINAL_REACTION: Duration = Duration::from_millis(100);
/// How long an answer about an ended process waits for its outputs to close.
pub const EXIT_COLLECT: Duration = Duration::from_millis(50);
/// How long the feed holds back `process_exited` for trailing output.
pub const EXIT_FEED: Duration = Duration::from_millis(100);
/// `output` events of one process in the feed; then one event says so and the log goes on.
pub const FEED_OUTPUT_EVENTS_MAX: u32 = 10_000;
/// Events kept by the feed for a late or returning watcher.
pub const FEED_EVENTS_MAX: usize = 65_536;
/// First bytes of an attempt that memory keeps.
pub const LOG_HEAD_BYTES: usize = 512 * 1024;
/// Last bytes of an attempt that memory keeps.
pub const LOG_TAIL_BYTES: usize = 512 * 1024;
/// Pieces the log may consist of: two streams that alternate byte by byte must not cost more than the bytes they hold.
pub const LOG_CHUNKS_MAX: usize = 65_536;
/// Largest frame of a raw stream; well below the 4 MiB that every gRPC client accepts.
pub const FRAME_BYTES_MAX: usize = 64 * 1024;
/// Tokens of text for a model.
pub const OUTPUT_TOKENS_DEFAULT: u32 = 10_000;
/// Bytes that count as one token; an estimate that needs no vocabulary.
pub const BYTES_PER_TOKEN: u64 = 4;
/// Live processes of a session.
pub const PROCESSES_MAX_DEFAULT: usize = 64;
/// The most recently used processes, which pruning never touches.
pub const PROTECTED_PROCESSES: usize = 8;
/// Lifetime of a one-shot command unless the caller names one.
pub const ONE_SHOT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// Longest lifetime of a one-shot command, unless the setting says otherwise.
pub const ONE_SHOT_TIMEOUT_MAX_DEFAULT: Duration = Duration::from_secs(3_600);
/// Exit code reported for a one-shot that ran out of time, as timeout(1) does.
pub const TIMEOUT_EXIT_CODE: i32 = 124;
/// Between TERM and KILL.
pub const KILL_GRACE: Duration = Duration::from_secs(1);
/// How long after KILL survivors are waited for, before they are reported.
pub const REAP_MAX: Duration = Duration::from_secs(2);
/// How long an ended process is remembered.
pub const TOMBSTONE_AGE: Duration = Duration::from_secs(600);
/// Ended processes a session remembers.
pub const TOMBSTONES_MAX: usize = 64;
/// Output a tombstone keeps.
pub const TOMBSTONE_BYTES: usize = 64 * 1024;
/// How long the whole retained output outlives its process, so that a client that comes back loses nothing.
pub const RETENTION_DEFAULT: Duration = Duration::from_secs(60);
/// Leases on deadlines that a session may have at once; each is one question of a host to its person.
pub const HOLDS_MAX: usize = 64;
/// Longest lease on deadlines; a host that needs more renews it.
pub const HOLD_MAX: Duration = Duration::from_secs(600);
/// Input queued for one process; a caller beyond it is told to slow down.
pub const INPUT_QUEUE_MAX: usize = 256;
/// Requests whose answers are remembered with a process, the latest ones: a terminal that lives for days and is written
/// to under request ids all the time must not grow without end.
pub const REQUESTS_PER_PROCESS_MAX: usize = 4_096;
/// One piece of input.
pub const INPUT_BYTES_MAX: usize = 2 * 1024 * 1024;

/// After this long an open question expires: a person who was asked has gone away.
pub const APPROVAL_EXPIRY_DEFAULT: Duration = Duration::from_secs(600);
/// Questions of a session that may be open at once; an agent beyond it is told to wait for answers.
pub const QUESTIONS_OPEN_MAX: usize = 64;
/// Closed questions of a session that are remembered, the latest ones.
pub const QUESTIONS_CLOSED_MAX: usize = 256;
/// Approvals that a session keeps; beyond it an answer "for the session" counts once.
pub const GRANTS_MAX: usize = 1_024;
/// Serialized bytes of input under review, with its reason: nobody reviews more, and nobody executes an unreviewed tail
/// (fixed).
pub const INPUT_REVIEW_BYTES_MAX: usize = 8_000;
/// First and last output of an ended attempt that evidence of a denial is looked for in, each this many bytes.
pub const EVIDENCE_BYTES_MAX: usize = 32 * 1024;
/// Connections of one process that may wait for an answer.
pub const CONNECTIONS_HELD_MAX: usize = 256;

/// Port of the loopback of a child with a proxied network at which the service's proxy listens; each such child has a
/// loopback of its own, so it is always free.
pub const PROXY_PORT: u16 = 3128;

/// The bounds that an operator or a session may set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Upper end of a poll; never below [`POLL_YIELD_MIN`].
    pub poll_yield_max: Duration,
    /// Longest lifetime of a one-shot.
    pub one_shot_timeout_max: Duration,
    /// Live processes.
    pub processes_max: usize,
    /// Whether a full table evicts its least recently used process or refuses the start.
    pub when_full: WhenFull,
    /// Ceiling of tokens of text for a model.
    pub output_tokens_max: u32,
    /// After how long an open question expires; `None` is never.
    pub approval_expiry: Option<Duration>,
    /// The least confidence of evidence that leads to the gates of a second attempt.
    pub min_confidence: Confidence,
    /// Early window; 150 ms in production, set by scenarios on real sandboxes only.
    pub early_window: Duration,
}

/// What a full process table does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Ends the least recently used process that is neither protected nor busy.
    Evict,
    /// Refuses the start.
    Reject,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            poll_yield_max: POLL_YIELD_MAX_DEFAULT,
            one_shot_timeout_max: ONE_SHOT_TIMEOUT_MAX_DEFAULT,
            processes_max: PROCESSES_MAX_DEFAULT,
            when_full: WhenFull::Evict,
            output_tokens_max: OUTPUT_TOKENS_DEFAULT,
            approval_expiry: Some(APPROVAL_EXPIRY_DEFAULT),
            min_confidence: Confidence::Likely,
            early_window: EARLY_WINDOW,
        }
    }
}

impl Limits {
    /// Wait of a start.
    pub fn exec_yield(&self, asked: Option<Duration>) -> Duration {
        asked.unwrap_or(EXEC_YIELD_DEFAULT).clamp(YIELD_MIN, YIELD_MAX)
    }

    /// Wait of a write that carries input.
    pub fn write_yield(&self, asked: Option<Duration>) -> Duration {
        asked.unwrap_or(WRITE_YIELD_DEFAULT).clamp(YIELD_MIN, YIELD_MAX)
    }

    /// Wait of a poll.
    pub fn poll_yield(&self, asked: Option<Duration>) -> Duration {
        asked.unwrap_or(POLL_YIELD_MIN).clamp(POLL_YIELD_MIN, self.poll_yield_max.max(POLL_YIELD_MIN))
    }

    /// Lifetime of a one-shot.
    pub fn one_shot_timeout(&self, asked: Option<Duration>) -> Duration {
        asked.unwrap_or(ONE_SHOT_TIMEOUT_DEFAULT).min(self.one_shot_timeout_max)
    }

    /// Tokens of text: the smaller of what the caller and the session allow.
    pub fn output_tokens(&self, asked: Option<u32>) -> u32 {
        asked.unwrap_or(OUTPUT_TOKENS_DEFAULT).min(self.output_tokens_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yields_are_clamped_to_their_ranges() {
        let limits = Limits::default();
        let ms = Duration::from_millis;
        assert_eq!(limits.exec_yield(None), ms(10_000));
        assert_eq!(limits.exec_yield(Some(ms(1))), ms(250));
        assert_eq!(limits.exec_yield(Some(ms(99_000))), ms(30_000));
        assert_eq!(limits.write_yield(None), ms(250));
        assert_eq!(limits.poll_yield(Some(ms(10))), ms(5_000));
        assert_eq!(limits.poll_yield(Some(ms(900_000))), ms(300_000));
        let low = Limits { poll_yield_max: ms(1), ..Limits::default() };
        assert_eq!(low.poll_yield(Some(ms(900_000))), ms(5_000), "the upper end is never below 5 s");
    }
}
