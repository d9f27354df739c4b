//! One session as a state machine: it takes calls and events, and answers with effects.
//!
//! ```text
//!            ┌── start   a command becomes a process; one or two attempts
//!  on_call ──┼── write   input, in order, one piece at a time
//!  on_event ─┼── wait    calls that wait: yields, polls; condition: what they may wait for
//!            ├── client  what clients do to their calls: interrupt, go away, follow
//!  on_deadline── end     exit, last output, the kill ladder, tombstones
//!            ├── room    which process makes room for another
//!            ├── questions  who is asked, and what an answer leads to
//!            ├── judge   whether a sandbox denied an attempt, and whether a second one follows
//!            └── review, connect  input and connections that somebody must approve
//!                               └──► poll_effect, next_deadline
//! ```
//!
//! Who calls it: the host's driver, one for each session, and the simulator. It never asks what time it is: every
//! input brings its `now`, which must not go backwards. An input is handled whole before the next one.
//!
//! **Promises.** Each call gets exactly one answer unless its client drops it. A process publishes one
//! `ProcessExited`, after all its output that came within 100 ms; its `OutputsClosed` follows, unless the outputs had
//! ended before the process did. `Cleaned` comes after everything that it ended. An interrupt ends waits and never a
//! process, except a one-shot. What is asked twice under one request id happens once.

mod change;
mod client;
mod condition;
mod connect;
mod effect;
mod end;
mod feed;
mod input;
mod judge;
mod questions;
mod review;
mod room;
mod start;
mod timers;
mod view;
mod wait;
mod write;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use effect::{
    Answer, CallResult, ConditionEnd, ConnectionRefused, ControlError, DecideError, Effect, EndReport,
    HoldError, InterruptReport, NotApproved, Progress, StartError, TargetError, UpdateError, WaitEnd,
    WaitResult, WriteError,
};
pub use feed::{FeedEvent, FeedKind};
pub use input::{
    Call, Condition, ControlFailure, Decide, Event, Exec, Hold, Idempotency, Mode, Timeouts, Update, WaitFor,
    WatchOutcome, Write, WriteAnswer, WriteOutcome,
};
pub use view::{AttemptView, ProcessView, SessionView, State};

use crate::core::command::Defaults;
use crate::core::ids::{CallId, Fingerprint, IdGenerator, ProcessId, RequestId, SessionId};
use crate::core::limits::Limits;
use crate::core::policy::{NetworkRule, Rights};
use crate::core::process::{Process, TimeoutKind};
use crate::core::signal::Scope;
use crate::core::spawn::ResourceLimits;
use crate::core::time::Instant;
use end::Sweep;
use questions::Questions;
use timers::{Timer, Timers};
use wait::Wait;

/// What a session is created with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its id.
    pub id: SessionId,
    /// What every command gets.
    pub defaults: Defaults,
    /// Policy and profile; already checked with [`Rights::check`].
    pub rights: Rights,
    /// What each process may use.
    pub process_limits: ResourceLimits,
    /// The rules for connections that the server's owner set, which no session may loosen.
    pub owner_network: Option<Vec<NetworkRule>>,
    /// Whether an automatic reviewer is there.
    pub automatic_reviewer: bool,
    /// Its bounds.
    pub limits: Limits,
    /// Whether processes may outlive their calls.
    pub interactive: bool,
    /// Seed of its ids.
    pub seed: u64,
}

/// What is known of a request id.
#[derive(Debug)]
struct Request {
    fingerprint: Fingerprint,
    process: ProcessId,
    state: RequestState,
}

#[derive(Debug)]
enum RequestState {
    /// This wait will answer it.
    Pending(CallId),
    /// Its client went away before the answer; a repeat waits anew.
    Abandoned,
    /// It was answered so.
    Done(Box<Answer>),
}

/// The state of one session.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    defaults: Defaults,
    rights: Rights,
    process_limits: ResourceLimits,
    owner_network: Option<Vec<NetworkRule>>,
    automatic_reviewer: bool,
    limits: Limits,
    interactive: bool,
    created_at: Instant,
    policy_revision: u64,
    closing: bool,

    processes: BTreeMap<ProcessId, Process>,
    /// Ended processes, oldest first.
    ended: VecDeque<ProcessId>,
    waits: BTreeMap<CallId, Wait>,
    sweeps: BTreeMap<CallId, Sweep>,
    requests: BTreeMap<RequestId, Request>,
    questions: Questions,
    /// Leases that hold yield deadlines.
    holds: BTreeSet<String>,
    timers: Timers,

    ids: IdGenerator,
    /// Numbers of the last event, use and write.
    sequence: u64,
    uses: u64,
    writes: u64,
    effects: VecDeque<Effect>,
}

