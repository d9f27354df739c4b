//! A command becomes a process.

use std::collections::VecDeque;

use super::timers::Timer;
use super::view::AttemptView;
use super::wait::{Wait, WaitKind};
use super::{Answer, Effect, Exec, FeedKind, Mode, Progress, Request, RequestState, Session, StartError};
use crate::core::ids::{AttemptNumber, CallId, Fingerprint, ProcessId, RequestId};
use crate::core::limits::{FEED_OUTPUT_EVENTS_MAX, REQUESTS_PER_PROCESS_MAX};
use crate::core::policy::Confinement;
use crate::core::process::{Input, Phase, Process};
use crate::core::spawn::{Enforced, SpawnError};
use crate::core::time::Instant;

/// What a request id that was seen before means.
pub(super) enum Repeat {
    /// It is new.
    New,
    /// It is taken care of: joined, or answered.
    Settled,
    /// It was used for something else.
    Reused,
    /// Its client went away unanswered; the process it was about.
    Abandoned(ProcessId),
}

impl Session {
    pub(super) fn exec(&mut self, now: Instant, call: CallId, exec: Exec) {
        if let Some((request, fingerprint)) = &exec.request {
            match self.repeat(call, request, *fingerprint) {
                Repeat::New => {}
                Repeat::Settled => return,
                Repeat::Reused => {
                    let reused = StartError::RequestReused { request: request.clone() };
                    return self.reply(call, Answer::Exec(Err(reused)));
                }
                Repeat::Abandoned(process) => return self.wait_again(now, call, process, &exec),
            }
        }
        match self.admit(now, &exec) {
            Ok(process) => self.launch(now, call, process, exec),
            Err(refusal) => self.reply(call, Answer::Exec(Err(refusal))),
        }
    }

    /// Checks everything that needs no spawner, draws an id and makes room.
    fn admit(&mut self, now: Instant, exec: &Exec) -> Result<ProcessId, StartError> {
        if self.closing {
            return Err(StartError::Closing);
        }
        if !self.interactive && !matches!(exec.mode, Mode::OneShot { .. }) {
            return Err(StartError::NotInteractive);
        }
        exec.command.check(&self.defaults)?;
        self.rights.check()?;
        let processes = &self.processes;
        let id = self.ids.process_id(|id| processes.contains_key(&id)).ok_or(StartError::IdsTaken)?;
        self.make_room(now)?;
        Ok(id)
    }

    fn launch(&mut self, now: Instant, call: CallId, id: ProcessId, exec: Exec) {
        let plan = exec.command.plan(&self.defaults, &self.id, id);
        let kind = self.start_wait(exec.mode);
        let request = exec.request.as_ref().map(|(request, _)| request.clone());
        self.processes.insert(
            id,
            Process {
                id,
                phase: Phase::Starting,
                argv: plan.argv.clone(),
                cwd: plan.cwd.clone(),
                terminal: exec.command.terminal,
                mode: exec.mode,
                timeouts: exec.timeouts,
                kill_descendants_on_exit: exec.kill_descendants_on_exit,
                turn: exec.turn.clone(),
                request,
                attempts: Vec::new(),
                input: Input::new(exec.command.stdin || exec.command.terminal.is_some()),
                cursor: 0,
                used: 0,
                created_at: now,
                used_at: now,
                kill: None,
                gave_room: false,
                tree_gone: false,
                told: false,
                followers: Vec::new(),
                output_events: 0,
                requests: VecDeque::new(),
            },
        );
        self.touch(now, id);
        let request = exec.request.map(|(request, fingerprint)| {
            self.remember(request.clone(), fingerprint, id, call);
            request
        });
        self.effects.push_back(Effect::Spawn { process: id, attempt: AttemptNumber::FIRST, plan });
        let wait = Wait::new(exec.turn, id, AttemptNumber::FIRST, 0, kind, now).for_request(request);
        self.begin_wait(now, call, wait);
    }

    fn start_wait(&self, mode: Mode) -> WaitKind {
        match mode {
            Mode::Interactive { yield_time } => {
                WaitKind::Start { yield_time: Some(self.limits.exec_yield(yield_time)) }
            }
            Mode::Follow => WaitKind::Start { yield_time: None },
            Mode::OneShot { .. } => WaitKind::OneShot,
        }
    }

    pub(super) fn on_spawned(
        &mut self,
        now: Instant,
        id: ProcessId,
        number: AttemptNumber,
        pid: Option<u32>,
        enforced: Enforced,
        at: Instant,
    ) {
        let early_window = self.limits.early_window;
        let one_shot_timeout = |asked| self.limits.one_shot_timeout(asked);
        let Some(process) = self.processes.get_mut(&id).filter(|known| known.phase == Phase::Starting) else {
            return;
        };
        let attempt = AttemptView {
            number,
            pid,
            confinement: Confinement::Unrestricted,
            enforced,
            started_at: at,
            output_end: 0,
            outputs_closed: false,
        };
        process.attempts.push(attempt.clone());
        process.phase = Phase::Window { since: at };
        let (argv, cwd) = (process.argv.clone(), process.cwd.clone());
        let started = FeedKind::ProcessStarted {
            process: id,
            argv: argv.clone(),
            cwd: cwd.clone(),
            terminal: process.terminal.is_some(),
            stdin: process.input.present,
            one_shot: process.is_one_shot(),
        };
        self.timers.set(Timer::Window(id), at + early_window);
        if let Mode::OneShot { timeout } = process.mode {
            self.timers.set(Timer::OneShot(id), at + one_shot_timeout(timeout));
        }
        if let Some(hard) = process.timeouts.hard {
            self.timers.set(Timer::Hard(id), at + hard);
        }
        if let Some(no_output) = process.timeouts.no_output {
            self.timers.set(Timer::NoOutput(id), at + no_output);
        }
        self.publish(
            now,
            Some(id),
            FeedKind::AttemptStarted { process: id, attempt: Box::new(attempt.clone()) },
        );
        self.publish(now, Some(id), started);
        self.tell_progress(
            id,
            &[
                Progress::AttemptStarted { process: id, attempt },
                Progress::Started { process: id, argv, cwd },
            ],
        );
        self.start_yields(now, id);
        self.client_changed(now, id);
        self.advance_kill(now, id);
        self.feed_input(now, id);
    }

