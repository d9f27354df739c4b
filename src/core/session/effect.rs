//! The whole alphabet that comes out of a session: what the host must do, answers, and refusals.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::core::approval::{self, Approval, Grant, Question, Verdict};
use crate::core::command::{InvalidCommand, TerminalSize};
use crate::core::ids::{
    ApprovalId, AttemptNumber, CallId, ConnectionId, ProcessId, RequestId, TurnId, WriteId,
};
use crate::core::orchestrate::{Forbidden, NewTerminal};
use crate::core::policy::{Egress, ReviewerMissing};
use crate::core::process::{Evidence, Exit};
use crate::core::session::feed::FeedEvent;
use crate::core::session::input::{Condition, ControlFailure};
use crate::core::session::view::{AttemptView, ProcessView, SessionView};
use crate::core::signal::{Scope, Signal};
use crate::core::spawn::{Descendant, SpawnError, SpawnPlan};
use crate::core::time::Instant;

/// What the host must do, in this order.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Look up what the rules say of a command; tell `Assessed`.
    Assess {
        /// Whose.
        process: ProcessId,
        /// Program and arguments.
        argv: Vec<String>,
        /// Where it is to run, absolute.
        cwd: String,
    },
    /// Show a question to the reviewer; tell `Reviewed`. People see it in the feed.
    Ask {
        /// Which.
        question: Arc<Question>,
    },
    /// A question is closed: stop reviewing it.
    Unask {
        /// Which.
        approval: ApprovalId,
    },
    /// Add a rule that allows commands which begin with these words; tell `RuleAdded`.
    AllowRule {
        /// The answer that wants it.
        call: CallId,
        /// The words.
        words: Vec<String>,
    },
    /// Answer a connection that waits.
    Connect {
        /// Which.
        connection: ConnectionId,
        /// By which rules its addresses are judged, or why it is refused.
        answer: Result<Arc<Egress>, ConnectionRefused>,
    },
    /// Read first and last output of an attempt, at most [`EVIDENCE_BYTES_MAX`](crate::core::limits::EVIDENCE_BYTES_MAX)
    /// of each; tell `Excerpt`.
    Excerpt {
        /// Whose.
        process: ProcessId,
        /// Which.
        attempt: AttemptNumber,
    },
    /// Open a log for the attempt, then start it; tell `Spawned` or `SpawnFailed`.
    Spawn {
        /// Whose.
        process: ProcessId,
        /// Which.
        attempt: AttemptNumber,
        /// What.
        plan: SpawnPlan,
    },
    /// Write input; tell `Wrote`. At most one write of a process is under way.
    Write {
        /// To whom.
        process: ProcessId,
        /// Which delivery.
        write: WriteId,
        /// What.
        data: Bytes,
        /// Whether the input ends after it.
        eof: bool,
    },
    /// Stop the write that is under way; its `Wrote` still comes.
    StopWrite {
        /// Whose.
        process: ProcessId,
        /// Which delivery.
        write: WriteId,
    },
    /// Send a signal; tell `Controlled` if a call asked.
    Signal {
        /// To whom.
        process: ProcessId,
        /// Which.
        signal: Signal,
        /// How far it reaches.
        scope: Scope,
        /// Who asked; `None` is the kill ladder or an interrupt.
        call: Option<CallId>,
    },
    /// Kill the process and all its descendants.
    KillTree {
        /// Whose.
        process: ProcessId,
    },
    /// List who of the process and its descendants is alive; tell `Surveyed`.
    Survey {
        /// Whose.
        process: ProcessId,
    },
    /// Change the size of the terminal; tell `Controlled`.
    Resize {
        /// Whose.
        process: ProcessId,
        /// The new size.
        size: TerminalSize,
        /// Who asked.
        call: CallId,
    },
    /// Look for something in the output of an attempt; tell `Watched`.
    Watch {
        /// The wait it is for.
        wait: CallId,
        /// Whose output.
        process: ProcessId,
        /// Which attempt.
        attempt: AttemptNumber,
        /// From which byte.
        from: u64,
        /// What.
        condition: Condition,
    },
    /// Stop looking.
    Unwatch {
        /// The wait it was for.
        wait: CallId,
    },
    /// Keep only the tail that a tombstone keeps.
    Trim {
        /// Whose output.
        process: ProcessId,
    },
    /// Drop everything about a process that ended long ago.
    Forget {
        /// Whose.
        process: ProcessId,
    },
    /// Tell a call how far it is.
    Progress {
        /// Which.
        call: CallId,
        /// How far.
        progress: Progress,
    },
    /// Answer a call. Each call gets exactly one answer, unless it was dropped before.
    Reply {
        /// Which.
        call: CallId,
        /// The answer.
        answer: Answer,
    },
    /// Append to the event feed.
    Publish(FeedEvent),
}

