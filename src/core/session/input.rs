//! The whole alphabet that goes into a session: what callers ask, and what happened.

use std::time::Duration;

use bytes::Bytes;

use crate::core::approval::{Permissions, Review, Verdict};
use crate::core::command::{Command, EnvPolicy, TerminalSize};
use crate::core::ids::{
    ApprovalId, AttemptNumber, CallId, ConnectionId, Fingerprint, GrantId, ProcessId, RequestId, TurnId,
    WriteId,
};
use crate::core::limits::Limits;
use crate::core::policy::{Assessment, NetworkRule, Rights};
use crate::core::process::{EndReason, ExitStatus};
use crate::core::signal::{Scope, Signal};
use crate::core::spawn::{Descendant, Enforced, ResourceLimits, ResourceUsage, SpawnError};
use crate::core::time::Instant;

/// What a caller asks.
#[derive(Clone, Debug)]
pub enum Call {
    /// Start a command.
    Exec(Exec),
    /// Write to a process, or poll it.
    Write(Write),
    /// Wait for something about a process.
    Wait(WaitFor),
    /// Send a signal.
    Signal {
        /// To whom.
        process: ProcessId,
        /// Which.
        signal: Signal,
        /// How far it reaches.
        scope: Scope,
    },
    /// Change the size of a terminal.
    Resize {
        /// Whose.
        process: ProcessId,
        /// The new size.
        size: TerminalSize,
    },
    /// End one process and its descendants.
    Terminate {
        /// Which.
        process: ProcessId,
    },
    /// End every wait of a turn.
    Interrupt {
        /// Which turn.
        turn: TurnId,
    },
    /// End every process of the session.
    Clean,
    /// End every process, and the session.
    Close {
        /// `SessionClosed` or `ServerShutdown`.
        reason: EndReason,
    },
    /// Describe a process.
    Get {
        /// Which.
        process: ProcessId,
    },
    /// Describe all processes.
    List {
        /// Also those that have ended and are still remembered.
        include_ended: bool,
    },
    /// Describe the session.
    Describe,
    /// Change the session.
    Update(Update),
    /// Stop or restart the clock of yield deadlines.
    Hold(Hold),
    /// Answer a question.
    Decide(Decide),
    /// List questions, oldest first.
    Approvals {
        /// Also those that are closed and still remembered.
        include_closed: bool,
    },
    /// Describe a question.
    Approval {
        /// Which.
        approval: ApprovalId,
    },
    /// List kept approvals, oldest first.
    Grants,
    /// Take a kept approval back.
    Revoke {
        /// Which.
        grant: GrantId,
    },
    /// A client follows the process until it drops the call; answered when the process is gone, never before.
    Attach {
        /// Whom it follows.
        process: ProcessId,
    },
}

/// Answers a question.
#[derive(Clone, Debug)]
pub struct Decide {
    /// Which.
    pub approval: ApprovalId,
    /// The answer.
    pub verdict: Verdict,
    /// Words to the agent; may be empty.
    pub text: String,
    /// For [`Verdict::ApproveAndAddRule`]: the words of the rule; empty is the one that the question proposes.
    pub rule: Vec<String>,
    /// Who decides.
    pub by: String,
}

/// A request's name and what it asked, for idempotency.
pub type Idempotency = Option<(RequestId, Fingerprint)>;

/// Starts a command.
#[derive(Clone, Debug)]
pub struct Exec {
    /// The turn that asks.
    pub turn: TurnId,
    /// Makes the start idempotent.
    pub request: Idempotency,
    /// What to run.
    pub command: Command,
    /// What it asks for in relation to the session's profile.
    pub permissions: Permissions,
    /// Why, in the agent's words; may be empty.
    pub justification: String,
    /// The words of a rule that the agent proposes; may be empty.
    pub proposed_rule: Vec<String>,
    /// What it may use; the session's limits bound it.
    pub limits: ResourceLimits,
    /// How long its call waits, and what that means for its life.
    pub mode: Mode,
    /// Bounds on its life.
    pub timeouts: Timeouts,
    /// Ends descendants when the process itself ends.
    pub kill_descendants_on_exit: bool,
}

