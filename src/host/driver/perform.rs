//! Carrying out what the core wants, effect by effect. What takes time becomes a task that reports back.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tracing::Instrument as _;

use super::{Driver, Happened, Held};
use crate::core::ids::{AttemptNumber, CallId, ProcessId};
use crate::core::limits::TOMBSTONE_BYTES;
use crate::core::session::{
    Answer, Condition, ControlFailure, Effect, Event, Progress, WatchOutcome, WriteOutcome,
};
use crate::core::spawn::{Descendant, SpawnPlan};
use crate::host::log::OutputLog;
use crate::host::pattern::look_for;
use crate::host::ports;
use crate::host::pump::Order;
use crate::host::stream::Update;

impl Driver {
    /// Carries out everything the core wants, including what that brings about at once.
    pub(super) fn perform(&mut self) {
        while let Some(effect) = self.session.poll_effect() {
            self.telemetry.effect(self.clock.now(), &effect);
            if let Some(event) = self.carry_out(effect) {
                self.tell(event);
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Assess { process, argv, cwd } => return self.assess(process, argv, cwd),
            Effect::Ask { question } => self.ask(question),
            Effect::Unask { approval } => self.unask(&approval),
            Effect::AllowRule { call, words } => self.allow_rule(call, words),
            Effect::Connect { connection, answer } => self.connect(connection, answer),
            Effect::Excerpt { process, attempt } => return Some(self.excerpt(process, attempt)),
            Effect::Spawn { process, attempt, plan } => self.spawn(process, attempt, plan),
            Effect::Write { process, write, data, eof } => {
                let order = Order::Write { write, data, eof };
                let sent =
                    self.running(process).is_some_and(|running| running.orders.try_send(order).is_ok());
                let outcome = WriteOutcome::Broken;
                return (!sent).then_some(Event::Wrote { process, write, taken: 0, outcome });
            }
            Effect::StopWrite { process, write } => {
                if let Some(running) = self.running(process) {
                    // A pump that has ended has told how its write ended.
                    running.orders.try_send(Order::Stop(write)).ok();
                }
            }
            Effect::Signal { process, signal, scope, call } => {
                let result = self
                    .running(process)
                    .map_or(Err(ports::ControlError::Gone), |running| running.control.signal(signal, scope));
                return call
                    .map(|call| Event::Controlled { call, result: result.map_err(ControlFailure::from) });
            }
            Effect::Resize { process, size, call } => {
                let result = self
                    .running(process)
                    .map_or(Err(ports::ControlError::Gone), |running| running.control.resize(size));
                return Some(Event::Controlled { call, result: result.map_err(ControlFailure::from) });
            }
            Effect::KillTree { process } => {
                if let Some(running) = self.running(process) {
                    running.control.kill_tree();
                }
            }
            Effect::Survey { process } => return self.survey(process),
            Effect::Watch { wait, process, attempt, from, condition } => {
                return self.watch(wait, process, attempt, from, condition);
            }
            Effect::Unwatch { wait } => {
                if let Some(watch) = self.watches.remove(&wait) {
                    watch.abort();
                }
            }
            Effect::Trim { process } => {
                for held in self.processes.get(&process).into_iter().flatten() {
                    held.log.trim(TOMBSTONE_BYTES);
                }
            }
            Effect::Forget { process } => drop(self.processes.remove(&process)),
            Effect::Progress { call, progress } => self.progress(call, progress),
            Effect::Reply { call, answer } => self.reply(call, answer),
            Effect::Publish(event) => self.publish(event),
        }
        None
    }

    /// The log is there before the child, so that nothing it says is missed.
    fn spawn(&mut self, process: ProcessId, attempt: AttemptNumber, plan: SpawnPlan) {
        let held = Held {
            number: attempt,
            log: Arc::new(OutputLog::new().seen_by(Arc::clone(&self.ports.telemetry))),
            grown: Arc::new(AtomicBool::new(false)),
            running: None,
            outputs_closed: false,
            tree_gone: false,
            carrier: None,
        };
        self.processes.entry(process).or_default().push(held);
        let span = self.telemetry.starting(process, attempt);
        let spawning = span.in_scope(|| self.ports.spawner.spawn(plan)).instrument(span);
        let (events, clock) = (self.events.clone(), self.clock);
        tokio::spawn(async move {
            let result = spawning.await;
            let at = clock.now();
            // If the driver is gone, the child goes with the message.
            events.send(Happened::Spawned { process, attempt, result, at }).await.ok();
        });
    }

    fn survey(&self, process: ProcessId) -> Option<Event> {
        let Some(running) = self.running(process) else {
            return Some(Event::Surveyed { process, alive: Vec::new() });
        };
        let (listing, events) = (running.control.descendants(), self.events.clone());
        // It is no descendant of itself, and has not been reaped as far as anybody knows.
        let unreaped = self.session.process(process).filter(|view| view.exit.is_none()).and_then(|view| {
            let pid = view.attempts.last()?.pid.unwrap_or_default();
            let program = view.argv.first().map(|program| program.rsplit('/').next().unwrap_or(program));
            Some(Descendant { pid, name: program.unwrap_or_default().to_owned() })
        });
        tokio::spawn(async move {
            let alive = unreaped.into_iter().chain(listing.await).collect();
            events.send(Event::Surveyed { process, alive }.into()).await.ok();
        });
        None
    }

    fn watch(
        &mut self,
        wait: CallId,
        process: ProcessId,
        attempt: AttemptNumber,
        from: u64,
        condition: Condition,
    ) -> Option<Event> {
        let Some(held) = self.held(process, attempt) else {
            return Some(Event::Watched { wait, outcome: WatchOutcome::Ended { at: from } });
        };
        let (log, events) = (Arc::clone(&held.log), self.events.clone());
        let search = tokio::spawn(async move {
            let outcome = look_for(&log, from, condition).await;
            events.send(Event::Watched { wait, outcome }.into()).await.ok();
        });
        self.watches.insert(wait, search.abort_handle());
        None
    }

    fn progress(&self, call: CallId, progress: Progress) {
        let Some(caller) = self.callers.get(&call) else { return };
        let update = match progress {
            Progress::Collecting { process, attempt, from } => {
                let Some(held) = self.held(process, attempt) else { return };
                let reader = held.log.reader(from, caller.flow);
                Update::Collecting { process, attempt, reader }
            }
            Progress::Asking { question } => Update::Asking { question },
            Progress::AttemptDenied { process, attempt } => Update::AttemptDenied { process, attempt },
            Progress::AttemptStarted { process, attempt } => Update::AttemptStarted { process, attempt },
            Progress::Started { process, argv, cwd } => Update::Started { process, argv, cwd },
            Progress::Exited { exit, .. } => Update::Exited { exit },
        };
        // The channel holds every update that one call can get; only a caller that is gone cannot be told.
        caller.updates.try_send(update).ok();
    }

    fn reply(&mut self, call: CallId, answer: Answer) {
        let Some(caller) = self.callers.remove(&call) else { return };
        let log = match &answer {
            Answer::Exec(Ok(result)) | Answer::Write(Ok(result)) => {
                self.held(result.process, result.attempt).map(|held| Arc::clone(&held.log))
            }
            _ => None,
        };
        caller.updates.try_send(Update::Answer { answer: Box::new(answer), log }).ok();
    }
}

impl From<ports::ControlError> for ControlFailure {
    fn from(error: ports::ControlError) -> Self {
        match error {
            ports::ControlError::Gone => Self::Gone,
            ports::ControlError::NoTerminal => Self::NoTerminal,
            ports::ControlError::Refused { reason } => Self::Refused { reason },
        }
    }
}
