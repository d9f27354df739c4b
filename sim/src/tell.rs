//! Feed events and answers as lines. Ids that are drawn, pids and chunk ids are left out: they say nothing.

use std::sync::Arc;
use std::time::Duration;

use compact_str::{ToCompactString, format_compact};

use unified_exec::core::approval::{self, Permissions, Question, Subject, Verdict};
use unified_exec::core::ids::{AttemptNumber, ProcessId};
use unified_exec::core::orchestrate::{Forbidden, NewTerminal};
use unified_exec::core::policy::{Confinement, Egress};
use unified_exec::core::process::{Confidence, EndReason, Evidence, Exit, TimeoutKind};
use unified_exec::core::session::{
    Answer, CallResult, ConditionEnd, ConnectionRefused, ControlError, DecideError, EndReport, FeedKind,
    NotApproved, StartError, TargetError, UpdateError, WaitEnd, WriteError,
};
use unified_exec::core::spawn::SpawnError;

use crate::transcript::Word;

/// What a line says.
pub(crate) type Keys = Vec<(&'static str, Word)>;

/// The question that a feed event is about.
pub(crate) const fn question(kind: &FeedKind) -> Option<&Question> {
    match kind {
        FeedKind::ApprovalRequested(asked) | FeedKind::ApprovalDecided(asked) => Some(&asked.question),
        _ => None,
    }
}

/// Whom a feed event is about, what it is called, and what it says. `window` is the session's early window.
pub(crate) fn event(kind: &FeedKind, window: Duration) -> (Option<ProcessId>, &'static str, Keys) {
    match kind {
        FeedKind::ApprovalRequested(asked) => {
            (Some(asked.question.process), "approval_requested", requested(&asked.question))
        }
        FeedKind::ApprovalDecided(asked) => {
            let mut keys = vec![("kind", subject(&asked.question).into())];
            keys.extend(state_keys(&asked.state));
            (Some(asked.question.process), "approval_decided", keys)
        }
        FeedKind::StartRefused { process, error, .. } => {
            (Some(*process), "start_refused", start_error(error))
        }
        FeedKind::AttemptStarted { process, attempt, .. } => {
            let under = confinement(&attempt.confinement).into();
            (Some(*process), "attempt_started", vec![("n", number(attempt.number)), ("under", under)])
        }
        FeedKind::AttemptDenied { process, attempt, .. } => {
            let mut keys = vec![("n", number(attempt.number))];
            keys.extend(attempt.exit.iter().flat_map(exit_keys));
            keys.extend(attempt.evidence.iter().flat_map(evidence_keys));
            (Some(*process), "attempt_denied", keys)
        }
        FeedKind::SpawnFailed { process, attempt, error } => {
            let keys = vec![("error", spawn_error(error).into()), ("n", number(*attempt))];
            (Some(*process), "spawn_failed", keys)
        }
        FeedKind::ProcessStarted { process, one_shot, .. } => {
            (Some(*process), "process_started", vec![("one_shot", one_shot.to_compact_string())])
        }
        FeedKind::Output { process, attempt, from, to } => {
            let keys = vec![
                ("from", from.to_compact_string()),
                ("to", to.to_compact_string()),
                ("n", number(*attempt)),
            ];
            (Some(*process), "output", keys)
        }
        FeedKind::OutputEventsEnded { process, .. } => (Some(*process), "output_events_ended", vec![]),
        FeedKind::StdinWritten { process, from, to, eof, .. } => {
            let keys = vec![
                ("from", from.to_compact_string()),
                ("to", to.to_compact_string()),
                ("eof", eof.to_compact_string()),
            ];
            (Some(*process), "stdin_written", keys)
        }
        FeedKind::ProcessExited { process, exit, evidence } => {
            let mut keys = exit_keys(exit);
            keys.push(("early", exit.is_early(window).to_compact_string()));
            keys.extend(evidence.iter().flat_map(evidence_keys).filter(|(key, _)| *key != "early"));
            (Some(*process), "process_exited", keys)
        }
        FeedKind::OutputsClosed { process, attempt, end } => (
            Some(*process),
            "outputs_closed",
            vec![("end", end.to_compact_string()), ("n", number(*attempt))],
        ),
        FeedKind::ProcessRemoved { process, pruned } => {
            (Some(*process), "process_removed", vec![("pruned", pruned.to_compact_string())])
        }
        FeedKind::Interrupted { turn, waits, withdrawn } => {
            let keys = vec![
                ("turn", turn.to_compact_string()),
                ("waits", waits.to_compact_string()),
                ("withdrawn", withdrawn.to_compact_string()),
            ];
            (None, "interrupted", keys)
        }
        FeedKind::Cleaned { ended, survivors } => (
            None,
            "cleaned",
            vec![("ended", ended.to_compact_string()), ("survivors", survivors.to_compact_string())],
        ),
        FeedKind::PolicyChanged { revision, fields } => {
            let keys = vec![("revision", revision.to_compact_string()), ("fields", fields.join(",").into())];
            (None, "policy_changed", keys)
        }
    }
}

fn number(attempt: AttemptNumber) -> Word {
    attempt.get().to_compact_string()
}

const fn confinement(confinement: &Confinement) -> &'static str {
    match confinement {
        Confinement::Unrestricted => "unrestricted",
        Confinement::External => "external",
        Confinement::Bypassed => "bypassed",
        Confinement::Profile(_) => "profile",
    }
}

