//! One random life of a session: callers, reviewers and a [world](super::world) that keeps a spawner's contract; and the
//! promises, checked at every step.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::asking::{granular, ruled, sandboxed, strict};
use super::bench::{input, signal, unmatched};
use super::promises::Promises;
use super::world::*;
use super::*;
use crate::core::approval::{Permissions, Review, Verdict};
use crate::core::ids::{ApprovalId, AttemptNumber, CallId, ConnectionId, ProcessId, TurnId};
use crate::core::limits::{Limits, PROTECTED_PROCESSES};
use crate::core::policy::{
    Additional, ApprovalPolicy, Network, NetworkDecision, NetworkRule, Profile, Rights, RuleDecision,
};
use crate::core::process::Phase;
use crate::core::session::*;
use crate::core::signal::{Scope, Signal};

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
    asked: BTreeSet<CallId>,
    /// Those with a request id: a repeat is answered as the first was, however long ago.
    named: BTreeSet<CallId>,
    dropped: BTreeSet<CallId>,
    answered: BTreeSet<CallId>,
    /// Processes that were signalled or killed since their latest attempt.
    struck: BTreeSet<ProcessId>,
    pub(super) surveys: BTreeSet<ProcessId>,
    pub(super) controls: BTreeSet<CallId>,
    pub(super) watches: BTreeMap<CallId, (ProcessId, AttemptNumber)>,
    /// What a slow host looks up.
    pub(super) lookups: VecDeque<Event>,
    /// Answers that wait for their rule.
    rules: BTreeSet<CallId>,
    /// Connections so far, and those that wait.
    pub(super) connections: u64,
    pub(super) held: BTreeSet<ConnectionId>,
    promises: Promises,
    sequence: u64,
}

