//! What clients do to their own calls: interrupt a turn, go away, follow a process.

use std::collections::BTreeSet;

use super::timers::Timer;
use super::wait::{Stage, WaitKind, WriteWait};
use super::{
    Answer, ConditionEnd, Effect, FeedKind, InterruptReport, Progress, RequestState, Session, TargetError,
    WaitEnd,
};
use crate::core::ids::{CallId, ProcessId, TurnId};
use crate::core::limits::YIELD_MAX;
use crate::core::process::{EndReason, Phase};
use crate::core::time::Instant;

impl Session {
    pub(super) fn interrupt(&mut self, now: Instant, call: CallId, turn: &TurnId) {
        let report = self.end_waits_of(now, turn);
        self.reply(call, Answer::Interrupted(report));
    }

    /// Ends every wait of a turn, and takes its questions back. No process ends, except one-shots, whose wait is their
    /// life; what has not started will not.
    pub(super) fn end_waits_of(&mut self, now: Instant, turn: &TurnId) -> InterruptReport {
        let of_turn: Vec<CallId> =
            self.waits.iter().filter(|(_, wait)| wait.turn == *turn).map(|(call, _)| *call).collect();
        let mut report = InterruptReport::default();
        let mut waited_for = BTreeSet::new();
        let open = self.questions.open_ids();
        for waiting in of_turn {
            let Some(wait) = self.waits.get(&waiting) else { continue };
            let process = wait.process;
            waited_for.insert(process);
            report.waits += 1;
            let polls = matches!(wait.kind, WaitKind::Write(_) | WaitKind::Poll { .. });
            if polls && self.is_judged(now, waiting, WaitEnd::Interrupted) {
                continue;
            }
            let Some(wait) = self.waits.get(&waiting) else { continue };
            match wait.kind {
                WaitKind::Start { .. } | WaitKind::OneShot => {
                    report.one_shots.extend(self.interrupt_start(now, waiting, process));
                }
                WaitKind::Write(_) => self.stop_or_answer_write(now, waiting, WaitEnd::Interrupted),
                WaitKind::Condition { .. } => self.answer_condition(now, waiting, ConditionEnd::Interrupted),
                WaitKind::Poll { .. } => self.answer(now, waiting, WaitEnd::Interrupted),
            }
        }
        self.withdraw_connections(now, |question| question.turn == *turn);
        // Others may have been asked meanwhile: input that waited behind what was interrupted.
        let withdrawn = open.iter().filter(|id| !self.questions.is_open(id)).count();
        report.withdrawn = u32::try_from(withdrawn).unwrap_or(u32::MAX);
        report.alive = self
            .processes
            .values()
            .filter(|process| process.turn == *turn || waited_for.contains(&process.id))
            .filter(|process| process.exit().is_none() && !process.is_one_shot())
            .map(|process| process.id)
            .collect();
        let (waits, withdrawn) = (report.waits, report.withdrawn);
        self.publish(now, None, FeedKind::Interrupted { turn: turn.clone(), waits, withdrawn });
        report
    }

    /// Ends the wait of a start: what has not started will not, and no second attempt follows a first. The one-shot
    /// that is being ended, if it is one that runs.
    fn interrupt_start(&mut self, now: Instant, waiting: CallId, id: ProcessId) -> Option<ProcessId> {
        let process = self.processes.get_mut(&id)?;
        process.launch.attended = false;
        match process.phase {
            Phase::Reserved | Phase::Asking { .. } => self.call_off(now, id),
            // Within 20 ms it is answered by what the end of its attempt comes to.
            Phase::Judging { .. } => {}
            _ if process.is_one_shot() => {
                self.begin_kill(now, id, EndReason::Interrupted, None);
                self.answer(now, waiting, WaitEnd::OneShotInterrupted);
                return Some(id);
            }
            _ => self.answer(now, waiting, WaitEnd::Interrupted),
        }
        None
    }

    /// A client went away. A process is not touched by that, except a one-shot, whose client's wait is its life.
    pub(super) fn on_dropped(&mut self, now: Instant, call: CallId) {
        for process in self.processes.values_mut() {
            process.followers.retain(|follower| *follower != call);
        }
        let waiting =
            self.waits.iter().find(|(_, wait)| wait.callers.contains(&call)).map(|(first, _)| *first);
        if let Some(first) = waiting
            && let Some(wait) = self.waits.get_mut(&first)
        {
            wait.callers.retain(|caller| *caller != call);
            if wait.callers.is_empty() {
                match wait.kind {
                    // A delivery goes on to its own deadline, so that its outcome is known to a repeat. One without a
                    // deadline gets one: a child that does not read must not keep the lane for somebody who is gone.
                    WaitKind::Write(WriteWait { stage: Stage::Asked, .. }) => self.abandon_review(now, first),
                    WaitKind::Write(WriteWait { collect: None, stopping: None, .. }) => {
                        self.set_yield(now, first, YIELD_MAX);
                    }
                    WaitKind::Write(_) => {}
                    _ => self.abandon(now, first),
                }
            }
        }
        let followed: Vec<ProcessId> = self.processes.keys().copied().collect();
        for process in followed {
            self.client_changed(now, process);
        }
    }

    fn abandon(&mut self, now: Instant, call: CallId) {
        let Some(wait) = self.end_wait(call) else { return };
        if let Some(request) = wait.request.as_ref().and_then(|request| self.requests.get_mut(request)) {
            request.state = RequestState::Abandoned;
        }
        let Some(process) = self.processes.get_mut(&wait.process) else { return };
        if super::questions::is_start(&wait.kind) {
            process.launch.attended = false;
        }
        if matches!(wait.kind, WaitKind::OneShot) {
            self.begin_kill(now, wait.process, EndReason::Disconnected, None);
        } else if super::questions::is_start(&wait.kind)
            && matches!(process.phase, Phase::Reserved | Phase::Asking { .. })
        {
            self.call_off(now, wait.process);
        }
    }

    pub(super) fn attach(&mut self, now: Instant, call: CallId, process: ProcessId) {
        match self.processes.get_mut(&process) {
            None => self.reply(call, Answer::Attached(Err(TargetError::Unknown { process }))),
            Some(known) => {
                known.followers.push(call);
                if let Some(exit) = known.exit().copied() {
                    let progress = Progress::Exited { process, exit };
                    self.effects.push_back(Effect::Progress { call, progress });
                }
                self.touch(now, process);
                self.client_changed(now, process);
            }
        }
    }

    /// Starts or stops the clock of life without a client.
    pub(super) fn client_changed(&mut self, now: Instant, id: ProcessId) {
        let Some(process) = self.processes.get(&id) else { return };
        let Some(bound) = process.timeouts.after_disconnect else { return };
        let timer = Timer::AfterDisconnect(id);
        let has_client = !process.followers.is_empty()
            || self.waits.values().any(|wait| wait.process == id && !wait.callers.is_empty());
        if has_client || process.exit().is_some() || process.attempt().is_none() {
            self.timers.stop(&timer);
        } else if self.timers.is_unset(&timer) {
            self.timers.set(timer, now + bound);
        }
    }
}
