//! Processes, their attempts and their ends, on the way out.

use std::time::Duration;

use prost_types::Timestamp;

use super::command::LOCAL;
use super::rights::profile_to_wire;
use super::{cursor, model_text, timestamp, to_millis};
use crate::core::command::TerminalSize;
use crate::core::ids::{AttemptNumber, ProcessId, SessionId};
use crate::core::limits::TOMBSTONE_AGE;
use crate::core::policy::{Confinement, Files, Profile};
use crate::core::process::{Cause, Confidence, EndReason, Evidence, Exit, ExitStatus, TimeoutKind};
use crate::core::session::{AttemptView, EndReport, ProcessView, State, WaitEnd};
use crate::core::signal::Signal;
use crate::core::spawn::{Descendant, EnforcedLimit, LimitMechanism, ResourceUsage};
use crate::grpc::pb;
use crate::host::clock::Clock;
use crate::host::stream::Collected;

/// Processes of the system that are listed of one process.
const LISTED_MAX: usize = 256;
/// Longest command name of a process of the system.
const NAME_BYTES_MAX: usize = 255;

/// What the log of an attempt holds: where the head ends, where the tail starts, and the end.
#[derive(Clone, Copy, Debug)]
pub(in crate::grpc) struct Held {
    pub(in crate::grpc) attempt: AttemptNumber,
    pub(in crate::grpc) lost: (u64, u64),
    pub(in crate::grpc) end: u64,
    pub(in crate::grpc) closed: bool,
}

/// A process.
pub(in crate::grpc) fn process(
    clock: Clock,
    session: &SessionId,
    view: ProcessView,
    outputs: &[Held],
    descendants: Vec<Descendant>,
) -> pb::Process {
    let attempts = attempts(clock, &view.attempts);
    let latest = view.attempts.last();
    pb::Process {
        session_id: session.to_string(),
        process_id: view.id.get(),
        turn_id: view.turn.to_string(),
        request_id: view.request.as_ref().map(ToString::to_string).unwrap_or_default(),
        environment_id: LOCAL.to_owned(),
        state: state(&view).into(),
        phase: phase(&view).into(),
        tty: view.terminal.is_some(),
        terminal_size: view.terminal.map(size),
        stdin_open: view.stdin_open,
        stdin_committed: view.stdin_committed,
        os_pid: latest.and_then(|attempt| attempt.pid).unwrap_or(0),
        start_time: view.attempts.first().map(|attempt| timestamp(clock, attempt.started_at)),
        last_used_time: Some(timestamp(clock, view.last_used_at)),
        exit: view.exit.as_ref().map(|end| exit(clock, end)),
        outputs: outputs.iter().map(output_log).collect(),
        descendants: descendants.into_iter().take(LISTED_MAX).map(os_process).collect(),
        enforced: latest.map(enforced),
        one_shot: view.one_shot,
        tombstone: view.state == State::Ended,
        expire_time: expiry(clock, &view),
        create_time: Some(timestamp(clock, view.created_at)),
        cursor: latest.map(|attempt| cursor(attempt.number, view.cursor)),
        attempts,
        argv: view.argv,
        cwd: view.cwd,
    }
}

fn expiry(clock: Clock, view: &ProcessView) -> Option<Timestamp> {
    let exit = view.exit.as_ref().filter(|_| view.state == State::Ended)?;
    Some(timestamp(clock, exit.at + TOMBSTONE_AGE))
}

fn output_log(held: &Held) -> pb::OutputLog {
    let (head_end, tail_start) = held.lost;
    pb::OutputLog {
        attempt: u32::from(held.attempt.get()),
        head_end,
        tail_start,
        end: held.end,
        omitted_bytes: tail_start.saturating_sub(head_end),
        closed: held.closed,
    }
}

/// A terminal's size.
pub(in crate::grpc) fn size(size: TerminalSize) -> pb::TerminalSize {
    pb::TerminalSize { rows: u32::from(size.rows), cols: u32::from(size.cols) }
}

/// Where a process stands, for most callers.
pub(in crate::grpc) fn state(view: &ProcessView) -> pb::ProcessState {
    let closed = view.attempts.last().is_some_and(|attempt| attempt.outputs_closed);
    match view.state {
        State::Reserved | State::Asking | State::Starting => pb::ProcessState::Starting,
        State::Running | State::Stopping => pb::ProcessState::Running,
        State::Draining | State::Ended if closed => pb::ProcessState::Closed,
        State::Draining | State::Ended => pb::ProcessState::Exited,
    }
}

fn phase(view: &ProcessView) -> pb::ProcessPhase {
    match view.state {
        State::Reserved => pb::ProcessPhase::Reserved,
        State::Asking => pb::ProcessPhase::Asking,
        State::Starting => pb::ProcessPhase::Starting,
        State::Running => pb::ProcessPhase::Running,
        State::Stopping => pb::ProcessPhase::Stopping,
        State::Draining => pb::ProcessPhase::Draining,
        State::Ended => pb::ProcessPhase::Ended,
    }
}

