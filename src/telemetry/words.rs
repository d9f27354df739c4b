//! Names for what attributes of spans and metrics say: few, and never from outside.

use crate::core::approval::{State, Subject};
use crate::core::policy::Confinement;
use crate::core::process::{Confidence, EndReason};
use crate::core::session::{Answer, Call, NotApproved, StartError, WaitEnd, WriteAnswer, WriteError};
use crate::core::spawn::{SpawnError, Stdio};

/// The calls that have a span of their own: those that wait, and those that end or decide something.
pub(super) fn call(call: &Call) -> Option<&'static str> {
    Some(match call {
        Call::Exec(_) => "exec",
        Call::Write(write) if write.input.is_empty() && !write.eof => "poll",
        Call::Write(write) if matches!(write.answer, WriteAnswer::Delivered) => "input",
        Call::Write(_) => "write",
        Call::Wait(_) => "wait",
        Call::Signal { .. } => "signal",
        Call::Terminate { .. } => "terminate",
        Call::Interrupt { .. } => "interrupt",
        Call::Clean => "clean",
        Call::Close { .. } => "close",
        Call::Decide(_) => "decide",
        Call::Update(_) => "update",
        Call::Resize { .. }
        | Call::Get { .. }
        | Call::List { .. }
        | Call::Describe
        | Call::Hold(_)
        | Call::Approvals { .. }
        | Call::Approval { .. }
        | Call::Grants
        | Call::Revoke { .. }
        | Call::Attach { .. } => return None,
    })
}

/// How a call was answered: the end of its wait, `ok`, or the kind of refusal.
pub(super) fn answer(answer: &Answer) -> &'static str {
    match answer {
        Answer::Exec(Ok(result)) | Answer::Write(Ok(result)) => wait_end(result.end),
        Answer::Exec(Err(error)) => start_error(error),
        Answer::Write(Err(error)) => write_error(error),
        Answer::Wait(Err(_))
        | Answer::Terminate(Err(_))
        | Answer::Process(Err(_))
        | Answer::Attached(Err(_)) => "no_such_process",
        Answer::Control(Err(_)) => "not_controlled",
        Answer::Updated(Err(_)) => "not_updated",
        Answer::Held(Err(_)) => "not_held",
        Answer::Decided(Err(_)) | Answer::Approval(Err(_)) => "not_decided",
        Answer::Wait(Ok(_))
        | Answer::Control(Ok(()))
        | Answer::Terminate(Ok(_))
        | Answer::Interrupted(_)
        | Answer::Ended(_)
        | Answer::Process(Ok(_))
        | Answer::Processes(_)
        | Answer::Session(_)
        | Answer::Updated(Ok(_))
        | Answer::Held(Ok(_))
        | Answer::Decided(Ok(_))
        | Answer::Approvals(_)
        | Answer::Approval(Ok(_))
        | Answer::Grants(_)
        | Answer::Revoked(_)
        | Answer::Attached(Ok(())) => "ok",
    }
}

const fn wait_end(end: WaitEnd) -> &'static str {
    match end {
        WaitEnd::Exited => "exited",
        WaitEnd::Yielded => "yielded",
        WaitEnd::Interrupted | WaitEnd::OneShotInterrupted => "interrupted",
        WaitEnd::Delivered => "delivered",
    }
}

/// Why a start was refused.
pub(super) const fn start_error(error: &StartError) -> &'static str {
    match error {
        StartError::Forbidden(_) => "forbidden",
        StartError::NotApproved(why) => not_approved(why),
        StartError::Spawn(error) => spawn_error(error),
        _ => "refused",
    }
}

const fn write_error(error: &WriteError) -> &'static str {
    match error {
        WriteError::Target(_) => "no_such_process",
        WriteError::Forbidden { .. } => "forbidden",
        WriteError::NotApproved(why) => not_approved(why),
        _ => "refused",
    }
}

const fn not_approved(why: &NotApproved) -> &'static str {
    match why {
        NotApproved::Declined { .. } => "declined",
        NotApproved::TurnAborted { .. } => "turn_aborted",
        NotApproved::Expired { .. } => "approval_expired",
        NotApproved::ReviewFailed { .. } => "review_failed",
        NotApproved::Stale { .. } => "stale",
    }
}

/// Why an attempt could not be started.
pub(super) const fn spawn_error(error: &SpawnError) -> &'static str {
    match error {
        SpawnError::ProgramMissing { .. } => "program_missing",
        SpawnError::ProgramDenied { .. } => "program_denied",
        SpawnError::CwdMissing { .. } => "cwd_missing",
        SpawnError::Exhausted { .. } => "exhausted",
        SpawnError::SandboxUnavailable { .. } => "sandbox_unavailable",
        _ => "spawn_failed",
    }
}

pub(super) const fn spawner(stdio: &Stdio) -> &'static str {
    match stdio {
        Stdio::Terminal(_) => "terminal",
        Stdio::Pipes { .. } => "pipes",
    }
}

/// Under what an attempt runs.
pub(super) const fn confinement(confinement: &Confinement) -> &'static str {
    match confinement {
        Confinement::Profile(_) => "sandbox",
        Confinement::External => "external",
        Confinement::Unrestricted => "none",
        Confinement::Bypassed => "bypassed",
    }
}

pub(super) const fn end_reason(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Exited => "exited",
        EndReason::Signalled => "signalled",
        EndReason::Timeout(_) => "timeout",
        EndReason::Cleaned => "cleaned",
        EndReason::Terminated => "terminated",
        EndReason::OutOfMemory => "out_of_memory",
        EndReason::Pruned => "pruned",
        EndReason::SessionClosed => "session_closed",
        EndReason::ServerShutdown => "server_shutdown",
        EndReason::Interrupted => "interrupted",
        EndReason::Disconnected => "disconnected",
    }
}

pub(super) const fn subject(subject: &Subject) -> &'static str {
    match subject {
        Subject::Command => "command",
        Subject::Retry { .. } => "retry",
        Subject::Input { .. } => "stdin",
        Subject::Connection { .. } => "network",
    }
}

/// How a question was closed.
pub(super) const fn decided(state: &State) -> &'static str {
    match state {
        State::Open => "open",
        State::Decided(decision) if decision.verdict.approves() => "approved",
        State::Decided(_) => "declined",
        State::ReviewFailed { .. } => "review_failed",
        State::Expired { .. } => "expired",
        State::Withdrawn { .. } => "withdrawn",
    }
}

pub(super) const fn confidence(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Likely => "likely",
        Confidence::Checked => "checked",
        Confidence::Certain => "certain",
    }
}