/// Rights that a session is created with or changed to.
fn rights(choice: u16) -> Rights {
    let cautious = sandboxed(ApprovalPolicy::UnlessTrusted);
    let on_request = sandboxed(ApprovalPolicy::OnRequest);
    match choice % 12 {
        0 => Rights::unrestricted(),
        1 | 9 => cautious,
        2 | 10 | 11 => sandboxed(ApprovalPolicy::Granular(granular())),
        3 => on_request,
        4 => sandboxed(ApprovalPolicy::Never),
        5 => strict(cautious),
        6 => {
            let decision = NetworkDecision::Allow;
            let rules = vec![NetworkRule { host: "good.example".into(), ports: Vec::new(), decision }];
            let profile = Profile { network: Network::Proxied { rules }, ..on_request.profile.clone() };
            Rights { profile, ..on_request }
        }
        7 => {
            let profile = Profile { deny_read: vec!["/secret".into()], ..cautious.profile.clone() };
            Rights { profile, ..cautious }
        }
        _ => strict(sandboxed(ApprovalPolicy::Never)),
    }
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
    fn look(&mut self) {
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
    fn ask(&mut self, call: Call) -> CallId {
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

    fn exec(&mut self, choice: u16) {
        let mut exec = shell().turn(if choice & 1 == 0 { "t" } else { "u" });
        exec.kill_descendants_on_exit = choice & 2 != 0;
        exec.command.stdin = choice & 4 != 0;
        if choice & 8 != 0 {
            exec = exec.tty();
        }
        match choice >> 4 & 7 {
            0 => exec = exec.one_shot(Some(u64::from(choice & 1_023))),
            1 => exec = exec.follow(),
            2 => exec = exec.request("r", 1),
            3 => exec.timeouts.hard = Some(ms(700)),
            4 => exec.timeouts.no_output = Some(ms(300)),
            5 => exec.timeouts.after_disconnect = Some(ms(300)),
            _ => {}
        }
        self.bench.assessment = match choice >> 7 & 7 {
            0 => ruled(RuleDecision::Allow),
            1 => ruled(RuleDecision::Prompt),
            _ => unmatched(),
        };
        let more = Additional { write: vec!["/more".into()], ..Additional::default() };
        exec.permissions = match choice >> 10 & 7 {
            0 | 1 => Permissions::Escalated,
            2 => Permissions::Additional(more),
            _ => Permissions::Default,
        };
        self.ask(Call::Exec(exec));
    }

    /// A reviewer does something, at the right time or not.
    fn reviewer(&mut self, kind: u8, choice: u16) {
        let open = nth_of(&self.promises.open, choice);
        let any = nth_of(&self.promises.asked.keys().cloned().collect(), choice);
        match kind {
            16 | 17 => {
                if let Some(approval) = open {
                    let verdict = match choice >> 8 & 7 {
                        0..=3 => Verdict::Approve,
                        4 => Verdict::ApproveForSession,
                        5 => Verdict::ApproveAndAddRule,
                        6 => Verdict::Decline,
                        _ => Verdict::AbortTurn,
                    };
                    self.decide(approval, verdict);
                }
            }
            18 => self.decide(any.unwrap_or_else(|| ApprovalId::new("nothing")), Verdict::Approve),
            19 => {
                let Some(approval) = any else { return };
                let text = String::new();
                let review = match choice >> 8 & 3 {
                    0 => Review::Allow { text },
                    1 => Review::Deny { text },
                    2 => Review::AskPerson,
                    _ => Review::Failed { cause: "crashed".into() },
                };
                self.bench.event(Event::Reviewed { approval, review });
            }
            20 => {
                let Some(call) = self.rules.pop_first() else { return };
                let result = if choice & 1 == 0 { Ok(()) } else { Err("full".into()) };
                self.bench.event(Event::RuleAdded { call, result });
            }
            21 if choice & 7 == 0 => {
                let rights = Some(rights(choice >> 3));
                self.ask(Call::Update(Update { rights, ..Update::default() }));
            }
            22 if choice & 15 == 0 => {
                let rules = (choice & 16 != 0).then(Vec::new);
                self.bench.event(Event::OwnerNetwork { rules });
            }
            22 if choice & 15 == 1 => self.bench.advance(600_000),
            22 | 23 => self.denied_start(choice),
            _ => self.exec(choice),
        }
    }

    /// A start that is approved if it must be, and is denied at a critical instant.
    fn denied_start(&mut self, choice: u16) {
        let known: BTreeSet<ProcessId> = self.children.keys().copied().collect();
        let asked = self.promises.open.clone();
        self.exec(choice);
        self.world(LOOKED_UP, ProcessId::new(1_000).expect("an id"), 0);
        self.look();
        if let Some(approval) = self.promises.open.difference(&asked).next().cloned() {
            self.decide(approval, Verdict::Approve);
        }
        let Some(process) = self.children.keys().copied().find(|process| !known.contains(process)) else {
            return;
        };
        self.world(SPAWN, process, 1);
        self.look();
        if choice & 0x4000 != 0 {
            self.ask(Call::Write(input(process, "0123456789").frame()));
        }
        let instants = [0, 1, 149, 150, 151];
        self.bench.advance(instants[usize::from(choice >> 8) % instants.len()]);
        self.look();
        self.world(EXIT, process, 4);
        self.look();
    }

    fn decide(&mut self, approval: ApprovalId, verdict: Verdict) {
        let (text, rule, by) = (String::new(), vec!["sleep".to_owned()], "alice".to_owned());
        self.ask(Call::Decide(Decide { approval, verdict, text, rule, by }));
    }

    fn interrupt(&mut self, turn: &str) {
        let before = self.bench.effects.len();
        self.ask(Call::Interrupt { turn: TurnId::new(turn) });
        for (_, effect) in &self.bench.effects[before..] {
            if let Effect::Signal { process, .. } | Effect::KillTree { process } = effect {
                // What a dead one left behind may be meant, if its caller wants that.
                let child = &self.children[process];
                assert!(child.one_shot || child.latest().exited.is_some(), "an interrupt killed {process}");
            }
        }
    }

    /// A caller does something about a process, which may be unknown.
    fn caller(&mut self, kind: u8, process: ProcessId, choice: u16) {
        match kind {
            0 | 1 | 13 | 14 => self.exec(choice),
            2 => drop(self.ask(Call::Write(input(process, "")))),
            3 => drop(self.ask(Call::Write(input(process, "\u{3}").request("w", 1)))),
            4 => {
                let mut write = input(process, "0123456789");
                write.offset = (choice & 1 != 0).then_some(u64::from(choice >> 4 & 15));
                write.eof = choice & 2 != 0;
                self.ask(Call::Write(if choice & 4 != 0 { write.frame() } else { write }));
            }
            5 => {
                let conditions =
                    [Condition::Exit, Condition::Closed, Condition::Output, Condition::Literal("x".into())];
                let condition = conditions[usize::from(choice & 3)].clone();
                let timeout = (choice & 4 != 0).then_some(ms(u64::from(choice)));
                let turn = TurnId::new("t");
                self.ask(Call::Wait(WaitFor { turn, process, condition, from: None, timeout }));
            }
            6 => self.interrupt(if choice & 1 == 0 { "t" } else { "u" }),
            7 => drop(self.ask(Call::Terminate { process })),
            8 => drop(self.ask(Call::Attach { process })),
            9 => drop(self.ask(signal(process, Signal::INT, Scope::Tree))),
            10 => {
                let hold = Hold { lease: format!("l{}", choice & 1), duration: ms(u64::from(choice & !1)) };
                self.ask(Call::Hold(hold));
            }
            11 if choice & 7 == 0 => drop(self.ask(Call::Clean)),
            12 => {
                let Some(call) = nth(&self.asked, choice) else { return };
                if self.dropped.insert(call) {
                    self.bench.drops(call);
                }
            }
            _ if choice >> 12 == 0 => self.bench.advance(u64::from(choice & 4_095)),
            _ => self.bench.advance(u64::from(choice & 511)),
        }
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

fn nth_of<T: Ord + Clone>(of: &BTreeSet<T>, choice: u16) -> Option<T> {
    of.iter().nth(usize::from(choice & 0xff) % of.len().max(1)).cloned()
}

fn nth<T: Copy>(of: &BTreeSet<T>, choice: u16) -> Option<T> {
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
