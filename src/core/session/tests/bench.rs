//! A session, a clock, and everything the session has asked for so far.

use std::time::Duration;

use bytes::Bytes;

use crate::core::approval::Permissions;
use crate::core::command::{Command, Defaults, EnvPolicy, Program, TerminalSize};
use crate::core::ids::{
    AttemptNumber, CallId, Fingerprint, ProcessId, RequestId, SessionId, TurnId, WriteId,
};
use crate::core::limits::Limits;
use crate::core::policy::{Assessment, Rights, Segment};
use crate::core::process::ExitStatus;
use crate::core::session::*;
use crate::core::signal::{Scope, Signal};
use crate::core::spawn::{Descendant, Enforced, ResourceLimits, SpawnError};
use crate::core::time::Instant;

pub(super) struct Bench {
    pub(super) session: Session,
    pub(super) now: Instant,
    /// Everything so far, with its time.
    pub(super) effects: Vec<(Instant, Effect)>,
    calls: u64,
    /// What the rules say of the next command.
    pub(super) assessment: Assessment,
    /// What an attempt is found to have written, when its denial is judged.
    pub(super) excerpt: Bytes,
    /// Whether the host takes its time to look up rules and to read excerpts: these effects are noted too.
    pub(super) slow_host: bool,
}

/// What no rule matches.
pub(super) fn unmatched() -> Assessment {
    let segment = Segment { words: vec!["sleep".into()], rule: None, danger: None };
    Assessment { segments: vec![segment], canonical: vec!["sleep".into()], fingerprint: "r1".into() }
}

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A start of `sleep` on pipes without stdin, with a yield of 1 s, in turn `t`.
pub(super) fn shell() -> Exec {
    Exec {
        turn: TurnId::new("t"),
        request: None,
        command: Command {
            program: Program::Shell { cmd: "sleep".into(), shell: None, login: None },
            cwd: None,
            env: Vec::new(),
            terminal: None,
            stdin: false,
            full_terminal: false,
        },
        mode: Mode::Interactive { yield_time: Some(ms(1_000)) },
        permissions: Permissions::Default,
        justification: String::new(),
        proposed_rule: Vec::new(),
        limits: ResourceLimits::default(),
        timeouts: Timeouts::default(),
        kill_descendants_on_exit: false,
    }
}

impl Exec {
    pub(super) fn stdin(mut self) -> Self {
        self.command.stdin = true;
        self
    }

    pub(super) fn tty(mut self) -> Self {
        self.command.terminal = Some(TerminalSize::default());
        self
    }

    pub(super) fn one_shot(mut self, timeout: Option<u64>) -> Self {
        self.mode = Mode::OneShot { timeout: timeout.map(ms) };
        self
    }

    pub(super) fn follow(mut self) -> Self {
        self.mode = Mode::Follow;
        self
    }

    pub(super) fn yields(mut self, yield_ms: u64) -> Self {
        self.mode = Mode::Interactive { yield_time: Some(ms(yield_ms)) };
        self
    }

    pub(super) fn turn(mut self, turn: &str) -> Self {
        self.turn = TurnId::new(turn);
        self
    }

    pub(super) fn request(mut self, id: &str, content: u8) -> Self {
        self.request = request(id, content);
        self
    }

    pub(super) fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }
}

fn request(id: &str, content: u8) -> Idempotency {
    Some((RequestId::new(id), Fingerprint([content; 32])))
}

/// Input in turn `t`, with the default yield; nothing is a poll.
pub(super) fn input(process: ProcessId, text: &str) -> Write {
    Write {
        turn: TurnId::new("t"),
        request: None,
        process,
        input: Bytes::copy_from_slice(text.as_bytes()),
        offset: None,
        eof: false,
        answer: WriteAnswer::Collect { yield_time: None },
    }
}

impl Write {
    pub(super) fn at(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }

    pub(super) fn eof(mut self) -> Self {
        self.eof = true;
        self
    }

    pub(super) fn frame(mut self) -> Self {
        self.answer = WriteAnswer::Delivered;
        self
    }

