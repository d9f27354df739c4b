//! What becomes of an attempt that ended under a sandbox: its end, a surfaced denial, or a second attempt.

use super::questions::{Matter, Purpose};
use super::timers::Timer;
use super::{Effect, FeedKind, Progress, Session};
use crate::core::approval::{Permissions, Subject};
use crate::core::ids::{AttemptNumber, ProcessId};
use crate::core::limits::DENIAL_DRAIN;
use crate::core::orchestrate::{AfterDenial, Denial, after_denial};
use crate::core::policy::Confinement;
use crate::core::process::{EndReason, Ended, Evidence, Exit, ExitStatus, Phase, Process};
use crate::core::time::Instant;

/// What a denied command's second attempt needs an answer for.
const RETRY_REASON: &str = "the sandbox denied it: retry without sandbox?";

impl Session {
    /// An attempt was reaped. If a sandbox may have refused it something, its last output is waited for and judged
    /// before anything else is made of its end.
    pub(super) fn end_attempt(&mut self, now: Instant, id: ProcessId, exit: Exit) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        if let Some(attempt) = process.attempts.last_mut() {
            attempt.exit = Some(exit);
        }
        if !may_be_denied(process, &exit) {
            return self.drain(now, id, exit);
        }
        process.phase = Phase::Judging { exit };
        if process.outputs_closed() {
            self.judge(id);
        } else {
            self.timers.set(Timer::Judge(id), exit.at + DENIAL_DRAIN);
        }
    }

    /// The output that there is by now is what is judged by.
    pub(super) fn judge(&mut self, id: ProcessId) {
        self.timers.stop(&Timer::Judge(id));
        let Some(process) = self.processes.get(&id) else { return };
        if matches!(process.phase, Phase::Judging { .. }) {
            self.effects.push_back(Effect::Excerpt { process: id, attempt: process.attempt_number() });
        }
    }

    pub(super) fn on_excerpt(&mut self, now: Instant, id: ProcessId, number: AttemptNumber, output: &[u8]) {
        let window = self.limits.early_window;
        let Some(process) = self.processes.get_mut(&id) else { return };
        let Phase::Judging { exit } = process.phase else { return };
        let cwd = process.cwd.clone();
        let Some(attempt) = process.attempts.last_mut().filter(|attempt| attempt.number == number) else {
            return;
        };
        let early = exit.is_early(window);
        attempt.evidence = attempt.confinement.profile().and_then(|profile| {
            Evidence::of(&Ended { status: exit.status, output, profile, cwd: &cwd, early })
        });
        match attempt.evidence.clone().filter(|evidence| evidence.early) {
            Some(evidence) => self.on_early_denial(now, id, exit, evidence),
            None => self.drain(now, id, exit),
        }
    }

    /// The five gates.
    fn on_early_denial(&mut self, now: Instant, id: ProcessId, exit: Exit, evidence: Evidence) {
        match self.gates(id, &evidence) {
            AfterDenial::Surface(_) => self.drain(now, id, exit),
            AfterDenial::Retry => {
                self.set_denied(id, exit, evidence);
                self.yield_passed(now, id);
                self.retry(now, id);
            }
            AfterDenial::Ask => self.ask_retry(now, id, exit, evidence, false),
            AfterDenial::Review => self.ask_retry(now, id, exit, evidence, true),
        }
    }

    fn gates(&self, id: ProcessId, evidence: &Evidence) -> AfterDenial {
        let surface = AfterDenial::Surface(crate::core::orchestrate::Gate::Tool);
        let Some(process) = self.processes.get(&id) else { return surface };
        let Some(frozen) = process.attempt().and_then(|attempt| attempt.confinement.profile()) else {
            return surface;
        };
        // A second attempt never follows one that nobody waits for, that is being ended, or that has already taken
        // input, which cannot be given again.
        let retriable = process.attempt_number() == AttemptNumber::FIRST
            && process.launch.attended
            && process.kill.is_none()
            && process.input.is_untouched()
            && evidence.confidence >= self.limits.min_confidence;
        after_denial(&Denial {
            rights: &self.rights,
            frozen,
            owner_network: self.owner_network.is_some(),
            approved: process.launch.approved,
            retriable,
        })
    }

    fn set_denied(&mut self, id: ProcessId, exit: Exit, evidence: Evidence) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.launch.denied = Some((exit, evidence));
        }
    }

    fn ask_retry(&mut self, now: Instant, id: ProcessId, exit: Exit, evidence: Evidence, strict: bool) {
        let Some(process) = self.processes.get(&id) else { return };
        let profile = process.attempt().and_then(|attempt| attempt.confinement.profile()).cloned();
        let matter = Matter {
            purpose: Purpose::Retry,
            subject: Subject::Retry { evidence: evidence.clone() },
            turn: process.turn.clone(),
            request: process.request.clone(),
            permissions: Permissions::Escalated,
            profile: profile.unwrap_or_else(|| self.rights.profile.clone()),
            reason: RETRY_REASON.to_owned(),
            rule: None,
            strict,
        };
        self.set_denied(id, exit, evidence);
        match self.ask(now, id, matter) {
            Ok(approval) => {
                if let Some(process) = self.processes.get_mut(&id) {
                    process.phase = Phase::Asking { approval };
                }
                self.yield_passed(now, id);
            }
            Err(_) => self.surface_denial(now, id),
        }
    }

    /// Starts the second attempt; what is left of the first one goes.
    pub(super) fn retry(&mut self, now: Instant, id: ProcessId) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        if process.launch.denied.is_none() {
            return;
        }
        if let Some(attempt) = process.attempts.last().cloned() {
            let denied = FeedKind::AttemptDenied { process: id, attempt: Box::new(attempt.clone()) };
            self.publish(now, Some(id), denied);
            self.tell_progress(id, &[Progress::AttemptDenied { process: id, attempt }]);
        }
        if let Some(process) = self.processes.get_mut(&id) {
            if !process.tree_gone() {
                self.effects.push_back(Effect::KillTree { process: id });
            }
            if let Some(frozen) = &mut process.launch.frozen {
                frozen.confinement = Confinement::Bypassed;
            }
            process.input.reopen();
        }
        self.spawn(id, AttemptNumber::SECOND);
    }

    /// The denial is the result, with its output.
    pub(super) fn surface_denial(&mut self, now: Instant, id: ProcessId) {
        let denied = self.processes.get_mut(&id).and_then(|process| process.launch.denied.take());
        if let Some((exit, _)) = denied {
            self.drain(now, id, exit);
        }
    }
}

/// Whether a sandbox can have refused an attempt something: there was one, it did not end well, and not by us.
fn may_be_denied(process: &Process, exit: &Exit) -> bool {
    let sandboxed = process.attempt().is_some_and(|attempt| attempt.confinement.profile().is_some());
    let by_itself = matches!(exit.reason, EndReason::Exited | EndReason::Signalled);
    sandboxed && by_itself && exit.status != ExitStatus::Code(0)
}