fn requested(question: &Question) -> Keys {
    let permissions = match question.permissions {
        Permissions::Default => "default",
        Permissions::Escalated => "escalated",
        Permissions::Additional(_) => "additional",
    };
    vec![
        ("kind", subject(question).into()),
        ("permissions", permissions.into()),
        ("strict", question.strict.to_compact_string()),
        ("rule", question.rule.is_some().to_compact_string()),
    ]
}

fn state_keys(state: &approval::State) -> Keys {
    let mut keys = vec![("state", Word::from(approval_state(state)))];
    if let approval::State::Decided(decision) = state {
        keys.push(("by", decision.by.as_str().into()));
    }
    keys
}

fn evidence_keys(evidence: &Evidence) -> Keys {
    let confidence = match evidence.confidence {
        Confidence::Likely => "likely",
        Confidence::Checked => "checked",
        Confidence::Certain => "certain",
    };
    vec![("evidence", confidence.into()), ("early", evidence.early.to_compact_string())]
}

/// What a program gets for a connection that it asked for.
pub(crate) fn connection(to: String, answer: &Result<Arc<Egress>, ConnectionRefused>) -> Keys {
    let answer = match answer {
        Ok(_) => "allowed",
        Err(ConnectionRefused::Denied { .. }) => "denied",
        Err(ConnectionRefused::NobodyAsked { .. }) => "nobody_asked",
        Err(ConnectionRefused::NotApproved { .. }) => "not_approved",
        Err(ConnectionRefused::TooMany { .. }) => "too_many",
        Err(ConnectionRefused::Gone) => "gone",
    };
    vec![("to", to.into()), ("answer", answer.into())]
}

/// What the answer to a call on a session that is over says.
pub(crate) fn session_gone() -> Keys {
    vec![("error", "session_gone".into())]
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
            vec![("end", end.into()), ("output_end", result.output_end.to_compact_string())]
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
            ("waits", report.waits.to_compact_string()),
            ("alive", report.alive.len().to_compact_string()),
            ("one_shots", report.one_shots.len().to_compact_string()),
            ("withdrawn", report.withdrawn.to_compact_string()),
        ],
        Answer::Held(Ok(until)) => {
            let until = until
                .map_or_else(|| "none".into(), |until| (until.as_nanos() / 1_000_000).to_compact_string());
            vec![("held_until", until)]
        }
        Answer::Held(Err(_)) => vec![("held_until", "refused".into())],
        Answer::Updated(Ok(session)) => vec![("revision", session.policy_revision.to_compact_string())],
        Answer::Updated(Err(error)) => vec![("error", update_error(error).into())],
        Answer::Revoked(revoked) => vec![("revoked", revoked.is_some().to_compact_string())],
        Answer::Decided(Ok(asked)) => state_keys(&asked.state),
        // Not asked for by any op yet.
        Answer::Process(Ok(_)) | Answer::Processes(_) | Answer::Session(_) => vec![],
        Answer::Approvals(_) | Answer::Approval(_) | Answer::Grants(_) => vec![],
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
    let mut keys = vec![("end", Word::from(end))];
    keys.extend(result.exit.iter().flat_map(exit_keys));
    let process = if result.live_process().is_some() { "live" } else { "none" };
    keys.extend([
        ("process", process.into()),
        ("from", result.from.to_compact_string()),
        ("to", result.next.to_compact_string()),
        ("closed", result.outputs_closed.to_compact_string()),
    ]);
    keys.push(("n", number(result.attempt)));
    keys.extend(result.evidence.iter().flat_map(evidence_keys));
    if let Some((from, to)) = result.stdin {
        keys.push(("stdin", format_compact!("{from}..{to}")));
    }
    if !result.paused.is_zero() {
        keys.push(("paused", result.paused.as_millis().to_compact_string()));
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
    vec![("code", exit.shell_code().to_compact_string()), ("reason", reason.into())]
}

