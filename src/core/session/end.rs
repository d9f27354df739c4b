//! How processes end: exit, last output, the kill ladder, tombstones.
//!
//! ```text
//!  TERM to the tree ──1 s──► KILL the tree ──2 s──► survey ──► report survivors
//!        └──── everything gone ──────┴──► report ended
//! ```

use std::collections::BTreeSet;

use super::timers::Timer;
use super::wait::WaitKind;
use super::{Answer, Effect, EndReport, FeedKind, Session, TargetError, WaitEnd};
use crate::core::ids::{AttemptNumber, CallId, ProcessId};
use crate::core::limits::{
    EXIT_COLLECT, EXIT_FEED, KILL_GRACE, REAP_MAX, RETENTION_DEFAULT, TOMBSTONE_AGE, TOMBSTONES_MAX,
};
use crate::core::process::{
    EndReason, Exit, ExitStatus, InputEnd, Kill, KillStep, Phase, Process, TimeoutKind,
};
use crate::core::signal::{Scope, Signal};
use crate::core::spawn::{Descendant, ResourceUsage};
use crate::core::time::Instant;

/// A call that waits for processes to be gone.
#[derive(Debug)]
pub(super) struct Sweep {
    kind: SweepKind,
    remaining: BTreeSet<ProcessId>,
    report: EndReport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SweepKind {
    Terminate,
    Clean,
    Close,
}

impl Session {
    pub(super) fn on_exited(
        &mut self,
        now: Instant,
        id: ProcessId,
        number: AttemptNumber,
        how: (ExitStatus, bool),
        usage: Option<ResourceUsage>,
        at: Instant,
    ) {
        let (status, out_of_memory) = how;
        let Some(process) = self.processes.get_mut(&id) else { return };
        let Some(attempt) = process.attempt().filter(|attempt| attempt.number == number) else { return };
        if attempt.exit.is_some() || !process.is_alive() {
            return;
        }
        let started_at = attempt.started_at;
        let reason = match (&process.kill, status) {
            (Some(kill), _) if kill.since.is_some_and(|since| since <= at) => kill.reason,
            _ if out_of_memory => EndReason::OutOfMemory,
            (_, ExitStatus::Code(_)) => EndReason::Exited,
            (_, ExitStatus::Signal { .. }) => EndReason::Signalled,
        };
        let exit = Exit { status, reason, at, lifetime: at.since(started_at), usage };
        for timer in [Timer::Window(id), Timer::NoOutput(id)] {
            self.timers.stop(&timer);
        }
        self.suspend_review(now, id);
        self.withdraw_connections(now, |question| question.process == id);
        self.end_attempt(now, id, exit);
    }

    /// The process has ended with its last attempt; its last output may be on the way.
    pub(super) fn drain(&mut self, now: Instant, id: ProcessId, exit: Exit) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.phase = Phase::Draining { exit, collected: false };
        (process.launch.plan, process.launch.denied) = (None, None);
        let closed = process.outputs_closed();
        let (at, reason) = (exit.at, exit.reason);
        let kill_descendants = process.kill_descendants_on_exit && process.kill.is_none();
        for timer in [Timer::OneShot(id), Timer::Hard(id), Timer::AfterDisconnect(id)] {
            self.timers.stop(&timer);
        }
        self.abandon_input(now, id, Some(InputEnd::Program));
        self.tell_followers_of_exit(id, exit);
        if kill_descendants {
            self.begin_kill(now, id, reason, None);
        }
        // A ladder that began where there was nothing to signal: the attempt may have left something behind.
        self.advance_kill(now, id);
        if closed {
            self.enter_ended(now, id);
        } else {
            self.timers.set(Timer::ExitCollect(id), at + EXIT_COLLECT);
            self.timers.set(Timer::ExitFeed(id), at + EXIT_FEED);
            self.check_conditions(now, id);
        }
        self.settle_end(now, id);
    }

