//! What the host needs from adapters: a way to start a child, and the four handles on it.
//!
//! Waiting, reading, writing and controlling are separate handles, so that none of them ever waits for another.
//!
//! **Contract of a spawner** (proved once for all of them in `tests/conformance`): the order of each stream is kept;
//! no byte after `closed`; the exit is reported exactly once; a kill may be repeated and is safe after the exit; it
//! reaches the group and every descendant; closing stdin is end of file; resizing after the exit is a typed error;
//! dropping all handles kills and reaps; unread output blocks the child and not memory; a sandbox that cannot be
//! enforced is refused.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::watch;

use crate::core::approval::{Question, Review};
use crate::core::command::TerminalSize;
use crate::core::ids::{AttemptNumber, CallId, ProcessId, SessionId};
use crate::core::output::Stream;
use crate::core::policy::{Assessment, Egress, Host, NetworkRule};
use crate::core::process::ExitStatus;
use crate::core::session::{Call, Effect, Event, FeedEvent};
use crate::core::signal::{Scope, Signal};
use crate::core::spawn::{Descendant, Enforced, LimitMechanism, ResourceUsage, SpawnError, SpawnPlan};
use crate::core::time::Instant;
use crate::host::Owner;

/// A set of rules for commands and connections. Answers from memory: reading and watching files is its own affair.
pub trait Rulebook: Send + Sync + fmt::Debug {
    /// What the rules say of `argv`, started in `cwd`. Never blocks: what takes long to read is answered later.
    fn assess(&self, argv: Vec<String>, cwd: String) -> Assessing;

    /// The rules for connections that the server's owner set and no session may loosen; `None` if there are none.
    fn owner_network(&self) -> Option<Arc<[NetworkRule]>>;

    /// Where it is told that [`Self::owner_network`] may have changed; `None` if it never does.
    fn changes(&self) -> Option<watch::Receiver<()>> {
        None
    }

    /// Adds a rule that allows commands which begin with these words, so that the next [`Self::assess`] knows it.
    fn allow(&self, words: Vec<String>) -> BoxFuture<Result<(), AddRuleError>>;

    /// Whether rules can be given at all, here.
    fn takes_rules(&self) -> bool {
        true
    }
}

/// What the rules say of a command.
pub enum Assessing {
    /// This.
    Now(Assessment),
    /// What comes of this.
    Later(BoxFuture<Assessment>),
}

impl fmt::Debug for Assessing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(assessment) => f.debug_tuple("Now").field(assessment).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}

/// Why a rule was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddRuleError {
    /// There is no file that rules may be added to.
    #[error("no file of rules can be added to: {reason}")]
    ReadOnly {
        /// Why, and the way out.
        reason: String,
    },
    /// A rule for these words would allow too much, such as every command of a shell.
    #[error("a rule for {words:?} would be too broad: {reason}")]
    TooBroad {
        /// The words.
        words: Vec<String>,
        /// Why.
        reason: String,
    },
    /// Another rule asks or forbids, so that this one would have no effect.
    #[error("a rule for {words:?} would have no effect: {rule} is stricter; change that one")]
    Overruled {
        /// The words.
        words: Vec<String>,
        /// The rule that decides, and where it stands.
        rule: String,
    },
    /// The file could not be written.
    #[error("the file of rules could not be written: {reason}")]
    System {
        /// The system's words.
        reason: String,
    },
}

/// Whoever looks at questions before people do.
pub trait Reviewer: Send + Sync + fmt::Debug {
    /// Judges a question. Dropped when the question is withdrawn. What cannot be judged is [`Review::Failed`].
    fn review(&self, asked: Asked) -> BoxFuture<Review>;

    /// Whether this is an automatic reviewer, which strict review needs; one that passes everything on to people is
    /// none.
    fn is_automatic(&self) -> bool;
}

/// A question, with what a reviewer may want to know of its session.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The session.
    pub session: SessionId,
    /// What its creator called it.
    pub labels: Arc<BTreeMap<String, String>>,
    /// The question.
    pub question: Arc<Question>,
}

/// Keeps a record of what was asked, answered, started and refused. Returns at once; writing is its own affair, and so
/// is saying what it could not keep.
pub trait Audit: Send + Sync + fmt::Debug {
    /// Records an event of a session.
    fn record(&self, session: &SessionId, owner: &Owner, event: &FeedEvent);
}

