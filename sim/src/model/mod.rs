//! Tier L0: the product's own `core::Session`, its effects answered by a model of the world: callers, children and the
//! clock. The model never decides what the session decides.
//!
//! At one instant what happened comes first, then what callers ask, then deadlines; equals keep the order in which
//! they were caused (`docs/determinism.md`).

mod child;
mod perform;
mod steps;
pub(crate) mod trace;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use unified_exec::core::approval::Question;
use unified_exec::core::ids::{ApprovalId, AttemptNumber, CallId, ConnectionId, ProcessId};
use unified_exec::core::session::{Event, Session};
use unified_exec::core::spawn::{Enforced, Mechanism, SpawnError, SpawnPlan, Stdio};
use unified_exec::core::time::Instant;

use self::child::{Child, Report};
use self::trace::{Mark, What};
use crate::rulebook::Rulebook;
use crate::run::{Missed, Run, Step, Why};
use crate::scenario::session::config;
use crate::scenario::{Program, Scenario, SpawnFailure};
use crate::transcript::{Line, Pattern, Word};

/// Without `run_to`, a scenario ends when nothing is due for longer than this: what is left then is retention.
const IDLE: Duration = Duration::from_secs(5);
/// More than that at one instant is no run but a loop.
const AT_ONCE_MAX: u32 = 100_000;
/// No scenario goes on for longer: a week, far beyond every bound of the service.
const HORIZON: Duration = Duration::from_secs(7 * 86_400);

/// Plays a scenario from its start to its end.
pub(crate) fn play(scenario: &Scenario) -> Run {
    let mut world = World::new(scenario);
    world.run();
    world.into_run()
}

/// Plays a scenario, and keeps what the transcript does not tell.
pub(crate) fn trace(scenario: &Scenario) -> (Run, Vec<Mark>) {
    let mut world = World::new(scenario);
    world.marks = Some(Vec::new());
    world.run();
    let marks = world.marks.take().unwrap_or_default();
    (world.into_run(), marks)
}

/// What is due; at one instant in this order.
#[derive(Debug)]
enum Due {
    Tell(Event),
    Spawned(Attempt),
    Act(Attempt),
    Ends(Attempt, usize),
    Call(usize),
}

/// One try of a process.
pub(crate) type Attempt = (ProcessId, AttemptNumber);

