//! Drives a session through a scenario: callers, children and the clock.
//!
//! At one instant what happened comes first, then what callers ask, then deadlines; equals keep the order in which
//! they were caused (`docs/determinism.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;

use unified_exec::core::command::{Defaults, EnvPolicy};
use unified_exec::core::ids::{AttemptNumber, CallId, ProcessId, SessionId};
use unified_exec::core::limits::{Limits, WhenFull};
use unified_exec::core::policy::{Assessment, Rights, Segment};
use unified_exec::core::session::{
    Answer, Config, ControlFailure, Effect, Event, FeedEvent, Progress, Session,
};
use unified_exec::core::signal::{Scope, Signal};
use unified_exec::core::spawn::{Descendant, Enforced, ResourceLimits, SpawnError, SpawnPlan, Stdio};
use unified_exec::core::time::Instant;

use crate::child::{Child, Report};
use crate::event::{Line, Pattern};
use crate::scenario::{Op, Program, Scenario, Service, SpawnFailure, When};
use crate::{ask, tell};

/// Without `run_to`, a scenario ends when nothing is due for longer than this: what is left then is retention.
const IDLE: Duration = Duration::from_secs(5);
/// No scenario goes on for longer: a week, far beyond every bound of the service.
const HORIZON: Duration = Duration::from_secs(7 * 86_400);

/// What a scenario came to.
#[derive(Debug)]
pub struct Run {
    /// The transcript.
    pub lines: Vec<Line>,
    /// Live processes of the session at the end.
    pub live: usize,
    /// Processes of the system at the end, descendants included.
    pub children: usize,
    /// Calls without an answer at the end, except those whose client went away.
    pub waiting: Vec<String>,
    /// What must never happen and did, or a step that could not be done.
    pub broken: Vec<String>,
    /// Virtual milliseconds.
    pub took: u64,
}

/// Plays a scenario from its start to its end.
pub fn play(scenario: &Scenario) -> Run {
    let mut world = World::new(scenario);
    world.run();
    world.into_run()
}

/// What is due; at one instant in this order.
#[derive(Debug)]
enum Due {
    Tell(Event),
    Spawned(ProcessId),
    Act(ProcessId),
    Ends(ProcessId, usize),
    Call(usize),
}