    pub(super) fn on_closed(&mut self, now: Instant, id: ProcessId, number: AttemptNumber, end: u64) {
        self.on_output(now, id, number, end);
        let Some(process) = self.processes.get_mut(&id) else { return };
        let Some(attempt) = process.attempts.iter_mut().find(|attempt| attempt.number == number) else {
            return;
        };
        if std::mem::replace(&mut attempt.outputs_closed, true) {
            return;
        }
        // What a denied attempt left behind says nothing of the one that follows it.
        let latest = process.attempt_number() == number;
        if latest && matches!(process.phase, Phase::Draining { .. }) {
            self.enter_ended(now, id);
        }
        self.publish(now, Some(id), FeedKind::OutputsClosed { process: id, attempt: number, end });
        if latest {
            self.judge(id);
        }
        self.check_conditions(now, id);
        self.settle_end(now, id);
    }

    /// Answers about the end of a process no longer wait for its outputs.
    pub(super) fn collect_end(&mut self, now: Instant, id: ProcessId) {
        self.timers.stop(&Timer::ExitCollect(id));
        let Some(process) = self.processes.get_mut(&id) else { return };
        if let Phase::Draining { collected, .. } = &mut process.phase {
            *collected = true;
        }
        for call in self.waits_on(id) {
            let collects =
                self.waits.get(&call).is_some_and(|wait| !matches!(wait.kind, WaitKind::Condition { .. }));
            if collects {
                self.answer(now, call, WaitEnd::Exited);
            }
        }
    }

    /// The feed waits no longer for trailing output.
    pub(super) fn on_feed_wait_over(&mut self, now: Instant, id: ProcessId) {
        self.enter_ended(now, id);
        self.settle_end(now, id);
    }

    /// The feed tells the end, and the process becomes a tombstone.
    pub(super) fn enter_ended(&mut self, now: Instant, id: ProcessId) {
        self.collect_end(now, id);
        self.timers.stop(&Timer::ExitFeed(id));
        let Some(process) = self.processes.get_mut(&id) else { return };
        let Phase::Draining { exit, .. } = process.phase else { return };
        process.phase = Phase::Ended { exit };
        let retention = process.timeouts.retention.unwrap_or(RETENTION_DEFAULT).min(TOMBSTONE_AGE);
        self.timers.set(Timer::Retention(id), now + retention);
        self.timers.set(Timer::Tombstone(id), now + TOMBSTONE_AGE);
        let evidence = process.attempt().and_then(|attempt| attempt.evidence.clone());
        self.publish(now, Some(id), FeedKind::ProcessExited { process: id, exit, evidence });
        self.check_conditions(now, id);
        self.ended.push_back(id);
    }

    /// After a step towards a process's end: whoever waits for it to be gone is told last, then room is made among
    /// the tombstones.
    fn settle_end(&mut self, now: Instant, id: ProcessId) {
        if let Some(process) = self.processes.get(&id)
            && process.kill.is_some()
            && process.tree_gone()
        {
            // Nothing is left to signal; until its end is judged and the feed has told of it, the ladder only waits.
            let settled = process.is_settled();
            self.timers.stop(&Timer::KillGrace(id));
            self.timers.stop(&Timer::KillReap(id));
            if settled {
                self.resolve_kill(now, id, Vec::new());
            }
        }
        self.bury(now);
    }

    /// Forgets the oldest tombstones beyond the bound. Ended processes with living descendants stay reachable for
    /// Clean, and push nobody out.
    fn bury(&mut self, now: Instant) {
        let buriable: Vec<ProcessId> =
            self.ended.iter().copied().filter(|id| self.processes.get(id).is_some_and(can_bury)).collect();
        let excess = buriable.len().saturating_sub(TOMBSTONES_MAX);
        for id in buriable.into_iter().take(excess) {
            self.forget(now, id);
        }
    }

    pub(super) fn on_tombstone_aged(&mut self, now: Instant, id: ProcessId) {
        let Some(process) = self.processes.get(&id) else { return };
        if can_bury(process) {
            self.forget(now, id);
        } else {
            self.timers.set(Timer::Tombstone(id), now + TOMBSTONE_AGE);
        }
    }

