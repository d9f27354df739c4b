//! What is known of one process: how far it is, what it has said, who writes to it, how it is being ended.
//!
//! ```text
//!  Reserved ──► Asking ──► Starting ──spawned──► Window ──150 ms──► Running
//!     │           │  ▲          ▲                   └──exit──┬──────────┘
//!     └──refused──┤  └──retry?──┤                            ▼
//!                 ▼             └───────second attempt── Judging ──► Draining ──outputs closed, or 100 ms──► Ended
//!   (removed; its id is given back)
//! ```
//! This is data with the questions one may ask of it; the transitions are in [`crate::core::session`].

mod evidence;
mod exit;
mod input;
mod launch;

pub use evidence::{Cause, Confidence, Ended, Evidence};
pub use exit::{EndReason, Exit, ExitStatus, TimeoutKind};
pub(crate) use input::{Active, Input, InputEnd, Queued, Reviewing};
pub(crate) use launch::Launch;

use std::collections::{BTreeSet, VecDeque};

use crate::core::approval::GrantKey;
use crate::core::command::TerminalSize;
use crate::core::ids::{ApprovalId, AttemptNumber, CallId, ProcessId, RequestId, TurnId};
use crate::core::session::{AttemptView, Mode, ProcessView, State, Timeouts};
use crate::core::time::Instant;

/// How far a process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// What it needs is being found out.
    Reserved,
    /// Somebody is asked: whether it may start, or whether its denied first attempt is followed by a second.
    Asking {
        /// The question.
        approval: ApprovalId,
    },
    /// Its attempt is being started.
    Starting,
    /// Its attempt runs, and an exit now would be early.
    Window {
        /// When the spawner returned.
        since: Instant,
    },
    /// It outlived the window.
    Running {
        /// When the spawner returned.
        since: Instant,
    },
    /// Its attempt has been reaped; whether its sandbox refused it something is judged by its last output.
    Judging {
        /// How the attempt ended.
        exit: Exit,
    },
    /// It has been reaped; its last output may be on the way.
    Draining {
        /// How it ended.
        exit: Exit,
        /// Whether answers no longer wait for its outputs.
        collected: bool,
    },
    /// It has ended, and the feed has said so.
    Ended {
        /// How.
        exit: Exit,
    },
}

/// How far the ending of a process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kill {
    /// Why it is being ended.
    pub(crate) reason: EndReason,
    /// How far.
    pub(crate) step: KillStep,
    /// When TERM was sent: an exit before that was the process's own.
    pub(crate) since: Option<Instant>,
    /// The calls that wait for it.
    pub(crate) callers: Vec<CallId>,
}

/// A step of the kill ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KillStep {
    /// It starts once there is something to signal.
    Pending,
    /// TERM was sent.
    Term,
    /// KILL was sent.
    Kill,
    /// Who is left is being looked up.
    Survey,
}

/// A process that a session knows.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) id: ProcessId,
    pub(crate) phase: Phase,
    pub(crate) launch: Launch,
    pub(crate) argv: Vec<String>,
    pub(crate) cwd: String,
    pub(crate) terminal: Option<TerminalSize>,
    pub(crate) mode: Mode,
    pub(crate) timeouts: Timeouts,
    pub(crate) kill_descendants_on_exit: bool,
    /// The call that started it, for the feed.
    pub(crate) turn: TurnId,
    pub(crate) request: Option<RequestId>,
    pub(crate) attempts: Vec<AttemptView>,
    pub(crate) input: Input,
    /// First byte of the latest attempt that no answer has covered yet: the model's cursor.
    pub(crate) cursor: u64,
    /// Rank among the session's uses; larger is more recent.
    pub(crate) used: u64,
    pub(crate) created_at: Instant,
    pub(crate) used_at: Instant,
    pub(crate) kill: Option<Kill>,
    /// Whether its slot of the table went to another process.
    pub(crate) gave_room: bool,
    /// The attempts that are known to be gone with all their descendants.
    pub(crate) trees_gone: BTreeSet<AttemptNumber>,
    /// Whether an answer has told a caller of its end.
    pub(crate) told: bool,
    /// Clients that follow it.
    pub(crate) followers: Vec<CallId>,
    /// `output` events published so far.
    pub(crate) output_events: u32,
    /// Requests whose answers are remembered with it.
    pub(crate) requests: VecDeque<RequestId>,
}

impl Process {
    /// The attempt that runs or ran last, once one has started.
    pub(crate) fn attempt(&self) -> Option<&AttemptView> {
        self.attempts.last()
    }

