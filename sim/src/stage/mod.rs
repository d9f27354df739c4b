//! What the tiers have in common that run the product's tasks: callers whose steps come at their moments, what reaches
//! them as a transcript, and the instant at which nothing more will happen.
//!
//! ```text
//!  scenario ──► Director ── a step at its moment ──► Callers (handles of a host, or a client of the wire)
//!                  ▲                                     │
//!                  └────────── Heard (events, answers) ──┘
//! ```
//! At one instant a step comes after everything that happens by itself: whoever is ready to run has had its turn.

pub(crate) mod children;
pub(crate) mod heard;
pub(crate) mod ports;
pub(crate) mod received;
pub(crate) mod runtime;
pub(crate) mod service;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use compact_str::ToCompactString;
use tokio::sync::{mpsc, watch};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};
use unified_exec::core::ids::{ApprovalId, ProcessId};
use unified_exec::spawn::fake::FakeSpawner;

use self::heard::{Event, Heard};
use self::ports::{Reviews, Rules};
use self::received::Received;
use crate::run::{Missed, Run, Step, Why};
use crate::scenario::service::rules;
use crate::scenario::{How, Op, Scenario, When};
use crate::tell::Keys;
use crate::transcript::{Line, Pattern, Word};

/// In virtual time, which costs nothing.
const IDLE: Duration = Duration::from_secs(5);
/// No scenario goes on for longer: a week, far beyond every bound of the service.
const HORIZON: Duration = Duration::from_secs(7 * 86_400);
/// No scenario has more lines: one that does is a loop.
const LINES_MAX: usize = 100_000;
/// Rounds of everybody who is ready to run, after which nothing more happens at an instant.
const ROUNDS: usize = 8;

/// Who does what the steps say.
pub(crate) trait Callers {
    /// Does a step; what comes of it is told.
    fn step(&mut self, step: usize, when: &When, target: Target);

    /// The client of a step's call goes away.
    fn drop_call(&mut self, step: usize, how: How);

    /// The client of a step's call reads on, or does not.
    fn read(&mut self, step: usize, reads: bool);
}

/// Whether the client of a call reads.
pub(crate) type Reads = watch::Receiver<bool>;

/// Waits until the client reads.
pub(crate) async fn reads(reads: &mut Reads) {
    // Whoever could stop it is gone: it reads.
    reads.wait_for(|reads| *reads).await.ok();
}

/// Whom a step is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    pub(crate) process: Process,
    /// The question to be answered.
    pub(crate) approval: Option<ApprovalId>,
}

/// A process, as far as its callers know.
#[derive(Clone, Debug, Default)]
pub(crate) enum Process {
    #[default]
    None,
    Known(ProcessId),
    /// The one that this request has started.
    Of(String),
}

/// What plays the children of a scenario, as far as a director needs to know.
pub(crate) trait Spawns {
    /// What the child of a process said at its `start`th start, from 0.
    fn said(&self, process: &str, start: usize) -> Option<Vec<u8>>;

    /// Children and descendants that are alive.
    fn alive(&self) -> usize;

    /// How many of them wait for a moment of their scripts.
    fn timed(&self) -> usize;

    /// Without `run_to`, a scenario ends when nothing has come for so long: what is left then is retention.
    fn idle(&self) -> Duration {
        IDLE
    }

    /// It goes on for so long at least, and at most.
    fn bounds(&self) -> (Duration, Duration) {
        (Duration::ZERO, HORIZON)
    }
}

impl Spawns for FakeSpawner {
    fn said(&self, process: &str, start: usize) -> Option<Vec<u8>> {
        self.said(process, start)
    }

    fn alive(&self) -> usize {
        self.alive()
    }

    fn timed(&self) -> usize {
        self.timed()
    }
}

/// What a scenario's children, rules and reviewer are played by.
#[derive(Debug)]
pub(crate) struct Cast<S = FakeSpawner> {
    pub(crate) spawner: S,
    pub(crate) rules: Arc<Rules>,
    pub(crate) reviews: Arc<Reviews>,
}

