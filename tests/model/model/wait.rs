//! Calls that wait, and what ends their waits.

use bytes::Bytes;

use super::start::clamped;
use super::{Call, Clock, Delivered, Index, Kind, Piece, Session, Stage};
use crate::picture::{Collected, ConditionEnd, End, Output, Refusal, Reply, Why};
use crate::step::{Input, Turn, What, Whom};

const POLL: (u64, u64) = (5_000, 300_000);
const WRITE_WAIT: u64 = 250;

impl Call {
    /// Whether it is about one process, so that this process is in use.
    pub(super) const fn is_about_one(&self) -> bool {
        !matches!(self.kind, Kind::Sweep { .. } | Kind::AtOnce)
    }

    /// Whether a model reads its answer.
    const fn carries_output(&self) -> bool {
        match &self.kind {
            Kind::Start { .. } | Kind::OneShot => true,
            Kind::Write { collect, .. } => collect.is_some(),
            Kind::Poll { collects, .. } => *collects,
            Kind::Condition { .. } | Kind::Sweep { .. } | Kind::AtOnce => false,
        }
    }
}

/// The bytes of an input.
pub(crate) fn bytes_of(input: Input) -> Vec<u8> {
    match input {
        Input::Poll | Input::Eof => Vec::new(),
        Input::Bytes(length) => (0..length).map(|at| b'A' + (at % 26) as u8).collect(),
        Input::Nul => b"a\0b".to_vec(),
        Input::Interrupt => vec![3],
    }
}

impl Session {
    pub(super) fn waits_on(&self, process: Index) -> Vec<Index> {
        let waits = |call: &Call| call.waits && call.process == process && call.is_about_one();
        (0..self.calls.len()).filter(|index| waits(&self.calls[*index])).collect()
    }

    fn existing(&self, whom: Whom) -> Option<Index> {
        self.whom(whom).filter(|process| !self.processes[*process].removed)
    }

    pub(super) fn write(&mut self, to: Whom, input: Input, wait: Option<u64>) {
        let Some(index) = self.existing(to) else {
            return self.at_once(Reply::Refused(Refusal::Unknown));
        };
        let process = &self.processes[index];
        let polls = input == Input::Poll;
        let (ended, committed) = (process.exit.is_some(), process.committed);
        let interrupts = input == Input::Interrupt;
        let refusal = if ended && process.told {
            Some(Refusal::Gone)
        } else if !polls && process.is_undecided() {
            Some(Refusal::NotStarted)
        } else if polls || ended {
            None
        } else if !process.has_stdin() && !interrupts {
            Some(Refusal::NoStdin)
        } else {
            process.stdin_ended.then_some(Refusal::StdinEnded)
        };
        if let Some(refusal) = refusal {
            return self.at_once(Reply::Refused(refusal));
        }
        self.touch(index);
        let delivers = !polls && !ended;
        let length = if polls {
            wait.unwrap_or(POLL.0).clamp(POLL.0, POLL.1)
        } else {
            clamped(wait.unwrap_or(WRITE_WAIT))
        };
        let kind = if delivers {
            let stdin = (committed, committed);
            Kind::Write { state: Delivered::Queued, stdin, collect: wait.map(|_| length), stopping: None }
        } else {
            Kind::Poll { stdin: (!polls).then_some((committed, committed)), collects: wait.is_some() }
        };
        let (attempt, from) = (self.processes[index].attempt(), self.processes[index].cursor);
        let call = self.register(index, 0, kind);
        (self.calls[call].attempt, self.calls[call].from) = (attempt, from);
        if delivers {
            let piece = Piece { call, data: bytes_of(input), eof: input == Input::Eof, approved: false };
            self.processes[index].lane.push_back(piece);
            self.feed(index);
            if wait.is_none() {
                return;
            }
        }
        if self.calls[call].waits && self.calls[call].clock == Clock::Unset {
            self.set_clock(call, length);
        }
        if self.calls[call].waits && self.processes[index].end_is_collected() {
            self.answer(call, End::Exited);
        }
    }

