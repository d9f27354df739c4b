//! One random life of a session: callers, reviewers and a [world](super::world) that keeps a spawner's contract; and the
//! promises, checked at every step.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::callers::rights;
use super::promises::Promises;
use super::world::*;
use super::*;
use crate::core::ids::{AttemptNumber, CallId, ConnectionId, ProcessId};
use crate::core::limits::{Limits, PROTECTED_PROCESSES};
use crate::core::process::Phase;
use crate::core::session::*;

/// Enough to fill the table and to leave somebody unprotected.
pub(super) const TABLE: usize = 10;

/// What to do, with two choices.
pub(super) type Step = (u8, u8, u16);

/// Kinds of steps: below it callers and reviewers, from it on the world.
const WORLD: u8 = 24;

/// One past the last kind.
pub(super) const KINDS: u8 = 48;

pub(super) struct Life {
    pub(super) bench: Bench,
    seen: usize,
    pub(super) children: BTreeMap<ProcessId, Child>,
    pub(super) asked: BTreeSet<CallId>,
    /// Those with a request id: a repeat is answered as the first was, however long ago.
    named: BTreeSet<CallId>,
    pub(super) dropped: BTreeSet<CallId>,
    answered: BTreeSet<CallId>,
    /// Processes that were signalled or killed since their latest attempt.
    struck: BTreeSet<ProcessId>,
    pub(super) surveys: BTreeSet<ProcessId>,
    pub(super) controls: BTreeSet<CallId>,
    pub(super) watches: BTreeMap<CallId, (ProcessId, AttemptNumber)>,
    /// What a slow host looks up.
    pub(super) lookups: VecDeque<Event>,
    /// Answers that wait for their rule.
    pub(super) rules: BTreeSet<CallId>,
    /// Connections so far, and those that wait.
    pub(super) connections: u64,
    pub(super) held: BTreeSet<ConnectionId>,
    pub(super) promises: Promises,
    sequence: u64,
}

impl Life {
    fn new((_, whom, choice): Step) -> Self {
        let limits = Limits { processes_max: TABLE, ..Limits::default() };
        let mut bench = Bench::built(rights(choice), limits, true);
        bench.slow_host = whom & 1 == 1;
        Self {
            bench,
            seen: 0,
            children: BTreeMap::new(),
            asked: BTreeSet::new(),
            named: BTreeSet::new(),
            dropped: BTreeSet::new(),
            answered: BTreeSet::new(),
            struck: BTreeSet::new(),
            surveys: BTreeSet::new(),
            controls: BTreeSet::new(),
            watches: BTreeMap::new(),
            lookups: VecDeque::new(),
            rules: BTreeSet::new(),
            connections: 0,
            held: BTreeSet::new(),
            promises: Promises::default(),
            sequence: 0,
        }
    }

    /// Looks at every effect since the last look, as a host would perform it.
    pub(super) fn look(&mut self) {
        let fresh: Vec<Effect> =
            self.bench.effects[self.seen..].iter().map(|(_, effect)| effect.clone()).collect();
        self.seen = self.bench.effects.len();
        for effect in fresh {
            match effect {
                Effect::Assess { process, .. } => {
                    let assessment = self.bench.assessment.clone();
                    self.lookups.push_back(Event::Assessed { process, assessment });
                }
                Effect::Excerpt { process, attempt } => {
                    let output = bytes::Bytes::new();
                    self.lookups.push_back(Event::Excerpt { process, attempt, output });
                }
                Effect::Ask { question } => self.promises.on_ask(&self.bench.session, question),
                Effect::Unask { approval } => self.promises.on_unask(&approval),
                Effect::AllowRule { call, .. } => drop(self.rules.insert(call)),
                Effect::Connect { connection, .. } => {
                    assert!(self.held.remove(&connection), "{connection:?} was answered twice, or is gone");
                }
                Effect::Spawn { process, attempt, plan } => {
                    self.spawns(process, attempt, plan.sandbox.is_some());
                }
                Effect::Write { process, write, data, .. } => {
                    let child = self.children.get_mut(&process).expect("a process the host knows");
                    let under_way = child.write.replace(write);
                    assert_eq!(under_way, None, "one write at a time");
                    self.promises.on_write(&self.bench.session, process, child, &data);
                }
                Effect::Signal { call: Some(call), .. } | Effect::Resize { call, .. } => {
                    self.controls.insert(call);
                }
                Effect::Signal { process, .. } | Effect::KillTree { process } => {
                    let latest = self.child(process).latest();
                    let gone = latest.exited.is_some() && latest.gone;
                    assert!(latest.spawned_at.is_some() && !gone, "{process} cannot be signalled");
                    self.struck.insert(process);
                }
                Effect::Survey { process } => drop(self.surveys.insert(process)),
                Effect::Watch { wait, process, attempt, .. } => {
                    self.watches.insert(wait, (process, attempt));
                }
                Effect::Unwatch { wait } => drop(self.watches.remove(&wait)),
                Effect::Forget { process } => {
                    self.children.remove(&process);
                    self.struck.remove(&process);
                    self.promises.on_forget(process);
                }
                Effect::Reply { call, answer } => self.reply(call, &answer),
                Effect::Publish(event) => self.read(&event),
                Effect::StopWrite { .. } | Effect::Trim { .. } | Effect::Progress { .. } => {}
            }
        }
        let session = &self.bench.session;
        let occupied = session.processes.values().filter(|process| process.occupies_slot()).count();
        assert!(occupied <= TABLE, "{occupied} slots are taken");
        assert_eq!(session.view().open_questions, self.promises.open.len());
        for process in session.processes.values() {
            let asks = if let Phase::Asking { approval } = &process.phase { Some(approval) } else { None };
            let reviews = process.input.reviewing.as_ref().map(|reviewing| &reviewing.approval);
            let mut waits_for = asks.into_iter().chain(reviews);
            assert!(
                waits_for.all(|approval| self.promises.open.contains(approval)),
                "{process:?} waits for nothing"
            );
        }
    }