/// Carries the connections of children whose network is proxied, as far as a gate opens.
pub trait Proxy: Send + Sync + fmt::Debug {
    /// Serves one child: every connection that `listener` accepts. Dropping the future ends all of them and withdraws
    /// every question that they wait for; it resolves by itself only if the listener is of no use, after saying so in
    /// the log. Must be polled within a runtime.
    fn serve(&self, listener: std::net::TcpListener, gate: Arc<dyn Gate>) -> BoxFuture<()>;

    /// Whether it carries any connection at all.
    fn carries(&self) -> bool {
        true
    }
}

/// Decides on the connections of one child.
pub trait Gate: Send + Sync + fmt::Debug {
    /// May the child connect there? Resolves once that is settled, which takes as long as a question is open. Dropped
    /// when nobody waits for the answer any more: the client has gone, or the child is being ended.
    ///
    /// Also asked about an address by itself when a name that was let through turns out to have one that a rule asks
    /// about.
    fn open(&self, host: Host, port: u16) -> BoxFuture<GateAnswer>;
}

/// What a gate says of one connection.
#[derive(Clone, Debug)]
pub enum GateAnswer {
    /// Let it through, within the rules that were frozen for the child: they also judge what a name resolves to, and
    /// what they refuse stays refused whatever this answer says.
    Allowed(Arc<Egress>),
    /// Refuse it.
    Refused {
        /// Why, and the way out, for whoever reads the child's output: part of a sentence, such as `no rule allows it`.
        reason: String,
    },
}

/// A future behind a seam.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Starts children.
pub trait Spawner: Send + Sync + fmt::Debug {
    /// Starts one child. When this resolves, the child runs its program; on an error nothing is left behind.
    /// Dropping the future before it resolves kills and reaps whatever it had started.
    fn spawn(&self, plan: SpawnPlan) -> BoxFuture<Result<Spawned, SpawnError>>;

    /// Whether descendants are held together by cgroups, and not found by walks through the process table.
    fn uses_cgroups(&self) -> bool {
        false
    }

    /// The parts of the system that can enforce a profile, as they were found when this was started. Resolves once
    /// that is known.
    fn backends(&self) -> BoxFuture<Vec<Backend>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// By what each resource limit would be enforced here, by its name on the wire; `None` if it would be refused for
    /// a command without a sandbox.
    fn limit_mechanisms(&self) -> Vec<(&'static str, Option<LimitMechanism>)> {
        Vec::new()
    }
}

/// A part of the system that can enforce a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Its name on the wire: of a [`Mechanism`](crate::core::spawn::Mechanism).
    pub name: &'static str,
    /// Whether it can be used.
    pub state: BackendState,
    /// Its version as it tells it; empty if it has none.
    pub version: String,
}

/// Whether a part of the system can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendState {
    /// It works: it was tried.
    Available,
    /// It does not work on this machine.
    Unavailable {
        /// Why, as a sentence.
        reason: String,
    },
    /// Nobody has written it for this platform.
    Unsupported,
}

/// The handles on a started child.
#[derive(Debug)]
pub struct Spawned {
    /// The child's process id, if it has one that the system knows.
    pub pid: Option<u32>,
    /// What really holds it.
    pub enforced: Enforced,
    /// Signals, sizes and the end. Dropping the last clone kills the tree and reaps the child.
    pub control: Arc<dyn Control>,
    /// Where input goes; `None` if the child was started without.
    pub stdin: Option<Box<dyn Stdin>>,
    /// Where output comes from.
    pub output: Box<dyn Output>,
    /// Resolves once, when the child has been reaped.
    pub exit: Box<dyn Exit>,
    /// Where the child's connections arrive, if its network is proxied: listens inside the child's own network, at
    /// [`PROXY_PORT`](crate::core::limits::PROXY_PORT) of its loopback.
    pub proxy: Option<std::net::TcpListener>,
}

/// The end of a child, as the reaper saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exited {
    /// What the kernel said.
    pub status: ExitStatus,
    /// What the child used.
    pub usage: Option<ResourceUsage>,
    /// Whether the kernel killed it for lack of memory, as far as the kernel tells.
    pub out_of_memory: bool,
    /// When it was reaped.
    pub at: Instant,
}

/// A future that resolves when the child has been reaped.
pub trait Exit: Future<Output = Exited> + Send + Unpin + fmt::Debug {}