pub(crate) struct World<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) session: Session,
    pub(crate) rulebook: Rulebook,
    pub(crate) now: Instant,
    /// Ranked 0 for what happens and 1 for what callers do, then by the order in which it was caused.
    agenda: BTreeMap<(Instant, u8, u64), Due>,
    caused: u64,
    /// Callers' steps that wait for an event.
    armed: Vec<(usize, &'a Pattern)>,
    plans: BTreeMap<Attempt, SpawnPlan>,
    pub(crate) children: BTreeMap<Attempt, Child<'a>>,
    /// The call that is being made, and those that started processes, by name.
    pub(crate) asking: Word,
    pub(crate) starters: BTreeMap<ProcessId, Word>,
    pub(crate) names: BTreeMap<CallId, Word>,
    pub(crate) calls: BTreeMap<Word, CallId>,
    pub(crate) waiting: BTreeSet<CallId>,
    pub(crate) dropped: BTreeSet<CallId>,
    /// In the order in which they were asked.
    pub(crate) questions: Vec<(ApprovalId, ProcessId)>,
    /// Where the connections go that wait for an answer.
    pub(crate) connections: BTreeMap<ConnectionId, (ProcessId, String)>,
    connected: u64,
    /// The early window.
    pub(crate) window: Duration,
    /// Things that have happened at this instant.
    at_once: u32,
    pub(crate) lines: Vec<Line>,
    pub(crate) broken: Vec<String>,
    pub(crate) missed: Vec<Missed>,
    pub(crate) steps: Vec<Step>,
    /// Kept for pictures only.
    marks: Option<Vec<Mark>>,
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let mut world = Self {
            scenario,
            session: Session::new(config(scenario), Instant::ZERO),
            rulebook: Rulebook::new(&scenario.rules),
            now: Instant::ZERO,
            agenda: BTreeMap::new(),
            caused: 0,
            armed: Vec::new(),
            plans: BTreeMap::new(),
            children: BTreeMap::new(),
            asking: Word::default(),
            starters: BTreeMap::new(),
            names: BTreeMap::new(),
            calls: BTreeMap::new(),
            waiting: BTreeSet::new(),
            dropped: BTreeSet::new(),
            questions: Vec::new(),
            connections: BTreeMap::new(),
            connected: 0,
            window: scenario.service.limits().early_window,
            at_once: 0,
            lines: Vec::with_capacity(64),
            broken: Vec::new(),
            missed: Vec::new(),
            steps: Vec::new(),
            marks: None,
        };
        for (step, when) in scenario.when.iter().map(|when| when.get_ref()).enumerate() {
            match (when.at, &when.on) {
                (Some(at), _) => world.later(at, Due::Call(step)),
                (None, Some(pattern)) => world.armed.push((step, pattern)),
                (None, None) => {}
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
            self.at_once = if next > self.now { 0 } else { self.at_once + 1 };
            if self.at_once > AT_ONCE_MAX {
                self.broken.push(format!("more than {AT_ONCE_MAX} things happen in one millisecond"));
                return;
            }
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
            Due::Spawned(attempt) => self.spawned(attempt),
            Due::Act(attempt) => {
                self.with_attempt(attempt, Child::act);
                self.next_act(attempt);
            }
            Due::Ends(attempt, descendant) => {
                self.with_attempt(attempt, |child| child.descendant_ends(descendant));
            }
            Due::Call(step) => self.step(step),
        }
    }

    fn program(&self, plan: &SpawnPlan) -> Option<&'a Program> {
        self.scenario.program.get(plan.argv.last()?)
    }

    /// The spawner has an order.
    pub(crate) fn spawn(&mut self, attempt: Attempt, plan: SpawnPlan) {
        let second = attempt.1 == AttemptNumber::SECOND;
        let takes = self.program(&plan).map_or(0, |program| program.start(second).0);
        self.plans.insert(attempt, plan);
        self.mark(Some(attempt), What::Spawning);
        self.later(takes, Due::Spawned(attempt));
    }

    fn spawned(&mut self, (process, attempt): Attempt) {
        let Some(plan) = self.plans.remove(&(process, attempt)) else { return };
        let Some(program) = self.program(&plan) else { return };
        if let (_, Some(failure)) = program.start(attempt == AttemptNumber::SECOND) {
            let error = spawn_error(failure, &plan);
            return self.session.on_event(self.now, Event::SpawnFailed { process, attempt, error });
        }
        let acts = program.acts(plan.sandbox.is_some());
        let child = Child::new(acts, matches!(plan.stdio, Stdio::Terminal(_)));
        self.children.insert((process, attempt), child);
        let mechanisms = plan.sandbox.iter().map(|_| Mechanism::Script).collect();
        let enforced = Enforced { mechanisms, ..Enforced::default() };
        let started = Event::Spawned { process, attempt, pid: None, enforced, at: self.now };
        self.session.on_event(self.now, started);
        self.next_act_after((process, attempt), 0);
    }

    fn next_act(&mut self, attempt: Attempt) {
        let Some(last) = self.children.get(&attempt).and_then(Child::last_act) else { return };
        self.next_act_after(attempt, last);
    }

    /// Acts count from the spawn, so the next one is due as much later as it stands behind the last one.
    fn next_act_after(&mut self, attempt: Attempt, last: u64) {
        if let Some(at) = self.children.get(&attempt).and_then(Child::next_act) {
            self.later(at - last, Due::Act(attempt));
        }
    }

    /// Lets the latest attempt of a process do something.
    pub(crate) fn with_child<T: Default>(
        &mut self,
        process: ProcessId,
        does: impl FnOnce(&mut Child<'a>) -> T,
    ) -> T {
        self.with_attempt(self.latest(process), does)
    }

    fn latest(&self, process: ProcessId) -> Attempt {
        let second = (process, AttemptNumber::SECOND);
        if self.children.contains_key(&second) { second } else { (process, AttemptNumber::FIRST) }
    }

    /// Lets a child do something, and schedules what a spawner would report of it.
    fn with_attempt<T: Default>(&mut self, of: Attempt, does: impl FnOnce(&mut Child<'a>) -> T) -> T {
        let ((process, attempt), at) = (of, self.now);
        let Some(child) = self.children.get_mut(&of) else { return T::default() };
        let before = self.marks.is_some().then(|| child.descendants_alive());
        let done = does(child);
        let after = if before.is_some() { child.descendants_alive() } else { Vec::new() };
        let reports = child.reports();
        self.mark_descendants(of, &before.unwrap_or_default(), &after);
        for report in reports {
            let (late, event) = match report {
                Report::Output { end } => (0, Event::Output { process, attempt, end }),
                Report::Exited { status, late } => {
                    self.mark(Some(of), What::Exited);
                    (late, Event::Exited { process, attempt, status, usage: None, out_of_memory: false, at })
                }
                Report::Closed { end } => (0, Event::Closed { process, attempt, end }),
                Report::TreeGone { late } => (late, Event::TreeGone { process, attempt }),
                Report::Wrote { write, taken, outcome } => {
                    (0, Event::Wrote { process, write, taken, outcome })
                }
                Report::Forked { descendant, lives } => {
                    self.later(lives, Due::Ends(of, descendant));
                    continue;
                }
                Report::Connecting { host, port } => (0, self.connecting(process, host, port)),
            };
            self.later(late, Due::Tell(event));
        }
        done
    }

    fn connecting(&mut self, process: ProcessId, host: String, port: u16) -> Event {
        self.connected += 1;
        let connection = ConnectionId(self.connected);
        self.connections.insert(connection, (process, format!("{host}:{port}")));
        Event::Connecting { process, connection, host, port }
    }

    /// The automatic reviewer, if there is one, has a question.
    pub(crate) fn review(&mut self, question: &Question) {
        if let Some(reviewer) = &self.scenario.reviewer {
            let (approval, review) = (question.id.clone(), reviewer.review());
            self.later(reviewer.after, Due::Tell(Event::Reviewed { approval, review }));
        }
    }

    /// Something is told within the same millisecond, after what is being done now.
    pub(crate) fn tell(&mut self, event: Event) {
        self.later(0, Due::Tell(event));
    }

    /// Schedules the steps that waited for a line like this.
    pub(crate) fn fire(&mut self, line: &Line) {
        let met: Vec<usize> =
            self.armed.extract_if(.., |(_, on)| on.matches(line)).map(|(step, _)| step).collect();
        for step in met {
            let delay = self.scenario.when.get(step).and_then(|when| when.get_ref().delay).unwrap_or(0);
            self.later(delay, Due::Call(step));
        }
    }

    fn into_run(mut self) -> Run {
        self.missed.extend(self.armed.iter().map(|(step, _)| Missed { step: *step, why: Why::NeverCame }));
        Run {
            live: self.session.view().live,
            questions: self.session.view().open_questions,
            children: self.children.values().map(|child| child.alive().len()).sum(),
            waiting: self
                .waiting
                .iter()
                .filter_map(|call| self.names.get(call).map(Word::to_string))
                .collect(),
            took: self.now.as_nanos() / 1_000_000,
            lines: self.lines,
            broken: self.broken,
            missed: self.missed,
            steps: self.steps,
            unordered: false,
            said: Vec::new(),
            wall: false,
        }
    }
}

pub(crate) fn spawn_error(failure: SpawnFailure, plan: &SpawnPlan) -> SpawnError {
    let program = plan.argv.first().cloned().unwrap_or_default();
    match failure {
        SpawnFailure::ProgramMissing => SpawnError::ProgramMissing { program },
        SpawnFailure::ProgramDenied => SpawnError::ProgramDenied { program },
        SpawnFailure::CwdMissing => SpawnError::CwdMissing { path: plan.cwd.clone() },
        SpawnFailure::Exhausted => {
            SpawnError::Exhausted { resource: "processes", reason: "the scenario says so".into() }
        }
        SpawnFailure::SandboxUnavailable => {
            SpawnError::SandboxUnavailable { reason: "the scenario says so".into() }
        }
    }
}