/// Plays the callers of a scenario, and keeps what reaches them.
pub(crate) struct Director<'a, S = FakeSpawner> {
    scenario: &'a Scenario,
    cast: &'a Cast<S>,
    epoch: Instant,
    heard: mpsc::UnboundedReceiver<Heard>,
    /// Steps by their moment, then by the order in which they were caused.
    agenda: BTreeMap<(Instant, usize), usize>,
    caused: usize,
    armed: Vec<(usize, &'a Pattern)>,
    /// Starts by their requests, in order: who asked first, and has not been taken for another process, has started one.
    requests: BTreeMap<String, Vec<usize>>,
    answered: BTreeMap<usize, Instant>,
    starters: BTreeMap<ProcessId, Word>,
    /// Steps by the names of their calls.
    calls: BTreeMap<&'a str, usize>,
    waiting: BTreeSet<usize>,
    dropped: BTreeSet<usize>,
    questions: Vec<(ApprovalId, ProcessId)>,
    received: Vec<Received>,
    closed: Vec<(ProcessId, u8, u64)>,
    last: Instant,
    run: Run,
}

/// The request that a step's start is known by: its own, or one that nobody else has.
pub(crate) fn request_of(step: usize, when: &When) -> String {
    when.request.clone().unwrap_or_else(|| format!("step-{step}"))
}

/// What a step's call is called.
fn name(scenario: &Scenario, step: usize) -> Word {
    let call = scenario.when.get(step).and_then(|when| when.get_ref().call.as_deref());
    call.map_or(Word::const_new("-"), Word::from)
}

impl<'a, S: Spawns> Director<'a, S> {
    pub(crate) fn new(
        scenario: &'a Scenario,
        cast: &'a Cast<S>,
        heard: mpsc::UnboundedReceiver<Heard>,
    ) -> Self {
        let epoch = Instant::now();
        let mut director = Self {
            scenario,
            cast,
            epoch,
            heard,
            agenda: BTreeMap::new(),
            caused: 0,
            armed: Vec::new(),
            requests: BTreeMap::new(),
            answered: BTreeMap::new(),
            starters: BTreeMap::new(),
            calls: BTreeMap::new(),
            waiting: BTreeSet::new(),
            dropped: BTreeSet::new(),
            questions: Vec::new(),
            received: Vec::new(),
            closed: Vec::new(),
            last: epoch,
            run: Run { unordered: true, ..Run::default() },
        };
        for (step, when) in scenario.when.iter().map(|when| when.get_ref()).enumerate() {
            match (when.at, &when.on) {
                (Some(at), _) => director.later(Duration::from_millis(at), step),
                (None, Some(pattern)) => director.armed.push((step, pattern)),
                (None, None) => {}
            }
        }
        director
    }

    fn later(&mut self, after: Duration, step: usize) {
        self.caused += 1;
        self.agenda.insert((Instant::now() + after, self.caused), step);
    }

    /// Goes on until nothing more will happen, or until the scenario says.
    pub(crate) async fn direct(&mut self, callers: &mut impl Callers) {
        let until = self.scenario.run_to.map(|millis| self.epoch + Duration::from_millis(millis));
        let idle = self.cast.spawner.idle();
        let (least, most) = self.cast.spawner.bounds();
        let (least, horizon) = (self.epoch + least, self.epoch + most);
        let mut patience = idle;
        while self.run.lines.len() < LINES_MAX {
            let end = until.unwrap_or_else(|| (self.last.max(least) + patience).min(horizon));
            let next = self.agenda.first_key_value().map(|((at, _), _)| *at).filter(|at| *at <= end);
            tokio::select! {
                biased;
                Some(heard) = self.heard.recv() => {
                    self.hear(heard);
                    patience = idle;
                }
                () = sleep_until(next.unwrap_or(end)) => match next {
                    Some(_) => {
                        yield_now().await;
                        self.listen();
                        self.next_step(callers);
                        patience = idle;
                    }
                    None if until.is_some() || end == horizon || self.is_idle() => break,
                    None => patience *= 2,
                },
            }
        }
        // What is due at this very instant.
        for _ in 0..ROUNDS {
            yield_now().await;
            self.listen();
        }
        if self.run.lines.len() >= LINES_MAX {
            self.run.broken.push(format!("more than {LINES_MAX} lines"));
        }
    }

