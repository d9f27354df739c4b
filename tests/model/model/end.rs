//! How processes end: denials, second attempts, last output, the kill ladder.

use std::collections::BTreeSet;

use super::table::{Need, second_attempt};
use super::{Call, Index, Kill, Kind, Session, Stage, Time};
use crate::picture::{End, Exit, Held, Refusal, Reply, Status, Why};
use crate::step::{Sign, Whom};

const WINDOW: u64 = 150;
const LAST_WORDS: u64 = 20;
const COLLECT: u64 = 50;
const FEED: u64 = 100;
const GRACE: u64 = 1_000;
pub(super) const TOMBSTONE: u64 = 600_000;

impl Session {
    /// The reaper tells of the last attempt.
    pub(super) fn reaped(&mut self, index: Index, at: Time, status: Status) {
        let process = &mut self.processes[index];
        let Some(attempt) = process.attempts.last_mut() else { return };
        attempt.exited = true;
        let why = match &process.kill {
            Some(kill) if kill.since.is_some_and(|since| since <= at) => kill.why,
            _ => Why::Itself,
        };
        let exit = Exit { status, why, lifetime: at - attempt.since };
        let judged = attempt.held == Held::Sandboxed && why == Why::Itself && status != Status::Code(0);
        self.suspend_review(index);
        self.processes[index].first_exit = Some(exit);
        if judged {
            self.processes[index].stage = Stage::Judging(at + LAST_WORDS);
        } else {
            self.drain(index, exit, at);
        }
    }

    /// Was it the sandbox?
    pub(super) fn judge(&mut self, index: Index) {
        let process = &mut self.processes[index];
        let (Some(exit), Some(attempt)) = (process.first_exit, process.attempts.last_mut()) else { return };
        let at = attempt.since + exit.lifetime;
        // The words of its denial are all that such a program says.
        attempt.denied = matches!(exit.status, Status::Code(_)) && process.exec.program.denied.is_some();
        let early = attempt.denied && exit.lifetime <= WINDOW;
        let retriable = early && process.attempts.len() == 1 && process.attended && process.kill.is_none();
        let approved = process.approved;
        let frozen = process.frozen;
        let second = if retriable && self.is_untouched(index) {
            second_attempt(self.policy, frozen, self.profile, approved)
        } else {
            Need::Refusal
        };
        match second {
            Need::Refusal => self.drain(index, exit, at),
            Need::Nothing => {
                self.time_was_up(index);
                self.retry(index);
            }
            Need::Question => {
                self.asks_to_retry(index);
                self.time_was_up(index);
            }
        }
    }

    /// The second attempt; of the first one nothing stays.
    pub(super) fn retry(&mut self, index: Index) {
        self.send(index, Sign::Kill, (true, true));
        let process = &mut self.processes[index];
        process.held = Held::Bypassed;
        process.stdin_ended = false;
        self.begin_attempt(index);
    }

    /// The denial of the first attempt is what it came to.
    pub(super) fn surface(&mut self, index: Index) {
        let process = &self.processes[index];
        if let (Some(exit), Some(attempt)) = (process.first_exit, process.attempts.last()) {
            self.drain(index, exit, attempt.since + exit.lifetime);
        }
    }

    fn drain(&mut self, index: Index, exit: Exit, at: Time) {
        let process = &mut self.processes[index];
        process.exit = Some((exit, at));
        process.dies = None;
        process.stage = Stage::Draining { answers: Some(at + COLLECT), feed: at + FEED };
        self.abandon_input(index);
        self.climb(index);
        if self.processes[index].closed() {
            self.enter_ended(index);
        } else {
            self.check_conditions(index);
        }
        self.settle_kill(index);
    }

    pub(super) fn outputs_closed(&mut self, index: Index, attempt: usize) {
        let process = &mut self.processes[index];
        process.attempts[attempt].closed = true;
        let latest = attempt + 1 == process.attempts.len();
        match process.stage {
            Stage::Draining { .. } if latest => self.enter_ended(index),
            Stage::Judging(_) if latest => self.judge(index),
            _ => {}
        }
        self.check_conditions(index);
        self.settle_kill(index);
    }

    /// Answers about its end wait no more for its outputs.
    pub(super) fn collect(&mut self, index: Index) {
        if let Stage::Draining { answers, .. } = &mut self.processes[index].stage {
            *answers = None;
        }
        for call in self.waits_on(index) {
            if !matches!(self.calls[call].kind, Kind::Condition { .. }) {
                self.answer(call, End::Exited);
            }
        }
    }

    pub(super) fn enter_ended(&mut self, index: Index) {
        self.collect(index);
        self.processes[index].stage = Stage::Ended(self.now + TOMBSTONE);
        self.check_conditions(index);
    }