    pub(super) fn wait_for(&mut self, on: Whom, what: What, timeout: Option<u64>) {
        let Some(index) = self.existing(on) else {
            return self.at_once(Reply::Refused(Refusal::Unknown));
        };
        let (attempt, from) = (self.processes[index].attempt(), self.processes[index].output_end());
        self.touch(index);
        let until = timeout.map(|ms| self.now + ms);
        let call = self.register(index, 1, Kind::Condition { what, until });
        (self.calls[call].attempt, self.calls[call].from) = (attempt, from);
        self.check(call);
    }

    /// Whether a condition is met, or cannot be any more.
    fn check(&mut self, index: Index) {
        let call = &self.calls[index];
        let Kind::Condition { what, .. } = call.kind else { return };
        let process = &self.processes[call.process];
        let attempt = process.attempts.get(call.attempt - 1);
        let closed = attempt.is_some_and(|attempt| attempt.closed);
        let exited = process.exit.is_some();
        let end = match what {
            What::Exit if exited => ConditionEnd::Met,
            What::Closed if exited && closed => ConditionEnd::Met,
            What::Output if attempt.is_some_and(|attempt| attempt.output_end > call.from) => {
                ConditionEnd::Met
            }
            What::Output if closed || matches!(process.stage, Stage::Ended(_)) => ConditionEnd::Ended,
            _ => return,
        };
        self.answer_condition(index, end);
    }

    pub(super) fn check_conditions(&mut self, process: Index) {
        for call in self.waits_on(process) {
            self.check(call);
        }
    }

    pub(super) fn answer_condition(&mut self, call: Index, end: ConditionEnd) {
        self.reply(call, Reply::Condition(end));
    }

    /// Answers a call with what its process has said since.
    pub(super) fn answer(&mut self, index: Index, end: End) {
        let call = &self.calls[index];
        let carries = call.carries_output();
        let starts = matches!(call.kind, Kind::Start { .. } | Kind::OneShot);
        let process = &mut self.processes[call.process];
        let attempt = process.attempt();
        let from = if call.attempt == attempt { call.from } else { 0 };
        let next = if carries { process.output_end().max(from) } else { from };
        let exit = process.exit.map(|(exit, _)| exit);
        process.attended &= !starts;
        if carries {
            process.cursor = process.cursor.max(next);
            process.told |= exit.is_some();
        }
        let end = if exit.is_some() { End::Exited } else { end };
        let stdin = match &call.kind {
            Kind::Write { state: Delivered::Queued | Delivered::Asked, .. } => {
                Some((process.committed, process.committed))
            }
            Kind::Write { stdin, .. } => Some(*stdin),
            Kind::Poll { stdin, .. } => *stdin,
            _ => None,
        };
        let last = process.attempts.last();
        let said = last.map_or(&[][..], |attempt| &attempt.child.said[from as usize..next as usize]);
        let collected = Collected {
            end,
            exit,
            denied: last.is_some_and(|attempt| attempt.denied),
            attempt,
            from,
            next,
            stdin,
            output: Output(Bytes::copy_from_slice(said)),
            alive: exit.is_none() && end != End::OneShotInterrupted,
        };
        self.reply(index, Reply::Result(collected));
    }

    /// The time of a call is up.
    pub(super) fn time_is_up(&mut self, index: Index) {
        let call = &mut self.calls[index];
        if matches!(call.kind, Kind::Condition { .. }) {
            return self.answer_condition(index, ConditionEnd::TimedOut);
        }
        call.clock = Clock::Unset;
        if matches!(self.processes[call.process].stage, Stage::Judging(_)) {
            call.clock = Clock::Out;
            return;
        }
        self.end_wait(index, End::Yielded);
    }

    /// What was judged is not the end of the process.
    pub(super) fn time_was_up(&mut self, process: Index) {
        for call in self.waits_on(process) {
            if self.calls[call].clock == Clock::Out
                && matches!(self.calls[call].kind, Kind::Write { .. } | Kind::Poll { .. })
            {
                self.end_wait(call, End::Yielded);
            }
        }
    }