/// Of an attempt, the last one of its process or not.
fn attempt(clock: Clock, attempt: &AttemptView, last: bool) -> pb::Attempt {
    let state = match &attempt.exit {
        None => pb::AttemptState::Running,
        Some(_) if last => pb::AttemptState::Ended,
        Some(_) => pb::AttemptState::Denied,
    };
    pb::Attempt {
        attempt: u32::from(attempt.number.get()),
        state: state.into(),
        start_time: Some(timestamp(clock, attempt.started_at)),
        os_pid: attempt.pid.unwrap_or(0),
        enforced: Some(enforced(attempt)),
        exit: attempt.exit.as_ref().map(|end| exit(clock, end)),
        evidence: attempt.evidence.as_ref().map(evidence),
        spawn_failure: None,
        output_bytes: attempt.output_end,
    }
}

fn attempts(clock: Clock, all: &[AttemptView]) -> Vec<pb::Attempt> {
    let last = all.last().map(|attempt| attempt.number);
    all.iter().map(|each| attempt(clock, each, Some(each.number) == last)).collect()
}

/// The first attempt was denied, and a second one follows.
pub(in crate::grpc) fn attempt_denied(clock: Clock, attempt: &AttemptView) -> pb::AttemptDenied {
    pb::AttemptDenied {
        attempt: u32::from(attempt.number.get()),
        exit: attempt.exit.as_ref().map(|end| exit(clock, end)),
        evidence: attempt.evidence.as_ref().map(evidence),
        output_bytes: attempt.output_end,
    }
}

/// An attempt runs.
pub(in crate::grpc) fn attempt_started(clock: Clock, attempt: &AttemptView) -> pb::AttemptStarted {
    pb::AttemptStarted {
        attempt: u32::from(attempt.number.get()),
        os_pid: attempt.pid.unwrap_or(0),
        enforced: Some(enforced(attempt)),
        start_time: Some(timestamp(clock, attempt.started_at)),
    }
}

/// What really holds an attempt.
pub(super) fn enforced(attempt: &AttemptView) -> pb::Enforced {
    let bypassed = attempt.confinement == Confinement::Bypassed;
    let profile = match &attempt.confinement {
        Confinement::Profile(profile) => profile_to_wire(profile),
        Confinement::Unrestricted | Confinement::Bypassed => profile_to_wire(&Profile::full_access()),
        Confinement::External => {
            profile_to_wire(&Profile { files: Files::External, ..Profile::full_access() })
        }
    };
    pb::Enforced {
        kind: profile.kind,
        bypassed,
        mechanisms: attempt.enforced.mechanisms.iter().map(|by| by.as_str().to_owned()).collect(),
        network: profile.network.unwrap_or_default().mode,
        deny_read: !profile.deny_read.is_empty(),
        limits: attempt.enforced.limits.iter().map(limit).collect(),
    }
}

fn limit(limit: &EnforcedLimit) -> pb::EnforcedLimit {
    let mechanism = match limit.by {
        LimitMechanism::Cgroup => "cgroup",
        LimitMechanism::Rlimit => "rlimit",
    };
    pb::EnforcedLimit { name: limit.name.to_owned(), value: limit.value, mechanism: mechanism.to_owned() }
}

/// How a process ended.
pub(in crate::grpc) fn exit(clock: Clock, exit: &Exit) -> pb::Exit {
    use pb::exit::Status;
    let status = match exit.status {
        ExitStatus::Code(code) => Status::Code(code),
        ExitStatus::Signal { number, core_dumped } => Status::Signal(pb::ExitSignal {
            number,
            name: Signal::from_number(number).map(|signal| signal.to_string()).unwrap_or_default(),
            core_dumped,
        }),
    };
    pb::Exit {
        status: Some(status),
        reason: exit_reason(exit.reason).into(),
        timeout: timeout(exit.reason).into(),
        shell_code: exit.shell_code(),
        end_time: Some(timestamp(clock, exit.at)),
        usage: exit.usage.map(usage),
    }
}

/// Why a process ended.
pub(in crate::grpc) const fn exit_reason(reason: EndReason) -> pb::ExitReason {
    match reason {
        EndReason::Exited => pb::ExitReason::Exited,
        EndReason::Signalled => pb::ExitReason::Signalled,
        EndReason::OutOfMemory => pb::ExitReason::Oom,
        EndReason::Timeout(_) => pb::ExitReason::Timeout,
        EndReason::Cleaned => pb::ExitReason::Cleaned,
        EndReason::Terminated => pb::ExitReason::Terminated,
        EndReason::Pruned => pb::ExitReason::Pruned,
        EndReason::SessionClosed => pb::ExitReason::SessionClosed,
        EndReason::ServerShutdown => pb::ExitReason::ServerShutdown,
        EndReason::Interrupted => pb::ExitReason::Interrupted,
        EndReason::Disconnected => pb::ExitReason::Disconnected,
    }
}

