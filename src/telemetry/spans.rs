//! The spans of one session.
//!
//! ```text
//! rpc ─► exec ─┬─ requirement ─┬─ approval ─┬─ start ─┬─ attempt 1 ─ early_window   attempt 2 …   yield
//!              │  rules        │  a question│ sandbox, spawn
//!              └── linked from the process's own span, which is linked from every later write, poll and wait
//! ```
//! Nothing of what a command is given or says is in them: no arguments, no environment, no output.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use tracing::field::Empty;
use tracing::{Level, Span, span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::words;
use crate::core::approval::{Approval, Question, Subject};
use crate::core::ids::{ApprovalId, AttemptNumber, CallId, ProcessId, SessionId};
use crate::core::process::Exit;
use crate::core::session::{Answer, AttemptView, Call, Effect, FeedKind};
use crate::core::spawn::{SpawnError, SpawnPlan};
use crate::core::time::Instant;
use crate::host::ports::TRACE_TARGET as TARGET;

/// A span within one that is open.
macro_rules! child {
    ($parent:expr, $name:literal $(, $($field:tt)*)?) => {
        span!(target: TARGET, parent: $parent, Level::TRACE, $name $(, $($field)*)?)
    };
}

/// A span within one that may have ended.
macro_rules! within {
    ($context:expr, $name:literal $(, $($field:tt)*)?) => {{
        let span = span!(target: TARGET, parent: None, Level::TRACE, $name $(, $($field)*)?);
        // Fails only where no traces are made.
        drop(span.set_parent($context.clone()));
        span
    }};
}

#[derive(Debug)]
pub(super) struct Spans {
    session: SessionId,
    calls: BTreeMap<CallId, OfCall>,
    processes: BTreeMap<ProcessId, OfProcess>,
    questions: BTreeMap<ApprovalId, Span>,
    /// When early windows end.
    windows: BTreeSet<(Instant, ProcessId)>,
    /// The call that is being taken in; a start that begins now is its.
    current: Option<CallId>,
}

#[derive(Debug)]
struct OfCall {
    span: Span,
    process: Option<ProcessId>,
    /// From when it only waits.
    waiting: Option<Span>,
}

#[derive(Debug)]
struct OfProcess {
    /// The start, which may have been answered long ago: what follows belongs to it all the same.
    started_by: Context,
    call: Option<CallId>,
    requirement: Option<Span>,
    start: Option<Span>,
    attempt: Option<Span>,
    window: Option<Span>,
    /// Its whole life, a trace of its own, until it ends.
    life: Option<Span>,
    /// What links to it, also afterwards.
    link: Option<SpanContext>,
}

impl Spans {
    pub(super) fn new(session: SessionId) -> Self {
        Self {
            session,
            calls: BTreeMap::new(),
            processes: BTreeMap::new(),
            questions: BTreeMap::new(),
            windows: BTreeSet::new(),
            current: None,
        }
    }

    pub(super) fn called(&mut self, id: CallId, call: &Call, parent: &Span) {
        let Some(name) = words::call(call) else { return };
        let process = subject(call);
        let span = child!(
            parent,
            "call",
            otel.name = name,
            unified_exec.session.id = self.session.as_str(),
            unified_exec.process.id = process.map(|process| i64::from(process.get())),
            unified_exec.turn.id = turn(call),
            unified_exec.result = Empty,
        );
        let link = process.and_then(|process| self.processes.get(&process)).and_then(|of| of.link.clone());
        if let Some(link) = link {
            span.add_link(link);
        }
        self.current = Some(id);
        self.calls.insert(id, OfCall { span, process, waiting: None });
    }

    pub(super) fn dropped(&mut self, call: CallId) {
        if let Some(of) = self.calls.remove(&call) {
            of.span.record("unified_exec.result", "client_gone");
        }
    }

    pub(super) fn effect(&mut self, now: Instant, effect: &Effect, window: Duration) {
        match effect {
            Effect::Assess { process, .. } => self.begun(*process),
            Effect::Spawn { process, attempt, plan } => self.starting(*process, *attempt, plan),
            Effect::Reply { call, answer } => self.answered(*call, answer),
            Effect::Forget { process } => drop(self.processes.remove(process)),
            Effect::Publish(event) => self.published(now, &event.kind, window),
            _ => {}
        }
    }

    /// A start begins: what it needs is looked up.
    fn begun(&mut self, process: ProcessId) {
        let Some((call, of)) = self.current.and_then(|id| Some((id, self.calls.get_mut(&id)?))) else {
            return;
        };
        of.process = Some(process);
        of.span.record("unified_exec.process.id", i64::from(process.get()));
        let requirement = child!(&of.span, "requirement");
        let of = OfProcess {
            started_by: of.span.context(),
            call: Some(call),
            requirement: Some(requirement),
            start: None,
            attempt: None,
            window: None,
            life: None,
            link: None,
        };
        self.processes.insert(process, of);
    }

    fn starting(&mut self, process: ProcessId, attempt: AttemptNumber, plan: &SpawnPlan) {
        let Some(of) = self.processes.get_mut(&process) else { return };
        of.requirement = None;
        of.start = Some(within!(
            of.started_by,
            "start",
            unified_exec.attempt = i64::from(attempt.get()),
            unified_exec.spawner = words::spawner(&plan.stdio),
            unified_exec.sandboxed = plan.sandbox.is_some(),
            error.type = Empty,
        ));
    }

    /// The span of the start of an attempt that is under way.
    pub(super) fn start_of(&self, process: ProcessId) -> Span {
        self.processes.get(&process).and_then(|of| of.start.clone()).unwrap_or_else(Span::none)
    }

    fn published(&mut self, now: Instant, kind: &FeedKind, window: Duration) {
        match kind {
            FeedKind::ApprovalRequested(approval) => self.asked(&approval.question),
            FeedKind::ApprovalDecided(approval) => self.decided(approval),
            FeedKind::StartRefused { process, .. } => drop(self.processes.remove(process)),
            FeedKind::AttemptStarted { process, attempt } => self.attempt(now, *process, attempt, window),
            FeedKind::AttemptDenied { process, attempt } => self.denied(*process, attempt),
            FeedKind::SpawnFailed { process, error, .. } => self.start_failed(*process, error),
            FeedKind::ProcessStarted { process, argv, terminal, .. } => self.lives(*process, argv, *terminal),
            FeedKind::ProcessExited { process, exit, evidence } => {
                if let Some(of) = self.processes.get_mut(process) {
                    of.window = None;
                    if let Some(attempt) = of.attempt.take() {
                        ends(&attempt, exit);
                        if let Some(evidence) = evidence {
                            attempt.record("unified_exec.denial", words::confidence(evidence.confidence));
                        }
                    }
                    if let Some(life) = of.life.take() {
                        ends(&life, exit);
                    }
                }
            }
            FeedKind::ProcessRemoved { process, .. } => drop(self.processes.remove(process)),
            FeedKind::Output { .. }
            | FeedKind::OutputEventsEnded { .. }
            | FeedKind::OutputsClosed { .. }
            | FeedKind::StdinWritten { .. }
            | FeedKind::Interrupted { .. }
            | FeedKind::Cleaned { .. }
            | FeedKind::PolicyChanged { .. } => {}
        }
    }

    fn asked(&mut self, question: &Question) {
        let Some(of) = self.processes.get_mut(&question.process) else { return };
        of.requirement = None;
        // Input is asked about for the write that brought it, which came last among those that wait.
        let writes = self.calls.values().rev().find(|call| call.process == Some(question.process));
        let parent = match (&question.subject, writes) {
            (Subject::Input { .. }, Some(write)) => write.span.context(),
            _ => of.started_by.clone(),
        };
        let span = within!(
            parent,
            "approval",
            unified_exec.approval.id = question.id.as_str(),
            unified_exec.approval.kind = words::subject(&question.subject),
            unified_exec.approval.strict = question.strict,
            unified_exec.approval.state = Empty,
        );
        self.questions.insert(question.id.clone(), span);
    }

    fn decided(&mut self, approval: &Approval) {
        if let Some(span) = self.questions.remove(&approval.question.id) {
            span.record("unified_exec.approval.state", words::decided(&approval.state));
        }
    }

    fn attempt(&mut self, now: Instant, process: ProcessId, attempt: &AttemptView, window: Duration) {
        let Some(of) = self.processes.get_mut(&process) else { return };
        of.start = None;
        let held: Vec<&str> = attempt.enforced.mechanisms.iter().map(|by| by.as_str()).collect();
        let span = within!(
            of.started_by,
            "attempt",
            unified_exec.attempt = i64::from(attempt.number.get()),
            unified_exec.confinement = words::confinement(&attempt.confinement),
            unified_exec.mechanisms = held.join(" "),
            process.pid = attempt.pid.map(i64::from),
            process.exit.code = Empty,
            unified_exec.end = Empty,
            unified_exec.denial = Empty,
        );
        of.window = Some(child!(&span, "early_window"));
        of.attempt = Some(span);
        self.windows.insert((now + window, process));
    }

    fn denied(&mut self, process: ProcessId, attempt: &AttemptView) {
        let Some(of) = self.processes.get_mut(&process) else { return };
        of.window = None;
        let Some(span) = of.attempt.take() else { return };
        if let Some(exit) = &attempt.exit {
            ends(&span, exit);
        }
        if let Some(evidence) = &attempt.evidence {
            span.record("unified_exec.denial", words::confidence(evidence.confidence));
        }
    }

    fn start_failed(&mut self, process: ProcessId, error: &SpawnError) {
        let start = self.processes.get_mut(&process).and_then(|of| of.start.take());
        if let Some(start) = start {
            start.record("error.type", words::spawn_error(error));
        }
    }

    fn lives(&mut self, process: ProcessId, argv: &[String], terminal: bool) {
        let Some(of) = self.processes.get_mut(&process) else { return };
        let program = argv.first().and_then(|program| program.rsplit('/').next());
        let life = span!(
            target: TARGET,
            parent: None,
            Level::TRACE,
            "process",
            unified_exec.session.id = self.session.as_str(),
            unified_exec.process.id = i64::from(process.get()),
            process.executable.name = program,
            process.interactive = terminal,
            process.exit.code = Empty,
            unified_exec.end = Empty,
        );
        let link = life.context().span().span_context().clone();
        life.add_link(of.started_by.span().span_context().clone());
        if let Some(call) = of.call.and_then(|call| self.calls.get(&call)) {
            call.span.add_link(link.clone());
        }
        of.link = Some(link);
        of.life = Some(life);
    }

    fn answered(&mut self, call: CallId, answer: &Answer) {
        if let Some(of) = self.calls.remove(&call) {
            of.span.record("unified_exec.result", words::answer(answer));
            let process = of.process.and_then(|process| self.processes.get_mut(&process));
            if let Some(process) = process.filter(|process| process.call == Some(call)) {
                process.call = None;
            }
        }
    }

    /// Everything is dealt with, until `now`.
    pub(super) fn turned(&mut self, now: Instant) {
        self.current = None;
        while let Some((_, process)) = self.windows.first().copied().filter(|(end, _)| *end <= now) {
            self.windows.pop_first();
            let Some(of) = self.processes.get_mut(&process) else { continue };
            // One that was closed by an exit has nothing to wait for.
            if of.window.take().is_some()
                && let Some(call) = of.call.and_then(|call| self.calls.get_mut(&call))
            {
                call.waiting = Some(child!(&call.span, "yield"));
            }
        }
    }
}

fn ends(span: &Span, exit: &Exit) {
    span.record("process.exit.code", i64::from(exit.shell_code()));
    span.record("unified_exec.end", words::end_reason(exit.reason));
}

/// The process that a call is about, where it names one.
const fn subject(call: &Call) -> Option<ProcessId> {
    match call {
        Call::Write(write) => Some(write.process),
        Call::Wait(wait) => Some(wait.process),
        Call::Signal { process, .. } | Call::Terminate { process } => Some(*process),
        _ => None,
    }
}

/// The turn of a call, where its caller names one.
fn turn(call: &Call) -> Option<&str> {
    let turn = match call {
        Call::Exec(exec) => &exec.turn,
        Call::Write(write) => &write.turn,
        Call::Wait(wait) => &wait.turn,
        Call::Interrupt { turn } => turn,
        _ => return None,
    };
    Some(turn.as_str()).filter(|turn| !turn.is_empty())
}