    fn is_idle(&self) -> bool {
        let timed = self.cast.spawner.timed() + self.cast.reviews.timed();
        self.agenda.is_empty() && timed == 0 && self.waiting.is_empty()
    }

    /// Hears what has been told by now; answers whether there was anything.
    fn listen(&mut self) {
        while let Ok(heard) = self.heard.try_recv() {
            self.hear(heard);
        }
    }

    fn next_step(&mut self, callers: &mut impl Callers) {
        let now = Instant::now();
        self.last = now;
        let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= now) else { return };
        let step = entry.remove();
        let scenario = self.scenario;
        let Some(when) = scenario.when.get(step).map(|when| when.get_ref()) else { return };
        self.run.steps.push(Step { t: self.millis(), step, line: self.run.lines.len() });
        let process = match &when.to {
            None => Process::None,
            Some(to) => match self.process(to) {
                Process::None => {
                    return self.run.missed.push(Missed { step, why: Why::NoProcess });
                }
                process => process,
            },
        };
        match when.op {
            Op::Disconnect => {
                let call = when.call.as_deref().and_then(|name| self.calls.get(name)).copied();
                if let Some(call) = call {
                    self.waiting.remove(&call);
                    self.dropped.insert(call);
                    callers.drop_call(call, when.how.unwrap_or_default());
                }
            }
            Op::Stall | Op::Resume => {
                if let Some(call) = when.call.as_deref().and_then(|name| self.calls.get(name)) {
                    callers.read(*call, when.op == Op::Resume);
                }
            }
            Op::OwnerNetwork => self.cast.rules.set_owner_network(when.owner_network.as_ref().map(rules)),
            _ => {
                let approval = (when.op == Op::Decide).then(|| self.question(when, &process));
                if when.op == Op::Exec {
                    self.requests.entry(request_of(step, when)).or_default().push(step);
                }
                if let Some(call) = when.call.as_deref() {
                    self.calls.insert(call, step);
                }
                self.waiting.insert(step);
                callers.step(step, when, Target { process, approval });
            }
        }
    }

    fn process(&self, starter: &str) -> Process {
        if let Some((process, _)) = self.starters.iter().find(|(_, name)| *name == starter) {
            return Process::Known(*process);
        }
        let step = self.calls.get(starter);
        match self.requests.iter().find(|(_, steps)| step.is_some_and(|step| steps.contains(step))) {
            Some((request, _)) => Process::Of(request.clone()),
            None => Process::None,
        }
    }

    /// The latest question about a process, or the one of that number; one that never was is unknown to the session.
    fn question(&self, when: &When, process: &Process) -> ApprovalId {
        let asked = match (when.question, process) {
            (Some(number), _) => number.checked_sub(1).and_then(|at| self.questions.get(at)),
            (None, Process::Known(process)) => self.questions.iter().rev().find(|(_, of)| of == process),
            (None, Process::None | Process::Of(_)) => None,
        };
        asked.map_or_else(|| ApprovalId::new("never asked"), |(id, _)| id.clone())
    }

    fn hear(&mut self, heard: Heard) {
        self.last = Instant::now();
        match heard {
            Heard::Event(event) => self.event(event),
            Heard::Answer { step, process, keys } => {
                if let Some(when) = self.scenario.when.get(step).map(|when| when.get_ref()) {
                    self.starter(process, Some(&request_of(step, when)));
                }
                if !self.waiting.remove(&step) && !self.dropped.contains(&step) {
                    self.run.broken.push(format!("step {} was answered twice", step + 1));
                }
                self.answered.insert(step, self.last);
                self.line(name(self.scenario, step), "answer", keys);
            }
            Heard::Connection { process, keys } => {
                let who = self.starter(Some(process), None);
                self.line(who, "connection", keys);
            }
            Heard::Started { process, request } => {
                self.starter(Some(process), Some(&request));
            }
            Heard::Received(received) => self.received.push(received),
            Heard::Missed(missed) => {
                self.waiting.remove(&missed.step);
                self.run.missed.push(missed);
            }
            Heard::Broken(what) => self.run.broken.push(what),
        }
    }

    fn event(&mut self, event: Event) {
        let Event { process, request, kind, mut keys, asked, closed } = event;
        if let Some((id, process)) = asked {
            let known = self.questions.iter().position(|(of, _)| *of == id);
            let number = known.unwrap_or_else(|| {
                self.questions.push((id, process));
                self.questions.len() - 1
            }) + 1;
            keys.insert(0, ("n", number.to_compact_string()));
        }
        if let (Some(process), Some((attempt, end))) = (process, closed) {
            self.closed.push((process, attempt, end));
        }
        let who = self.starter(process, request.as_deref());
        self.line(who, kind, keys);
    }

    /// The call that started a process; `request` is what it is known by when it is heard of first.
    fn starter(&mut self, process: Option<ProcessId>, request: Option<&str>) -> Word {
        let Some(process) = process else { return Word::const_new("-") };
        if let Some(name) = self.starters.get(&process) {
            return name.clone();
        }
        let Some(steps) = request.and_then(|request| self.requests.get_mut(request)) else {
            return Word::const_new("-");
        };
        // A call that was answered before this instant has had its process.
        let now = Instant::now();
        let waits = |step: &usize| self.answered.get(step).is_none_or(|at| *at == now);
        let Some(at) = steps.iter().position(waits) else { return Word::const_new("-") };
        let name = name(self.scenario, steps.remove(at));
        self.starters.entry(process).or_insert(name).clone()
    }

    fn line(&mut self, who: Word, kind: &'static str, keys: Keys) {
        let line = Line::new(self.millis(), who, kind, keys);
        let met: Vec<usize> =
            self.armed.extract_if(.., |(_, on)| on.matches(&line)).map(|(step, _)| step).collect();
        for step in met {
            let delay = self.scenario.when.get(step).and_then(|when| when.get_ref().delay).unwrap_or(0);
            self.later(Duration::from_millis(delay), step);
        }
        self.run.lines.push(line);
    }

    fn millis(&self) -> u64 {
        u64::try_from(Instant::now().duration_since(self.epoch).as_millis()).unwrap_or(u64::MAX)
    }

    /// What it came to; `live` and `questions` are of the session at the end.
    pub(crate) fn into_run(mut self, live: usize, questions: usize) -> Run {
        let armed = std::mem::take(&mut self.armed);
        self.run.missed.extend(armed.iter().map(|(step, _)| Missed { step: *step, why: Why::NeverCame }));
        let said = |process: ProcessId, attempt: u8| {
            self.cast.spawner.said(&process.to_string(), usize::from(attempt).saturating_sub(1))
        };
        for received in &self.received {
            self.run.broken.extend(received.check(said));
        }
        for (process, attempt, end) in &self.closed {
            let bytes = said(*process, *attempt).map_or(0, |said| said.len() as u64);
            if bytes != *end {
                let broken = format!("attempt {attempt} said {bytes} bytes, and its outputs closed at {end}");
                self.run.broken.push(broken);
            }
        }
        for (process, who) in &self.starters {
            let heard = (1..=2u8).filter_map(|attempt| Some((attempt, said(*process, attempt)?)));
            self.run.said.extend(heard.map(|(attempt, bytes)| (who.to_string(), attempt.into(), bytes)));
        }
        Run {
            live,
            questions,
            children: self.cast.spawner.alive(),
            waiting: self.waiting.iter().map(|step| name(self.scenario, *step).into()).collect(),
            took: u64::try_from(self.last.duration_since(self.epoch).as_millis()).unwrap_or(u64::MAX),
            ..self.run
        }
    }
}
