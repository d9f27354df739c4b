//! A command becomes a process.

use super::table::{Need, first_sandbox, requirement};
use super::{Attempt, Child, Index, Kind, Process, Session, Stage, TABLE};
use crate::picture::{About, Held, Refusal, Reply, Why};
use crate::step::{Command, Exec, Mode};
use std::collections::VecDeque;

/// Shortest and longest wait of a start and of a write; what they are if the caller says nothing.
const WAIT: (u64, u64) = (250, 30_000);
const EXEC_WAIT: u64 = 10_000;
const ONE_SHOT: u64 = 10_000;
/// The most recently used processes, which make room for nobody.
const PROTECTED: usize = 8;

pub(super) fn clamped(wait: u64) -> u64 {
    wait.clamp(WAIT.0, WAIT.1)
}

impl Session {
    pub(super) fn exec(&mut self, exec: &Exec) {
        let process = self.processes.len();
        self.processes.push(Process {
            exec: exec.clone(),
            stage: Stage::Starting(0),
            attempts: Vec::new(),
            approved: false,
            frozen: self.profile,
            held: Held::Free,
            cwd: self.cwd,
            attended: true,
            first_exit: None,
            exit: None,
            kill: None,
            gave_room: false,
            used: 0,
            cursor: 0,
            told: false,
            committed: 0,
            stdin_ended: false,
            eof_given: false,
            lane: VecDeque::new(),
            asked: None,
            active: None,
            dies: None,
            removed: false,
        });
        self.touch(process);
        let kind = match exec.mode {
            Mode::Interactive { wait } => Kind::Start { wait: Some(clamped(wait.unwrap_or(EXEC_WAIT))) },
            Mode::Follow => Kind::Start { wait: None },
            Mode::OneShot { .. } => Kind::OneShot,
        };
        self.register(process, exec.turn, kind);
        match requirement(self.policy, self.profile, exec.command, exec.escalated) {
            Need::Refusal => self.refuse_start(process, Refusal::Forbidden),
            Need::Question if self.grants.contains(&self.key(process)) => {
                self.processes[process].approved = true;
                self.launch(process);
            }
            Need::Question => {
                let question = self.question(process, About::Start, exec.turn, 0);
                self.processes[process].stage = Stage::Asking(question);
            }
            Need::Nothing => self.launch(process),
        }
    }

    /// What an approval is kept for.
    pub(super) fn key(&self, process: Index) -> (Command, u8, bool, bool) {
        let Process { exec, cwd, .. } = &self.processes[process];
        (exec.command, *cwd, exec.terminal, exec.escalated)
    }

    /// It may start: it takes a slot, what it may do is frozen, and its first attempt begins.
    pub(super) fn launch(&mut self, index: Index) {
        if !self.make_room(index) {
            return self.refuse_start(index, Refusal::TableFull);
        }
        let profile = self.profile;
        let process = &mut self.processes[index];
        let trusted = process.exec.command == Command::Allowed;
        process.frozen = profile;
        process.held = first_sandbox(profile, trusted, process.exec.escalated && process.approved);
        self.begin_attempt(index);
    }

    pub(super) fn begin_attempt(&mut self, index: Index) {
        let now = self.now;
        let process = &mut self.processes[index];
        process.stage = Stage::Starting(now + process.exec.program.starts);
        let attempt = process.attempts.len() + 1;
        for call in self.calls.iter_mut().filter(|call| call.waits && call.process == index) {
            if !matches!(call.kind, Kind::Condition { .. } | Kind::Sweep { .. } | Kind::AtOnce) {
                (call.attempt, call.from) = (attempt, 0);
            }
        }
    }

    /// The spawner has answered.
    pub(super) fn started(&mut self, index: Index) {
        let (now, number) = (self.now, index);
        let process = &mut self.processes[index];
        let attempt = process.attempts.len() + 1;
        let sandboxed = process.held == Held::Sandboxed;
        if process.exec.program.start_fails(sandboxed) {
            return if attempt == 1 {
                self.give_up(index, Refusal::SpawnFailed);
            } else {
                self.surface(index);
            };
        }
        process.attempts.push(Attempt {
            held: process.held,
            since: now,
            child: Child::start(&process.exec, (number, attempt), sandboxed, now),
            output_end: 0,
            exited: false,
            closed: false,
            gone: false,
            denied: false,
        });
        process.stage = Stage::Alive;
        process.cursor = 0;
        if attempt == 1
            && let Mode::OneShot { timeout } = process.exec.mode
        {
            process.dies = Some(now + timeout.unwrap_or(ONE_SHOT));
        }
        self.start_clocks(index);
        self.climb(index);
        self.feed(index);
    }

    fn make_room(&mut self, newcomer: Index) -> bool {
        let occupies = |process: &Process| {
            !process.removed
                && !process.gave_room
                && !process.is_undecided()
                && !matches!(process.stage, Stage::Ended(_))
        };
        let mut holders: Vec<Index> = (0..self.processes.len())
            .filter(|index| *index != newcomer && occupies(&self.processes[*index]))
            .collect();
        if holders.len() < TABLE[self.number] {
            return true;
        }
        holders.sort_by_key(|index| std::cmp::Reverse(self.processes[*index].used));
        let busy = |index: &Index| {
            let process = &self.processes[*index];
            process.attempts.is_empty()
                || process.active.is_some()
                || process.asked.is_some()
                || !process.lane.is_empty()
                || self.calls.iter().any(|call| call.waits && call.process == *index && call.is_about_one())
        };
        let rank = |index: &Index| {
            let process = &self.processes[*index];
            (process.exit.is_none(), process.kill.is_none(), process.used)
        };
        let Some(victim) = holders.into_iter().skip(PROTECTED).filter(|index| !busy(index)).min_by_key(rank)
        else {
            return false;
        };
        if self.processes[victim].exit.is_some() {
            self.enter_ended(victim);
        } else {
            self.processes[victim].gave_room = true;
            self.begin_kill(victim, Why::Pruned, None);
        }
        true
    }

    pub(super) fn refuse_start(&mut self, process: Index, why: Refusal) {
        self.give_up(process, why);
    }

    /// Nothing of it runs or will; whoever waits is told.
    fn give_up(&mut self, index: Index, why: Refusal) {
        self.abandon_input(index);
        for call in self.waits_on(index) {
            let why = match self.calls[call].kind {
                Kind::Start { .. } | Kind::OneShot => why,
                _ => Refusal::Unknown,
            };
            self.reply(call, Reply::Refused(why));
        }
        self.processes[index].removed = true;
        if let Some(kill) = self.processes[index].kill.take() {
            self.tell_killers(index, kill);
        }
    }

    /// A launch is ended before an attempt of it runs.
    pub(super) fn call_off(&mut self, index: Index) {
        if let Stage::Asking(question) = self.processes[index].stage {
            self.close(question);
        }
        if self.processes[index].is_undecided() {
            self.refuse_start(index, Refusal::Cancelled);
        } else {
            self.surface(index);
        }
    }
}