impl Session {
    /// A session without processes.
    pub fn new(config: Config, now: Instant) -> Self {
        Self {
            id: config.id,
            defaults: config.defaults,
            rights: config.rights,
            process_limits: config.process_limits,
            owner_network: config.owner_network,
            automatic_reviewer: config.automatic_reviewer,
            limits: config.limits,
            interactive: config.interactive,
            created_at: now,
            policy_revision: 1,
            closing: false,
            processes: BTreeMap::new(),
            ended: VecDeque::new(),
            waits: BTreeMap::new(),
            sweeps: BTreeMap::new(),
            requests: BTreeMap::new(),
            questions: Questions::default(),
            holds: BTreeSet::new(),
            timers: Timers::default(),
            ids: IdGenerator::new(config.seed),
            sequence: 0,
            uses: 0,
            writes: 0,
            effects: VecDeque::new(),
        }
    }

    /// Takes a call. `id` must be new; the answer names it.
    pub fn on_call(&mut self, now: Instant, id: CallId, call: Call) {
        match call {
            Call::Exec(exec) => self.exec(now, id, exec),
            Call::Write(write) => self.write(now, id, write),
            Call::Wait(wait) => self.wait_for(now, id, wait),
            Call::Signal { process, signal, scope } => {
                let allowed = self.controllable(now, process, scope == Scope::Tree);
                self.control(id, allowed, Effect::Signal { process, signal, scope, call: Some(id) });
            }
            Call::Resize { process, size } => {
                let allowed = self.resizable(now, process);
                self.control(id, allowed, Effect::Resize { process, size, call: id });
            }
            Call::Terminate { process } => self.terminate(now, id, process),
            Call::Interrupt { turn } => self.interrupt(now, id, &turn),
            Call::Clean => self.clean(now, id),
            Call::Close { reason } => self.close(now, id, reason),
            Call::Get { process } => {
                let view = self.known(process).map(|process| Box::new(process.view()));
                self.reply(id, Answer::Process(view));
            }
            Call::List { include_ended } => {
                let views = self.processes.values().map(Process::view);
                let listed =
                    views.filter(|view| include_ended || view.state != State::Ended || view.has_descendants);
                let answer = Answer::Processes(listed.collect());
                self.reply(id, answer);
            }
            Call::Describe => self.reply(id, Answer::Session(Box::new(self.view()))),
            Call::Update(update) => {
                let updated = self.update(now, update);
                self.reply(id, Answer::Updated(updated));
            }
            Call::Hold(hold) => self.hold(now, id, hold),
            Call::Decide(decide) => self.on_decide(now, id, decide),
            Call::Approvals { include_closed } => {
                self.reply(id, Answer::Approvals(self.list_approvals(include_closed)));
            }
            Call::Approval { approval } => {
                self.reply(id, Answer::Approval(self.describe_approval(approval)));
            }
            Call::Grants => self.reply(id, Answer::Grants(self.list_grants())),
            Call::Revoke { grant } => {
                let revoked = self.revoke(&grant);
                self.reply(id, Answer::Revoked(revoked));
            }
            Call::Attach { process } => self.attach(now, id, process),
        }
    }