    pub(super) fn tree_gone(&mut self, index: Index, attempt: usize) {
        self.processes[index].attempts[attempt].gone = true;
        self.settle_kill(index);
    }

    pub(super) fn settle_kill(&mut self, index: Index) {
        let process = &mut self.processes[index];
        if !process.tree_gone() {
            return;
        }
        if let Some(kill) = &mut process.kill {
            kill.kills = None;
        }
        if process.is_settled()
            && let Some(kill) = process.kill.take()
        {
            self.tell_killers(index, kill);
        }
    }

    pub(super) fn begin_kill(&mut self, index: Index, why: Why, caller: Option<Index>) {
        let process = &mut self.processes[index];
        let gone = process.tree_gone() && process.exit.is_some();
        if process.is_settled() || (gone && caller.is_none()) {
            return;
        }
        let kill = process.kill.get_or_insert(Kill { why, since: None, kills: None, callers: Vec::new() });
        kill.callers.extend(caller);
        if matches!(process.stage, Stage::Asking(_)) {
            self.call_off(index);
        } else {
            self.climb(index);
        }
    }

    /// TERM, as soon as there is somebody to get it.
    pub(super) fn climb(&mut self, index: Index) {
        let now = self.now;
        let process = &mut self.processes[index];
        if matches!(process.stage, Stage::Starting(_)) || process.tree_gone() {
            return;
        }
        let Some(kill) = process.kill.as_mut().filter(|kill| kill.since.is_none()) else { return };
        kill.since = Some(now);
        kill.kills = Some(now + GRACE);
        self.send(index, Sign::Term, (true, true));
    }

    /// TERM was not enough.
    pub(super) fn grace_is_over(&mut self, index: Index) {
        if let Some(kill) = &mut self.processes[index].kill {
            kill.kills = None;
        }
        self.send(index, Sign::Kill, (true, true));
    }

    /// A signal to the last attempt; answers whether anybody got it.
    pub(super) fn send(&mut self, index: Index, sign: Sign, reach: (bool, bool)) -> bool {
        let now = self.now;
        let last = self.processes[index].attempts.last_mut();
        last.is_some_and(|attempt| attempt.child.signal(sign, reach, now))
    }

    pub(super) fn signal(&mut self, to: Whom, sign: Sign, tree: bool) {
        let known = self.whom(to).filter(|index| !self.processes[*index].removed);
        let Some(index) = known else { return self.at_once(Reply::Refused(Refusal::Unknown)) };
        let process = &self.processes[index];
        if process.exit.is_some() && (process.tree_gone() || !tree) {
            return self.at_once(Reply::Refused(Refusal::Gone));
        }
        if process.attempts.is_empty() {
            return self.at_once(Reply::Refused(Refusal::Starting));
        }
        self.touch(index);
        let starting = matches!(self.processes[index].stage, Stage::Starting(_));
        let reply = if !starting && self.send(index, sign, (tree, tree)) {
            Reply::Done
        } else {
            Reply::Refused(Refusal::Gone)
        };
        self.at_once(reply);
    }

    pub(super) fn terminate(&mut self, whom: Whom) {
        let known = self.whom(whom).filter(|index| !self.processes[*index].removed);
        match known {
            None => self.at_once(Reply::Refused(Refusal::Unknown)),
            Some(index) => self.sweep(vec![index], Why::Terminated),
        }
    }

    pub(super) fn clean(&mut self) {
        let all = (0..self.processes.len()).filter(|index| !self.processes[*index].removed).collect();
        self.sweep(all, Why::Cleaned);
    }

    fn sweep(&mut self, all: Vec<Index>, why: Why) {
        let alive: BTreeSet<Index> =
            all.into_iter().filter(|index| !self.processes[*index].is_settled()).collect();
        let call = self.register(0, 0, Kind::Sweep { left: alive.clone(), gone: Vec::new() });
        for index in alive {
            self.begin_kill(index, why, Some(call));
        }
        self.finish_sweep(call);
    }

    pub(super) fn tell_killers(&mut self, index: Index, kill: Kill) {
        for call in kill.callers {
            if let Kind::Sweep { left, gone } = &mut self.calls[call].kind
                && left.remove(&index)
            {
                gone.push(index);
                gone.sort_unstable();
            }
            self.finish_sweep(call);
        }
    }

    fn finish_sweep(&mut self, call: Index) {
        if let Call { waits: true, kind: Kind::Sweep { left, gone }, .. } = &self.calls[call]
            && left.is_empty()
        {
            let gone = gone.clone();
            self.reply(call, Reply::Gone(gone));
        }
    }
}
