//! Input: one lane for each process, delivered in order, one piece at a time.

use bytes::Bytes;

use super::start::Repeat;
use super::wait::{Stage, Wait, WaitKind, WriteWait, is_interrupt};
use super::{
    Answer, Effect, FeedKind, Session, TargetError, WaitEnd, Write, WriteAnswer, WriteError, WriteOutcome,
};
use crate::core::ids::{CallId, ProcessId, WriteId};
use crate::core::limits::{INPUT_QUEUE_MAX, TERMINAL_REACTION};
use crate::core::process::{Active, InputEnd, Queued};
use crate::core::signal::{Scope, Signal};
use crate::core::time::Instant;

impl Session {
    pub(super) fn write(&mut self, now: Instant, call: CallId, write: Write) {
        if let Some((request, fingerprint)) = &write.request {
            match self.repeat(call, request, *fingerprint) {
                // A write whose client went away keeps its wait until it is settled, so nothing is abandoned.
                Repeat::New | Repeat::Abandoned(_) => {}
                Repeat::Settled => return,
                Repeat::Reused => {
                    let reused = WriteError::RequestReused { request: request.clone() };
                    return self.reply(call, Answer::Write(Err(reused)));
                }
            }
        }
        match self.accept(now, call, write) {
            Ok(()) => self.answer_if_over(now, call),
            Err(refusal) => self.reply(call, Answer::Write(Err(refusal))),
        }
    }

    /// Registers the call, or refuses it and has done nothing.
    fn accept(&mut self, now: Instant, call: CallId, write: Write) -> Result<(), WriteError> {
        let id = write.process;
        let process = self.known(id)?;
        let (attempt, from, committed) = (process.attempt_number(), process.cursor, process.input.committed);
        let exit = process.exit().copied();
        if let Some(exit) = exit.filter(|_| process.told) {
            return Err(TargetError::Gone { process: id, exit: Box::new(exit) }.into());
        }
        let polls = write.input.is_empty() && !write.eof;
        if !polls && process.is_undecided() {
            return Err(WriteError::NotStarted { process: id });
        }
        let delivers = !polls && exit.is_none();
        if delivers {
            if !process.input.present && (write.eof || !is_interrupt(&write.input)) {
                return Err(WriteError::NoStdin { process: id });
            }
            self.may_send(id)?;
        }
        self.touch(now, id);
        let asked = match write.answer {
            WriteAnswer::Collect { yield_time } => yield_time,
            WriteAnswer::Delivered => None,
        };
        let yield_time = if polls { self.limits.poll_yield(asked) } else { self.limits.write_yield(asked) };
        let collects = matches!(write.answer, WriteAnswer::Collect { .. });
        let kind = if delivers {
            let stdin = (committed, committed);
            let collect = collects.then_some(yield_time);
            WaitKind::Write(WriteWait { stage: Stage::Queued, stdin, collect, stopping: None })
        } else {
            WaitKind::Poll { stdin: (!polls).then_some((committed, committed)), collects }
        };
        let request = write.request.map(|(request, fingerprint)| {
            self.remember(request.clone(), fingerprint, id, call);
            request
        });
        let wait = Wait::new(write.turn, id, attempt, from, kind, now).for_request(request);
        self.begin_wait(now, call, wait);
        if delivers {
            self.enqueue(now, call, id, write.input, write.offset, write.eof);
            if matches!(write.answer, WriteAnswer::Delivered) {
                return Ok(());
            }
        }
        if self.waits.get(&call).is_some_and(|wait| wait.yields == super::wait::Yield::Unset) {
            self.set_yield(now, call, yield_time);
        }
        Ok(())
    }

    fn may_send(&self, id: ProcessId) -> Result<(), WriteError> {
        let process = self.known(id)?;
        if let Some(ended) = process.input.ended {
            let committed = process.input.committed;
            return Err(WriteError::StdinEnded { process: id, committed, by: ended.by() });
        }
        if process.input.queue.len() >= INPUT_QUEUE_MAX {
            return Err(WriteError::QueueFull {
                process: id,
                limit: INPUT_QUEUE_MAX,
                committed: process.input.committed,
            });
        }
        Ok(())
    }

