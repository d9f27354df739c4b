//! Input: one lane for each process.

use super::table::{Review, input};
use super::{Clock, Delivered, Delivery, Index, Kind, Session, Stage};
use crate::picture::{About, End, Refusal, Reply};
use crate::step::Sign;

/// Pause after input to a terminal.
const REACTION: u64 = 100;
/// More than this, serialized, nobody reviews.
const REVIEW_BYTES: usize = 8_000;

impl Session {
    /// The next piece goes to the process, if none is on its way.
    pub(super) fn feed(&mut self, index: Index) {
        loop {
            let process = &mut self.processes[index];
            if process.stage != Stage::Alive || process.active.is_some() || process.asked.is_some() {
                return;
            }
            let Some(piece) = process.lane.pop_front() else { return };
            if !process.has_stdin() {
                self.send(index, Sign::Int, (true, false));
                self.delivered(piece.call, Delivered::Whole);
                continue;
            }
            if process.stdin_ended {
                self.reply(piece.call, Reply::Refused(Refusal::StdinEnded));
                continue;
            }
            let needed = if piece.approved || piece.data.is_empty() {
                Review::Nothing
            } else {
                input(self.policy, process.held, process.frozen, self.profile)
            };
            let refusal = match needed {
                Review::Nothing => None,
                Review::Question if !self.calls[piece.call].has_client => {
                    self.calls[piece.call].waits = false;
                    continue;
                }
                Review::Question if piece.data.contains(&0) => Some(Refusal::Nul),
                Review::Question if piece.data.len() > REVIEW_BYTES => Some(Refusal::TooLarge),
                Review::Question => {
                    self.mark(piece.call, Delivered::Asked, (0, 0));
                    let turn = self.calls[piece.call].turn;
                    let question = self.question(index, About::Input, turn, piece.call);
                    self.processes[index].asked = Some((question, piece));
                    continue;
                }
                Review::Forbidden => Some(Refusal::Forbidden),
                Review::NewTerminal => Some(Refusal::NewTerminal),
            };
            if let Some(refusal) = refusal {
                self.reply(piece.call, Reply::Refused(refusal));
                continue;
            }
            // Whether it dies of a signal before it takes what is sent at the same instant, nobody can say.
            self.blurred |= process.attempts.last().is_some_and(|attempt| attempt.child.ended.is_some());
            let committed = process.committed;
            self.mark(piece.call, Delivered::Active, (committed, committed));
            self.processes[index].active = Some(Delivery { piece, taken: 0 });
            self.push_on(index);
        }
    }

    /// As much of the piece on its way as the process takes now.
    pub(super) fn push_on(&mut self, index: Index) {
        let process = &mut self.processes[index];
        let (Some(delivery), Some(attempt)) = (&mut process.active, process.attempts.last_mut()) else {
            return;
        };
        if attempt.child.ended.is_some() {
            return self.delivery_ends(index, Delivered::Broken);
        }
        let data = &delivery.piece.data[delivery.taken..];
        // On a terminal an interrupt is typed, and is not read as input.
        if process.exec.terminal && data == [3] {
            delivery.taken = 1;
            self.send(index, Sign::Int, (true, false));
            return self.delivery_ends(index, Delivered::Whole);
        }
        delivery.taken += attempt.child.take(data);
        let whole = delivery.taken == delivery.piece.data.len();
        // The end of the input is typed on a terminal, which needs room.
        if whole && delivery.piece.eof && process.exec.terminal && attempt.child.room() == 0 {
            return;
        }
        if whole {
            if delivery.piece.eof {
                attempt.child.end_input();
            }
            self.delivery_ends(index, Delivered::Whole);
        }
    }

