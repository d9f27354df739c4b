//! A run in the order in which one asks about it: by call, by process, by question.

use crate::run::{Run, Step};
use crate::scenario::service::{Change, Policy};
use crate::scenario::{Act, Op, Program, Scenario, When};
use crate::transcript::Line;

/// A run and its scenario, indexed.
pub(crate) struct Facts<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) run: &'a Run,
    /// Ordered by name.
    pub(crate) calls: Vec<Called<'a>>,
    pub(crate) questions: Vec<Question<'a>>,
    /// Rights as they were changed, and when, in order.
    changes: Vec<(u64, Changed<'a>)>,
}

/// What came of a step that has a name, and of the process that it started.
#[derive(Debug)]
pub(crate) struct Called<'a> {
    pub(crate) name: &'a str,
    pub(crate) when: &'a When,
    pub(crate) step: usize,
    /// When it was done; `None` if it was left out.
    pub(crate) done: Option<Step>,
    /// Whether its client went away.
    pub(crate) dropped: bool,
    /// Indexes of its answers.
    pub(crate) answers: Vec<usize>,
    /// Indexes of everything else of the process that it started.
    pub(crate) lines: Vec<usize>,
}

/// A question, by its lines.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) number: &'a str,
    pub(crate) kind: &'a str,
    /// The call that started the process it is about.
    pub(crate) who: &'a str,
    pub(crate) asked: usize,
    pub(crate) decided: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Changed<'a> {
    Rights(&'a Change),
    OwnerNetwork(bool),
}

impl<'a> Facts<'a> {
    pub(crate) fn of(scenario: &'a Scenario, run: &'a Run) -> Self {
        let mut calls: Vec<Called<'a>> = Vec::with_capacity(scenario.when.len());
        for (step, when) in scenario.when.iter().map(|when| when.get_ref()).enumerate() {
            if let (Some(name), false) = (&when.call, when.op == Op::Disconnect) {
                let (answers, lines) = (Vec::new(), Vec::new());
                calls.push(Called { name, when, step, done: None, dropped: false, answers, lines });
            }
        }
        calls.sort_by_key(|call| call.name);
        let mut facts = Self { scenario, run, calls, questions: Vec::new(), changes: Vec::new() };
        for done in &run.steps {
            facts.take_step(*done);
        }
        for (at, line) in run.lines.iter().enumerate() {
            facts.take_line(at, line);
        }
        facts
    }

    fn take_step(&mut self, done: Step) {
        let Some(when) = self.scenario.when.get(done.step).map(|when| when.get_ref()) else { return };
        match when.op {
            Op::Disconnect => {
                if let Some(at) = when.call.as_deref().and_then(|name| self.position(name))
                    && let Some(call) = self.calls.get_mut(at)
                {
                    call.dropped |= call.done.is_some();
                }
                return;
            }
            Op::OwnerNetwork => {
                self.changes.push((done.t, Changed::OwnerNetwork(when.owner_network.is_some())));
            }
            Op::Update if !self.was_refused(when) => {
                self.changes.extend(when.set.as_ref().map(|set| (done.t, Changed::Rights(set))));
            }
            _ => {}
        }
        if let Some(at) = when.call.as_deref().and_then(|name| self.position(name))
            && let Some(call) = self.calls.get_mut(at)
        {
            call.done = Some(done);
        }
    }

    fn was_refused(&self, when: &When) -> bool {
        let name = when.call.as_deref().unwrap_or("-");
        let mut answers = self.run.lines.iter().filter(|line| line.kind == "answer" && line.who == name);
        answers.any(|line| line.get("error").is_some())
    }