    fn enqueue(
        &mut self,
        now: Instant,
        call: CallId,
        id: ProcessId,
        data: Bytes,
        offset: Option<u64>,
        eof: bool,
    ) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.input.queue.push_back(Queued { call, data, offset, eof, approved: false });
        }
        self.feed_input(now, id);
    }

    /// Starts the next delivery, if none is under way and the process can take it.
    pub(super) fn feed_input(&mut self, now: Instant, id: ProcessId) {
        loop {
            let Some(process) = self.processes.get_mut(&id) else { return };
            let takes = process.is_alive();
            if !takes || process.input.active.is_some() || process.input.reviewing.is_some() {
                return;
            }
            let Some(next) = process.input.queue.pop_front() else { return };
            let committed = process.input.committed;
            if !process.input.present {
                // The one input that such a process takes.
                let (signal, scope) = (Signal::INT, Scope::Group);
                self.effects.push_back(Effect::Signal { process: id, signal, scope, call: None });
                self.finish_delivery(now, next.call, WriteOutcome::Whole);
                continue;
            }
            if let Some(ended) = process.input.ended {
                let refusal = WriteError::StdinEnded { process: id, committed, by: ended.by() };
                self.refuse_write(now, next.call, refusal);
                continue;
            }
            let start = next.offset.unwrap_or(committed);
            if start > committed {
                self.refuse_write(
                    now,
                    next.call,
                    WriteError::OffsetGap { offset: start, expected: committed },
                );
                continue;
            }
            // What an earlier call delivered already is not delivered again.
            let known = usize::try_from(committed - start).unwrap_or(usize::MAX).min(next.data.len());
            let data = next.data.slice(known..);
            let next = Queued { data: data.clone(), offset: Some(committed), ..next };
            let Some(next) = self.review_input(now, id, next) else { continue };
            self.mark_write(next.call, Stage::Active, (committed, committed));
            if data.is_empty() && !next.eof {
                self.finish_delivery(now, next.call, WriteOutcome::Whole);
                continue;
            }
            self.writes += 1;
            let write = WriteId(self.writes);
            if let Some(process) = self.processes.get_mut(&id) {
                process.input.active =
                    Some(Active { write, call: next.call, eof: next.eof, stopping: false });
            }
            self.effects.push_back(Effect::Write { process: id, write, data, eof: next.eof });
        }
    }

    pub(super) fn on_wrote(
        &mut self,
        now: Instant,
        id: ProcessId,
        write: WriteId,
        taken: u64,
        outcome: WriteOutcome,
    ) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        let Some(active) = process.input.active.take_if(|active| active.write == write) else { return };
        let from = process.input.committed;
        let to = from + taken;
        process.input.committed = to;
        let eof = active.eof && outcome == WriteOutcome::Whole;
        match outcome {
            WriteOutcome::Whole if eof && process.terminal.is_none() => {
                process.input.ended = Some(InputEnd::Eof)
            }
            WriteOutcome::Broken => process.input.ended = Some(InputEnd::Program),
            WriteOutcome::Whole | WriteOutcome::Stopped => {}
        }
        if taken > 0 || eof {
            let incomplete = outcome != WriteOutcome::Whole;
            let kind = FeedKind::StdinWritten { process: id, from, to, eof, incomplete };
            self.publish_for_call(now, active.call, id, kind);
        }
        self.mark_write(active.call, Stage::Delivered, (from, to));
        self.finish_delivery(now, active.call, outcome);
        self.feed_input(now, id);
    }

    pub(super) fn mark_write(&mut self, call: CallId, stage: Stage, stdin: (u64, u64)) {
        if let Some(Wait { kind: WaitKind::Write(write), .. }) = self.waits.get_mut(&call) {
            write.stage = stage;
            write.stdin = stdin;
        }
    }

    /// A delivery has ended: its call is answered, or collects output from now on.
    fn finish_delivery(&mut self, now: Instant, call: CallId, outcome: WriteOutcome) {
        let Some(wait) = self.waits.get_mut(&call) else { return };
        let id = wait.process;
        let WaitKind::Write(write) = &mut wait.kind else { return };
        write.stage = if outcome == WriteOutcome::Broken { Stage::Broken } else { Stage::Delivered };
        if let Some(end) = write.stopping {
            return self.answer_write(now, call, end);
        }
        match write.collect {
            None => self.answer_write(now, call, WaitEnd::Delivered),
            // Nobody reads: most often the process is ending, which the rest of the wait will show.
            Some(_) if outcome == WriteOutcome::Broken => {}
            Some(length) => {
                let terminal = self.processes.get(&id).is_some_and(|process| process.terminal.is_some());
                let pause = if terminal { TERMINAL_REACTION } else { std::time::Duration::ZERO };
                self.set_yield(now, call, pause + length);
            }
        }
    }

    /// A write's wait must end: at once, or as soon as a delivery under way has stopped at a known offset.
    pub(super) fn stop_or_answer_write(&mut self, now: Instant, call: CallId, end: WaitEnd) {
        let Some(wait) = self.waits.get_mut(&call) else { return };
        let id = wait.process;
        let WaitKind::Write(write) = &mut wait.kind else { return };
        let stage = write.stage;
        if stage == Stage::Active && write.stopping != Some(WaitEnd::Interrupted) {
            write.stopping = Some(end);
        }
        let Some(process) = self.processes.get_mut(&id) else { return };
        match stage {
            Stage::Asked => {
                self.withdraw_review(now, id);
                self.answer_write(now, call, end);
                self.feed_input(now, id);
            }
            Stage::Queued => {
                process.input.queue.retain(|queued| queued.call != call);
                self.answer_write(now, call, end);
            }
            Stage::Active => {
                if let Some(active) = &mut process.input.active
                    && !active.stopping
                {
                    active.stopping = true;
                    self.effects.push_back(Effect::StopWrite { process: id, write: active.write });
                }
            }
            Stage::Delivered | Stage::Broken => self.answer_write(now, call, end),
        }
    }

    /// Answers a write; one that nobody could read is refused, unless the process has ended, which says more.
    fn answer_write(&mut self, now: Instant, call: CallId, end: WaitEnd) {
        let Some(wait) = self.waits.get(&call) else { return };
        let id = wait.process;
        let broken = matches!(&wait.kind, WaitKind::Write(WriteWait { stage: Stage::Broken, .. }));
        let over = self.processes.get(&id).is_some_and(crate::core::process::Process::end_is_collected);
        if broken && !over && end != WaitEnd::Interrupted {
            let committed = self.processes.get(&id).map_or(0, |process| process.input.committed);
            let by = InputEnd::Program.by();
            return self.refuse_write(now, call, WriteError::StdinEnded { process: id, committed, by });
        }
        self.answer(now, call, end);
    }

    /// No more input of a process can be delivered. Waits of queued input then wait for its end.
    pub(super) fn abandon_input(&mut self, now: Instant, id: ProcessId, ended: Option<InputEnd>) {
        self.withdraw_review(now, id);
        if let Some(process) = self.processes.get_mut(&id) {
            process.input.queue.clear();
            process.input.ended = process.input.ended.or(ended);
        }
    }
}
