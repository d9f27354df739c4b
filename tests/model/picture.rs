//! What can be seen of a session from outside, in words that the model and the service share. Processes, questions and
//! calls go by the order in which they came.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

/// A session at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) revision: u64,
    pub(crate) live: usize,
    pub(crate) processes: BTreeMap<usize, Process>,
    /// Those that are open, oldest first.
    pub(crate) questions: Vec<Question>,
    /// Every call so far; absent while it waits.
    pub(crate) calls: Vec<Option<Reply>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) stage: Stage,
    /// Of each attempt: what holds it, the end of its output, and whether its outputs have ended.
    pub(crate) attempts: Vec<(Held, u64, bool)>,
    pub(crate) exit: Option<Exit>,
    pub(crate) cursor: u64,
    pub(crate) committed: u64,
    pub(crate) stdin_open: bool,
    pub(crate) has_descendants: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Asking,
    Starting,
    Running,
    Stopping,
    Draining,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Free,
    Bypassed,
    External,
    Sandboxed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) status: Status,
    pub(crate) why: Why,
    /// From its spawn.
    pub(crate) lifetime: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Code(i32),
    Signal(i32),
}

/// Why a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Itself,
    Timeout,
    Cleaned,
    Terminated,
    Interrupted,
    Disconnected,
    Pruned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) process: usize,
    pub(crate) about: About,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    Start,
    Retry,
    Input,
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Result(Collected),
    Refused(Refusal),
    Condition(ConditionEnd),
    /// Those that are gone.
    Gone(Vec<usize>),
    Interrupted {
        waits: u32,
        withdrawn: u32,
        alive: Vec<usize>,
        one_shots: Vec<usize>,
    },
    Done,
    /// Until when.
    Held(Option<u64>),
    /// Its client is not there any more.
    HungUp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Collected {
    pub(crate) end: End,
    pub(crate) exit: Option<Exit>,
    pub(crate) denied: bool,
    pub(crate) attempt: usize,
    pub(crate) from: u64,
    pub(crate) next: u64,
    pub(crate) stdin: Option<(u64, u64)>,
    pub(crate) output: Output,
    /// The process, if it is said to be alive.
    pub(crate) alive: bool,
}

/// Output, shown short.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Output(pub(crate) Bytes);

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = &self.0[..self.0.len().min(24)];
        write!(f, "{} bytes {:?}", self.0.len(), String::from_utf8_lossy(start))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Exited,
    Yielded,
    Interrupted,
    OneShotInterrupted,
    Delivered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConditionEnd {
    Met,
    Ended,
    TimedOut,
    Interrupted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Unknown,
    Gone,
    Starting,
    Forbidden,
    Declined,
    Aborted,
    Expired,
    Stale,
    Cancelled,
    TableFull,
    SpawnFailed,
    NotStarted,
    NoStdin,
    StdinEnded,
    NewTerminal,
    TooLarge,
    Nul,
    NotOpen,
    NotAllowed,
    NoRule,
    RevisionChanged,
    CwdHeld,
}