    fn end_wait(&mut self, call: Index, end: End) {
        match self.calls[call].kind {
            Kind::Write { .. } => self.stop_write(call, end),
            Kind::Condition { .. } => self.answer_condition(call, as_condition(end)),
            _ => self.answer(call, end),
        }
    }

    pub(super) fn interrupt(&mut self, turn: Turn) {
        let reply = self.end_waits_of(turn);
        self.at_once(reply);
    }

    /// Every wait of a turn returns; nobody dies but one-shots.
    pub(super) fn end_waits_of(&mut self, turn: Turn) -> Reply {
        let open = self.asked(false);
        let of_turn: Vec<Index> = (0..self.calls.len())
            .filter(|index| {
                let call = &self.calls[*index];
                call.waits && call.is_about_one() && call.turn == turn
            })
            .collect();
        let (mut waits, mut waited_for, mut one_shots) = (0, Vec::new(), Vec::new());
        for call in of_turn {
            if !self.calls[call].waits {
                continue;
            }
            waits += 1;
            let index = self.calls[call].process;
            waited_for.push(index);
            if !matches!(self.calls[call].kind, Kind::Start { .. } | Kind::OneShot) {
                self.end_wait(call, End::Interrupted);
                continue;
            }
            self.processes[index].attended = false;
            match self.processes[index].stage {
                Stage::Asking(_) => self.call_off(index),
                Stage::Judging(_) => {}
                _ if self.processes[index].is_one_shot() => {
                    self.begin_kill(index, Why::Interrupted, None);
                    self.answer(call, End::OneShotInterrupted);
                    one_shots.push(index);
                }
                _ => self.answer(call, End::Interrupted),
            }
        }
        let withdrawn = open.iter().filter(|question| !self.questions[**question].open).count() as u32;
        let alive = (0..self.processes.len())
            .filter(|index| {
                let process = &self.processes[*index];
                !process.removed
                    && (process.exec.turn == turn || waited_for.contains(index))
                    && process.exit.is_none()
                    && !process.is_one_shot()
            })
            .collect();
        Reply::Interrupted { waits, withdrawn, alive, one_shots }
    }

    /// The client of a call goes away. That is nothing to a process, unless the call is its life.
    pub(super) fn hang_up(&mut self, pick: u8) {
        let waiting = self.waiting();
        if waiting.is_empty() {
            return;
        }
        let index = waiting[usize::from(pick) % waiting.len()];
        let call = &mut self.calls[index];
        call.has_client = false;
        call.reply = Some(Reply::HungUp);
        let process = call.process;
        match call.kind {
            Kind::Write { state: Delivered::Asked, .. } => {
                self.calls[index].waits = false;
                if let Some((question, _)) = self.processes[process].asked.take() {
                    self.close(question);
                }
                self.feed(process);
            }
            Kind::Write { collect: None, stopping: None, .. } => self.set_clock(index, clamped(u64::MAX)),
            Kind::Write { .. } | Kind::Sweep { .. } | Kind::AtOnce => {}
            Kind::Poll { .. } | Kind::Condition { .. } => call.waits = false,
            Kind::Start { .. } | Kind::OneShot => {
                call.waits = false;
                let one_shot = matches!(call.kind, Kind::OneShot);
                self.processes[process].attended = false;
                if one_shot {
                    self.begin_kill(process, Why::Disconnected, None);
                } else if matches!(self.processes[process].stage, Stage::Asking(_)) {
                    self.call_off(process);
                }
            }
        }
    }
}

/// How a wait that was ended by `end` counts as a condition's.
const fn as_condition(end: End) -> ConditionEnd {
    match end {
        End::Interrupted | End::OneShotInterrupted => ConditionEnd::Interrupted,
        End::Yielded => ConditionEnd::TimedOut,
        End::Exited | End::Delivered => ConditionEnd::Ended,
    }
}