impl Exec {
    /// A start without a name and without wishes: under the session's profile, without bounds of its own.
    pub fn new(turn: TurnId, command: Command, mode: Mode) -> Self {
        Self {
            turn,
            request: None,
            command,
            permissions: Permissions::Default,
            justification: String::new(),
            proposed_rule: Vec::new(),
            limits: ResourceLimits::default(),
            mode,
            timeouts: Timeouts::default(),
            kill_descendants_on_exit: false,
        }
    }
}

/// How a call relates to its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The call waits for a while; the process lives on.
    Interactive {
        /// How long; clamped.
        yield_time: Option<Duration>,
    },
    /// The call follows the process to its end, without a yield deadline; the process does not depend on it.
    Follow,
    /// The call's wait is the process's life.
    OneShot {
        /// How long; capped.
        timeout: Option<Duration>,
    },
}

/// Bounds on the life of a process; absent ones do not bound it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// On its whole life.
    pub hard: Option<Duration>,
    /// On its silence.
    pub no_output: Option<Duration>,
    /// On its life without a client.
    pub after_disconnect: Option<Duration>,
    /// How long its whole retained output outlives it.
    pub retention: Option<Duration>,
}

/// Writes to a process, or polls it.
#[derive(Clone, Debug)]
pub struct Write {
    /// The turn that asks.
    pub turn: TurnId,
    /// Makes the write idempotent.
    pub request: Idempotency,
    /// To whom.
    pub process: ProcessId,
    /// What; nothing at all, without `eof`, is a poll.
    pub input: Bytes,
    /// Where in the process's input it starts; absent is after everything sent so far.
    pub offset: Option<u64>,
    /// Ends the input.
    pub eof: bool,
    /// When it is answered.
    pub answer: WriteAnswer,
}

/// When a write is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAnswer {
    /// After output was collected for this long; clamped.
    Collect {
        /// How long.
        yield_time: Option<Duration>,
    },
    /// As soon as it has been delivered: one frame of a stream.
    Delivered,
}

/// Waits for something about a process.
#[derive(Clone, Debug)]
pub struct WaitFor {
    /// The turn that asks.
    pub turn: TurnId,
    /// About whom.
    pub process: ProcessId,
    /// For what.
    pub condition: Condition,
    /// From where in the output of the latest attempt; absent is its end now.
    pub from: Option<u64>,
    /// For how long; absent is for ever.
    pub timeout: Option<Duration>,
}

/// What a wait is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The process has ended.
    Exit,
    /// The process has ended and so have all its outputs.
    Closed,
    /// Any output past the start of the wait.
    Output,
    /// These bytes.
    Literal(Bytes),
    /// A match of this expression, which the host has checked.
    Regex(String),
    /// No output for this long.
    Quiet(Duration),
}

/// Changes a session. Absent fields stay.
#[derive(Clone, Debug, Default)]
pub struct Update {
    /// The revision the change is based on; another one in force refuses it.
    pub if_revision: Option<u64>,
    /// Working directory, absolute.
    pub cwd: Option<String>,
    /// Shell, by name or path.
    pub shell: Option<String>,
    /// Whether login shells are allowed.
    pub allow_login: Option<bool>,
    /// Where the environment comes from.
    pub env: Option<EnvPolicy>,
    /// Policy and profile.
    pub rights: Option<Rights>,
    /// Whether processes may outlive their calls.
    pub interactive: Option<bool>,
    /// Bounds.
    pub limits: Option<Limits>,
    /// What each process may use.
    pub process_limits: Option<ResourceLimits>,
}

