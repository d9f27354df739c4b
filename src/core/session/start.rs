//! A command becomes a process.

use std::collections::{BTreeSet, VecDeque};

use super::questions::{Matter, Purpose};
use super::timers::Timer;
use super::view::AttemptView;
use super::wait::{Wait, WaitKind};
use super::{Answer, Effect, Exec, FeedKind, Mode, Progress, Request, RequestState, Session, StartError};
use crate::core::approval::{Permissions, Subject};
use crate::core::ids::{AttemptNumber, CallId, Fingerprint, ProcessId, RequestId};
use crate::core::limits::{FEED_OUTPUT_EVENTS_MAX, REQUESTS_PER_PROCESS_MAX};
use crate::core::orchestrate::{
    Launched, Reason, Requirement, effective_profile, first_confinement, requirement,
};
use crate::core::policy::{Additional, Assessment, Confinement, Network, Profile};
use crate::core::process::{Input, Launch, Phase, Process};
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
        match self.admit(&exec) {
            Ok(process) => self.reserve(now, call, process, exec),
            Err(refusal) => self.reply(call, Answer::Exec(Err(refusal))),
        }
    }

    /// Checks everything that needs nobody else, and draws an id.
    fn admit(&mut self, exec: &Exec) -> Result<ProcessId, StartError> {
        if self.closing {
            return Err(StartError::Closing);
        }
        if !self.interactive && !matches!(exec.mode, Mode::OneShot { .. }) {
            return Err(StartError::NotInteractive);
        }
        exec.command.check(&self.defaults)?;
        let processes = &self.processes;
        self.ids.process_id(|id| processes.contains_key(&id)).ok_or(StartError::IdsTaken)
    }

    /// The process has an id and nothing else; what it needs is looked up.
    fn reserve(&mut self, now: Instant, call: CallId, id: ProcessId, exec: Exec) {
        let mut plan = exec.command.plan(&self.defaults, &self.id, id);
        plan.limits = exec.limits.within(&self.process_limits);
        let kind = self.start_wait(exec.mode);
        let (argv, cwd) = (plan.argv.clone(), plan.cwd.clone());
        self.processes.insert(
            id,
            Process {
                id,
                phase: Phase::Reserved,
                launch: Launch {
                    permissions: exec.permissions,
                    justification: exec.justification,
                    proposed_rule: exec.proposed_rule,
                    plan: Some(Box::new(plan)),
                    influences: exec.command.influences(&self.defaults),
                    assessment: None,
                    approved: false,
                    frozen: None,
                    attended: true,
                    denied: None,
                },
                argv: argv.clone(),
                cwd: cwd.clone(),
                terminal: exec.command.terminal,
                mode: exec.mode,
                timeouts: exec.timeouts,
                kill_descendants_on_exit: exec.kill_descendants_on_exit,
                turn: exec.turn.clone(),
                request: exec.request.as_ref().map(|(request, _)| request.clone()),
                attempts: Vec::new(),
                input: Input::new(exec.command.stdin || exec.command.terminal.is_some()),
                cursor: 0,
                used: 0,
                created_at: now,
                used_at: now,
                kill: None,
                gave_room: false,
                trees_gone: BTreeSet::new(),
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
        let wait = Wait::new(exec.turn, id, AttemptNumber::FIRST, 0, kind, now).for_request(request);
        self.begin_wait(now, call, wait);
        self.effects.push_back(Effect::Assess { process: id, argv, cwd });
    }

    /// Decides who must approve the start.
    pub(super) fn on_assessed(&mut self, now: Instant, id: ProcessId, assessment: Assessment) {
        let Some(process) = self.processes.get_mut(&id).filter(|known| known.phase == Phase::Reserved) else {
            return;
        };
        // Trust is in a program by its name, and these variables may make another one of it.
        let distrusts = !process.launch.influences.is_empty();
        let assessment = if distrusts { assessment.distrusted() } else { assessment };
        let required =
            requirement(&self.rights, &assessment, &process.launch.permissions, self.owner_network.is_some());
        process.launch.assessment = Some(assessment);
        match required {
            Requirement::Forbidden(why) => self.refuse_start(now, id, StartError::Forbidden(why)),
            Requirement::NeedsApproval(reason) => self.ask_start(now, id, &reason),
            Requirement::Review => self.ask_review(now, id),
            Requirement::Skip => self.start_first(now, id),
        }
    }

    /// Asks whether it may start, unless a grant says so. Strict review sees also what was granted.
    fn ask_start(&mut self, now: Instant, id: ProcessId, reason: &Reason) {
        let key = self.processes.get(&id).and_then(Process::key);
        if !self.rights.strict_review && key.is_some_and(|key| self.questions.spares(&key)) {
            if let Some(process) = self.processes.get_mut(&id) {
                process.launch.approved = true;
            }
            return self.start_first(now, id);
        }
        let rule = if let Reason::Rule { rule } = reason { Some(rule.clone()) } else { None };
        self.ask_about_start(now, id, reason.to_string(), rule, false);
    }

    fn ask_review(&mut self, now: Instant, id: ProcessId) {
        self.ask_about_start(now, id, "strict review sees every command".to_owned(), None, true);
    }

    fn ask_about_start(
        &mut self,
        now: Instant,
        id: ProcessId,
        reason: String,
        rule: Option<String>,
        strict: bool,
    ) {
        let Some(process) = self.processes.get(&id) else { return };
        let additional = match &process.launch.permissions {
            Permissions::Additional(additional) => Some(additional),
            Permissions::Default | Permissions::Escalated => None,
        };
        let reason = match &process.launch.influences[..] {
            [] => reason,
            names => format!("{reason}; it sets {}", names.join(", ")),
        };
        let matter = Matter {
            purpose: Purpose::Start,
            subject: Subject::Command,
            turn: process.turn.clone(),
            request: process.request.clone(),
            permissions: process.launch.permissions.clone(),
            profile: self.profile(additional),
            reason,
            rule,
            strict,
        };
        match self.ask(now, id, matter) {
            Ok(approval) => {
                if let Some(process) = self.processes.get_mut(&id) {
                    process.phase = Phase::Asking { approval };
                }
            }
            Err(too_many) => self.refuse_start(now, id, too_many.into()),
        }
    }

    /// The session's profile as it counts now, with what is granted on top.
    pub(super) fn profile(&self, additional: Option<&Additional>) -> Profile {
        let owner = self.owner_network.is_some();
        effective_profile(&self.rights.profile, &self.defaults.cwd, additional, owner)
    }

    /// Claims a slot, freezes what the process may do, and starts its first attempt.
    pub(super) fn start_first(&mut self, now: Instant, id: ProcessId) {
        if let Err(full) = self.make_room(now) {
            return self.refuse_start(now, id, full);
        }
        let Some(launch) = self.processes.get(&id).map(|process| &process.launch) else { return };
        let trusted = launch.assessment.as_ref().is_some_and(Assessment::is_trusted);
        let escalated = launch.permissions == Permissions::Escalated && launch.approved;
        let additional = launch.additional().cloned();
        let profile = self.profile(additional.as_ref());
        // A granted exception leaves what may not be read; it does not leave the sandbox.
        let unsandboxed = (trusted || escalated) && self.rights.profile.deny_read.is_empty();
        let confinement = first_confinement(&profile, unsandboxed, self.owner_network.is_some());
        let frozen = Launched {
            confinement,
            base: self.profile(None),
            additional,
            owner_network: self.owner_network.clone(),
        };
        if let Some(process) = self.processes.get_mut(&id) {
            process.launch.frozen = Some(frozen);
        }
        self.spawn(id, AttemptNumber::FIRST);
    }

    /// Starts an attempt under what is frozen for it.
    pub(super) fn spawn(&mut self, id: ProcessId, attempt: AttemptNumber) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        let Some(mut plan) = process.launch.plan.as_deref().cloned() else { return };
        let confinement = process.launch.frozen.as_ref().map(|frozen| &frozen.confinement);
        plan.sandbox = confinement.and_then(Confinement::profile).cloned();
        if plan.sandbox.as_ref().is_some_and(|profile| matches!(profile.network, Network::Proxied { .. })) {
            plan.lead_to_proxy();
        }
        process.phase = Phase::Starting;
        self.effects.push_back(Effect::Spawn { process: id, attempt, plan });
        self.follow_attempt(id, attempt);
    }

    /// Nothing of it runs or will: whoever waits is told, and its id is given back.
    pub(super) fn refuse_start(&mut self, now: Instant, id: ProcessId, error: StartError) {
        if let Some(process) = self.processes.get(&id) {
            let argv = process.argv.clone();
            let refused = FeedKind::StartRefused { process: id, argv, error: Box::new(error.clone()) };
            self.publish(now, Some(id), refused);
        }
        self.give_up_start(now, id, error);
    }

    fn give_up_start(&mut self, now: Instant, id: ProcessId, error: StartError) {
        self.abandon_input(now, id, None);
        for call in self.waits_on(id) {
            let Some(wait) = self.end_wait(call) else { continue };
            let failed = match wait.kind {
                WaitKind::Start { .. } | WaitKind::OneShot => Answer::Exec(Err(error.clone())),
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

    /// A launch is ended before an attempt runs: by an interrupt, a clean, or because nobody waits for it.
    pub(super) fn call_off(&mut self, now: Instant, id: ProcessId) {
        let Some(process) = self.processes.get(&id) else { return };
        if let Phase::Asking { approval } = process.phase.clone() {
            self.withdraw(now, &approval);
        }
        match self.processes.get(&id) {
            Some(process) if process.is_undecided() => self.refuse_start(now, id, StartError::Cancelled),
            Some(_) => self.surface_denial(now, id),
            None => {}
        }
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
        let Some(process) = self.processes.get_mut(&id).filter(|known| known.expects_start_of(number)) else {
            return;
        };
        let frozen = process.launch.frozen.as_ref();
        let attempt = AttemptView {
            number,
            pid,
            confinement: frozen.map_or(Confinement::Unrestricted, |frozen| frozen.confinement.clone()),
            enforced,
            started_at: at,
            output_end: 0,
            outputs_closed: false,
            exit: None,
            evidence: None,
        };
        process.attempts.push(attempt.clone());
        process.phase = Phase::Window { since: at };
        process.cursor = 0;
        self.set_life_timers(id, number, at);
        let started = FeedKind::AttemptStarted { process: id, attempt: Box::new(attempt.clone()) };
        self.publish(now, Some(id), started);
        self.tell_progress(id, &[Progress::AttemptStarted { process: id, attempt }]);
        if number == AttemptNumber::FIRST {
            self.tell_started(now, id);
        }
        self.start_yields(now, id);
        self.client_changed(now, id);
        self.advance_kill(now, id);
        self.feed_input(now, id);
    }

    /// A second attempt has its own window, and what is left of the bounds on the process's life.
    fn set_life_timers(&mut self, id: ProcessId, number: AttemptNumber, at: Instant) {
        let Some(process) = self.processes.get(&id) else { return };
        let (mode, timeouts) = (process.mode, process.timeouts);
        self.timers.set(Timer::Window(id), at + self.limits.early_window);
        if let Some(no_output) = timeouts.no_output {
            self.timers.set(Timer::NoOutput(id), at + no_output);
        }
        if number != AttemptNumber::FIRST {
            return;
        }
        if let Mode::OneShot { timeout } = mode {
            self.timers.set(Timer::OneShot(id), at + self.limits.one_shot_timeout(timeout));
        }
        if let Some(hard) = timeouts.hard {
            self.timers.set(Timer::Hard(id), at + hard);
        }
    }

    fn tell_started(&mut self, now: Instant, id: ProcessId) {
        let Some(process) = self.processes.get(&id) else { return };
        let (argv, cwd) = (process.argv.clone(), process.cwd.clone());
        let started = FeedKind::ProcessStarted {
            process: id,
            argv: argv.clone(),
            cwd: cwd.clone(),
            terminal: process.terminal.is_some(),
            stdin: process.input.present,
            one_shot: process.is_one_shot(),
        };
        self.publish(now, Some(id), started);
        self.tell_progress(id, &[Progress::Started { process: id, argv, cwd }]);
    }

    /// Of a first attempt nothing is left behind, and the id is given back; if the second one fails, the denial of the
    /// first is the result.
    pub(super) fn on_spawn_failed(
        &mut self,
        now: Instant,
        id: ProcessId,
        attempt: AttemptNumber,
        error: SpawnError,
    ) {
        if !self.processes.get(&id).is_some_and(|process| process.expects_start_of(attempt)) {
            return;
        }
        self.publish(now, Some(id), FeedKind::SpawnFailed { process: id, attempt, error: error.clone() });
        if attempt == AttemptNumber::FIRST {
            self.give_up_start(now, id, error.into());
        } else {
            self.surface_denial(now, id);
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
        let alive = process.exit().is_none() && process.attempt_number() == number;
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