    /// Nothing runs and nothing is left behind: the id is given back.
    pub(super) fn on_spawn_failed(
        &mut self,
        now: Instant,
        id: ProcessId,
        attempt: AttemptNumber,
        error: SpawnError,
    ) {
        if self.processes.get(&id).is_none_or(|process| process.phase != Phase::Starting) {
            return;
        }
        self.publish(now, Some(id), FeedKind::SpawnFailed { process: id, attempt, error: error.clone() });
        self.abandon_input(id, None);
        for call in self.waits_on(id) {
            let Some(wait) = self.end_wait(call) else { continue };
            let failed = match wait.kind {
                WaitKind::Start { .. } | WaitKind::OneShot => Answer::Exec(Err(error.clone().into())),
                WaitKind::Write(_) | WaitKind::Poll { .. } => {
                    Answer::Write(Err(super::TargetError::Unknown { process: id }.into()))
                }
                WaitKind::Condition { .. } => Answer::Wait(Err(super::TargetError::Unknown { process: id })),
            };
            for caller in wait.callers {
                self.reply(caller, failed.clone());
            }
        }
        let kill = self.processes.get_mut(&id).and_then(|process| process.kill.take());
        self.remove(id);
        if let Some(kill) = kill {
            self.tell_killers(now, id, kill, None, &[]);
        }
    }

    pub(super) fn on_window_passed(&mut self, id: ProcessId) {
        if let Some(process) = self.processes.get_mut(&id)
            && let Phase::Window { since } = process.phase
        {
            process.phase = Phase::Running { since };
        }
    }

    pub(super) fn on_output(&mut self, now: Instant, id: ProcessId, number: AttemptNumber, end: u64) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        let Some(attempt) = process.attempts.iter_mut().find(|attempt| attempt.number == number) else {
            return;
        };
        let from = attempt.output_end;
        if end <= from {
            return;
        }
        attempt.output_end = end;
        let alive = process.exit().is_none();
        if let Some(no_output) = process.timeouts.no_output.filter(|_| alive) {
            self.timers.set(Timer::NoOutput(id), now + no_output);
        }
        if process.output_events < FEED_OUTPUT_EVENTS_MAX {
            process.output_events += 1;
            let last = process.output_events == FEED_OUTPUT_EVENTS_MAX;
            self.publish(now, Some(id), FeedKind::Output { process: id, attempt: number, from, to: end });
            if last {
                let ended = FeedKind::OutputEventsEnded { process: id, limit: FEED_OUTPUT_EVENTS_MAX };
                self.publish(now, Some(id), ended);
            }
        }
        self.meet_output_waits(now, id, number, end);
    }

    /// Recalls what an earlier request of this id came to.
    pub(super) fn repeat(&mut self, call: CallId, id: &RequestId, fingerprint: Fingerprint) -> Repeat {
        let Some(request) = self.requests.get(id) else { return Repeat::New };
        if request.fingerprint != fingerprint {
            return Repeat::Reused;
        }
        match &request.state {
            RequestState::Abandoned => Repeat::Abandoned(request.process),
            RequestState::Done(answer) => {
                let answer = (**answer).clone();
                self.reply(call, answer);
                Repeat::Settled
            }
            RequestState::Pending(wait) => {
                let wait = *wait;
                self.join(call, wait);
                Repeat::Settled
            }
        }
    }

    pub(super) fn remember(
        &mut self,
        id: RequestId,
        fingerprint: Fingerprint,
        process: ProcessId,
        call: CallId,
    ) {
        if let Some(process) = self.processes.get_mut(&process) {
            process.requests.push_back(id.clone());
            if process.requests.len() > REQUESTS_PER_PROCESS_MAX
                && let Some(oldest) = process.requests.pop_front()
            {
                self.requests.remove(&oldest);
            }
        }
        self.requests.insert(id, Request { fingerprint, process, state: RequestState::Pending(call) });
    }

    /// The start happened, its client went away, and now asks again: it waits for the same process from its start.
    fn wait_again(&mut self, now: Instant, call: CallId, id: ProcessId, exec: &Exec) {
        let kind = self.start_wait(exec.mode);
        let Some(process) = self.processes.get(&id) else { return };
        let attempt = process.attempt_number();
        let running = process.attempt().is_some();
        if let Some((request, _)) = &exec.request
            && let Some(request) = self.requests.get_mut(request)
        {
            request.state = RequestState::Pending(call);
        }
        self.touch(now, id);
        let request = exec.request.as_ref().map(|(request, _)| request.clone());
        let wait = Wait::new(exec.turn.clone(), id, attempt, 0, kind, now).for_request(request);
        self.begin_wait(now, call, wait);
        self.tell_progress_so_far(call, id);
        if running {
            self.start_yields(now, id);
        }
        self.answer_if_over(now, call);
    }
}