    fn forget(&mut self, now: Instant, id: ProcessId) {
        for call in self.waits_on(id) {
            match self.waits.get(&call).map(|wait| &wait.kind) {
                Some(WaitKind::Condition { .. }) => {
                    self.answer_condition(now, call, super::ConditionEnd::Ended)
                }
                // Only at the end of a session, and only on a process that could not be killed.
                Some(_) => self.answer(now, call, WaitEnd::Interrupted),
                None => {}
            }
        }
        let exit = self.processes.get(&id).and_then(|process| process.exit().copied());
        let pruned = exit.is_some_and(|exit| exit.reason == EndReason::Pruned);
        self.publish(now, Some(id), FeedKind::ProcessRemoved { process: id, pruned });
        self.remove(id);
    }

    /// Drops everything that is known of a process.
    pub(super) fn remove(&mut self, id: ProcessId) {
        for timer in Timer::of(id) {
            self.timers.stop(&timer);
        }
        self.ended.retain(|ended| *ended != id);
        let Some(process) = self.processes.remove(&id) else { return };
        for request in &process.requests {
            self.requests.remove(request);
        }
        for follower in process.followers {
            self.reply(follower, Answer::Attached(Ok(())));
        }
        self.effects.push_back(Effect::Forget { process: id });
    }

    pub(super) fn on_timeout(&mut self, now: Instant, id: ProcessId, kind: TimeoutKind) {
        self.begin_kill(now, id, EndReason::Timeout(kind), None);
    }

    pub(super) fn terminate(&mut self, now: Instant, call: CallId, id: ProcessId) {
        match self.processes.get(&id) {
            None => {
                let unknown = TargetError::Unknown { process: id };
                self.reply(call, Answer::Terminate(Err(unknown)));
            }
            Some(_) => self.sweep(now, call, SweepKind::Terminate, EndReason::Terminated, vec![id]),
        }
    }

    pub(super) fn clean(&mut self, now: Instant, call: CallId) {
        let all = self.processes.keys().copied().collect();
        self.sweep(now, call, SweepKind::Clean, EndReason::Cleaned, all);
    }

    pub(super) fn close(&mut self, now: Instant, call: CallId, reason: EndReason) {
        self.closing = true;
        let all = self.processes.keys().copied().collect();
        self.sweep(now, call, SweepKind::Close, reason, all);
    }

    /// Ends `processes`, and answers when all are gone or have been reported as survivors.
    fn sweep(
        &mut self,
        now: Instant,
        call: CallId,
        kind: SweepKind,
        reason: EndReason,
        processes: Vec<ProcessId>,
    ) {
        let alive: Vec<ProcessId> = processes
            .into_iter()
            .filter(|id| self.processes.get(id).is_some_and(|known| !known.is_settled()))
            .collect();
        let remaining = alive.iter().copied().collect();
        self.sweeps.insert(call, Sweep { kind, remaining, report: EndReport::default() });
        for id in alive {
            self.begin_kill(now, id, reason, Some(call));
        }
        self.finish_sweep(now, call);
    }