/// A lease that holds yield deadlines.
#[derive(Clone, Debug)]
pub struct Hold {
    /// Which lease; the caller chooses.
    pub lease: String,
    /// For how long from now; zero gives it back.
    pub duration: Duration,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// What the rules say of a command.
    Assessed {
        /// Whose.
        process: ProcessId,
        /// What.
        assessment: Assessment,
    },
    /// What an automatic reviewer says.
    Reviewed {
        /// Of which question.
        approval: ApprovalId,
        /// What.
        review: Review,
    },
    /// A rule was added, or not.
    RuleAdded {
        /// The answer that wanted it.
        call: CallId,
        /// What came of it.
        result: Result<(), String>,
    },
    /// The rules for connections that the server's owner set have changed.
    OwnerNetwork {
        /// What they are now.
        rules: Option<Vec<NetworkRule>>,
    },
    /// A process whose network is proxied wants to connect.
    Connecting {
        /// Whose.
        process: ProcessId,
        /// Which connection, by a number that the host draws.
        connection: ConnectionId,
        /// Where to, as the process named it.
        host: String,
        /// The port.
        port: u16,
    },
    /// A connection that waited for its answer is gone.
    ConnectionGone {
        /// Which.
        connection: ConnectionId,
    },
    /// First and last output of an attempt that has ended.
    Excerpt {
        /// Whose.
        process: ProcessId,
        /// Which.
        attempt: AttemptNumber,
        /// As much of it as was asked for.
        output: Bytes,
    },
    /// An attempt runs.
    Spawned {
        /// Whose.
        process: ProcessId,
        /// Which.
        attempt: AttemptNumber,
        /// Its id in the system, if it has one.
        pid: Option<u32>,
        /// What holds it.
        enforced: Enforced,
        /// When the spawner returned; the window, timeouts and lifetime count from here.
        at: Instant,
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
    /// The log of an attempt has grown.
    Output {
        /// Whose.
        process: ProcessId,
        /// Which.
        attempt: AttemptNumber,
        /// Its new end.
        end: u64,
    },
    /// An attempt has been reaped.
    Exited {
        /// Whose.
        process: ProcessId,
        /// Which.
        attempt: AttemptNumber,
        /// How it ended.
        status: ExitStatus,
        /// What it used.
        usage: Option<ResourceUsage>,
        /// Whether the kernel killed it for lack of memory, as far as the kernel tells.
        out_of_memory: bool,
        /// When the reaper saw it; this time counts, not when the event arrives.
        at: Instant,
    },
    /// Every output of an attempt has ended.
    Closed {
        /// Whose.
        process: ProcessId,
        /// Which.
        attempt: AttemptNumber,
        /// Its final end.
        end: u64,
    },
    /// An attempt and all its descendants are gone.
    TreeGone {
        /// Whose.
        process: ProcessId,
        /// Which.
        attempt: AttemptNumber,
    },
    /// What a survey found.
    Surveyed {
        /// Whose.
        process: ProcessId,
        /// Who is still alive.
        alive: Vec<Descendant>,
    },
    /// A write ended, whole or not.
    Wrote {
        /// Whose.
        process: ProcessId,
        /// Which.
        write: WriteId,
        /// How many of its bytes were taken.
        taken: u64,
        /// How it ended.
        outcome: WriteOutcome,
    },
    /// A signal or a resize was carried out.
    Controlled {
        /// The call that asked.
        call: CallId,
        /// What the system said.
        result: Result<(), ControlFailure>,
    },
    /// What a watch was for has come, or cannot come any more.
    Watched {
        /// The wait.
        wait: CallId,
        /// What was found.
        outcome: WatchOutcome,
    },
    /// A call's stream carried output beyond what the session knew of when it answered.
    Read {
        /// Whose.
        process: ProcessId,
        /// Which attempt's.
        attempt: AttemptNumber,
        /// One past the last byte.
        to: u64,
    },
    /// The client of a call went away.
    CallDropped {
        /// Which.
        call: CallId,
    },
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// All of it was taken.
    Whole,
    /// It was stopped on request.
    Stopped,
    /// Nobody reads any more.
    Broken,
}

/// Why a signal or a resize failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlFailure {
    /// Nothing of the process is left.
    #[error("the process is gone")]
    Gone,
    /// It has no terminal.
    #[error("the process has no terminal; start it with `tty`")]
    NoTerminal,
    /// The system refused.
    #[error("the system refused: {reason}")]
    Refused {
        /// The system's words.
        reason: String,
    },
}

/// What a watch found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchOutcome {
    /// It, in these bytes.
    Found {
        /// First byte.
        from: u64,
        /// One past the last byte.
        to: u64,
    },
    /// Output that was to be searched is lost; nothing before it matched.
    Lost {
        /// First lost byte.
        from: u64,
        /// One past the last lost byte.
        to: u64,
    },
    /// The output ended without it.
    Ended {
        /// Where.
        at: u64,
    },
}
