//! What comes next, and what follows from it.

use super::end::TOMBSTONE;
use super::{Index, Kind, Session, Stage, Time};
use crate::picture::Why;

/// Something whose time comes. Of one instant the earlier kind comes first, then the older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Judge(Index),
    Collect(Index),
    Feed(Index),
    OneShot(Index),
    Kill(Index),
    Question(Index),
    Hold(u8),
    Wait(Index),
    Tombstone(Index),
}

impl Session {
    /// Lets time pass.
    pub(crate) fn advance(&mut self, ms: u64) {
        let until = self.now + ms;
        loop {
            let programs = self.programs_due();
            let service = self.agenda().first().map(|(at, _)| *at);
            let Some(next) = programs.into_iter().chain(service).min().filter(|at| *at <= until) else {
                break;
            };
            self.now = next;
            self.blurred |= programs == service;
            let asked = self.questions.len();
            self.react();
            self.blurred |= self.questions.len() > asked + 1;
            while let Some((_, due)) = self.agenda().first().copied().filter(|(at, _)| *at <= next) {
                self.come(due);
            }
            self.react();
        }
        self.now = until;
    }

    /// When a program, or its start, does something next.
    fn programs_due(&self) -> Option<Time> {
        let known = self.processes.iter().filter(|process| !process.removed);
        known
            .flat_map(|process| {
                let start = if let Stage::Starting(at) = process.stage { Some(at) } else { None };
                start.into_iter().chain(process.attempts.iter().filter_map(|attempt| attempt.child.due()))
            })
            .min()
    }

    /// Everything of the service that is due some time, soonest first.
    fn agenda(&self) -> Vec<(Time, Due)> {
        let mut agenda = Vec::new();
        for (index, process) in self.processes.iter().enumerate().filter(|(_, process)| !process.removed) {
            match process.stage {
                Stage::Judging(at) => agenda.push((at, Due::Judge(index))),
                Stage::Draining { answers, feed } => {
                    agenda.extend(answers.map(|at| (at, Due::Collect(index))));
                    agenda.push((feed, Due::Feed(index)));
                }
                Stage::Ended(at) => agenda.push((at, Due::Tombstone(index))),
                Stage::Asking(_) | Stage::Starting(_) | Stage::Alive => {}
            }
            agenda.extend(process.dies.map(|at| (at, Due::OneShot(index))));
            let kills = process.kill.as_ref().and_then(|kill| kill.kills);
            agenda.extend(kills.map(|at| (at, Due::Kill(index))));
        }
        for (index, question) in self.questions.iter().enumerate().filter(|(_, question)| question.open) {
            agenda.push((question.expires, Due::Question(index)));
        }
        agenda.extend(self.holds.iter().map(|(lease, at)| (*at, Due::Hold(*lease))));
        for (index, call) in self.calls.iter().enumerate().filter(|(_, call)| call.waits) {
            let until = if let Kind::Condition { until, .. } = call.kind { until } else { None };
            agenda.extend(until.or_else(|| self.runs_until(index)).map(|at| (at, Due::Wait(index))));
        }
        agenda.sort_unstable();
        agenda
    }

    fn come(&mut self, due: Due) {
        match due {
            Due::Judge(index) => self.judge(index),
            Due::Collect(index) => self.collect(index),
            Due::Feed(index) => {
                self.enter_ended(index);
                self.settle_kill(index);
            }
            Due::OneShot(index) => {
                self.processes[index].dies = None;
                self.begin_kill(index, Why::Timeout, None);
            }
            Due::Kill(index) => self.grace_is_over(index),
            Due::Question(index) => self.expire(index),
            Due::Hold(lease) => self.release(lease),
            Due::Wait(index) => self.time_is_up(index),
            Due::Tombstone(index) => {
                let process = &mut self.processes[index];
                if process.is_settled() && process.kill.is_none() {
                    process.removed = true;
                } else {
                    process.stage = Stage::Ended(self.now + TOMBSTONE);
                }
            }
        }
    }

    /// Programs do what is theirs at this instant, and the service hears of it, until nothing is new.
    pub(super) fn react(&mut self) {
        while (0..self.processes.len()).any(|index| self.hear_of(index)) {}
    }

    /// Answers whether there was something new.
    fn hear_of(&mut self, index: Index) -> bool {
        if self.processes[index].removed {
            return false;
        }
        let now = self.now;
        if matches!(self.processes[index].stage, Stage::Starting(at) if at <= now) {
            self.started(index);
            return true;
        }
        for attempt in 0..self.processes[index].attempts.len() {
            let latest = attempt + 1 == self.processes[index].attempts.len();
            if latest && self.processes[index].active.is_some() {
                self.push_on(index);
            }
            let known = &mut self.processes[index].attempts[attempt];
            known.child.play(now);
            let said = known.child.said.len() as u64;
            if said > known.output_end {
                known.output_end = said;
                self.check_conditions(index);
                return true;
            }
            if let Some((at, status)) = known.child.ended.filter(|_| !known.exited) {
                self.push_on(index);
                self.reaped(index, at, status);
                return true;
            }
            if known.child.outputs_closed() && !known.closed {
                self.outputs_closed(index, attempt);
                return true;
            }
            if known.child.is_gone() && !known.gone {
                self.tree_gone(index, attempt);
                return true;
            }
        }
        false
    }
}
