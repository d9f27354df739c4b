//! A status of the wire as what an answer says.

use tonic::Status;
use tonic_types::StatusExt as _;

use crate::tell::Keys;

/// What a refusal says: the reason of the contract, in the words of a transcript.
pub(super) fn refusal(status: &Status) -> Keys {
    let details = status.get_error_details();
    let Some(info) = details.error_info() else {
        return vec![("error", format!("{:?}", status.code()).into())];
    };
    let fact = |key: &str| info.metadata.get(key).map_or("", String::as_str);
    match info.reason.as_str() {
        "PROCESS_ENDED" => ended(fact("exit_reason"), fact("code"), fact("signal")),
        "NEW_TERMINAL_REQUIRED" => {
            vec![("error", "new_terminal".into()), ("cause", cause(fact("cause")).into())]
        }
        "STDIN_CLOSED" if fact("by") == "its start" => vec![("error", "no_stdin".into())],
        "STDIN_CLOSED" => {
            vec![("error", "stdin_ended".into()), ("committed", fact("committed").into())]
        }
        "STDIN_OFFSET_OUT_OF_RANGE" => {
            vec![("error", "offset_gap".into()), ("expected", fact("committed").into())]
        }
        reason => reasons(reason, status.message(), fact("resource")),
    }
}

/// What a reason says that needs no more than the words that come with it.
pub(super) fn reasons(reason: &str, message: &str, resource: &str) -> Keys {
    let error = match reason {
        "SESSION_NOT_FOUND" => "session_gone",
        "PROCESS_NOT_FOUND" | "APPROVAL_NOT_FOUND" => "unknown",
        "PROCESS_ENDED" => {
            return vec![("error", "gone".into()), ("code", "?".into()), ("reason", "?".into())];
        }
        "PROCESS_STARTING" if message.contains("question") => "not_started",
        "PROCESS_STARTING" => "starting",
        "INVALID_FIELD" if message.contains("neither it nor the question") => "rule_empty",
        "INVALID_FIELD" if message.contains("rule") => "rule",
        "INVALID_FIELD" => "invalid",
        "COMMAND_FORBIDDEN" | "ESCALATION_FORBIDDEN" => {
            return vec![("error", "forbidden".into()), ("cause", forbidden(reason, message).into())];
        }
        "STDIN_FORBIDDEN" => "forbidden",
        "APPROVAL_DECLINED" => "declined",
        "TURN_ABORTED" => "turn_aborted",
        "APPROVAL_EXPIRED" => "expired",
        "REVIEW_FAILED" => "review_failed",
        "TICKET_STALE" => "stale",
        "SESSION_LIMIT" if resource == "process_ids" => "ids_taken",
        "SESSION_LIMIT" if resource == "leases" => {
            return vec![("held_until", "refused".into())];
        }
        "SESSION_LIMIT" => "too_many_questions",
        "TABLE_FULL" => "table_full",
        "REQUEST_ID_REUSED" => "request_reused",
        "ONE_SHOT_ONLY" => "not_interactive",
        "SESSION_CLOSING" => "closing",
        "START_CANCELLED" => "cancelled",
        "INPUT_QUEUE_FULL" => "queue_full",
        "STDIN_REVIEW_TOO_LARGE" => "review_too_large",
        "STDIN_REVIEW_NUL" => "review_nul",
        "APPROVAL_NOT_OPEN" if message.contains("being") => "deciding",
        "APPROVAL_NOT_OPEN" => "not_open",
        "VERDICT_NOT_ALLOWED" => "not_allowed",
        "REVIEWER_NOT_CONFIGURED" => "reviewer_missing",
        "POLICY_REVISION_MISMATCH" => "revision_changed",
        "CWD_IN_USE" => "cwd_held",
        "SYSTEM_REFUSED" | "NOT_A_TERMINAL" => "failed",
        "SHELL_NOT_FOUND" | "PROGRAM_NOT_FOUND" => return spawn("program_missing"),
        "PROGRAM_NOT_EXECUTABLE" => return spawn("program_denied"),
        "CWD_NOT_FOUND" => return spawn("cwd_missing"),
        "SYSTEM_EXHAUSTED" => return spawn("exhausted"),
        "SANDBOX_UNAVAILABLE" => return spawn("sandbox_unavailable"),
        "SPAWN_FAILED" => return spawn("other"),
        other => return vec![("error", other.to_ascii_lowercase().into())],
    };
    vec![("error", error.into())]
}

fn spawn(how: &str) -> Keys {
    vec![("error", "spawn".into()), ("spawn", how.into())]
}

fn ended(reason: &str, code: &str, signal: &str) -> Keys {
    if reason.is_empty() {
        // Nothing is left to act on, and how it ended is not known yet.
        return vec![("error", "failed".into())];
    }
    let signalled = signal.parse::<i32>().ok().map(|signal| (128 + signal).to_string());
    let reason = match reason {
        "OOM" => "out_of_memory".into(),
        "TIMEOUT" => "?".into(),
        other => other.to_ascii_lowercase(),
    };
    let code = if reason == "?" { "?".into() } else { signalled.unwrap_or_else(|| code.to_owned()) };
    vec![("error", "gone".into()), ("code", code.into()), ("reason", reason.into())]
}

fn forbidden(reason: &str, message: &str) -> &'static str {
    match reason {
        "ESCALATION_FORBIDDEN" => "escalation",
        _ if message.contains("is dangerous") => "danger",
        _ if message.contains("wants it approved") => "rule_prompt",
        _ => "rule",
    }
}

fn cause(words: &str) -> &'static str {
    match words {
        words if words.starts_with("the owner's network policy") => "owner_network",
        words if words.starts_with("it runs without a sandbox") => "unsandboxed",
        _ => "deny_read",
    }
}
