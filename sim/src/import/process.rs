//! One process of a feed: the call that started it, and a program that does what it did.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use toml::Spanned;
use unified_exec::core::output::Stream;
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::event::Kind;
use unified_exec::grpc::pb::exit::Status;

use super::feed::Told;
use crate::conform::record::said;
use crate::scenario::{Act, Mode, Op, Program, SpawnFailure, When};

/// How long the service waits between TERM and KILL.
const GRACE: Duration = Duration::from_secs(1);
/// More than that of one event is not filled in; the offsets of a feed that says so are hardly true.
const OUTPUT_MAX: u64 = 16 << 20;

/// One try of a process. Moments are milliseconds after its start.
#[derive(Debug, Default)]
struct Attempt {
    /// Milliseconds after the feed's first event.
    started: u64,
    /// When so many bytes came.
    output: Vec<(u64, u64)>,
    closed: Option<u64>,
    /// Whether that was told before the end was.
    closed_first: bool,
    exit: Option<(u64, pb::Exit)>,
    /// The line that is the sign of a denial.
    sign: Option<String>,
}

impl Attempt {
    /// When it said something last.
    fn latest(&self) -> u64 {
        self.output.last().map_or(0, |(came, _)| *came)
    }
}

/// One process.
#[derive(Debug)]
pub(super) struct Process {
    /// The name of the call that started it.
    pub(super) call: String,
    /// Its command line, which names its program.
    pub(super) cmd: String,
    origin: SystemTime,
    turn: String,
    /// When it was first heard of, in milliseconds after the feed's first event.
    began: u64,
    tty: bool,
    stdin: bool,
    one_shot: bool,
    escalate: bool,
    attempts: Vec<Attempt>,
    spawn_error: Option<SpawnFailure>,
    /// Bytes of input that were taken.
    input: u64,
    /// When some was taken last.
    fed: Option<u64>,
}

impl Process {
    /// A process that is first heard of by `told`; `origin` is when the feed began.
    pub(super) fn new(call: String, told: &Told, origin: SystemTime) -> Self {
        let turn = told.event.turn_id.clone();
        Self {
            cmd: call.clone(),
            call,
            origin,
            turn,
            began: told.t,
            tty: false,
            stdin: false,
            one_shot: false,
            escalate: false,
            attempts: Vec::new(),
            spawn_error: None,
            input: 0,
            fed: None,
        }
    }

    /// Milliseconds of a moment after the feed's first event.
    fn millis(&self, time: Option<&prost_types::Timestamp>) -> Option<u64> {
        let time = SystemTime::try_from(*time?).ok()?;
        u64::try_from(time.duration_since(self.origin).ok()?.as_millis()).ok()
    }

    /// Takes the next thing that is told of it.
    pub(super) fn take(&mut self, told: &Told) {
        match &told.kind {
            Kind::ApprovalRequested(approval) if approval.kind() == pb::ApprovalKind::Command => {
                self.name(&approval.argv);
                self.escalate = approval.sandbox_permissions() == pb::SandboxPermissions::RequireEscalated;
            }
            Kind::StartRefused(refused) => self.name(&refused.argv),
            Kind::SpawnFailed(failed) => {
                self.spawn_error = failed.failure.as_ref().map(|failure| spawn_failure(failure.kind()));
            }
            Kind::AttemptStarted(_) => {
                self.attempts.push(Attempt { started: told.t, ..Attempt::default() });
            }
            Kind::ProcessStarted(started) => {
                self.name(&started.argv);
                (self.tty, self.one_shot) = (started.tty, started.one_shot);
                self.stdin = started.stdin_open && !started.tty;
            }
            Kind::StdinWritten(written) => {
                self.input = self.input.max(written.end);
                self.fed = Some(told.t);
            }
            Kind::Output(output) => {
                // In one millisecond the model lets programs act before callers do: what answers input follows it.
                let at = told.t + u64::from(self.fed == Some(told.t));
                if let Some(attempt) = self.attempts.last_mut() {
                    let bytes = output.end.saturating_sub(output.start).min(OUTPUT_MAX);
                    attempt.output.push((at.saturating_sub(attempt.started).max(attempt.latest()), bytes));
                }
            }
            Kind::OutputsClosed(_) => {
                if let Some(attempt) = self.attempts.last_mut() {
                    let at = told.t.saturating_sub(attempt.started).max(attempt.latest());
                    (attempt.closed, attempt.closed_first) = (Some(at), attempt.exit.is_none());
                }
            }
            Kind::AttemptDenied(denied) => self.ended(told.t, denied.exit.as_ref(), denied.evidence.as_ref()),
            Kind::ProcessExited(exited) => self.ended(told.t, exited.exit.as_ref(), exited.evidence.as_ref()),
            _ => {}
        }
    }

