//! One random life of a session: callers and a world that keeps a spawner's contract (each report once, nothing
//! after the end), and the promises, checked at every step.

use std::collections::{BTreeMap, BTreeSet};

use super::bench::{input, signal};
use super::*;
use crate::core::ids::{CallId, ProcessId, TurnId, WriteId};
use crate::core::limits::{Limits, PROTECTED_PROCESSES};
use crate::core::process::ExitStatus;
use crate::core::session::*;
use crate::core::signal::{Scope, Signal};

/// Enough to fill the table and to leave somebody unprotected.
pub(super) const TABLE: usize = 10;

/// What to do, with two choices.
pub(super) type Step = (u8, u8, u16);

/// What a spawner and a pump know of a child.
#[derive(Debug, Default)]
struct Child {
    spawned: bool,
    one_shot: bool,
    end: u64,
    exited: bool,
    closed: bool,
    gone: bool,
    write: Option<WriteId>,
    told_exits: u32,
    told_closed: bool,
}

pub(super) struct Life {
    pub(super) bench: Bench,
    seen: usize,
    children: BTreeMap<ProcessId, Child>,
    asked: BTreeSet<CallId>,
    dropped: BTreeSet<CallId>,
    answered: BTreeSet<CallId>,
    surveys: BTreeSet<ProcessId>,
    controls: BTreeSet<CallId>,
    watches: BTreeMap<CallId, ProcessId>,
    sequence: u64,
}