    fn spawns(&mut self, process: ProcessId, attempt: AttemptNumber, sandboxed: bool) {
        let session = &self.bench.session;
        if attempt == AttemptNumber::SECOND {
            let child = self.children.get_mut(&process).expect("a process the host knows");
            self.promises.on_second(session, process, child, sandboxed);
            child.attempts.push(Attempt::new(sandboxed));
            self.struck.remove(&process);
            return;
        }
        let known = session.processes.get(&process);
        if let Some(known) = known {
            self.promises.on_first(session, known, sandboxed);
        }
        let child = Child {
            one_shot: known.is_some_and(crate::core::process::Process::is_one_shot),
            base: session.profile(None),
            attempts: vec![Attempt::new(sandboxed)],
            write: None,
            has_input: false,
            told_started: false,
            told_denied: false,
            told_exits: 0,
            told_closed: [false; 2],
        };
        assert!(self.children.insert(process, child).is_none(), "an id in use was drawn");
    }

    fn reply(&mut self, call: CallId, answer: &Answer) {
        assert!(self.asked.contains(&call), "{call:?} never asked");
        assert!(self.answered.insert(call), "{call:?} was answered twice");
        if let Answer::Exec(Ok(result)) | Answer::Write(Ok(result)) = answer
            && !self.named.contains(&call)
            && let Some(child) = result.live_process().and_then(|alive| self.children.get(&alive))
        {
            assert_eq!(child.told_exits, 0, "{} had ended", result.process);
        }
    }

    fn read(&mut self, event: &FeedEvent) {
        self.sequence += 1;
        assert_eq!(event.sequence, self.sequence);
        match &event.kind {
            FeedKind::ApprovalDecided(approval) => self.promises.on_closed(approval),
            FeedKind::ProcessStarted { process, .. } => {
                assert!(!std::mem::replace(&mut self.child(*process).told_started, true));
            }
            FeedKind::AttemptDenied { process, .. } => {
                let child = self.child(*process);
                assert!(child.told_started && !std::mem::replace(&mut child.told_denied, true));
            }
            FeedKind::ProcessExited { process, .. } => {
                let child = self.child(*process);
                child.told_exits += 1;
                let exited = child.latest().exited.is_some();
                assert!(exited && child.told_exits == 1, "{process} exited {} times", child.told_exits);
            }
            FeedKind::OutputsClosed { process, attempt, .. } => {
                let told = &mut self.child(*process).told_closed[usize::from(attempt.get() - 1)];
                assert!(!std::mem::replace(told, true));
            }
            FeedKind::Output { process, attempt, .. } => {
                let told = self.child(*process).told_closed[usize::from(attempt.get() - 1)];
                assert!(!told, "output after outputs_closed");
            }
            _ => {}
        }
    }

    fn child(&mut self, process: ProcessId) -> &mut Child {
        self.children.get_mut(&process).expect("a process the host knows")
    }