/// Why a connection was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionRefused {
    /// A rule denies it.
    #[error("a rule denies connections to {host}:{port}")]
    Denied {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// No rule allows it, and nobody may be asked.
    #[error(
        "no rule allows connections to {host}:{port}, and the session's approval policy lets nobody be asked"
    )]
    NobodyAsked {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// Somebody was asked, and did not approve.
    #[error("connections to {host}:{port} were not approved")]
    NotApproved {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// Too many wait already.
    #[error("{limit} connections of the process wait for an answer already")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The process or its session is gone.
    #[error("the process is gone")]
    Gone,
}

/// How far a call is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The output of this attempt belongs to the call, from this byte on. Comes before the attempt can say anything.
    Collecting {
        /// Whose.
        process: ProcessId,
        /// Which attempt.
        attempt: AttemptNumber,
        /// The first byte.
        from: u64,
    },
    /// Somebody is asked, and the call waits.
    Asking {
        /// What.
        question: Arc<Question>,
    },
    /// The first attempt was denied, and a second one follows.
    AttemptDenied {
        /// Whose.
        process: ProcessId,
        /// Which, with its end and its evidence.
        attempt: AttemptView,
    },
    /// The attempt runs.
    AttemptStarted {
        /// Whose.
        process: ProcessId,
        /// Which.
        attempt: AttemptView,
    },
    /// The process exists.
    Started {
        /// Which.
        process: ProcessId,
        /// The program and its arguments.
        argv: Vec<String>,
        /// Where it runs.
        cwd: String,
    },
    /// The process that a client follows has ended; told once.
    Exited {
        /// Which.
        process: ProcessId,
        /// How.
        exit: Exit,
    },
}

/// The answer to a call: one kind for each kind of call.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Of `Exec`.
    Exec(Result<CallResult, StartError>),
    /// Of `Write`.
    Write(Result<CallResult, WriteError>),
    /// Of `Wait`.
    Wait(Result<WaitResult, TargetError>),
    /// Of `Signal` and `Resize`.
    Control(Result<(), ControlError>),
    /// Of `Terminate`.
    Terminate(Result<EndReport, TargetError>),
    /// Of `Interrupt`.
    Interrupted(InterruptReport),
    /// Of `Clean` and `Close`.
    Ended(EndReport),
    /// Of `Get`.
    Process(Result<Box<ProcessView>, TargetError>),
    /// Of `List`, ordered by id.
    Processes(Vec<ProcessView>),
    /// Of `Describe`.
    Session(Box<SessionView>),
    /// Of `Update`.
    Updated(Result<Box<SessionView>, UpdateError>),
    /// Of `Hold`: when the lease ends, or `None` if it was given back.
    Held(Result<Option<Instant>, HoldError>),
    /// Of `Decide`.
    Decided(Result<Box<Approval>, DecideError>),
    /// Of `Approvals`.
    Approvals(Vec<Approval>),
    /// Of `Approval`.
    Approval(Result<Box<Approval>, DecideError>),
    /// Of `Grants`.
    Grants(Vec<Grant>),
    /// Of `Revoke`: what was taken back, or `None` if there is no such grant.
    Revoked(Option<Box<Grant>>),
    /// Of `Attach`, when there is nobody to follow, or the process is forgotten.
    Attached(Result<(), TargetError>),
}

/// What a start or a write came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallResult {
    /// Which process.
    pub process: ProcessId,
    /// Why the wait ended.
    pub end: WaitEnd,
    /// How the process ended, if it has.
    pub exit: Option<Exit>,
    /// Every attempt so far.
    pub attempts: Vec<AttemptView>,
    /// Evidence that a sandbox refused something.
    pub evidence: Option<Evidence>,
    /// From the call's start to its answer.
    pub wall_time: Duration,
    /// How much of that the yield deadline stood still.
    pub paused: Duration,
    /// The attempt that the output range is of.
    pub attempt: AttemptNumber,
    /// First byte of the output that belongs to this answer.
    pub from: u64,
    /// One past its last byte: where the next answer starts.
    pub next: u64,
    /// Whether all outputs had ended.
    pub outputs_closed: bool,
    /// Input that this call delivered: first byte, and one past the last.
    pub stdin: Option<(u64, u64)>,
    /// A name for this answer: six hex digits.
    pub chunk_id: String,
    /// The session's ceiling of tokens of text for a model.
    pub output_tokens_max: u32,
}

impl CallResult {
    /// The process id, if the process is alive: a result about an ended one never carries it.
    pub fn live_process(&self) -> Option<ProcessId> {
        (self.exit.is_none() && self.end != WaitEnd::OneShotInterrupted).then_some(self.process)
    }
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// The process ended.
    Exited,
    /// The time to wait was over.
    Yielded,
    /// The turn was interrupted; the process lives.
    Interrupted,
    /// The turn was interrupted; the process was a one-shot and is being ended.
    OneShotInterrupted,
    /// The input was delivered, and nothing else was waited for.
    Delivered,
}