    fn ended(&mut self, told: u64, exit: Option<&pb::Exit>, evidence: Option<&pb::Evidence>) {
        let at = self.millis(exit.and_then(|exit| exit.end_time.as_ref())).unwrap_or(told).min(told);
        if let Some(attempt) = self.attempts.last_mut() {
            let at = at.saturating_sub(attempt.started).max(attempt.latest());
            attempt.exit = exit.map(|exit| (at, exit.clone()));
            attempt.sign = evidence.map(|evidence| evidence.excerpt.clone());
        }
    }

    /// A shell's line is its last word; other programs are their words.
    fn name(&mut self, argv: &[String]) {
        let line = match argv {
            [_, flag, line] if flag.starts_with('-') && flag.ends_with('c') => line.clone(),
            words => words.join(" "),
        };
        if !line.is_empty() {
            self.cmd = line;
        }
    }

    /// Whether it lived when the feed ended.
    pub(super) fn is_live(&self) -> bool {
        self.attempts.last().is_some_and(|attempt| attempt.exit.is_none())
    }

    /// The call that started it.
    pub(super) fn start(&self) -> When {
        let lived = |kind| self.timed_out(kind);
        When {
            at: Some(self.began),
            op: Op::Exec,
            call: Some(self.call.clone()),
            cmd: Some(self.cmd.clone()),
            turn: Some(self.turn.clone()).filter(|turn| !turn.is_empty()),
            mode: self.one_shot.then_some(Mode::OneShot),
            timeout: lived(pb::TimeoutKind::OneShot),
            hard_timeout: lived(pb::TimeoutKind::Hard),
            no_output_timeout: lived(pb::TimeoutKind::NoOutput),
            tty: self.tty.then_some(true),
            stdin: self.stdin.then_some(true),
            escalate: self.escalate.then_some(true),
            ..When::default()
        }
    }

    /// After how many milliseconds a timeout of this kind ended it, if one did.
    fn timed_out(&self, kind: pb::TimeoutKind) -> Option<u64> {
        let attempt = self.attempts.last()?;
        let (at, exit) = attempt.exit.as_ref().filter(|(_, exit)| exit.timeout() == kind)?;
        let quiet_since = attempt.output.iter().rev().map(|(came, _)| *came).find(|came| came < at);
        let since = if kind == pb::TimeoutKind::NoOutput { quiet_since.unwrap_or(0) } else { 0 };
        Some(at.saturating_sub(since + self.grace(exit)))
    }

    /// How long before its end it was told to end.
    fn grace(&self, exit: &pb::Exit) -> u64 {
        if killed(exit) { u64::try_from(GRACE.as_millis()).unwrap_or_default() } else { 0 }
    }

    /// What a caller did that ended it.
    pub(super) fn ended_by(&self, exit: &pb::Exit) -> Option<When> {
        let attempt = self.attempts.last()?;
        let at = attempt.started + attempt.exit.as_ref()?.0.saturating_sub(self.grace(exit));
        let when = When { at: Some(at), ..When::default() };
        match exit.reason() {
            pb::ExitReason::Cleaned => Some(When { op: Op::Clean, ..when }),
            pb::ExitReason::SessionClosed => Some(When { op: Op::Close, ..when }),
            pb::ExitReason::ServerShutdown => Some(When { op: Op::Drain, ..when }),
            pb::ExitReason::Terminated => {
                Some(When { op: Op::Terminate, to: Some(self.call.clone()), ..when })
            }
            _ => None,
        }
    }

    /// What it was that a feed does not tell.
    pub(super) fn made_up(&self) -> Option<String> {
        let (_, exit) = self.attempts.last()?.exit.as_ref()?;
        let what = match exit.reason() {
            pb::ExitReason::Pruned => "made room for another one: set `service.processes_max`",
            pb::ExitReason::Disconnected => "ended with its client: add a `disconnect` step",
            pb::ExitReason::Oom | pb::ExitReason::NodeLost => "ended in a way that the model does not have",
            _ => return None,
        };
        Some(format!("{} {what}", self.call))
    }