impl Life {
    fn new() -> Self {
        let limits = Limits { processes_max: TABLE, ..Limits::default() };
        Self {
            bench: Bench::with(limits),
            seen: 0,
            children: BTreeMap::new(),
            asked: BTreeSet::new(),
            dropped: BTreeSet::new(),
            answered: BTreeSet::new(),
            surveys: BTreeSet::new(),
            controls: BTreeSet::new(),
            watches: BTreeMap::new(),
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
                Effect::Spawn { process, .. } => {
                    assert!(
                        self.children.insert(process, Child::default()).is_none(),
                        "an id in use was drawn"
                    );
                }
                Effect::Write { process, write, .. } => {
                    let under_way = self.child(process).write.replace(write);
                    assert_eq!(under_way, None, "one write at a time");
                }
                Effect::Signal { call: Some(call), .. } | Effect::Resize { call, .. } => {
                    self.controls.insert(call);
                }
                Effect::Signal { process, .. } | Effect::KillTree { process } => {
                    let child = self.child(process);
                    assert!(child.spawned && !(child.exited && child.gone), "{process} cannot be signalled");
                }
                Effect::Survey { process } => drop(self.surveys.insert(process)),
                Effect::Watch { wait, process, .. } => drop(self.watches.insert(wait, process)),
                Effect::Unwatch { wait } => drop(self.watches.remove(&wait)),
                Effect::Forget { process } => drop(self.children.remove(&process)),
                Effect::Reply { call, .. } => {
                    assert!(self.asked.contains(&call), "{call:?} never asked");
                    assert!(self.answered.insert(call), "{call:?} was answered twice");
                }
                Effect::Publish(event) => self.read(&event),
                Effect::StopWrite { .. } | Effect::Trim { .. } | Effect::Progress { .. } => {}
                Effect::Assess { .. } | Effect::Excerpt { .. } => unreachable!("the bench answers them"),
                Effect::Ask { .. }
                | Effect::Unask { .. }
                | Effect::AllowRule { .. }
                | Effect::Connect { .. } => unreachable!("nothing is asked under Never"),
            }
        }
        let occupied =
            self.bench.session.processes.values().filter(|process| process.occupies_slot()).count();
        assert!(occupied <= TABLE, "{occupied} slots are taken");
    }

    fn read(&mut self, event: &FeedEvent) {
        self.sequence += 1;
        assert_eq!(event.sequence, self.sequence);
        match event.kind {
            FeedKind::ProcessExited { process, .. } => {
                let child = self.child(process);
                child.told_exits += 1;
                assert!(child.exited && child.told_exits == 1, "{process} exited {} times", child.told_exits);
            }
            FeedKind::OutputsClosed { process, .. } => {
                assert!(!std::mem::replace(&mut self.child(process).told_closed, true));
            }
            FeedKind::Output { process, .. } => {
                assert!(!self.child(process).told_closed, "output after outputs_closed");
            }
            _ => {}
        }
    }

    fn child(&mut self, process: ProcessId) -> &mut Child {
        self.children.get_mut(&process).expect("a process the host knows")
    }

    fn ask(&mut self, call: Call) -> CallId {
        let next = self.asked.last().map_or(1, |last| last.0 + 1);
        self.asked.insert(CallId(next));
        assert_eq!(self.bench.call(call), CallId(next));
        self.look();
        CallId(next)
    }

    fn exec(&mut self, choice: u16) {
        let ranks = protected_or_busy(&self.bench);
        let given = |bench: &Bench| -> BTreeSet<ProcessId> {
            let processes = bench.session.processes.values();
            processes.filter(|process| process.gave_room).map(|process| process.id).collect()
        };
        let before = given(&self.bench);
        let mut exec = shell().turn(if choice & 1 == 0 { "t" } else { "u" });
        exec.kill_descendants_on_exit = choice & 2 != 0;
        exec.command.stdin = choice & 4 != 0;
        if choice & 8 != 0 {
            exec = exec.tty();
        }
        match choice >> 4 & 7 {
            0 => exec = exec.one_shot(Some(u64::from(choice))),
            1 => exec = exec.follow(),
            2 => exec = exec.request("r", 1),
            3 => exec.timeouts.hard = Some(ms(700)),
            4 => exec.timeouts.no_output = Some(ms(300)),
            5 => exec.timeouts.after_disconnect = Some(ms(300)),
            _ => {}
        }
        let one_shot = matches!(exec.mode, Mode::OneShot { .. });
        let known: BTreeSet<ProcessId> = self.children.keys().copied().collect();
        self.ask(Call::Exec(exec));
        for (process, child) in &mut self.children {
            child.one_shot |= one_shot && !known.contains(process);
        }
        for victim in given(&self.bench).difference(&before) {
            assert!(!ranks.contains(victim), "{victim} was protected or busy");
        }
    }

    fn interrupt(&mut self, turn: &str) {
        let before = self.bench.effects.len();
        self.ask(Call::Interrupt { turn: TurnId::new(turn) });
        for (_, effect) in &self.bench.effects[before..] {
            if let Effect::Signal { process, .. } | Effect::KillTree { process } = effect {
                assert!(self.children[process].one_shot, "an interrupt killed {process}");
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

    /// The world does something with a child, if it can.
    fn world(&mut self, kind: u8, process: ProcessId, choice: u16) {
        let now = self.bench.now;
        let Some(child) = self.children.get_mut(&process) else { return };
        match kind {
            0 if !child.spawned && choice & 15 == 0 => {
                self.children.remove(&process);
                self.bench.spawn_fails(process);
            }
            0 if !child.spawned => {
                child.spawned = true;
                self.bench.spawned(process);
            }
            _ if !child.spawned => {}
            1 if !child.closed => {
                child.end += u64::from(choice);
                let end = child.end;
                self.bench.output(process, end);
            }
            2 if !child.exited => {
                child.exited = true;
                let at = now - ms(u64::from(choice & 3));
                self.bench.ends(process, ExitStatus::Code(i32::from(choice & 3)), at);
            }
            3 if !child.closed => {
                child.closed = true;
                let end = child.end;
                self.bench.closed(process, end);
                let over: Vec<CallId> =
                    self.watches.iter().filter(|(_, of)| **of == process).map(|(wait, _)| *wait).collect();
                for wait in over {
                    self.watches.remove(&wait);
                    self.bench.event(Event::Watched { wait, outcome: WatchOutcome::Ended { at: end } });
                }
            }
            4 if child.exited && !child.gone => {
                child.gone = true;
                self.bench.tree_gone(process);
            }
            5 => {
                let Some(write) = child.write.take() else { return };
                let broken = child.exited;
                let (taken, outcome) = match choice & 3 {
                    _ if broken => (0, WriteOutcome::Broken),
                    0 => (u64::from(choice >> 4 & 7), WriteOutcome::Stopped),
                    1 => (1, WriteOutcome::Broken),
                    _ => (10, WriteOutcome::Whole),
                };
                self.bench.event(Event::Wrote { process, write, taken, outcome });
            }
            6 if self.surveys.remove(&process) => {
                let names: &[&str] = if choice & 1 == 0 { &[] } else { &["stuck"] };
                self.bench.surveyed(process, names);
            }
            7 => {
                if let Some(call) = self.controls.pop_first() {
                    self.bench.event(Event::Controlled { call, result: Ok(()) });
                }
            }
            _ => {}
        }
    }

    fn step(&mut self, (kind, whom, choice): Step) {
        let known: BTreeSet<ProcessId> = self.children.keys().copied().collect();
        let unknown = ProcessId::new(1_000).expect("an id");
        let process = nth(&known, u16::from(whom)).unwrap_or(unknown);
        match kind {
            0..=15 => self.caller(kind, process, choice),
            _ => self.world(kind & 7, process, choice),
        }
        self.look();
    }

    /// Faults stop, everything exits, everything is cleaned: then every call that is still there has its answer.
    fn finish(&mut self) {
        self.ask(Call::Clean);
        let known: Vec<ProcessId> = self.children.keys().copied().collect();
        for process in known {
            for (kind, choice) in [(0, 1), (5, 2), (7, 0), (2, 0), (3, 0), (4, 0), (5, 2)] {
                self.world(kind, process, choice);
                self.look();
            }
        }
        while !self.controls.is_empty() {
            let call = self.controls.pop_first().expect("not empty");
            self.bench.event(Event::Controlled { call, result: Ok(()) });
        }
        self.bench.advance(1_300_000);
        self.look();
        let alive: BTreeSet<CallId> = self.asked.difference(&self.dropped).copied().collect();
        let unanswered: Vec<_> = alive.difference(&self.answered).collect();
        assert!(unanswered.is_empty(), "{unanswered:?} have no answer");
        assert!(
            self.children.is_empty() && self.bench.session.processes.is_empty(),
            "something is left behind"
        );
        assert_eq!(self.bench.session.next_deadline(), None, "a timer is left behind");
    }
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
    let mut life = Life::new();
    for step in steps {
        life.step(*step);
    }
    life.finish();
    life
}