fn end_report(report: &EndReport) -> Keys {
    vec![
        ("ended", report.ended.len().to_compact_string()),
        ("survivors", report.survivors.len().to_compact_string()),
    ]
}

fn target_error(error: &TargetError) -> Keys {
    match error {
        TargetError::Unknown { .. } => vec![("error", "unknown".into())],
        TargetError::Gone { exit, .. } => {
            let mut keys = vec![("error", Word::from("gone"))];
            keys.extend(exit_keys(exit));
            keys
        }
    }
}

fn start_error(error: &StartError) -> Keys {
    let name = match error {
        StartError::Invalid(_) => "invalid",
        StartError::Forbidden(why) => {
            return vec![("error", "forbidden".into()), ("cause", forbidden(why).into())];
        }
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
            vec![("error", "stdin_ended".into()), ("committed", committed.to_compact_string())]
        }
        WriteError::OffsetGap { expected, .. } => {
            vec![("error", "offset_gap".into()), ("expected", expected.to_compact_string())]
        }
        WriteError::QueueFull { .. } => vec![("error", "queue_full".into())],
        WriteError::RequestReused { .. } => vec![("error", "request_reused".into())],
        WriteError::NotStarted { .. } => vec![("error", "not_started".into())],
        WriteError::NewTerminal { cause, .. } => {
            vec![("error", "new_terminal".into()), ("cause", new_terminal(*cause).into())]
        }
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
        DecideError::Deciding { .. } => "deciding",
        DecideError::NotAllowed { .. } => "not_allowed",
        DecideError::Rule { .. } => "rule",
        DecideError::RuleEmpty => "rule_empty",
    }
}

const fn update_error(error: &UpdateError) -> &'static str {
    match error {
        UpdateError::ReviewerMissing(_) => "reviewer_missing",
        UpdateError::RevisionChanged { .. } => "revision_changed",
        UpdateError::CwdHeld { .. } => "cwd_held",
        UpdateError::Invalid(_) => "invalid",
        UpdateError::Closing => "closing",
    }
}

pub(crate) const fn forbidden(why: &Forbidden) -> &'static str {
    match why {
        Forbidden::Rule { .. } => "rule",
        Forbidden::RulePrompt { .. } => "rule_prompt",
        Forbidden::Danger { .. } => "danger",
        Forbidden::Escalation => "escalation",
    }
}

const fn new_terminal(cause: NewTerminal) -> &'static str {
    match cause {
        NewTerminal::OwnerNetwork => "owner_network",
        NewTerminal::Unsandboxed => "unsandboxed",
        NewTerminal::DenyRead => "deny_read",
    }
}

const fn subject(question: &Question) -> &'static str {
    match question.subject {
        Subject::Command => "command",
        Subject::Retry { .. } => "retry",
        Subject::Input { .. } => "input",
        Subject::Connection { .. } => "connection",
    }
}

const fn approval_state(state: &approval::State) -> &'static str {
    match state {
        approval::State::Open => "open",
        approval::State::Decided(decision) => match decision.verdict {
            Verdict::Approve => "approved",
            Verdict::ApproveForSession => "approved_for_session",
            Verdict::ApproveAndAddRule => "approved_with_rule",
            Verdict::Decline => "declined",
            Verdict::AbortTurn => "turn_aborted",
        },
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
        SpawnError::Exhausted { .. } => "exhausted",
        SpawnError::SandboxUnavailable { .. } => "sandbox_unavailable",
        // No scenario makes a spawner fail otherwise.
        _ => "other",
    }
}
