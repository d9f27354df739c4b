//! Feed events and answers as lines. Ids that are drawn, pids and chunk ids are left out: they say nothing.

use unified_exec::core::approval::{self, Approval, Subject};
use unified_exec::core::ids::ProcessId;
use unified_exec::core::limits::EARLY_WINDOW;
use unified_exec::core::process::{EndReason, Exit, TimeoutKind};
use unified_exec::core::session::{
    Answer, CallResult, ConditionEnd, ControlError, DecideError, EndReport, FeedKind, NotApproved,
    StartError, TargetError, WaitEnd, WriteError,
};
use unified_exec::core::spawn::SpawnError;

type Keys = Vec<(&'static str, String)>;

/// Whom a feed event is about, what it is called, and what it says.
pub(crate) fn event(kind: &FeedKind) -> (Option<ProcessId>, &'static str, Keys) {
    match kind {
        FeedKind::ApprovalRequested(asked) => {
            (Some(asked.question.process), "approval_requested", vec![("kind", subject(asked).into())])
        }
        FeedKind::ApprovalDecided(asked) => {
            let state = approval_state(&asked.state);
            let keys = vec![("kind", subject(asked).into()), ("state", state.into())];
            (Some(asked.question.process), "approval_decided", keys)
        }
        FeedKind::StartRefused { process, error, .. } => {
            (Some(*process), "start_refused", start_error(error))
        }
        FeedKind::AttemptStarted { process, attempt, .. } => {
            (Some(*process), "attempt_started", vec![("n", attempt.number.get().to_string())])
        }
        FeedKind::AttemptDenied { process, attempt, .. } => {
            (Some(*process), "attempt_denied", vec![("n", attempt.number.get().to_string())])
        }
        FeedKind::SpawnFailed { process, error, .. } => {
            (Some(*process), "spawn_failed", vec![("error", spawn_error(error).into())])
        }
        FeedKind::ProcessStarted { process, one_shot, .. } => {
            (Some(*process), "process_started", vec![("one_shot", one_shot.to_string())])
        }
        FeedKind::Output { process, from, to, .. } => {
            (Some(*process), "output", vec![("from", from.to_string()), ("to", to.to_string())])
        }
        FeedKind::OutputEventsEnded { process, .. } => (Some(*process), "output_events_ended", vec![]),
        FeedKind::StdinWritten { process, from, to, eof, .. } => {
            let keys = vec![("from", from.to_string()), ("to", to.to_string()), ("eof", eof.to_string())];
            (Some(*process), "stdin_written", keys)
        }
        FeedKind::ProcessExited { process, exit, evidence } => {
            let mut keys = exit_keys(exit);
            keys.push(("early", exit.is_early(EARLY_WINDOW).to_string()));
            keys.push(("denied", evidence.is_some().to_string()));
            (Some(*process), "process_exited", keys)
        }
        FeedKind::OutputsClosed { process, end, .. } => {
            (Some(*process), "outputs_closed", vec![("end", end.to_string())])
        }
        FeedKind::ProcessRemoved { process, pruned } => {
            (Some(*process), "process_removed", vec![("pruned", pruned.to_string())])
        }
        FeedKind::Interrupted { turn, waits, .. } => {
            (None, "interrupted", vec![("turn", turn.to_string()), ("waits", waits.to_string())])
        }
        FeedKind::Cleaned { ended, survivors } => {
            (None, "cleaned", vec![("ended", ended.to_string()), ("survivors", survivors.to_string())])
        }
        FeedKind::PolicyChanged { revision, .. } => {
            (None, "policy_changed", vec![("revision", revision.to_string())])
        }
    }
}

/// What an answer says.
pub(crate) fn answer(answer: &Answer) -> Keys {
    match answer {
        Answer::Exec(Ok(result)) | Answer::Write(Ok(result)) => call_result(result),
        Answer::Exec(Err(error)) => start_error(error),
        Answer::Write(Err(error)) => write_error(error),
        Answer::Wait(Ok(result)) => {
            let end = match result.end {
                ConditionEnd::Met(_) => "met",
                ConditionEnd::Ended => "ended",
                ConditionEnd::TimedOut => "timed_out",
                ConditionEnd::Interrupted => "interrupted",
                ConditionEnd::Lost { .. } => "lost",
            };
            vec![("end", end.into()), ("output_end", result.output_end.to_string())]
        }
        Answer::Control(Ok(())) | Answer::Attached(Ok(())) => vec![("end", "done".into())],
        Answer::Control(Err(ControlError::Failed(_))) => vec![("error", "failed".into())],
        Answer::Control(Err(ControlError::Starting { .. })) => vec![("error", "starting".into())],
        Answer::Control(Err(ControlError::Target(error)))
        | Answer::Wait(Err(error))
        | Answer::Terminate(Err(error))
        | Answer::Process(Err(error))
        | Answer::Attached(Err(error)) => target_error(error),
        Answer::Terminate(Ok(report)) | Answer::Ended(report) => end_report(report),
        Answer::Interrupted(report) => vec![
            ("waits", report.waits.to_string()),
            ("alive", report.alive.len().to_string()),
            ("one_shots", report.one_shots.len().to_string()),
        ],
        Answer::Held(Ok(until)) => {
            let until =
                until.map_or_else(|| "none".into(), |until| (until.as_nanos() / 1_000_000).to_string());
            vec![("held_until", until)]
        }
        Answer::Held(Err(_)) => vec![("held_until", "refused".into())],
        // Not asked for by any op yet.
        Answer::Process(Ok(_)) | Answer::Processes(_) | Answer::Session(_) | Answer::Updated(_) => vec![],
        Answer::Approvals(_) | Answer::Approval(_) | Answer::Grants(_) | Answer::Revoked(_) => vec![],
        Answer::Decided(Ok(asked)) => vec![("state", approval_state(&asked.state).into())],
        Answer::Decided(Err(error)) => vec![("error", decide_error(error).into())],
    }
}

fn call_result(result: &CallResult) -> Keys {
    let end = match result.end {
        WaitEnd::Exited => "exited",
        WaitEnd::Yielded => "yielded",
        WaitEnd::Interrupted => "interrupted",
        WaitEnd::OneShotInterrupted => "one_shot_interrupted",
        WaitEnd::Delivered => "delivered",
    };
    let mut keys = vec![("end", end.to_owned())];
    keys.extend(result.exit.iter().flat_map(exit_keys));
    let process = if result.live_process().is_some() { "live" } else { "none" };
    keys.extend([
        ("process", process.to_owned()),
        ("from", result.from.to_string()),
        ("to", result.next.to_string()),
        ("closed", result.outputs_closed.to_string()),
    ]);
    if let Some((from, to)) = result.stdin {
        keys.push(("stdin", format!("{from}..{to}")));
    }
    if !result.paused.is_zero() {
        keys.push(("paused", result.paused.as_millis().to_string()));
    }
    keys
}

fn exit_keys(exit: &Exit) -> Keys {
    let reason = match exit.reason {
        EndReason::Exited => "exited",
        EndReason::Signalled => "signalled",
        EndReason::OutOfMemory => "out_of_memory",
        EndReason::Timeout(TimeoutKind::OneShot) => "one_shot_timeout",
        EndReason::Timeout(TimeoutKind::Hard) => "hard_timeout",
        EndReason::Timeout(TimeoutKind::NoOutput) => "no_output_timeout",
        EndReason::Timeout(TimeoutKind::AfterDisconnect) => "after_disconnect",
        EndReason::Cleaned => "cleaned",
        EndReason::Terminated => "terminated",
        EndReason::Pruned => "pruned",
        EndReason::SessionClosed => "session_closed",
        EndReason::ServerShutdown => "server_shutdown",
        EndReason::Interrupted => "interrupted",
        EndReason::Disconnected => "disconnected",
    };
    vec![("code", exit.shell_code().to_string()), ("reason", reason.into())]
}

fn end_report(report: &EndReport) -> Keys {
    vec![("ended", report.ended.len().to_string()), ("survivors", report.survivors.len().to_string())]
}

fn target_error(error: &TargetError) -> Keys {
    match error {
        TargetError::Unknown { .. } => vec![("error", "unknown".into())],
        TargetError::Gone { exit, .. } => {
            let mut keys = vec![("error", "gone".to_owned())];
            keys.extend(exit_keys(exit));
            keys
        }
    }
}

fn start_error(error: &StartError) -> Keys {
    let name = match error {
        StartError::Invalid(_) => "invalid",
        StartError::Forbidden(_) => "forbidden",
        StartError::NotApproved(refused) => not_approved(refused),
        StartError::TooManyQuestions { .. } => "too_many_questions",
        StartError::Spawn(error) => {
            return vec![("error", "spawn".into()), ("spawn", spawn_error(error).into())];
        }
        StartError::TableFull { .. } => "table_full",
        StartError::IdsTaken => "ids_taken",
        StartError::RequestReused { .. } => "request_reused",
        StartError::NotInteractive => "not_interactive",
        StartError::Closing => "closing",
        StartError::Cancelled => "cancelled",
    };
    vec![("error", name.into())]
}

fn write_error(error: &WriteError) -> Keys {
    match error {
        WriteError::Target(error) => target_error(error),
        WriteError::NoStdin { .. } => vec![("error", "no_stdin".into())],
        WriteError::StdinEnded { committed, .. } => {
            vec![("error", "stdin_ended".into()), ("committed", committed.to_string())]
        }
        WriteError::OffsetGap { expected, .. } => {
            vec![("error", "offset_gap".into()), ("expected", expected.to_string())]
        }
        WriteError::QueueFull { .. } => vec![("error", "queue_full".into())],
        WriteError::RequestReused { .. } => vec![("error", "request_reused".into())],
        WriteError::NotStarted { .. } => vec![("error", "not_started".into())],
        WriteError::NewTerminal { .. } => vec![("error", "new_terminal".into())],
        WriteError::Forbidden { .. } => vec![("error", "forbidden".into())],
        WriteError::ReviewTooLarge { .. } => vec![("error", "review_too_large".into())],
        WriteError::ReviewNul { .. } => vec![("error", "review_nul".into())],
        WriteError::NotApproved(refused) => vec![("error", not_approved(refused).into())],
        WriteError::TooManyQuestions { .. } => vec![("error", "too_many_questions".into())],
    }
}

const fn not_approved(refused: &NotApproved) -> &'static str {
    match refused {
        NotApproved::Declined { .. } => "declined",
        NotApproved::TurnAborted { .. } => "turn_aborted",
        NotApproved::Expired { .. } => "expired",
        NotApproved::ReviewFailed { .. } => "review_failed",
        NotApproved::Stale { .. } => "stale",
    }
}