    /// Starts the ladder, or joins the one that runs. What is gone is not touched; who asks is told when the feed
    /// has told of it.
    pub(super) fn begin_kill(
        &mut self,
        now: Instant,
        id: ProcessId,
        reason: EndReason,
        caller: Option<CallId>,
    ) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        if process.is_settled() || (process.is_gone() && caller.is_none()) {
            return;
        }
        let kill = process.kill.get_or_insert_with(|| Kill {
            reason,
            step: KillStep::Pending,
            since: None,
            callers: Vec::new(),
        });
        kill.callers.extend(caller);
        if matches!(process.phase, Phase::Reserved | Phase::Asking { .. }) {
            self.call_off(now, id);
        } else {
            self.advance_kill(now, id);
        }
    }

    /// Takes the first step of a ladder as soon as there is something to signal.
    pub(super) fn advance_kill(&mut self, now: Instant, id: ProcessId) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        let alive = process.phase != Phase::Starting && !process.tree_gone();
        let Some(kill) = process.kill.as_mut().filter(|kill| alive && kill.step == KillStep::Pending) else {
            return;
        };
        kill.step = KillStep::Term;
        kill.since = Some(now);
        let (signal, scope) = (Signal::TERM, Scope::Tree);
        self.effects.push_back(Effect::Signal { process: id, signal, scope, call: None });
        self.timers.set(Timer::KillGrace(id), now + KILL_GRACE);
    }

    pub(super) fn on_kill_grace(&mut self, now: Instant, id: ProcessId) {
        if let Some(kill) = self.processes.get_mut(&id).and_then(|process| process.kill.as_mut()) {
            kill.step = KillStep::Kill;
            self.effects.push_back(Effect::KillTree { process: id });
            self.timers.set(Timer::KillReap(id), now + REAP_MAX);
        }
    }

    pub(super) fn on_kill_reap(&mut self, id: ProcessId) {
        if let Some(kill) = self.processes.get_mut(&id).and_then(|process| process.kill.as_mut()) {
            kill.step = KillStep::Survey;
            self.effects.push_back(Effect::Survey { process: id });
        }
    }

    pub(super) fn on_surveyed(&mut self, now: Instant, id: ProcessId, alive: Vec<Descendant>) {
        let surveyed = |kill: &Kill| kill.step == KillStep::Survey;
        if self.processes.get(&id).and_then(|process| process.kill.as_ref()).is_some_and(surveyed) {
            self.resolve_kill(now, id, alive);
            self.let_go(now, id);
            self.bury(now);
        }
    }

    /// A process that would not die: a one-shot's call, which only its end would answer, is told that it lives.
    fn let_go(&mut self, now: Instant, id: ProcessId) {
        if self.processes.get(&id).is_none_or(|process| process.exit().is_some()) {
            return;
        }
        for call in self.waits_on(id) {
            if self.waits.get(&call).is_some_and(|wait| matches!(wait.kind, WaitKind::OneShot)) {
                self.answer(now, call, WaitEnd::Yielded);
            }
        }
    }

    pub(super) fn on_tree_gone(&mut self, now: Instant, id: ProcessId, number: AttemptNumber) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.trees_gone.insert(number);
        // Only a first attempt has a proxied network: whoever was asked about a connection of the process was asked for it.
        self.withdraw_connections(now, |question| question.process == id);
        self.settle_end(now, id);
    }

    /// The ladder of a process is over: everybody who waits for it is told.
    fn resolve_kill(&mut self, now: Instant, id: ProcessId, survivors: Vec<Descendant>) {
        self.timers.stop(&Timer::KillGrace(id));
        self.timers.stop(&Timer::KillReap(id));
        let Some(process) = self.processes.get_mut(&id) else { return };
        let Some(kill) = process.kill.take() else { return };
        let exit = process.exit().copied();
        self.tell_killers(now, id, kill, exit, &survivors);
    }

    /// Tells everybody who wanted a process to end what became of it.
    pub(super) fn tell_killers(
        &mut self,
        now: Instant,
        id: ProcessId,
        kill: Kill,
        exit: Option<Exit>,
        survivors: &[Descendant],
    ) {
        for call in kill.callers {
            if let Some(sweep) = self.sweeps.get_mut(&call) {
                sweep.remaining.remove(&id);
                if survivors.is_empty() {
                    sweep.report.ended.push((id, exit));
                } else {
                    sweep.report.survivors.push((id, survivors.to_vec()));
                }
            }
            self.finish_sweep(now, call);
        }
    }

    fn finish_sweep(&mut self, now: Instant, call: CallId) {
        if self.sweeps.get(&call).is_none_or(|sweep| !sweep.remaining.is_empty()) {
            return;
        }
        let Some(sweep) = self.sweeps.remove(&call) else { return };
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let (ended, survivors) = (count(sweep.report.ended.len()), count(sweep.report.survivors.len()));
        match sweep.kind {
            SweepKind::Terminate => self.reply(call, Answer::Terminate(Ok(sweep.report))),
            SweepKind::Clean | SweepKind::Close => {
                self.publish(now, None, FeedKind::Cleaned { ended, survivors });
                if sweep.kind == SweepKind::Close {
                    self.forget_all(now);
                }
                self.reply(call, Answer::Ended(sweep.report));
            }
        }
    }

    /// The session is over: whoever still waits on a process or follows it is told.
    fn forget_all(&mut self, now: Instant) {
        let all: Vec<ProcessId> = self.processes.keys().copied().collect();
        for id in all {
            self.forget(now, id);
        }
    }
}

/// Whether forgetting it loses nobody: all of it is gone, and nobody waits for that.
fn can_bury(process: &Process) -> bool {
    process.is_settled() && process.kill.is_none()
}