    pub(super) fn request(mut self, id: &str, content: u8) -> Self {
        self.request = request(id, content);
        self
    }

    pub(super) fn yields(mut self, yield_ms: u64) -> Self {
        self.answer = WriteAnswer::Collect { yield_time: Some(ms(yield_ms)) };
        self
    }
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with(Limits::default())
    }

    pub(super) fn with(limits: Limits) -> Self {
        Self::configured(limits, true)
    }

    /// A session with these rights.
    pub(super) fn of(rights: Rights) -> Self {
        Self::built(rights, Limits::default(), true)
    }

    pub(super) fn configured(limits: Limits, interactive: bool) -> Self {
        Self::built(Rights::unrestricted(), limits, interactive)
    }

    /// A session where no automatic reviewer is configured.
    pub(super) fn without_reviewer() -> Self {
        let mut bench = Self::new();
        bench.session.automatic_reviewer = false;
        bench
    }

    pub(super) fn built(rights: Rights, limits: Limits, interactive: bool) -> Self {
        let defaults = Defaults {
            cwd: "/work".into(),
            shell: "sh".into(),
            allow_login: false,
            env: EnvPolicy::default(),
            inherited: Vec::new(),
        };
        let config = Config {
            id: SessionId::new("s"),
            defaults,
            rights,
            process_limits: ResourceLimits::default(),
            owner_network: None,
            automatic_reviewer: true,
            limits,
            interactive,
            seed: 7,
        };
        let now = Instant::ZERO;
        Self {
            session: Session::new(config, now),
            now,
            effects: Vec::new(),
            calls: 0,
            assessment: unmatched(),
            excerpt: Bytes::new(),
            slow_host: false,
        }
    }

    /// What a host answers at once is answered here; everything else is noted.
    fn collect(&mut self) {
        while let Some(effect) = self.session.poll_effect() {
            let event = match &effect {
                Effect::Assess { process, .. } if !self.slow_host => {
                    Event::Assessed { process: *process, assessment: self.assessment.clone() }
                }
                Effect::Excerpt { process, attempt } if !self.slow_host => {
                    Event::Excerpt { process: *process, attempt: *attempt, output: self.excerpt.clone() }
                }
                _ => {
                    self.effects.push((self.now, effect));
                    continue;
                }
            };
            self.session.on_event(self.now, event);
        }
    }

    pub(super) fn call(&mut self, call: Call) -> CallId {
        self.calls += 1;
        let id = CallId(self.calls);
        self.session.on_call(self.now, id, call);
        self.collect();
        id
    }

    pub(super) fn event(&mut self, event: Event) {
        self.session.on_event(self.now, event);
        self.collect();
    }

    /// Moves the clock, stopping at every deadline on the way.
    pub(super) fn advance(&mut self, millis: u64) {
        let until = self.now + ms(millis);
        while let Some(due) = self.session.next_deadline().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.session.on_deadline(self.now);
            self.collect();
        }
        self.now = until;
    }

    // What callers do.

    pub(super) fn exec(&mut self, exec: Exec) -> CallId {
        self.call(Call::Exec(exec))
    }

    pub(super) fn write(&mut self, write: Write) -> CallId {
        self.call(Call::Write(write))
    }

    pub(super) fn poll(&mut self, process: ProcessId) -> CallId {
        self.write(input(process, ""))
    }

    pub(super) fn wait_for(
        &mut self,
        process: ProcessId,
        condition: Condition,
        timeout: Option<u64>,
    ) -> CallId {
        let timeout = timeout.map(ms);
        self.call(Call::Wait(WaitFor { turn: TurnId::new("t"), process, condition, from: None, timeout }))
    }

    pub(super) fn interrupt(&mut self, turn: &str) -> InterruptReport {
        let call = self.call(Call::Interrupt { turn: TurnId::new(turn) });
        match self.answer(call) {
            Answer::Interrupted(report) => report.clone(),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn clean(&mut self) -> CallId {
        self.call(Call::Clean)
    }

    pub(super) fn terminate(&mut self, process: ProcessId) -> CallId {
        self.call(Call::Terminate { process })
    }

    pub(super) fn hold(&mut self, lease: &str, duration: u64) -> CallId {
        self.call(Call::Hold(Hold { lease: lease.into(), duration: ms(duration) }))
    }

    pub(super) fn drops(&mut self, call: CallId) {
        self.event(Event::CallDropped { call });
    }

    // What the world does.

    /// The attempt that was asked for last.
    pub(super) fn attempt(&self, process: ProcessId) -> AttemptNumber {
        let asked = self.effects.iter().rev().find_map(|(_, effect)| match effect {
            Effect::Spawn { process: of, attempt, .. } if *of == process => Some(*attempt),
            _ => None,
        });
        asked.unwrap_or(AttemptNumber::FIRST)
    }

    pub(super) fn spawned(&mut self, process: ProcessId) {
        let (attempt, enforced) = (self.attempt(process), Enforced::default());
        self.event(Event::Spawned { process, attempt, pid: Some(process.get()), enforced, at: self.now });
    }

    pub(super) fn spawn_fails(&mut self, process: ProcessId) {
        let error = SpawnError::ProgramMissing { program: "sleep".into() };
        self.event(Event::SpawnFailed { process, attempt: self.attempt(process), error });
    }

    pub(super) fn output(&mut self, process: ProcessId, end: u64) {
        self.event(Event::Output { process, attempt: self.attempt(process), end });
    }

    pub(super) fn ends(&mut self, process: ProcessId, status: ExitStatus, at: Instant) {
        self.event(Event::Exited {
            process,
            attempt: self.attempt(process),
            status,
            usage: None,
            out_of_memory: false,
            at,
        });
    }

    pub(super) fn exited(&mut self, process: ProcessId, code: i32) {
        self.ends(process, ExitStatus::Code(code), self.now);
    }

    pub(super) fn dies_of(&mut self, process: ProcessId, signal: Signal) {
        let status = ExitStatus::Signal { number: signal.number(), core_dumped: false };
        self.ends(process, status, self.now);
    }

    pub(super) fn closed(&mut self, process: ProcessId, end: u64) {
        self.event(Event::Closed { process, attempt: self.attempt(process), end });
    }

    pub(super) fn tree_gone(&mut self, process: ProcessId) {
        self.event(Event::TreeGone { process, attempt: self.attempt(process) });
    }

    /// Everything of it is gone, at once.
    pub(super) fn vanishes(&mut self, process: ProcessId, signal: Signal) {
        self.dies_of(process, signal);
        self.closed(process, 0);
        self.tree_gone(process);
    }

    /// It exits, its output closes and nobody of it is left.
    pub(super) fn finishes(&mut self, process: ProcessId, code: i32) {
        self.exited(process, code);
        self.closed(process, 0);
        self.tree_gone(process);
    }

    pub(super) fn surveyed(&mut self, process: ProcessId, names: &[&str]) {
        let alive = names.iter().map(|name| Descendant { pid: 7, name: (*name).into() }).collect();
        self.event(Event::Surveyed { process, alive });
    }

    pub(super) fn wrote(&mut self, process: ProcessId, taken: u64, outcome: WriteOutcome) {
        let (write, ..) = *self.writes(process).last().expect("a write is under way");
        self.event(Event::Wrote { process, write: WriteId(write), taken, outcome });
    }

    /// A process that runs, and the call that started it.
    pub(super) fn running(&mut self, exec: Exec) -> (CallId, ProcessId) {
        let call = self.exec(exec);
        let process = self.process_of(call);
        self.spawned(process);
        (call, process)
    }

    /// A process that lives on after its call was answered.
    pub(super) fn background(&mut self, exec: Exec) -> ProcessId {
        let (call, process) = self.running(exec);
        self.advance(1_000);
        assert_eq!(self.result(call).end, WaitEnd::Yielded);
        process
    }
}

/// So that a test may send a signal as a caller does.
pub(super) fn signal(process: ProcessId, signal: Signal, scope: Scope) -> Call {
    Call::Signal { process, signal, scope }
}