    /// Number of the attempt that answers are about.
    pub(crate) fn attempt_number(&self) -> AttemptNumber {
        self.attempt().map_or(AttemptNumber::FIRST, |attempt| attempt.number)
    }

    /// End of the latest attempt's output.
    pub(crate) fn output_end(&self) -> u64 {
        self.attempt().map_or(0, |attempt| attempt.output_end)
    }

    /// Whether all outputs of the latest attempt have ended.
    pub(crate) fn outputs_closed(&self) -> bool {
        self.attempt().is_some_and(|attempt| attempt.outputs_closed)
    }

    /// What a grant must equal to spare the question about its start.
    pub(crate) fn key(&self) -> Option<GrantKey> {
        self.launch.key(&self.argv, &self.cwd, self.terminal.is_some())
    }

    /// How it ended, once it was reaped.
    pub(crate) fn exit(&self) -> Option<&Exit> {
        match &self.phase {
            Phase::Draining { exit, .. } | Phase::Ended { exit } => Some(exit),
            Phase::Reserved
            | Phase::Asking { .. }
            | Phase::Starting
            | Phase::Window { .. }
            | Phase::Running { .. }
            | Phase::Judging { .. } => None,
        }
    }

    /// Whether answers about its end need not wait any more.
    pub(crate) fn end_is_collected(&self) -> bool {
        match &self.phase {
            Phase::Ended { .. } => true,
            Phase::Draining { collected, .. } => *collected || self.outputs_closed(),
            Phase::Reserved
            | Phase::Asking { .. }
            | Phase::Starting
            | Phase::Window { .. }
            | Phase::Running { .. }
            | Phase::Judging { .. } => false,
        }
    }

    /// Whether nothing of it has been started: what it needs is found out, or asked for.
    pub(crate) fn is_undecided(&self) -> bool {
        self.attempts.is_empty() && matches!(self.phase, Phase::Reserved | Phase::Asking { .. })
    }

    /// Whether this attempt, and no other, is being started.
    pub(crate) fn expects_start_of(&self, attempt: AttemptNumber) -> bool {
        let next = if self.attempts.is_empty() { AttemptNumber::FIRST } else { AttemptNumber::SECOND };
        self.phase == Phase::Starting && attempt == next
    }

    /// Whether an attempt of it is alive, as far as is known.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(self.phase, Phase::Window { .. } | Phase::Running { .. })
    }

    /// Whether it takes a slot of the table: not before it is approved, nor once it makes room for another.
    pub(crate) fn occupies_slot(&self) -> bool {
        !matches!(self.phase, Phase::Ended { .. }) && !self.is_undecided() && !self.gave_room
    }

    /// Whether the latest attempt and all its descendants are known to be gone.
    pub(crate) fn tree_gone(&self) -> bool {
        self.trees_gone.contains(&self.attempt_number())
    }

    /// Whether nothing of it is left that could be signalled.
    pub(crate) fn is_gone(&self) -> bool {
        self.tree_gone() && self.exit().is_some()
    }

    /// Whether it is gone and the feed has said so: nothing more will come of it.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_gone() && matches!(self.phase, Phase::Ended { .. })
    }

    /// Whether its call's wait is its life.
    pub(crate) fn is_one_shot(&self) -> bool {
        matches!(self.mode, Mode::OneShot { .. })
    }

    /// How it is at this moment.
    pub(crate) fn view(&self) -> ProcessView {
        let stopping = self.kill.is_some();
        ProcessView {
            id: self.id,
            state: match self.phase {
                Phase::Reserved => State::Reserved,
                Phase::Asking { .. } => State::Asking,
                Phase::Starting => State::Starting,
                Phase::Window { .. } | Phase::Running { .. } if stopping => State::Stopping,
                Phase::Window { .. } | Phase::Running { .. } | Phase::Judging { .. } => State::Running,
                Phase::Draining { .. } => State::Draining,
                Phase::Ended { .. } => State::Ended,
            },
            argv: self.argv.clone(),
            cwd: self.cwd.clone(),
            terminal: self.terminal,
            stdin_open: self.exit().is_none() && self.input.is_open(),
            stdin_committed: self.input.committed,
            attempts: self.attempts.clone(),
            turn: self.turn.clone(),
            request: self.request.clone(),
            created_at: self.created_at,
            last_used_at: self.used_at,
            exit: self.exit().copied(),
            cursor: self.cursor,
            has_descendants: self.exit().is_some() && !self.tree_gone(),
            one_shot: self.is_one_shot(),
        }
    }
}