const fn decide_error(error: &DecideError) -> &'static str {
    match error {
        DecideError::Unknown { .. } => "unknown",
        DecideError::NotOpen { .. } => "not_open",
        DecideError::NotAllowed { .. } => "not_allowed",
        DecideError::Rule { .. } | DecideError::RuleEmpty => "rule",
    }
}

const fn subject(asked: &Approval) -> &'static str {
    match asked.question.subject {
        Subject::Command => "command",
        Subject::Retry { .. } => "retry",
        Subject::Input { .. } => "input",
        Subject::Connection { .. } => "connection",
    }
}

const fn approval_state(state: &approval::State) -> &'static str {
    match state {
        approval::State::Open => "open",
        approval::State::Decided(decision) if decision.verdict.approves() => "approved",
        approval::State::Decided(_) => "declined",
        approval::State::ReviewFailed { .. } => "review_failed",
        approval::State::Expired { .. } => "expired",
        approval::State::Withdrawn { .. } => "withdrawn",
    }
}

fn spawn_error(error: &SpawnError) -> &'static str {
    match error {
        SpawnError::ProgramMissing { .. } => "program_missing",
        SpawnError::ProgramDenied { .. } => "program_denied",
        SpawnError::CwdMissing { .. } => "cwd_missing",
        _ => "other",
    }
}