    fn take_line(&mut self, at: usize, line: &'a Line) {
        match line.kind {
            "approval_requested" => self.questions.push(Question {
                number: line.get("n").unwrap_or(""),
                kind: line.get("kind").unwrap_or(""),
                who: &line.who,
                asked: at,
                decided: Vec::new(),
            }),
            "approval_decided" => {
                let number = line.get("n").unwrap_or("");
                if let Some(question) = self.questions.iter_mut().find(|question| question.number == number) {
                    question.decided.push(at);
                }
            }
            _ => {}
        }
        if let Some(call) = self.position(&line.who).and_then(|at| self.calls.get_mut(at)) {
            if line.kind == "answer" { call.answers.push(at) } else { call.lines.push(at) }
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.calls.binary_search_by_key(&name, |call| call.name).ok()
    }

    pub(crate) fn call(&self, name: &str) -> Option<&Called<'a>> {
        self.position(name).and_then(|at| self.calls.get(at))
    }

    pub(crate) fn line(&self, at: usize) -> Option<&'a Line> {
        self.run.lines.get(at)
    }

    /// The instant of a line.
    pub(crate) fn t(&self, at: usize) -> u64 {
        self.line(at).map_or(0, |line| line.t)
    }

    /// Whether a line comes before another one of another source: where tasks make lines, by its instant.
    pub(crate) fn is_before(&self, line: usize, other: usize) -> bool {
        if self.run.unordered { self.t(line) < self.t(other) } else { line < other }
    }

    pub(crate) fn says(&self, at: usize, key: &str) -> &'a str {
        self.line(at).and_then(|line| line.get(key)).unwrap_or("")
    }

    pub(crate) fn number(&self, at: usize, key: &str) -> Option<u64> {
        self.line(at)?.get(key)?.parse().ok()
    }

    /// Calls that start something.
    pub(crate) fn starts(&self) -> impl Iterator<Item = &Called<'a>> {
        self.calls.iter().filter(|call| call.when.op == Op::Exec)
    }

    /// Lines of `kind` of the process that `call` started.
    pub(crate) fn of_kind<'c>(
        &self,
        call: &'c Called<'a>,
        kind: &'static str,
    ) -> impl Iterator<Item = usize> + use<'a, 'c> {
        let lines = &self.run.lines;
        call.lines.iter().copied().filter(move |at| lines.get(*at).is_some_and(|line| line.kind == kind))
    }

    pub(crate) fn first(&self, call: &Called<'a>, kind: &'static str) -> Option<usize> {
        self.of_kind(call, kind).next()
    }

    /// Answers to calls, with the calls.
    pub(crate) fn answers(&self) -> impl Iterator<Item = (&Called<'a>, usize)> {
        self.calls.iter().flat_map(|call| call.answers.iter().map(move |at| (call, *at)))
    }

    /// The process that an answer is about: the one that its call started, or was aimed at.
    pub(crate) fn target(&self, call: &Called<'a>) -> Option<&Called<'a>> {
        match (&call.when.to, call.when.op) {
            (Some(to), _) => self.call(to),
            (None, Op::Exec) => self.origin(call),
            (None, _) => None,
        }
    }

    /// The call that started what a start is answered about: itself, or the one that it repeats.
    fn origin(&self, call: &Called<'a>) -> Option<&Called<'a>> {
        if !call.lines.is_empty() {
            return self.call(call.name);
        }
        let request = call.when.request.as_deref()?;
        self.starts().find(|other| other.when.request.as_deref() == Some(request) && !other.lines.is_empty())
    }

    /// The calls that are repeats of each other are told apart from those that stand alone.
    pub(crate) fn is_repeated(&self, call: &Called<'a>) -> bool {
        call.when.request.is_some()
    }

    pub(crate) fn program(&self, call: &Called<'a>) -> Option<&'a Program> {
        self.scenario.program.get(call.when.cmd.as_deref()?)
    }

    /// The act by which a program ends by itself, under a sandbox or without one.
    pub(crate) fn own_end(&self, call: &Called<'a>, sandboxed: bool) -> Option<&'a Act> {
        let acts = self.program(call)?.acts(sandboxed);
        let hangs = acts.iter().any(|act| act.get_ref().hang.is_some());
        let ends = |act: &&Act| act.exit.is_some() || act.signal.is_some();
        if hangs { None } else { acts.iter().map(|act| act.get_ref()).find(ends) }
    }

    /// Whether an act like this is played by anybody whom `call` started.
    pub(crate) fn acts_like(&self, call: &Called<'a>, like: impl Fn(&Act) -> bool) -> bool {
        let Some(program) = self.program(call) else { return false };
        let all = [&program.acts, &program.sandboxed, &program.unsandboxed];
        all.into_iter().flatten().any(|act| like(act.get_ref()))
    }

    /// Whether somebody cannot even be killed.
    pub(crate) fn anybody_is_stuck(&self) -> bool {
        let acts = |program: &'a Program| [&program.acts, &program.sandboxed, &program.unsandboxed];
        let stuck =
            |act: &Act| act.ignore.as_deref().is_some_and(|name| name.trim_start_matches("SIG") == "KILL");
        self.scenario.program.values().flat_map(acts).flatten().any(|act| stuck(act.get_ref()))
    }

    /// The early window, in milliseconds.
    pub(crate) fn window(&self) -> u64 {
        self.scenario.service.early_window.unwrap_or(150)
    }

    /// The rank of a step among those that were done.
    pub(crate) fn nth(&self, step: Step) -> Option<usize> {
        self.run.steps.iter().position(|done| done.step == step.step)
    }

    /// Steps of this kind that were done before line `line`.
    pub(crate) fn done_before(&self, line: usize, op: Op) -> impl Iterator<Item = (Step, &'a When)> {
        let scenario = self.scenario;
        let before = self.run.steps.iter().take_while(move |step| step.line <= line);
        before.filter_map(move |step| {
            let when = scenario.when.get(step.step)?.get_ref();
            (when.op == op).then_some((*step, when))
        })
    }

    /// Every policy that was in force between two lines, both included.
    pub(crate) fn policies(&self, from: usize, to: usize) -> Vec<Option<Policy>> {
        self.values(from, to, self.scenario.service.policy, |changed| match changed {
            Changed::Rights(change) => change.policy.map(Some),
            Changed::OwnerNetwork(_) => None,
        })
    }

    /// Whether a question is strict review's; where the wire does not tell, whether it can be.
    pub(crate) fn may_be_strict(&self, asked: usize) -> bool {
        if let Ok(strict) = self.says(asked, "strict").parse() {
            return strict;
        }
        let first = self.scenario.service.strict_review.unwrap_or(false);
        let values = self.values(asked, asked, first, |changed| match changed {
            Changed::Rights(change) => change.strict_review,
            Changed::OwnerNetwork(_) => None,
        });
        values.into_iter().any(|strict| strict)
    }

    /// Whether paths that may not be read existed at every moment between two lines.
    pub(crate) fn always_denied_reads(&self, from: usize, to: usize) -> bool {
        let has = |paths: &Option<Vec<String>>| paths.as_ref().map(|paths| !paths.is_empty());
        let first = has(&self.scenario.service.deny_read).unwrap_or(false);
        let values = self.values(from, to, first, |changed| match changed {
            Changed::Rights(change) => has(&change.deny_read),
            Changed::OwnerNetwork(_) => None,
        });
        values.into_iter().all(|denied| denied)
    }

    /// Whether the owner had a network policy at every moment between two lines.
    pub(crate) fn always_owned_network(&self, from: usize, to: usize) -> bool {
        let values =
            self.values(from, to, self.scenario.service.owner_network.is_some(), |changed| match changed {
                Changed::OwnerNetwork(owned) => Some(owned),
                Changed::Rights(_) => None,
            });
        values.into_iter().all(|owned| owned)
    }

    /// What a setting was between two lines: what it was at the first one, and whatever it became before the other. A
    /// change at the instant of a line may have come before it or after.
    fn values<T>(&self, from: usize, to: usize, first: T, of: impl Fn(Changed<'a>) -> Option<T>) -> Vec<T> {
        let (from, to) = (self.t(from), self.t(to));
        let mut values = vec![first];
        for (t, changed) in &self.changes {
            let Some(value) = of(*changed).filter(|_| *t <= to) else { continue };
            if *t < from {
                values.clear();
            }
            values.push(value);
        }
        values
    }
}