    /// A call, which never makes room at the cost of somebody protected or busy.
    pub(super) fn ask(&mut self, call: Call) -> CallId {
        let next = self.asked.last().map_or(1, |last| last.0 + 1);
        self.asked.insert(CallId(next));
        let given = |bench: &Bench| -> BTreeSet<ProcessId> {
            let processes = bench.session.processes.values();
            processes.filter(|process| process.gave_room).map(|process| process.id).collect()
        };
        if let Call::Exec(Exec { request: Some(_), .. }) | Call::Write(Write { request: Some(_), .. }) = &call
        {
            self.named.insert(CallId(next));
        }
        let (ranks, before) = (protected_or_busy(&self.bench), given(&self.bench));
        assert_eq!(self.bench.call(call), CallId(next));
        for victim in given(&self.bench).difference(&before) {
            assert!(!ranks.contains(victim), "{victim} was protected or busy");
        }
        self.look();
        CallId(next)
    }

    fn step(&mut self, (kind, whom, choice): Step) {
        let known: BTreeSet<ProcessId> = self.children.keys().copied().collect();
        let unknown = ProcessId::new(1_000).expect("an id");
        let process = nth(&known, u16::from(whom)).unwrap_or(unknown);
        match kind {
            0..=15 => self.caller(kind, process, choice),
            16..WORLD => self.reviewer(kind, choice),
            _ => self.world(ACTS[usize::from(kind - WORLD) % ACTS.len()], process, choice),
        }
        self.look();
    }

    /// Faults stop, everything exits, everything is cleaned: then every call that is still there has its answer.
    fn finish(&mut self) {
        self.ask(Call::Clean);
        for (process, child) in &self.children {
            let latest = child.latest();
            let lives = latest.spawned_at.is_some() && !(latest.exited.is_some() && latest.gone);
            assert!(!lives || self.struck.contains(process), "{process} was not cleaned: {child:?}");
        }
        while let Some(call) = self.rules.pop_first() {
            self.bench.event(Event::RuleAdded { call, result: Ok(()) });
        }
        // A start that was being looked up may have been let go only now, and then has its end before it.
        for _ in 0..3 {
            while !self.lookups.is_empty() {
                self.world(LOOKED_UP, ProcessId::new(1_000).expect("an id"), 0);
                self.look();
            }
            let known: Vec<ProcessId> = self.children.keys().copied().collect();
            for process in known {
                for (act, choice) in [
                    (SPAWN, 1),
                    (WROTE, 2),
                    (EXIT, 0),
                    (CLOSE, 0x8000),
                    (GONE, 0x8000),
                    (CLOSE, 0),
                    (GONE, 0),
                    (WROTE, 2),
                ] {
                    self.world(act, process, choice);
                    self.look();
                }
            }
        }
        while let Some(call) = self.controls.pop_first() {
            self.bench.event(Event::Controlled { call, result: Ok(()) });
        }
        self.bench.advance(1_300_000);
        self.look();
        let alive: BTreeSet<CallId> = self.asked.difference(&self.dropped).copied().collect();
        let unanswered: Vec<_> = alive.difference(&self.answered).collect();
        assert!(unanswered.is_empty(), "{unanswered:?} have no answer");
        let session = &self.bench.session;
        assert!(self.children.is_empty() && session.processes.is_empty(), "something is left behind");
        assert!(self.promises.open.is_empty() && session.requests.is_empty() && session.waits.is_empty());
        assert!(self.held.is_empty(), "{:?} wait for ever", self.held);
        assert_eq!(session.next_deadline(), None, "a timer is left behind");
    }
}

/// The acts of the world, as often as they are to come.
const ACTS: [u8; 16] = [
    SPAWN, SPAWN, SPAWN, OUTPUT, EXIT, EXIT, CLOSE, CLOSE, GONE, WROTE, SURVEYED, CONTROLLED, LOOKED_UP,
    LOOKED_UP, LOOKED_UP, CONNECT,
];

pub(super) fn nth_of<T: Ord + Clone>(of: &BTreeSet<T>, choice: u16) -> Option<T> {
    of.iter().nth(usize::from(choice & 0xff) % of.len().max(1)).cloned()
}

pub(super) fn nth<T: Copy>(of: &BTreeSet<T>, choice: u16) -> Option<T> {
    of.iter().nth(usize::from(choice) % of.len().max(1)).copied()
}

/// Whoever may not be ended to make room: written down anew here, not taken from the code.
fn protected_or_busy(bench: &Bench) -> BTreeSet<ProcessId> {
    let session = &bench.session;
    let mut by_use: Vec<_> = session.processes.values().filter(|process| process.occupies_slot()).collect();
    by_use.sort_by_key(|process| process.used);
    let recent = by_use.iter().rev().take(PROTECTED_PROCESSES).map(|process| process.id);
    let waited = session.waits.values().map(|wait| wait.process);
    recent.chain(waited).collect()
}

/// Walks `steps`, then lets everything end.
pub(super) fn live(steps: &[Step]) -> Life {
    let mut life = Life::new(steps[0]);
    for step in steps {
        life.step(*step);
    }
    life.finish();
    life
}