/// What a `Wait` came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitResult {
    /// Why it ended.
    pub end: ConditionEnd,
    /// How the process ended, if it has.
    pub exit: Option<Exit>,
    /// The attempt that was watched; of an end, the last one.
    pub attempt: AttemptNumber,
    /// End of its output.
    pub output_end: u64,
}

/// Why a `Wait` ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionEnd {
    /// What was waited for came; for output, in these bytes.
    Met(Option<(u64, u64)>),
    /// It cannot come any more: the process or its output ended.
    Ended,
    /// Output that was to be searched is lost; nothing before it matched.
    Lost {
        /// First lost byte.
        from: u64,
        /// One past the last lost byte.
        to: u64,
    },
    /// It did not come in time.
    TimedOut,
    /// The turn was interrupted.
    Interrupted,
}

/// What an interrupt did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterruptReport {
    /// Waits that ended.
    pub waits: u32,
    /// Processes that the turn started or waited for, and that live on.
    pub alive: Vec<ProcessId>,
    /// One-shots that are being ended.
    pub one_shots: Vec<ProcessId>,
    /// Questions that were withdrawn.
    pub withdrawn: u32,
}

/// What was ended, and what would not end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndReport {
    /// Processes that are gone with all their descendants.
    pub ended: Vec<(ProcessId, Option<Exit>)>,
    /// Processes of which somebody is still alive.
    pub survivors: Vec<(ProcessId, Vec<Descendant>)>,
}

/// A process that a call cannot act on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It never existed in this session, or is forgotten.
    #[error("process {process} does not exist in this session")]
    Unknown {
        /// As it was asked for.
        process: ProcessId,
    },
    /// It has ended, and that was told.
    #[error("process {process} has ended")]
    Gone {
        /// As it was asked for.
        process: ProcessId,
        /// How.
        exit: Box<Exit>,
    },
}

/// Why a command was not started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The command cannot be run as asked.
    #[error(transparent)]
    Invalid(#[from] InvalidCommand),
    /// Policy or a rule forbids it.
    #[error("the command may not run: {0}")]
    Forbidden(Forbidden),
    /// It was not approved.
    #[error(transparent)]
    NotApproved(#[from] NotApproved),
    /// Too many questions are open.
    #[error("the session has {limit} open questions, its limit; wait for answers")]
    TooManyQuestions {
        /// The limit.
        limit: usize,
    },
    /// The system would not start it.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The table is full and nothing may make room.
    #[error("the session has {limit} live processes, its limit; terminate one, or clean")]
    TableFull {
        /// The limit.
        limit: usize,
    },
    /// Every process id is taken.
    #[error("every process id of the session is taken")]
    IdsTaken,
    /// The request id was used for something else.
    #[error("request id {request} was used for another request")]
    RequestReused {
        /// The id.
        request: RequestId,
    },
    /// The session allows only one-shots.
    #[error("this session runs one-shot commands only; use ExecToCompletion")]
    NotInteractive,
    /// The session is closing.
    #[error("the session is closing")]
    Closing,
    /// The turn was interrupted, or everything cleaned, before anything was started.
    #[error("the start was cancelled before anything ran")]
    Cancelled,
}

/// Why what was asked for was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotApproved {
    /// Whoever was asked said no.
    #[error("the reviewer declined{}", said(.text))]
    Declined {
        /// The question.
        approval: ApprovalId,
        /// The reviewer's words.
        text: String,
    },
    /// Whoever was asked said no, and ended the turn.
    #[error("the reviewer declined and ended the turn{}", said(.text))]
    TurnAborted {
        /// The question.
        approval: ApprovalId,
        /// The turn.
        turn: TurnId,
        /// The reviewer's words.
        text: String,
    },
    /// Nobody answered in time.
    #[error("nobody answered before the question expired")]
    Expired {
        /// The question.
        approval: ApprovalId,
    },
    /// The automatic reviewer failed, which counts as no.
    #[error("the automatic review failed, which counts as a refusal: {cause}")]
    ReviewFailed {
        /// The question.
        approval: ApprovalId,
        /// How.
        cause: String,
    },
    /// What was judged is no longer what would be done.
    #[error("process, input or policy changed while the question was open; nothing was done, ask again")]
    Stale {
        /// The process it was about.
        process: ProcessId,
    },
}

