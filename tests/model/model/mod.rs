//! A model of one session, as the specification tells it: no effects, no handles, only what is so at a moment. It knows
//! what every program will do, so time is a loop over what comes next.

mod agenda;
pub(crate) mod child;
mod end;
mod input;
mod questions;
mod start;
mod state;
mod table;
mod wait;

pub(crate) use wait::bytes_of;

use std::collections::{BTreeMap, BTreeSet};

use crate::picture::{self, Picture, Refusal, Reply};
use crate::step::{Ask, Change, Command, Policy, Profile, Whom};
use child::Child;
use state::{
    Attempt, Call, Clock, Delivered, Delivery, Index, Kill, Kind, Piece, Process, Question, Stage, Time,
};

/// Processes that the sessions of a life may have: one is full soon, the other one has one more than the 8 that are protected.
pub(crate) const TABLE: [usize; 2] = [3, 9];
/// How long a question waits for its answer.
pub(crate) const EXPIRY: u64 = 20_000;

/// A session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    number: usize,
    pub(crate) now: Time,
    policy: Policy,
    profile: Profile,
    cwd: u8,
    revision: u64,
    processes: Vec<Process>,
    calls: Vec<Call>,
    questions: Vec<Question>,
    /// Approvals that are kept: the command, where, on a terminal, and escalated.
    grants: BTreeSet<(Command, u8, bool, bool)>,
    holds: BTreeMap<u8, Time>,
    uses: u64,
    /// A program did something at the instant of a deadline, and nobody can say which came first.
    pub(crate) blurred: bool,
}

impl Session {
    pub(crate) const fn new(number: usize, policy: Policy, profile: Profile) -> Self {
        Self {
            number,
            now: 0,
            policy,
            profile,
            cwd: 0,
            revision: 1,
            processes: Vec::new(),
            calls: Vec::new(),
            questions: Vec::new(),
            grants: BTreeSet::new(),
            holds: BTreeMap::new(),
            uses: 0,
            blurred: false,
        }
    }

    /// Which process is meant; `None` if it never existed here.
    pub(crate) fn whom(&self, whom: Whom) -> Option<usize> {
        match whom {
            Whom::Own(pick) if !self.processes.is_empty() => Some(usize::from(pick) % self.processes.len()),
            Whom::Own(_) | Whom::Foreign(_) => None,
        }
    }

    /// The calls that still wait and have a client, by age.
    pub(crate) fn waiting(&self) -> Vec<usize> {
        let waits = |index: &usize| self.calls[*index].reply.is_none();
        (0..self.calls.len()).filter(waits).collect()
    }

    /// Questions, open ones or all, by age.
    pub(crate) fn asked(&self, closed_too: bool) -> Vec<usize> {
        (0..self.questions.len()).filter(|index| closed_too || self.questions[*index].open).collect()
    }

    /// A caller asks; all that follows at this instant has followed.
    pub(crate) fn ask(&mut self, ask: &Ask) {
        match ask {
            Ask::Exec(exec) => self.exec(exec),
            Ask::Write { to, input, wait } => self.write(*to, *input, *wait),
            Ask::Wait { on, what, timeout } => self.wait_for(*on, *what, *timeout),
            Ask::Signal { to, signal, tree } => self.signal(*to, *signal, *tree),
            Ask::Terminate(whom) => self.terminate(*whom),
            Ask::Clean => self.clean(),
            Ask::Interrupt(turn) => self.interrupt(*turn),
            Ask::Hold { lease, ms } => self.hold(*lease, *ms),
            Ask::HangUp(pick) => self.hang_up(*pick),
            Ask::Decide { which, answer } => self.decide(*which, *answer),
            Ask::Update { change, stale } => self.update(*change, *stale),
        }
        self.react();
        self.advance(0);
    }

    fn update(&mut self, change: Change, stale: bool) {
        let terminal =
            |process: &Process| process.exec.terminal && process.exit.is_none() && !process.removed;
        if stale {
            return self.at_once(Reply::Refused(Refusal::RevisionChanged));
        }
        let changed = match change {
            Change::Policy(policy) => std::mem::replace(&mut self.policy, policy) != policy,
            Change::Profile(profile) => std::mem::replace(&mut self.profile, profile) != profile,
            Change::Cwd(cwd) if cwd != self.cwd && self.processes.iter().any(terminal) => {
                return self.at_once(Reply::Refused(Refusal::CwdHeld));
            }
            Change::Cwd(cwd) => std::mem::replace(&mut self.cwd, cwd) != cwd,
        };
        if changed {
            self.revision += 1;
            self.withdraw_stale();
        }
        self.at_once(Reply::Done);
    }

    fn at_once(&mut self, reply: Reply) {
        let call = self.register(0, 0, Kind::AtOnce);
        self.calls[call].waits = false;
        self.calls[call].reply = Some(reply);
    }

    fn register(&mut self, process: Index, turn: u8, kind: Kind) -> Index {
        self.calls.push(Call {
            process,
            turn,
            kind,
            attempt: 1,
            from: 0,
            clock: Clock::Unset,
            waits: true,
            has_client: true,
            reply: None,
        });
        self.calls.len() - 1
    }

    /// The call is over; its client hears of it, if there still is one.
    fn reply(&mut self, call: Index, reply: Reply) {
        let call = &mut self.calls[call];
        call.waits = false;
        if call.has_client {
            call.reply = Some(reply);
        }
    }

    fn touch(&mut self, process: Index) {
        self.uses += 1;
        self.processes[process].used = self.uses;
    }

    /// What anybody can see now.
    pub(crate) fn picture(&self) -> Picture {
        let known = self.processes.iter().enumerate().filter(|(_, process)| !process.removed);
        let open = self.questions.iter().filter(|question| question.open);
        Picture {
            revision: self.revision,
            live: self
                .processes
                .iter()
                .filter(|process| !process.removed && process.exit.is_none() && !process.is_undecided())
                .count(),
            processes: known.map(|(index, process)| (index, process.picture())).collect(),
            questions: open
                .map(|question| picture::Question { process: question.process, about: question.about })
                .collect(),
            calls: self.calls.iter().map(|call| call.reply.clone()).collect(),
        }
    }
}