    /// Takes something that happened.
    pub fn on_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Assessed { process, assessment } => self.on_assessed(now, process, assessment),
            Event::Reviewed { approval, review } => self.on_reviewed(now, &approval, review),
            Event::RuleAdded { call, result } => self.on_rule_added(now, call, result),
            Event::OwnerNetwork { rules } => self.on_owner_network(now, rules),
            Event::Connecting { process, connection, host, port } => {
                self.on_connecting(now, process, connection, host, port);
            }
            Event::ConnectionGone { connection } => self.on_connection_gone(now, connection),
            Event::Excerpt { process, attempt, output } => self.on_excerpt(now, process, attempt, &output),
            Event::Spawned { process, attempt, pid, enforced, at } => {
                self.on_spawned(now, process, attempt, pid, enforced, at);
            }
            Event::SpawnFailed { process, attempt, error } => {
                self.on_spawn_failed(now, process, attempt, error)
            }
            Event::Output { process, attempt, end } => self.on_output(now, process, attempt, end),
            Event::Exited { process, attempt, status, usage, out_of_memory, at } => {
                self.on_exited(now, process, attempt, (status, out_of_memory), usage, at);
            }
            Event::Closed { process, attempt, end } => self.on_closed(now, process, attempt, end),
            Event::TreeGone { process, attempt } => self.on_tree_gone(now, process, attempt),
            Event::Surveyed { process, alive } => self.on_surveyed(now, process, alive),
            Event::Wrote { process, write, taken, outcome } => {
                self.on_wrote(now, process, write, taken, outcome)
            }
            Event::Controlled { call, result } => {
                self.reply(call, Answer::Control(result.map_err(ControlError::Failed)));
            }
            Event::Watched { wait, outcome } => self.on_watched(now, wait, outcome),
            Event::Read { process, attempt, to } => self.on_read(process, attempt, to),
            Event::CallDropped { call } => self.on_dropped(now, call),
        }
    }

    /// Takes the passing of time: fires every timer that is due, in order.
    pub fn on_deadline(&mut self, now: Instant) {
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Window(process) => self.on_window_passed(process),
                Timer::Judge(process) => self.judge(process),
                Timer::ExitCollect(process) => self.collect_end(now, process),
                Timer::ExitFeed(process) => self.on_feed_wait_over(now, process),
                Timer::OneShot(process) => self.on_timeout(now, process, TimeoutKind::OneShot),
                Timer::Hard(process) => self.on_timeout(now, process, TimeoutKind::Hard),
                Timer::NoOutput(process) => {
                    self.on_timeout(now, process, TimeoutKind::NoOutput);
                }
                Timer::AfterDisconnect(process) => {
                    self.on_timeout(now, process, TimeoutKind::AfterDisconnect);
                }
                Timer::KillGrace(process) => self.on_kill_grace(now, process),
                Timer::KillReap(process) => self.on_kill_reap(process),
                Timer::Question(approval) => self.on_question_expired(now, &approval),
                Timer::Hold(lease) => self.release_hold(now, &lease),
                Timer::Wait(call) => self.on_wait_over(now, call),
                Timer::Retention(process) => self.effects.push_back(Effect::Trim { process }),
                Timer::Tombstone(process) => self.on_tombstone_aged(now, process),
            }
        }
    }

    /// When [`Self::on_deadline`] has something to do next.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Takes the next thing the host must do. To be called until it answers `None` after every input.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Whether the session has been closed and everything of it is answered and told.
    pub fn is_over(&self) -> bool {
        self.closing && self.sweeps.is_empty()
    }

    /// The session as it is at this moment.
    pub fn view(&self) -> SessionView {
        SessionView {
            id: self.id.clone(),
            defaults: self.defaults.clone(),
            rights: self.rights.clone(),
            limits: self.limits.clone(),
            interactive: self.interactive,
            policy_revision: self.policy_revision,
            feed_sequence: self.sequence,
            live: self
                .processes
                .values()
                .filter(|process| process.exit().is_none() && !process.is_undecided())
                .count(),
            process_limits: self.process_limits,
            owner_network: self.owner_network.clone(),
            open_questions: self.questions.open(),
            created_at: self.created_at,
            closing: self.closing,
        }
    }

    /// A process as it is at this moment; `None` if it never existed or is forgotten.
    pub fn process(&self, process: ProcessId) -> Option<ProcessView> {
        self.processes.get(&process).map(Process::view)
    }

    fn known(&self, process: ProcessId) -> Result<&Process, TargetError> {
        self.processes.get(&process).ok_or(TargetError::Unknown { process })
    }

    /// A process that can be signalled: it runs, or descendants of it do and `tree` is meant.
    fn controllable(&mut self, now: Instant, process: ProcessId, tree: bool) -> Result<(), ControlError> {
        let known = self.known(process)?;
        match known.exit() {
            Some(exit) if known.tree_gone || !tree => {
                return Err(TargetError::Gone { process, exit: Box::new(*exit) }.into());
            }
            None if known.attempt().is_none() => {
                return Err(ControlError::Starting { process });
            }
            Some(_) | None => {}
        }
        self.touch(now, process);
        Ok(())
    }

    fn resizable(&mut self, now: Instant, process: ProcessId) -> Result<(), ControlError> {
        self.controllable(now, process, false)?;
        if self.known(process)?.terminal.is_none() {
            return Err(ControlFailure::NoTerminal.into());
        }
        Ok(())
    }

    fn control(&mut self, call: CallId, allowed: Result<(), ControlError>, effect: Effect) {
        match allowed {
            Ok(()) => {
                if let Effect::Resize { process, size, .. } = effect
                    && let Some(process) = self.processes.get_mut(&process)
                {
                    process.terminal = Some(size);
                }
                self.effects.push_back(effect);
            }
            Err(refusal) => self.reply(call, Answer::Control(Err(refusal))),
        }
    }

    /// Marks a process as the most recently used one.
    fn touch(&mut self, now: Instant, process: ProcessId) {
        self.uses += 1;
        if let Some(process) = self.processes.get_mut(&process) {
            process.used = self.uses;
            process.used_at = now;
        }
    }

    fn reply(&mut self, call: CallId, answer: Answer) {
        self.effects.push_back(Effect::Reply { call, answer });
    }

    /// Appends to the feed, on behalf of the call that started `process` if one is given.
    fn publish(&mut self, now: Instant, process: Option<ProcessId>, kind: FeedKind) {
        let starter = process.and_then(|process| self.processes.get(&process));
        self.sequence += 1;
        let event = FeedEvent {
            sequence: self.sequence,
            at: now,
            turn: starter.map(|process| process.turn.clone()),
            request: starter.and_then(|process| process.request.clone()),
            kind,
        };
        self.effects.push_back(Effect::Publish(event));
    }

    /// Appends to the feed, on behalf of a call about a process; if its wait is over, of the one that started it.
    fn publish_for_call(&mut self, now: Instant, call: CallId, process: ProcessId, kind: FeedKind) {
        let asked = self.waits.get(&call).map(|wait| (wait.turn.clone(), wait.request.clone()));
        self.publish(now, Some(process), kind);
        if let (Some((turn, request)), Some(Effect::Publish(event))) = (asked, self.effects.back_mut()) {
            event.turn = Some(turn);
            event.request = request;
        }
    }
}
