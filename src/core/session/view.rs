//! Descriptions of sessions and processes, as they are at one moment.

use crate::core::command::{Defaults, TerminalSize};
use crate::core::ids::{AttemptNumber, ProcessId, RequestId, SessionId, TurnId};
use crate::core::limits::Limits;
use crate::core::policy::{Confinement, NetworkRule, Rights};
use crate::core::process::{Evidence, Exit};
use crate::core::spawn::{Enforced, ResourceLimits};
use crate::core::time::Instant;

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Its id.
    pub id: SessionId,
    /// What every command gets.
    pub defaults: Defaults,
    /// Policy and profile.
    pub rights: Rights,
    /// Its bounds.
    pub limits: Limits,
    /// Whether processes may outlive their calls.
    pub interactive: bool,
    /// Counts the changes; starts at 1.
    pub policy_revision: u64,
    /// The last event's number; 0 before the first.
    pub feed_sequence: u64,
    /// Live processes.
    pub live: usize,
    /// What each process may use.
    pub process_limits: ResourceLimits,
    /// The rules for connections that the server's owner set.
    pub owner_network: Option<Vec<NetworkRule>>,
    /// Open questions.
    pub open_questions: usize,
    /// When it was created.
    pub created_at: Instant,
    /// Whether it is closing.
    pub closing: bool,
}

/// How far a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing has been decided yet.
    Reserved,
    /// A question about it is open, and nothing of it runs.
    Asking,
    /// It is being started.
    Starting,
    /// It runs.
    Running,
    /// It runs, and is being ended.
    Stopping,
    /// It has ended; its outputs have not.
    Draining,
    /// It has ended, and what is remembered goes with time.
    Ended,
}

/// One try at starting a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptView {
    /// Which.
    pub number: AttemptNumber,
    /// Its id in the system, if it has one.
    pub pid: Option<u32>,
    /// Under what it runs.
    pub confinement: Confinement,
    /// By what that is enforced.
    pub enforced: Enforced,
    /// When the spawner returned.
    pub started_at: Instant,
    /// Bytes of output so far.
    pub output_end: u64,
    /// Whether all outputs have ended.
    pub outputs_closed: bool,
    /// How it ended.
    pub exit: Option<Exit>,
    /// What points to a denial by its sandbox.
    pub evidence: Option<Evidence>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessView {
    /// Its id.
    pub id: ProcessId,
    /// How far it is.
    pub state: State,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Where it runs.
    pub cwd: String,
    /// Its terminal's size, if it has one.
    pub terminal: Option<TerminalSize>,
    /// Whether it can be written to now.
    pub stdin_open: bool,
    /// Input taken so far, in bytes.
    pub stdin_committed: u64,
    /// Its attempts, at most two.
    pub attempts: Vec<AttemptView>,
    /// The turn that started it.
    pub turn: TurnId,
    /// The request that started it.
    pub request: Option<RequestId>,
    /// When it was asked for.
    pub created_at: Instant,
    /// When a call last used it.
    pub last_used_at: Instant,
    /// How it ended, if it has.
    pub exit: Option<Exit>,
    /// Where the next answer to a poll starts.
    pub cursor: u64,
    /// Whether descendants may be alive, after the end too.
    pub has_descendants: bool,
    /// Whether its call's wait is its life.
    pub one_shot: bool,
}