    /// A program that does what it did.
    pub(super) fn program(&self) -> Program {
        let mut program = Program { spawn_error: self.spawn_error, ..Program::default() };
        match &self.attempts[..] {
            [first, second] => {
                program.sandboxed = self.acts(first);
                program.unsandboxed = self.acts(second);
            }
            [only, ..] => program.acts = self.acts(only),
            [] => program.acts = vec![],
        }
        program
    }

    fn acts(&self, attempt: &Attempt) -> Vec<Spanned<Act>> {
        let mut acts: Vec<Act> = Vec::new();
        let at = |at: u64| Act { at, ..Act::default() };
        let end = attempt.exit.as_ref();
        if end.is_some_and(|(_, exit)| killed(exit) && !ended_by_itself(exit)) {
            acts.push(Act { ignore: Some("TERM".to_owned()), ..at(0) });
        }
        if let (Some(closed), Some((exited, _)), false) = (attempt.closed, end, attempt.closed_first)
            && closed > *exited
        {
            acts.push(Act { fork_holder: Some(closed), ..at(0) });
        }
        if self.input > 0 {
            acts.push(Act { read_stdin: Some(self.input), ..at(0) });
        }
        let all = attempt.output.iter().map(|(_, bytes)| usize::try_from(*bytes).unwrap_or_default()).sum();
        let mut text = filled(all, attempt.sign.as_deref());
        for (came, bytes) in &attempt.output {
            let piece = text.split_to(text.len().min(usize::try_from(*bytes).unwrap_or_default()));
            acts.push(said(*came, Stream::Stdout, &piece));
        }
        let by_itself = end.filter(|(_, exit)| ended_by_itself(exit));
        if let (Some(closed), true) = (attempt.closed, attempt.closed_first) {
            let closed = by_itself.map_or(closed, |(exited, _)| closed.min(*exited));
            acts.push(Act { eof: Some(true), ..at(closed) });
        }
        if let Some((exited, exit)) = by_itself {
            acts.extend(match &exit.status {
                Some(Status::Code(code)) => Some(Act { exit: Some(*code), ..at(*exited) }),
                Some(Status::Signal(signal)) => {
                    let name = signal.name.trim_start_matches("SIG").to_owned();
                    Some(Act { signal: Some(name), ..at(*exited) })
                }
                None => None,
            });
        }
        acts.sort_by_key(|act| act.at);
        acts.into_iter().map(|act| Spanned::new(0..0, act)).collect()
    }
}

/// So many bytes, of which the last line is the sign of a denial, where there is one and room for it.
fn filled(bytes: usize, sign: Option<&str>) -> Bytes {
    let line = sign.map(|sign| format!("{sign}\n")).filter(|line| line.len() <= bytes).unwrap_or_default();
    let mut text = vec![b'.'; bytes - line.len()];
    if let (Some(last), false) = (text.last_mut(), line.is_empty()) {
        *last = b'\n';
    }
    text.extend_from_slice(line.as_bytes());
    text.into()
}

/// Whether KILL ended it, which the service sends to who does not go.
fn killed(exit: &pb::Exit) -> bool {
    matches!(&exit.status, Some(Status::Signal(signal)) if signal.number == 9)
}

/// Whether nobody told it to end.
fn ended_by_itself(exit: &pb::Exit) -> bool {
    matches!(exit.reason(), pb::ExitReason::Exited | pb::ExitReason::Signalled)
}

const fn spawn_failure(kind: pb::SpawnFailureKind) -> SpawnFailure {
    match kind {
        pb::SpawnFailureKind::ProgramNotFound | pb::SpawnFailureKind::InterpreterNotFound => {
            SpawnFailure::ProgramMissing
        }
        pb::SpawnFailureKind::ProgramNotExecutable => SpawnFailure::ProgramDenied,
        pb::SpawnFailureKind::CwdNotFound | pb::SpawnFailureKind::CwdNotAccessible => {
            SpawnFailure::CwdMissing
        }
        pb::SpawnFailureKind::Sandbox => SpawnFailure::SandboxUnavailable,
        _ => SpawnFailure::Exhausted,
    }
}
