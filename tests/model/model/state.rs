//! What a session knows: processes, calls, questions.

use std::collections::{BTreeSet, VecDeque};

use super::child::Child;
use crate::picture::{self, About, End, Exit, Held, Reply, Stage as Shown, Why};
use crate::step::{Exec, Mode, Profile, What};

pub(super) type Time = u64;
pub(super) type Index = usize;

#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) process: Index,
    pub(super) about: About,
    pub(super) turn: u8,
    pub(super) open: bool,
    pub(super) expires: Time,
    /// The call whose input it is about.
    pub(super) call: Index,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Asking(Index),
    Starting(Time),
    Alive,
    /// Its end is judged by what it says until then.
    Judging(Time),
    /// Until when answers and the feed wait for its outputs.
    Draining {
        answers: Option<Time>,
        feed: Time,
    },
    /// When it is forgotten.
    Ended(Time),
}

#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) held: Held,
    pub(super) since: Time,
    pub(super) child: Child,
    pub(super) output_end: u64,
    pub(super) exited: bool,
    pub(super) closed: bool,
    pub(super) gone: bool,
    pub(super) denied: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Kill {
    pub(super) why: Why,
    pub(super) since: Option<Time>,
    /// When KILL follows.
    pub(super) kills: Option<Time>,
    pub(super) callers: Vec<Index>,
}

#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) call: Index,
    pub(super) data: Vec<u8>,
    pub(super) eof: bool,
    pub(super) approved: bool,
}

/// A delivery under way.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) piece: Piece,
    pub(super) taken: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) exec: Exec,
    pub(super) stage: Stage,
    pub(super) attempts: Vec<Attempt>,
    pub(super) approved: bool,
    /// The session's profile when it was launched.
    pub(super) frozen: Profile,
    pub(super) held: Held,
    pub(super) cwd: u8,
    pub(super) attended: bool,
    /// The end of a denied first attempt, while a second one is not there yet.
    pub(super) first_exit: Option<Exit>,
    pub(super) exit: Option<(Exit, Time)>,
    pub(super) kill: Option<Kill>,
    pub(super) gave_room: bool,
    pub(super) used: u64,
    pub(super) cursor: u64,
    pub(super) told: bool,
    pub(super) committed: u64,
    pub(super) stdin_ended: bool,
    /// A caller ended the input.
    pub(super) eof_given: bool,
    pub(super) lane: VecDeque<Piece>,
    pub(super) asked: Option<(Index, Piece)>,
    pub(super) active: Option<Delivery>,
    pub(super) dies: Option<Time>,
    pub(super) removed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    Unset,
    Runs(Time),
    Stands(u64),
    /// It ran out while the end of an attempt was judged.
    Out,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivered {
    Queued,
    Asked,
    Active,
    Whole,
    Broken,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Start { wait: Option<u64> },
    OneShot,
    Write { state: Delivered, stdin: (u64, u64), collect: Option<u64>, stopping: Option<End> },
    Poll { stdin: Option<(u64, u64)>, collects: bool },
    Condition { what: What, until: Option<Time> },
    Sweep { left: BTreeSet<Index>, gone: Vec<Index> },
    AtOnce,
}

#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) process: Index,
    pub(super) turn: u8,
    pub(super) kind: Kind,
    pub(super) attempt: usize,
    pub(super) from: u64,
    pub(super) clock: Clock,
    pub(super) waits: bool,
    pub(super) has_client: bool,
    pub(super) reply: Option<Reply>,
}

impl Process {
    pub(super) fn attempt(&self) -> usize {
        self.attempts.len().max(1)
    }

    pub(super) fn output_end(&self) -> u64 {
        self.attempts.last().map_or(0, |attempt| attempt.output_end)
    }

    pub(super) fn closed(&self) -> bool {
        self.attempts.last().is_some_and(|attempt| attempt.closed)
    }

    /// Whether nothing is left that could get a signal.
    pub(super) fn tree_gone(&self) -> bool {
        self.attempts.last().is_some_and(|attempt| attempt.gone)
    }

    pub(super) fn is_settled(&self) -> bool {
        matches!(self.stage, Stage::Ended(_)) && self.tree_gone()
    }

    pub(super) fn is_undecided(&self) -> bool {
        self.attempts.is_empty() && matches!(self.stage, Stage::Asking(_))
    }

    pub(super) fn is_one_shot(&self) -> bool {
        matches!(self.exec.mode, Mode::OneShot { .. })
    }

    pub(super) fn has_stdin(&self) -> bool {
        self.exec.stdin || self.exec.terminal
    }

    /// Whether answers about its end wait no more.
    pub(super) fn end_is_collected(&self) -> bool {
        match self.stage {
            Stage::Ended(_) => true,
            Stage::Draining { answers, .. } => answers.is_none() || self.closed(),
            _ => false,
        }
    }

    pub(super) fn picture(&self) -> picture::Process {
        picture::Process {
            stage: match self.stage {
                Stage::Asking(_) => Shown::Asking,
                Stage::Starting(_) => Shown::Starting,
                Stage::Alive if self.kill.is_some() => Shown::Stopping,
                Stage::Alive | Stage::Judging(_) => Shown::Running,
                Stage::Draining { .. } => Shown::Draining,
                Stage::Ended(_) => Shown::Ended,
            },
            attempts: self
                .attempts
                .iter()
                .map(|attempt| (attempt.held, attempt.output_end, attempt.closed))
                .collect(),
            exit: self.exit.map(|(exit, _)| exit),
            cursor: self.cursor,
            committed: self.committed,
            stdin_open: self.exit.is_none() && self.has_stdin() && !self.stdin_ended,
            has_descendants: self.exit.is_some() && !self.tree_gone(),
        }
    }
}