struct World<'a> {
    scenario: &'a Scenario,
    session: Session,
    now: Instant,
    /// Ranked 0 for what happens and 1 for what callers do, then by the order in which it was caused.
    agenda: BTreeMap<(Instant, u8, u64), Due>,
    caused: u64,
    /// Callers' steps that wait for an event.
    armed: Vec<(usize, Pattern)>,
    plans: BTreeMap<ProcessId, SpawnPlan>,
    children: BTreeMap<ProcessId, Child>,
    /// The call that started a process, by name.
    starters: BTreeMap<ProcessId, String>,
    names: BTreeMap<CallId, String>,
    calls: BTreeMap<String, CallId>,
    waiting: BTreeSet<CallId>,
    dropped: BTreeSet<CallId>,
    lines: Vec<Line>,
    broken: Vec<String>,
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let config = Config {
            id: SessionId::new("sim"),
            defaults: Defaults {
                cwd: "/".into(),
                shell: "sh".into(),
                allow_login: false,
                env: EnvPolicy::default(),
                inherited: Vec::new(),
            },
            rights: Rights::unrestricted(),
            process_limits: ResourceLimits::default(),
            owner_network: None,
            automatic_reviewer: false,
            limits: limits(&scenario.service),
            interactive: true,
            seed: 1,
        };
        let mut world = Self {
            scenario,
            session: Session::new(config, Instant::ZERO),
            now: Instant::ZERO,
            agenda: BTreeMap::new(),
            caused: 0,
            armed: Vec::new(),
            plans: BTreeMap::new(),
            children: BTreeMap::new(),
            starters: BTreeMap::new(),
            names: BTreeMap::new(),
            calls: BTreeMap::new(),
            waiting: BTreeSet::new(),
            dropped: BTreeSet::new(),
            lines: Vec::new(),
            broken: Vec::new(),
        };
        for (step, when) in scenario.when.iter().map(|when| when.get_ref()).enumerate() {
            match (when.at, when.on.as_deref().map(Pattern::parse)) {
                (Some(at), _) => world.later(at, Due::Call(step)),
                (None, Some(Ok(pattern))) => world.armed.push((step, pattern)),
                (None, Some(Err(_)) | None) => {}
            }
        }
        world
    }

    fn later(&mut self, millis: u64, due: Due) {
        let rank = u8::from(matches!(due, Due::Call(_)));
        self.caused += 1;
        self.agenda.insert((self.now + Duration::from_millis(millis), rank, self.caused), due);
    }

    fn run(&mut self) {
        let until = self.scenario.run_to.map(Instant::from_millis);
        loop {
            let happens = self.agenda.first_key_value().map(|(key, _)| key.0);
            let deadline = self.session.next_deadline();
            let idle = self.agenda.is_empty() && (self.waiting.is_empty() || deadline.is_none());
            let end = until.unwrap_or_else(|| if idle { self.now + IDLE } else { Instant::ZERO + HORIZON });
            let Some(next) = happens.into_iter().chain(deadline).min().filter(|next| *next <= end) else {
                self.now = until.unwrap_or(self.now);
                return;
            };
            self.now = self.now.max(next);
            match self.agenda.first_entry().filter(|entry| entry.key().0 <= next) {
                Some(entry) => {
                    let due = entry.remove();
                    self.happen(due);
                }
                None => self.session.on_deadline(self.now),
            }
            self.perform();
        }
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Tell(event) => self.session.on_event(self.now, event),
            Due::Spawned(process) => self.spawned(process),
            Due::Act(process) => {
                self.with_child(process, Child::act);
                self.next_act(process);
            }
            Due::Ends(process, descendant) => {
                self.with_child(process, |child| child.descendant_ends(descendant));
            }
            Due::Call(step) => self.step(step),
        }
    }

    fn program(&self, plan: &SpawnPlan) -> Option<&'a Program> {
        self.scenario.program.get(plan.argv.last()?)
    }

    fn spawned(&mut self, process: ProcessId) {
        let attempt = AttemptNumber::FIRST;
        let Some(plan) = self.plans.remove(&process) else { return };
        let Some(program) = self.program(&plan) else { return };
        if let Some(failure) = program.spawn_error {
            let error = spawn_error(failure, &plan);
            return self.session.on_event(self.now, Event::SpawnFailed { process, attempt, error });
        }
        let acts = program.acts.iter().map(|act| act.get_ref().clone()).collect();
        self.children.insert(process, Child::new(acts, matches!(plan.stdio, Stdio::Terminal(_))));
        let started =
            Event::Spawned { process, attempt, pid: None, enforced: Enforced::default(), at: self.now };
        self.session.on_event(self.now, started);
        self.next_act_after(process, 0);
    }

    fn next_act(&mut self, process: ProcessId) {
        let Some(last) = self.children.get(&process).and_then(Child::last_act) else { return };
        self.next_act_after(process, last);
    }

    /// Acts count from the spawn, so the next one is due as much later as it stands behind the last one.
    fn next_act_after(&mut self, process: ProcessId, last: u64) {
        if let Some(at) = self.children.get(&process).and_then(Child::next_act) {
            self.later(at - last, Due::Act(process));
        }
    }

    /// Lets a child do something, and schedules what a spawner would report of it.
    fn with_child<T: Default>(&mut self, process: ProcessId, does: impl FnOnce(&mut Child) -> T) -> T {
        let attempt = AttemptNumber::FIRST;
        let at = self.now;
        let Some(child) = self.children.get_mut(&process) else { return T::default() };
        let done = does(child);
        for report in child.reports() {
            let (late, event) = match report {
                Report::Output { end } => (0, Event::Output { process, attempt, end }),
                Report::Exited { status, late } => {
                    (late, Event::Exited { process, attempt, status, usage: None, out_of_memory: false, at })
                }
                Report::Closed { end } => (0, Event::Closed { process, attempt, end }),
                Report::TreeGone { late } => (late, Event::TreeGone { process, attempt }),
                Report::Wrote { write, taken, outcome } => {
                    (0, Event::Wrote { process, write, taken, outcome })
                }
                Report::Forked { descendant, lives } => {
                    self.later(lives, Due::Ends(process, descendant));
                    continue;
                }
            };
            self.later(late, Due::Tell(event));
        }
        done
    }

    /// A caller's step.
    fn step(&mut self, step: usize) {
        let Some(when) = self.scenario.when.get(step).map(|when| when.get_ref()) else { return };
        if when.op == Op::Disconnect {
            let Some(call) = when.call.as_ref().and_then(|name| self.calls.get(name)).copied() else {
                return;
            };
            self.waiting.remove(&call);
            self.dropped.insert(call);
            return self.session.on_event(self.now, Event::CallDropped { call });
        }
        let process = match &when.to {
            None => None,
            Some(name) => match self.starters.iter().find(|(_, starter)| *starter == name) {
                Some((process, _)) => Some(*process),
                None => {
                    let problem = format!("step {}: call {name:?} has started no process", step + 1);
                    return self.broken.push(problem);
                }
            },
        };
        self.ask(step, when, process);
    }

    fn ask(&mut self, step: usize, when: &When, process: Option<ProcessId>) {
        let Some(call) = ask::call(when, process) else { return };
        let id = CallId(step as u64 + 1);
        let name = when.call.clone().unwrap_or_else(|| "-".into());
        self.calls.insert(name.clone(), id);
        self.names.insert(id, name);
        self.waiting.insert(id);
        self.session.on_call(self.now, id, call);
    }

    /// Does what the session asks for, until it asks for nothing more.
    fn perform(&mut self) {
        while let Some(effect) = self.session.poll_effect() {
            match effect {
                Effect::Assess { process, argv, .. } => {
                    let segment = Segment { words: argv.clone(), rule: None, danger: None };
                    let assessment =
                        Assessment { segments: vec![segment], canonical: argv, fingerprint: String::new() };
                    self.session.on_event(self.now, Event::Assessed { process, assessment });
                }
                Effect::Excerpt { process, attempt } => {
                    let output = Bytes::new();
                    self.session.on_event(self.now, Event::Excerpt { process, attempt, output });
                }
                Effect::Spawn { process, plan, .. } => {
                    let takes = self.program(&plan).map_or(0, |program| program.spawn);
                    self.plans.insert(process, plan);
                    self.later(takes, Due::Spawned(process));
                }
                Effect::Write { process, write, data, .. } => {
                    self.with_child(process, |child| child.write(write, data));
                }
                Effect::StopWrite { process, write } => {
                    self.with_child(process, |child| child.stop_write(write));
                }
                Effect::Signal { process, signal, scope, call } => {
                    let reached = self.with_child(process, |child| child.signal(signal, scope));
                    if let Some(call) = call {
                        let result = reached.then_some(()).ok_or(ControlFailure::Gone);
                        self.later(0, Due::Tell(Event::Controlled { call, result }));
                    }
                }
                Effect::KillTree { process } => {
                    self.with_child(process, |child| child.signal(Signal::KILL, Scope::Tree));
                }
                Effect::Survey { process } => {
                    let names = self.children.get(&process).map_or_else(Vec::new, Child::alive);
                    let alive =
                        names.into_iter().map(|name| Descendant { pid: 0, name: name.into() }).collect();
                    self.later(0, Due::Tell(Event::Surveyed { process, alive }));
                }
                Effect::Resize { call, .. } => {
                    self.later(0, Due::Tell(Event::Controlled { call, result: Ok(()) }));
                }
                Effect::Forget { process } => drop(self.plans.remove(&process)),
                Effect::Progress { call, progress: Progress::Collecting { process, .. } } => {
                    if let Some(name) = self.names.get(&call) {
                        self.starters.entry(process).or_insert_with(|| name.clone());
                    }
                }
                Effect::Reply { call, answer } => self.replied(call, &answer),
                Effect::Publish(event) => self.published(&event),
                // Output is not kept here, and no op waits for what it says.
                Effect::Progress { .. }
                | Effect::Watch { .. }
                | Effect::Unwatch { .. }
                | Effect::Ask { .. }
                | Effect::Unask { .. }
                | Effect::AllowRule { .. }
                | Effect::Connect { .. }
                | Effect::Trim { .. } => {}
            }
        }
    }

    fn replied(&mut self, call: CallId, answer: &Answer) {
        let name = self.names.get(&call).map_or("?", String::as_str).to_owned();
        if !self.waiting.remove(&call) && !self.dropped.contains(&call) {
            self.broken.push(format!("call {name:?} was answered twice"));
        }
        self.line(&name, "answer", tell::answer(answer));
    }

    fn published(&mut self, event: &FeedEvent) {
        let (process, kind, keys) = tell::event(&event.kind);
        let who =
            process.and_then(|process| self.starters.get(&process)).map_or("-", String::as_str).to_owned();
        let exited = |line: &&Line| line.who == who && line.kind == "process_exited";
        if kind == "process_exited" && self.lines.iter().any(|line| exited(&line)) {
            self.broken.push(format!("the process of {who:?} exited twice"));
        }
        self.line(&who, kind, keys);
    }

    fn line(&mut self, who: &str, kind: &str, keys: Vec<(&'static str, String)>) {
        let line = Line::new(self.now.as_nanos() / 1_000_000, who, kind, keys);
        let (met, armed) = std::mem::take(&mut self.armed).into_iter().partition(|(_, on)| on.matches(&line));
        self.armed = armed;
        let met: Vec<(usize, Pattern)> = met;
        for (step, _) in met {
            let delay = self.scenario.when.get(step).and_then(|when| when.get_ref().delay).unwrap_or(0);
            self.later(delay, Due::Call(step));
        }
        self.lines.push(line);
    }

    fn into_run(mut self) -> Run {
        for (step, pattern) in &self.armed {
            self.broken.push(format!("step {}: {pattern} never came", step + 1));
        }
        Run {
            live: self.session.view().live,
            children: self.children.values().map(|child| child.alive().len()).sum(),
            waiting: self.waiting.iter().filter_map(|call| self.names.get(call).cloned()).collect(),
            took: self.now.as_nanos() / 1_000_000,
            lines: self.lines,
            broken: self.broken,
        }
    }
}

fn limits(service: &Service) -> Limits {
    let default = Limits::default();
    Limits {
        poll_yield_max: service.poll_yield_max.map_or(default.poll_yield_max, Duration::from_millis),
        processes_max: service.processes_max.unwrap_or(default.processes_max),
        when_full: if service.reject_when_full == Some(true) { WhenFull::Reject } else { WhenFull::Evict },
        early_window: service.early_window.map_or(default.early_window, Duration::from_millis),
        ..default
    }
}

fn spawn_error(failure: SpawnFailure, plan: &SpawnPlan) -> SpawnError {
    let program = plan.argv.first().cloned().unwrap_or_default();
    match failure {
        SpawnFailure::ProgramMissing => SpawnError::ProgramMissing { program },
        SpawnFailure::ProgramDenied => SpawnError::ProgramDenied { program },
        SpawnFailure::CwdMissing => SpawnError::CwdMissing { path: plan.cwd.clone() },
    }
}