const fn timeout(reason: EndReason) -> pb::TimeoutKind {
    match reason {
        EndReason::Timeout(TimeoutKind::OneShot) => pb::TimeoutKind::OneShot,
        EndReason::Timeout(TimeoutKind::Hard) => pb::TimeoutKind::Hard,
        EndReason::Timeout(TimeoutKind::NoOutput) => pb::TimeoutKind::NoOutput,
        EndReason::Timeout(TimeoutKind::AfterDisconnect) => pb::TimeoutKind::AfterDisconnect,
        EndReason::Exited
        | EndReason::Signalled
        | EndReason::OutOfMemory
        | EndReason::Cleaned
        | EndReason::Terminated
        | EndReason::Pruned
        | EndReason::SessionClosed
        | EndReason::ServerShutdown
        | EndReason::Interrupted
        | EndReason::Disconnected => pb::TimeoutKind::Unspecified,
    }
}

fn usage(used: ResourceUsage) -> pb::ResourceUsage {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    pb::ResourceUsage {
        user_cpu_us: micros(used.user),
        system_cpu_us: micros(used.system),
        max_rss_bytes: used.rss_max_bytes,
    }
}

/// A sign of a denial.
pub(super) fn evidence(sign: &Evidence) -> pb::Evidence {
    let (cause, word) = match sign.cause {
        Cause::Errno(word) => (pb::EvidenceCause::Errno, word),
        Cause::Sigsys => (pb::EvidenceCause::Sigsys, ""),
        Cause::Adapter => (pb::EvidenceCause::Adapter, ""),
        Cause::Code => (pb::EvidenceCause::Code, ""),
    };
    pb::Evidence {
        confidence: confidence(sign.confidence).into(),
        cause: cause.into(),
        word: word.to_owned(),
        path: sign.path.clone().unwrap_or_default(),
        excerpt: sign.excerpt.clone(),
        early: sign.early,
    }
}

/// How sure it is that the sandbox made an attempt fail.
pub(super) const fn confidence(confidence: Confidence) -> pb::Confidence {
    match confidence {
        Confidence::Likely => pb::Confidence::Likely,
        Confidence::Checked => pb::Confidence::Checked,
        Confidence::Certain => pb::Confidence::Certain,
    }
}

/// A process of the system.
pub(in crate::grpc) fn os_process(found: Descendant) -> pb::OsProcess {
    let mut command = found.name;
    let cut = (0..=NAME_BYTES_MAX.min(command.len())).rev().find(|at| command.is_char_boundary(*at));
    command.truncate(cut.unwrap_or(0));
    pb::OsProcess { pid: found.pid, parent_pid: 0, command }
}

/// Processes that a call ended.
pub(in crate::grpc) fn ended(clock: Clock, report: &EndReport) -> Vec<pb::EndedProcess> {
    let entry = |(process, end): &(ProcessId, Option<Exit>)| pb::EndedProcess {
        process_id: process.get(),
        exit: end.as_ref().map(|end| exit(clock, end)),
    };
    let mut ended: Vec<_> = report.ended.iter().map(entry).collect();
    ended.sort_by_key(|entry| entry.process_id);
    ended
}

/// What is still there in spite of it.
pub(in crate::grpc) fn survivors(report: EndReport) -> Vec<pb::Survivor> {
    let entry = |(process, alive): (ProcessId, Vec<Descendant>)| pb::Survivor {
        process_id: process.get(),
        processes: alive.into_iter().take(LISTED_MAX).map(os_process).collect(),
    };
    report.survivors.into_iter().map(entry).collect()
}

/// The answer of a call that collects output.
pub(in crate::grpc) fn exec_result(clock: Clock, collected: Collected) -> pb::ExecResult {
    let Collected { result, omitted_bytes, text } = collected;
    let wait_end = match result.end {
        WaitEnd::Exited => pb::WaitEnd::Exited,
        WaitEnd::Yielded | WaitEnd::Delivered => pb::WaitEnd::Yielded,
        WaitEnd::Interrupted | WaitEnd::OneShotInterrupted => pb::WaitEnd::Interrupted,
    };
    pb::ExecResult {
        process_id: result.live_process().map(ProcessId::get),
        wait_end: wait_end.into(),
        exit: result.exit.as_ref().map(|end| exit(clock, end)),
        attempts: attempts(clock, &result.attempts),
        evidence: result.evidence.as_ref().map(evidence),
        wall_time_ms: to_millis(result.wall_time),
        paused_ms: to_millis(result.paused),
        start: Some(cursor(result.attempt, result.from)),
        next: Some(cursor(result.attempt, result.next)),
        omitted_bytes,
        outputs_closed: result.outputs_closed,
        text: Some(model_text(text)),
        stdin_start: result.stdin.map(|(start, _)| start),
        stdin_end: result.stdin.map(|(_, end)| end),
    }
}
