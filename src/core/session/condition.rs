//! Waits for a condition: an end, any output, or what the host finds in it.

use super::timers::Timer;
use super::wait::{Wait, WaitKind};
use super::{
    Answer, AttemptView, Condition, ConditionEnd, Effect, Session, WaitFor, WaitResult, WatchOutcome,
};
use crate::core::ids::{AttemptNumber, CallId, ProcessId};
use crate::core::process::{Phase, Process};
use crate::core::time::Instant;

impl Session {
    pub(super) fn wait_for(&mut self, now: Instant, call: CallId, wait: WaitFor) {
        let process = match self.known(wait.process) {
            Ok(process) => process,
            Err(unknown) => return self.reply(call, Answer::Wait(Err(unknown))),
        };
        let attempt = process.attempt_number();
        let from = wait.from.unwrap_or_else(|| process.output_end());
        self.touch(now, wait.process);
        let watch = watched_condition(&wait.condition);
        let kind = WaitKind::Condition { condition: wait.condition.clone(), watched: watch };
        self.begin_wait(now, call, Wait::new(wait.turn, wait.process, attempt, from, kind, now));
        if let Some(timeout) = wait.timeout {
            self.timers.set(Timer::Wait(call), now + timeout);
        }
        if watch {
            let (process, condition) = (wait.process, wait.condition);
            self.effects.push_back(Effect::Watch { wait: call, process, attempt, from, condition });
        }
        self.check_condition(now, call);
    }

    /// Answers a wait whose condition is met already, or cannot be met any more.
    pub(super) fn check_condition(&mut self, now: Instant, call: CallId) {
        let Some(wait) = self.waits.get(&call) else { return };
        let WaitKind::Condition { condition, watched } = &wait.kind else { return };
        let Some(process) = self.processes.get(&wait.process) else { return };
        let exited = process.exit().is_some();
        let watched_attempt = watched_attempt(process, condition, wait.attempt);
        let (closed, end) =
            watched_attempt.map_or((false, 0), |attempt| (attempt.outputs_closed, attempt.output_end));
        let over = closed || matches!(process.phase, Phase::Ended { .. });
        let outcome = match condition {
            Condition::Exit if exited => Some(ConditionEnd::Met(None)),
            Condition::Closed if exited && closed => Some(ConditionEnd::Met(None)),
            Condition::Output if end > wait.from => Some(ConditionEnd::Met(Some((wait.from, end)))),
            Condition::Output if over => Some(ConditionEnd::Ended),
            // A process that has ended long ago is searched whole before the search gives up: see `on_watched`.
            _ if *watched => None,
            Condition::Exit | Condition::Closed | Condition::Output => None,
            Condition::Literal(_) | Condition::Regex(_) | Condition::Quiet(_) => None,
        };
        if let Some(outcome) = outcome {
            self.answer_condition(now, call, outcome);
        }
    }

    /// Checks every condition about a process.
    pub(super) fn check_conditions(&mut self, now: Instant, process: ProcessId) {
        for call in self.waits_on(process) {
            self.check_condition(now, call);
        }
    }

    /// There is output: waits for any of it are over.
    pub(super) fn meet_output_waits(
        &mut self,
        now: Instant,
        process: ProcessId,
        number: AttemptNumber,
        end: u64,
    ) {
        let met: Vec<(CallId, u64)> = self
            .waits
            .iter()
            .filter(|(_, wait)| wait.process == process && wait.attempt == number && wait.from < end)
            .filter(|(_, wait)| matches!(wait.kind, WaitKind::Condition { condition: Condition::Output, .. }))
            .map(|(call, wait)| (*call, wait.from))
            .collect();
        for (call, from) in met {
            self.answer_condition(now, call, ConditionEnd::Met(Some((from, end))));
        }
    }

    pub(super) fn on_watched(&mut self, now: Instant, call: CallId, outcome: WatchOutcome) {
        let end = match outcome {
            WatchOutcome::Found { from, to } => ConditionEnd::Met(Some((from, to))),
            WatchOutcome::Lost { from, to } => ConditionEnd::Lost { from, to },
            WatchOutcome::Ended { .. } => ConditionEnd::Ended,
        };
        if let Some(Wait { kind: WaitKind::Condition { watched, .. }, .. }) = self.waits.get_mut(&call) {
            *watched = false;
            self.answer_condition(now, call, end);
        }
    }

    pub(super) fn answer_condition(&mut self, now: Instant, call: CallId, end: ConditionEnd) {
        let Some(wait) = self.end_wait(call) else { return };
        let Some(process) = self.processes.get(&wait.process) else { return };
        let WaitKind::Condition { condition, .. } = &wait.kind else { return };
        let (attempt, output_end) = watched_attempt(process, condition, wait.attempt)
            .map_or((wait.attempt, 0), |attempt| (attempt.number, attempt.output_end));
        let result = WaitResult { end, exit: process.exit().copied(), attempt, output_end };
        for caller in wait.callers {
            self.reply(caller, Answer::Wait(Ok(result.clone())));
        }
        self.client_changed(now, wait.process);
    }
}

/// What a condition is about: the end of a process, and of its outputs, is that of its last attempt; output is that of
/// the attempt in which it was asked for.
fn watched_attempt<'a>(
    process: &'a Process,
    condition: &Condition,
    asked_in: AttemptNumber,
) -> Option<&'a AttemptView> {
    match condition {
        Condition::Exit | Condition::Closed => process.attempt(),
        Condition::Output | Condition::Literal(_) | Condition::Regex(_) | Condition::Quiet(_) => {
            process.attempts.iter().find(|attempt| attempt.number == asked_in)
        }
    }
}

/// Whether the host has to look for the condition in the output.
const fn watched_condition(condition: &Condition) -> bool {
    match condition {
        Condition::Literal(_) | Condition::Regex(_) | Condition::Quiet(_) => true,
        Condition::Exit | Condition::Closed | Condition::Output => false,
    }
}