fn said(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

/// Why a question was not answered, or not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// The session knows no such question.
    #[error("the session has no question {approval}")]
    Unknown {
        /// As given.
        approval: ApprovalId,
    },
    /// It is closed.
    #[error("question {approval} is no longer open")]
    NotOpen {
        /// Which.
        approval: ApprovalId,
        /// Where it stands.
        state: Box<approval::State>,
    },
    /// Another answer came first, and its rule is being added.
    #[error(
        "question {approval} has an answer, whose rule is being added; it is open again only if that fails"
    )]
    Deciding {
        /// Which.
        approval: ApprovalId,
    },
    /// It does not take this answer.
    #[error("question {approval} does not take this answer")]
    NotAllowed {
        /// Which.
        approval: ApprovalId,
        /// The answer.
        verdict: Verdict,
    },
    /// The rule could not be added; the question is still open.
    #[error("the rule was not added, and the question is still open: {reason}")]
    Rule {
        /// Why.
        reason: String,
    },
    /// The rule would have no words.
    #[error("the answer adds a rule, and neither it nor the question gives its words")]
    RuleEmpty,
}

/// Why input was not delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// There is nobody to write to.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The process was started without stdin.
    #[error("process {process} was started without stdin; start it with `tty` or `stdin` to write to it")]
    NoStdin {
        /// Which.
        process: ProcessId,
    },
    /// The input has ended: by an earlier `eof`, or because the program closed it.
    #[error("the input of process {process} has ended after {committed} bytes ({by})")]
    StdinEnded {
        /// Which.
        process: ProcessId,
        /// Where.
        committed: u64,
        /// By whom: `an earlier eof` or `the program`.
        by: &'static str,
    },
    /// The offset lies beyond what has been sent.
    #[error("input at {offset} would leave a gap: {expected} bytes have been sent")]
    OffsetGap {
        /// As given.
        offset: u64,
        /// Where the next input starts.
        expected: u64,
    },
    /// Too much input waits already.
    #[error("{limit} pieces of input wait for process {process}; try again when some are taken")]
    QueueFull {
        /// Which.
        process: ProcessId,
        /// The limit.
        limit: usize,
        /// How much it has taken.
        committed: u64,
    },
    /// The request id was used for something else.
    #[error("request id {request} was used for another request")]
    RequestReused {
        /// The id.
        request: RequestId,
    },
    /// Nothing of the process has started.
    #[error("process {process} has not started yet: a question about it is open")]
    NotStarted {
        /// Which.
        process: ProcessId,
    },
    /// The process may get no more input.
    #[error("process {process} gets no more input: {cause}; start a new one")]
    NewTerminal {
        /// Which.
        process: ProcessId,
        /// Why.
        cause: NewTerminal,
    },
    /// The input needs a review, and the policy rejects such questions.
    #[error(
        "input to process {process} needs a review, and the session's approval policy lets nobody be asked"
    )]
    Forbidden {
        /// Which.
        process: ProcessId,
    },
    /// The input needs a review and is too large for one.
    #[error(
        "input to process {process} needs a review and is {bytes} bytes with its reason, as serialized; \
         at most {limit} are reviewed: send less, or start a new process"
    )]
    ReviewTooLarge {
        /// Which.
        process: ProcessId,
        /// As serialized.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The input needs a review and holds a null byte.
    #[error("input to process {process} needs a review and has a null byte at {at}, which nobody can review")]
    ReviewNul {
        /// Which.
        process: ProcessId,
        /// Where.
        at: usize,
    },
    /// It was not approved.
    #[error(transparent)]
    NotApproved(#[from] NotApproved),
    /// Too many questions are open.
    #[error("the session has {limit} open questions, its limit; wait for answers")]
    TooManyQuestions {
        /// The limit.
        limit: usize,
    },
}

/// Why a signal was not sent, or a size not set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// There is nobody to act on.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Its first attempt is being started.
    #[error("process {process} is still being started")]
    Starting {
        /// Which.
        process: ProcessId,
    },
    /// It was tried and failed.
    #[error(transparent)]
    Failed(#[from] ControlFailure),
}

/// Why no lease on deadlines was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HoldError {
    /// The session has as many as it may have.
    #[error("the session has {limit} leases on its deadlines; give one back, or renew it")]
    TooMany {
        /// The limit.
        limit: usize,
    },
}

/// Why a session was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// Strict review without a reviewer.
    #[error(transparent)]
    ReviewerMissing(#[from] ReviewerMissing),
    /// Somebody else changed it first.
    #[error("the session is at policy revision {in_force}, the change was made for {asked}")]
    RevisionChanged {
        /// In force.
        in_force: u64,
        /// As asked.
        asked: u64,
    },
    /// Terminals live in the working directory.
    #[error("the working directory is held by live processes; terminate them first")]
    CwdHeld {
        /// Which.
        by: Vec<ProcessId>,
    },
    /// A value that cannot be.
    #[error(transparent)]
    Invalid(#[from] InvalidCommand),
    /// The session is closing.
    #[error("the session is closing")]
    Closing,
}
