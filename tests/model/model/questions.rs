//! Questions, their answers, and the clocks that stand still meanwhile.

use super::{Clock, EXPIRY, Index, Kind, Question, Session, Stage};
use crate::picture::{About, Refusal, Reply};
use crate::step::{Answer, Which};

impl Session {
    pub(super) fn question(&mut self, process: Index, about: About, turn: u8, call: Index) -> Index {
        if !self.stands_still() {
            self.stop_clocks();
        }
        self.questions.push(Question { process, about, turn, open: true, expires: self.now + EXPIRY, call });
        self.questions.len() - 1
    }

    pub(super) fn stands_still(&self) -> bool {
        !self.holds.is_empty() || self.questions.iter().any(|question| question.open)
    }

    fn stop_clocks(&mut self) {
        for call in self.calls.iter_mut().filter(|call| call.waits) {
            if let Clock::Runs(due) = call.clock {
                call.clock = Clock::Stands(due - self.now);
            }
        }
    }

    fn let_clocks_run(&mut self) {
        if self.stands_still() {
            return;
        }
        for call in self.calls.iter_mut().filter(|call| call.waits) {
            if let Clock::Stands(left) = call.clock {
                call.clock = Clock::Runs(self.now + left);
            }
        }
    }

    /// Closes a question; answers whether it was open.
    pub(super) fn close(&mut self, question: Index) -> bool {
        let was_open = std::mem::replace(&mut self.questions[question].open, false);
        if was_open {
            self.let_clocks_run();
        }
        was_open
    }

    pub(super) fn decide(&mut self, which: Which, answer: Answer) {
        let among =
            |asked: Vec<Index>, pick: u8| (!asked.is_empty()).then(|| asked[usize::from(pick) % asked.len()]);
        let question = match which {
            Which::Open(pick) => among(self.asked(false), pick),
            Which::Any(pick) => among(self.asked(true), pick),
            Which::Unknown => None,
        };
        let Some(question) = question else { return self.at_once(Reply::Refused(Refusal::Unknown)) };
        let Question { about, open, turn, process, .. } = self.questions[question];
        let once = about != About::Start;
        let refusal = match answer {
            _ if !open => Some(Refusal::NotOpen),
            Answer::ApproveForSession | Answer::AddRule if once => Some(Refusal::NotAllowed),
            Answer::AddRule => Some(Refusal::NoRule),
            _ => None,
        };
        if let Some(refusal) = refusal {
            return self.at_once(Reply::Refused(refusal));
        }
        // Its call is the one that is answered last.
        match answer {
            Answer::Approve | Answer::ApproveForSession | Answer::AddRule => {
                if answer == Answer::ApproveForSession {
                    self.grants.insert(self.key(process));
                }
                self.settle(question, None);
            }
            Answer::Decline => self.settle(question, Some(Refusal::Declined)),
            Answer::Abort => {
                self.settle(question, Some(Refusal::Aborted));
                self.end_waits_of(turn);
            }
        }
        self.at_once(Reply::Done);
    }

    pub(super) fn expire(&mut self, question: Index) {
        self.settle(question, Some(Refusal::Expired));
    }

    /// What was to be judged is no longer what would be done.
    pub(super) fn withdraw_stale(&mut self) {
        for question in self.asked(false) {
            if self.questions[question].open {
                self.settle(question, Some(Refusal::Stale));
            }
        }
    }

    fn settle(&mut self, question: Index, refusal: Option<Refusal>) {
        self.close(question);
        let Question { process, about, call, .. } = self.questions[question];
        match (about, refusal) {
            (About::Start, None) => {
                self.processes[process].approved = true;
                self.launch(process);
            }
            (About::Start, Some(refusal)) => self.refuse_start(process, refusal),
            (About::Retry, None) => self.retry(process),
            (About::Retry, Some(_)) => self.surface(process),
            (About::Input, None) => {
                if let Some((_, mut piece)) = self.processes[process].asked.take() {
                    piece.approved = true;
                    self.processes[process].lane.push_front(piece);
                    self.feed(process);
                }
            }
            (About::Input, Some(refusal)) => {
                self.processes[process].asked = None;
                self.reply(call, Reply::Refused(refusal));
                self.feed(process);
            }
        }
    }

    pub(super) fn hold(&mut self, lease: u8, ms: u64) {
        if ms == 0 {
            self.release(lease);
            return self.at_once(Reply::Held(None));
        }
        if !self.stands_still() {
            self.stop_clocks();
        }
        self.holds.insert(lease, self.now + ms);
        self.at_once(Reply::Held(Some(self.now + ms)));
    }

    pub(super) fn release(&mut self, lease: u8) {
        if self.holds.remove(&lease).is_some() {
            self.let_clocks_run();
        }
    }

    pub(super) fn set_clock(&mut self, call: Index, length: u64) {
        let clock = if self.stands_still() { Clock::Stands(length) } else { Clock::Runs(self.now + length) };
        self.calls[call].clock = clock;
    }

    /// Starts that wait for a process which has just begun to run wait from now on.
    pub(super) fn start_clocks(&mut self, process: Index) {
        for call in self.waits_on(process) {
            if let Kind::Start { wait: Some(wait) } = self.calls[call].kind
                && matches!(self.calls[call].clock, Clock::Unset | Clock::Out)
            {
                self.set_clock(call, wait);
            }
        }
    }

    pub(super) fn asks_to_retry(&mut self, process: Index) {
        let turn = self.processes[process].exec.turn;
        let question = self.question(process, About::Retry, turn, 0);
        self.processes[process].stage = Stage::Asking(question);
    }
}
