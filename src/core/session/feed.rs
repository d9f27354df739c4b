//! Events of a session, numbered in one order: what its watchers see.

use crate::core::approval::Approval;
use crate::core::ids::{AttemptNumber, ProcessId, RequestId, TurnId};
use crate::core::process::{Evidence, Exit};
use crate::core::session::effect::StartError;
use crate::core::session::view::AttemptView;
use crate::core::spawn::SpawnError;
use crate::core::time::Instant;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEvent {
    /// Its number; the first is 1, none is left out.
    pub sequence: u64,
    /// When.
    pub at: Instant,
    /// The turn of the call it belongs to: for input the call that wrote, for all else of a process the call that
    /// started it.
    pub turn: Option<TurnId>,
    /// The request of that call.
    pub request: Option<RequestId>,
    /// What.
    pub kind: FeedKind,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedKind {
    /// Somebody is asked.
    ApprovalRequested(Box<Approval>),
    /// A question was closed: answered, expired or withdrawn.
    ApprovalDecided(Box<Approval>),
    /// A start was refused before anything ran.
    StartRefused {
        /// Whose.
        process: ProcessId,
        /// The program and its arguments.
        argv: Vec<String>,
        /// Why.
        error: Box<StartError>,
    },
    /// An attempt runs.
    AttemptStarted {
        /// Whose.
        process: ProcessId,
        /// Which, and under what.
        attempt: Box<AttemptView>,
    },
    /// A sandbox refused the first attempt something, it ended early, and a second one follows.
    AttemptDenied {
        /// Whose.
        process: ProcessId,
        /// Which, with its end and its evidence.
        attempt: Box<AttemptView>,
    },
    /// An attempt could not be started.
    SpawnFailed {
        /// Whose.
        process: ProcessId,
        /// Which.
        attempt: AttemptNumber,
        /// Why.
        error: SpawnError,
    },
    /// The process exists; once, after the first attempt started.
    ProcessStarted {
        /// Which.
        process: ProcessId,
        /// The program and its arguments.
        argv: Vec<String>,
        /// Where it runs.
        cwd: String,
        /// Whether it has a terminal.
        terminal: bool,
        /// Whether it can be written to.
        stdin: bool,
        /// Whether its call's wait is its life.
        one_shot: bool,
    },
    /// There is output in this range.
    Output {
        /// Whose.
        process: ProcessId,
        /// Which attempt's.
        attempt: AttemptNumber,
        /// First byte.
        from: u64,
        /// One past the last byte.
        to: u64,
    },
    /// No more `Output` events of this process will come; its log goes on.
    OutputEventsEnded {
        /// Whose.
        process: ProcessId,
        /// How many came.
        limit: u32,
    },
    /// Input was delivered.
    StdinWritten {
        /// To whom.
        process: ProcessId,
        /// First byte.
        from: u64,
        /// One past the last byte.
        to: u64,
        /// Whether the input has ended.
        eof: bool,
        /// Whether not all that was to be written was: it was stopped, or nobody reads any more.
        incomplete: bool,
    },
    /// The process ended; once.
    ProcessExited {
        /// Which.
        process: ProcessId,
        /// How.
        exit: Exit,
        /// What points to a denial by its sandbox.
        evidence: Option<Evidence>,
    },
    /// Every output has ended.
    OutputsClosed {
        /// Whose.
        process: ProcessId,
        /// Which attempt's.
        attempt: AttemptNumber,
        /// Bytes in all.
        end: u64,
    },
    /// The process is forgotten.
    ProcessRemoved {
        /// Which.
        process: ProcessId,
        /// Whether it was ended to make room for another.
        pruned: bool,
    },
    /// The waits of a turn were ended.
    Interrupted {
        /// Which turn.
        turn: TurnId,
        /// How many waits.
        waits: u32,
        /// How many questions were withdrawn.
        withdrawn: u32,
    },
    /// All processes were ended.
    Cleaned {
        /// How many ended.
        ended: u32,
        /// How many would not.
        survivors: u32,
    },
    /// Policy, profile or defaults changed.
    PolicyChanged {
        /// The revision now in force.
        revision: u64,
        /// What changed, by its names on the wire.
        fields: Vec<&'static str>,
    },
}