    fn delivery_ends(&mut self, index: Index, state: Delivered) {
        let process = &mut self.processes[index];
        let Some(Delivery { piece, taken }) = process.active.take() else { return };
        let stopped = matches!(self.calls[piece.call].kind, Kind::Write { stopping: Some(_), .. });
        let from = process.committed;
        process.committed += taken as u64;
        let ends_input = state == Delivered::Whole && !stopped && piece.eof && !process.exec.terminal;
        process.eof_given |= ends_input;
        process.stdin_ended |= ends_input || state == Delivered::Broken;
        let stdin = (from, process.committed);
        self.mark(piece.call, Delivered::Whole, stdin);
        self.delivered(piece.call, state);
        self.feed(index);
    }

    fn mark(&mut self, call: Index, new: Delivered, range: (u64, u64)) {
        if let Kind::Write { state, stdin, .. } = &mut self.calls[call].kind {
            (*state, *stdin) = (new, range);
        }
    }

    /// A delivery is over: its call is answered, or waits for output from now on.
    fn delivered(&mut self, index: Index, how: Delivered) {
        if !self.calls[index].waits {
            return;
        }
        let process = self.calls[index].process;
        let Kind::Write { state, collect, stopping, .. } = &mut self.calls[index].kind else { return };
        *state = how;
        let (collect, stopping) = (*collect, *stopping);
        match (stopping, collect) {
            (Some(end), _) => self.answer_write(index, end),
            (None, None) => self.answer_write(index, End::Delivered),
            (None, Some(_)) if how == Delivered::Broken => {}
            (None, Some(length)) => {
                let pause = if self.processes[process].exec.terminal { REACTION } else { 0 };
                self.set_clock(index, pause + length);
            }
        }
    }

    fn answer_write(&mut self, index: Index, end: End) {
        let broken = matches!(self.calls[index].kind, Kind::Write { state: Delivered::Broken, .. });
        let over = self.processes[self.calls[index].process].end_is_collected();
        if broken && !over && end != End::Interrupted {
            return self.reply(index, Reply::Refused(Refusal::StdinEnded));
        }
        self.answer(index, end);
    }

    /// A write waits no more; what is on its way stops where it is.
    pub(super) fn stop_write(&mut self, index: Index, end: End) {
        let process = self.calls[index].process;
        let Kind::Write { state, stopping, .. } = &mut self.calls[index].kind else { return };
        match *state {
            Delivered::Asked => {
                if let Some((question, _)) = self.processes[process].asked.take() {
                    self.mark(index, Delivered::Queued, (0, 0));
                    self.close(question);
                }
                self.answer_write(index, end);
                self.feed(process);
            }
            Delivered::Queued => {
                self.processes[process].lane.retain(|piece| piece.call != index);
                self.answer_write(index, end);
            }
            Delivered::Active => {
                *stopping = Some(end);
                // It stops at once: there is nothing that it waits for but room.
                self.delivery_ends(process, Delivered::Whole);
            }
            Delivered::Whole | Delivered::Broken => self.answer_write(index, end),
        }
    }

    /// No more input can be delivered; those who brought it wait for the end.
    pub(super) fn abandon_input(&mut self, index: Index) {
        if let Some((question, piece)) = self.processes[index].asked.take() {
            self.close(question);
            self.mark(piece.call, Delivered::Queued, (0, 0));
        }
        self.processes[index].lane.clear();
        self.processes[index].stdin_ended |= self.processes[index].exit.is_some();
    }

    /// The attempt ended that the head of the lane was for: another one would be asked about anew.
    pub(super) fn suspend_review(&mut self, index: Index) {
        if let Some((question, piece)) = self.processes[index].asked.take() {
            self.mark(piece.call, Delivered::Queued, (0, 0));
            self.processes[index].lane.push_front(piece);
            self.close(question);
        }
    }

    /// Whether nothing can have reached the program.
    pub(super) fn is_untouched(&self, index: Index) -> bool {
        let process = &self.processes[index];
        process.committed == 0 && process.active.is_none() && !process.eof_given
    }

    /// The clock of a call that runs, if it does.
    pub(super) fn runs_until(&self, call: Index) -> Option<u64> {
        match self.calls[call].clock {
            Clock::Runs(due) if self.calls[call].waits => Some(due),
            _ => None,
        }
    }
}