/// Acts on a running child. Every method returns at once.
pub trait Control: Send + Sync + fmt::Debug {
    /// Sends `signal`. `Gone` if nothing in `scope` is left; never reaches a recycled process id.
    fn signal(&self, signal: Signal, scope: Scope) -> Result<(), ControlError>;

    /// Kills the group and every descendant, also those that left it. May be repeated; safe after the exit.
    fn kill_tree(&self);

    /// Sets the size of the terminal and tells its foreground group.
    fn resize(&self, size: TerminalSize) -> Result<(), ControlError>;

    /// The group in the foreground of its terminal, by the id of its leader; `None` without a terminal.
    fn foreground(&self) -> Option<u32> {
        None
    }

    /// Resolves when the child and all its descendants are gone; at once if they are. May be asked by several.
    fn tree_gone(&self) -> BoxFuture<()>;

    /// The live descendants, at most a few hundred; empty once the tree is gone. Reads the system's process table,
    /// off the runtime's threads.
    fn descendants(&self) -> BoxFuture<Vec<Descendant>>;
}

/// Why a child could not be acted on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// Nothing of it is left.
    #[error("the process is gone")]
    Gone,
    /// It has no terminal.
    #[error("the process has no terminal")]
    NoTerminal,
    /// The system refused.
    #[error("the system refused: {reason}")]
    Refused {
        /// The system's words.
        reason: String,
    },
}

/// Takes input. Dropping it closes the child's stdin: end of file on a pipe, nothing at all on a terminal.
pub trait Stdin: Send + fmt::Debug {
    /// Writes a prefix of `data`, which is not empty, and answers how long it was (at least 1). `BrokenPipe` once
    /// nobody can read any more.
    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>>;

    /// How end of file is told: by dropping this handle (pipe), or by typing these bytes (terminal).
    fn eof(&self) -> Eof;
}

/// How a child is told that input has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eof {
    /// The handle is dropped.
    Close,
    /// These bytes are written; the handle stays.
    Type(Bytes),
}

/// Gives output, in order.
pub trait Output: Send + fmt::Debug {
    /// Appends the next bytes to `into`, within its spare capacity (which is not zero), and says which stream they
    /// are of; `None` when every stream has ended. Errors of the system end the stream; they are logged by the
    /// adapter and never shown as failures of the command.
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut BytesMut) -> Poll<Option<Stream>>;

    /// Told once, when the child has been reaped: from now on a hang-up of the terminal is the end.
    fn leader_reaped(&mut self);
}

/// The target of spans that traces are made of; at level `TRACE`, so that logs do without them.
pub const TRACE_TARGET: &str = "unified_exec::trace";

/// Sees what sessions do, for traces and metrics. Returns at once, and nothing it does changes what a session does.
pub trait Telemetry: Send + Sync + fmt::Debug {
    /// The eyes on one session, whose exits are early for `early_window`; dropped with it.
    fn session(&self, session: &SessionId, early_window: Duration) -> Box<dyn SessionTelemetry>;

    /// A reader was handed something that tells how far behind it is.
    fn read(&self, read: Read);
}

/// How far behind a reader of output or of a feed is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// So many bytes of output are lost to it.
    OutputGap(u64),
    /// So many events are lost to it.
    FeedGap(u64),
    /// It has an event so long after that was published, and had waited for it or lagged behind.
    Event(Duration),
}

/// What waits for a session's driver as it begins a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Calls.
    pub calls: usize,
    /// What spawners, pumps and reviewers tell.
    pub events: usize,
}

/// The eyes on one session: everything that goes into its core and comes out of it, in order.
pub trait SessionTelemetry: Send + fmt::Debug {
    /// A caller asks something, within the span `parent`.
    fn called(&mut self, now: Instant, id: CallId, call: &Call, parent: &tracing::Span);

    /// Something happened.
    fn happened(&mut self, now: Instant, event: &Event);

    /// The session wants something of the world, or tells something.
    fn effect(&mut self, now: Instant, effect: &Effect);

    /// The span that the start of an attempt belongs to, which was asked for last.
    fn starting(&self, process: ProcessId, attempt: AttemptNumber) -> tracing::Span;

    /// The session has dealt with all there was, from `began` until `now`; so much had `waited`.
    fn turned(&mut self, began: Instant, now: Instant, waited: Waiting);
}
