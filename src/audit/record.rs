//! What is kept of an event. Every kind is decided about here.

use serde_json::{Map, Value, json};

use crate::core::approval::{Approval, Permissions, Question, State, Subject, Verdict};
use crate::core::policy::{Confinement, Files, Network, Profile};
use crate::core::process::{Cause, Confidence, EndReason, Evidence, Exit, ExitStatus, TimeoutKind};
use crate::core::session::{AttemptView, FeedEvent, FeedKind};
use crate::core::spawn::{EnforcedLimit, LimitMechanism};

/// The kind of a record and its facts; `None` of what is not kept.
pub(super) fn facts(event: &FeedEvent) -> Option<(&'static str, Value)> {
    Some(match &event.kind {
        FeedKind::ApprovalRequested(approval) => ("approval_requested", asked(&approval.question)),
        FeedKind::ApprovalDecided(approval) => ("approval_decided", decided(approval)),
        FeedKind::StartRefused { process, argv, error } => {
            ("start_refused", json!({ "process": process.get(), "argv": argv, "why": error.to_string() }))
        }
        FeedKind::AttemptStarted { process, attempt } => {
            ("attempt_started", with(tried(attempt), "process", process.get().into()))
        }
        FeedKind::AttemptDenied { process, attempt } => {
            ("attempt_denied", with(tried(attempt), "process", process.get().into()))
        }
        FeedKind::SpawnFailed { process, attempt, error } => (
            "spawn_failed",
            json!({ "process": process.get(), "attempt": attempt.get(), "why": error.to_string() }),
        ),
        FeedKind::ProcessStarted { process, argv, cwd, terminal, one_shot, .. } => (
            "process_started",
            json!({
                "process": process.get(), "argv": argv, "cwd": cwd, "terminal": terminal, "one_shot": one_shot,
            }),
        ),
        FeedKind::StdinWritten { process, from, to, eof, incomplete } => (
            "stdin_written",
            json!({ "process": process.get(), "bytes": to - from, "offset": from, "eof": eof, "incomplete": incomplete }),
        ),
        FeedKind::ProcessExited { process, exit, evidence } => {
            let mut facts = json!({ "process": process.get(), "exit": ended(exit) });
            if let Some(evidence) = evidence {
                facts = with(facts, "evidence", sign(evidence));
            }
            ("process_exited", facts)
        }
        FeedKind::Interrupted { turn, waits, withdrawn } => {
            ("interrupted", json!({ "turn": turn.as_str(), "waits": waits, "withdrawn": withdrawn }))
        }
        FeedKind::Cleaned { ended, survivors } => {
            ("cleaned", json!({ "ended": ended, "survivors": survivors }))
        }
        FeedKind::PolicyChanged { revision, fields } => {
            ("policy_changed", json!({ "revision": revision, "fields": fields }))
        }
        FeedKind::Output { .. }
        | FeedKind::OutputEventsEnded { .. }
        | FeedKind::OutputsClosed { .. }
        | FeedKind::ProcessRemoved { .. } => return None,
    })
}

fn with(mut facts: Value, name: &str, value: Value) -> Value {
    if let Value::Object(map) = &mut facts {
        map.insert(name.to_owned(), value);
    }
    facts
}

fn asked(question: &Question) -> Value {
    let about = match &question.subject {
        Subject::Command => json!({ "kind": "command" }),
        Subject::Retry { evidence } => json!({ "kind": "retry", "evidence": sign(evidence) }),
        Subject::Input { input, eof } => {
            json!({ "kind": "input", "bytes": input.len(), "eof": eof })
        }
        Subject::Connection { host, port } => json!({ "kind": "connection", "host": host, "port": port }),
    };
    json!({
        "approval": question.id.as_str(),
        "process": question.process.get(),
        "about": about,
        "argv": question.argv,
        "cwd": question.cwd,
        "environment": question.environment,
        "terminal": question.tty,
        "permissions": permissions(&question.permissions),
        "profile": profile(&question.profile),
        "justification": question.justification,
        "reason": question.reason,
        "rule": question.rule,
        "proposed_rule": question.proposed_rule,
        "strict": question.strict,
        "policy_revision": question.policy_revision,
    })
}

fn decided(approval: &Approval) -> Value {
    let mut facts = Map::new();
    facts.insert("approval".to_owned(), approval.question.id.as_str().into());
    facts.insert("process".to_owned(), approval.question.process.get().into());
    let state = match &approval.state {
        State::Open => "open",
        State::Decided(decision) => {
            facts.insert("verdict".to_owned(), verdict(decision.verdict).into());
            facts.insert("by".to_owned(), decision.by.clone().into());
            facts.insert("text".to_owned(), decision.text.clone().into());
            facts.insert("added_rule".to_owned(), decision.rule.clone().into());
            if decision.verdict.approves() { "approved" } else { "declined" }
        }
        State::ReviewFailed { cause, .. } => {
            facts.insert("cause".to_owned(), cause.clone().into());
            "review_failed"
        }
        State::Expired { .. } => "expired",
        State::Withdrawn { .. } => "withdrawn",
    };
    facts.insert("state".to_owned(), state.into());
    Value::Object(facts)
}

fn tried(attempt: &AttemptView) -> Value {
    let (confinement, held) = match &attempt.confinement {
        Confinement::Unrestricted => ("unrestricted", Value::Null),
        Confinement::External => ("external", Value::Null),
        Confinement::Bypassed => ("bypassed", Value::Null),
        Confinement::Profile(held) => ("profile", profile(held)),
    };
    let limits: Map<String, Value> =
        attempt.enforced.limits.iter().map(|limit| (limit.name.to_owned(), in_force(limit))).collect();
    let by: Vec<&str> = attempt.enforced.mechanisms.iter().map(|mechanism| mechanism.as_str()).collect();
    json!({
        "attempt": attempt.number.get(),
        "pid": attempt.pid,
        "confinement": confinement,
        "profile": held,
        "mechanisms": by,
        "limits": limits,
        "exit": attempt.exit.as_ref().map(ended),
        "evidence": attempt.evidence.as_ref().map(sign),
    })
}

fn ended(exit: &Exit) -> Value {
    let how = match exit.status {
        ExitStatus::Code(code) => json!({ "code": code }),
        ExitStatus::Signal { number, .. } => json!({ "signal": number }),
    };
    with(how, "reason", reason(exit.reason).into())
}

fn sign(evidence: &Evidence) -> Value {
    let cause = match evidence.cause {
        Cause::Errno(word) => word,
        Cause::Sigsys => "SIGSYS",
        Cause::Adapter => "adapter",
        Cause::Code => "code 159",
    };
    json!({
        "confidence": confidence(evidence.confidence),
        "cause": cause,
        "path": evidence.path,
        "early": evidence.early,
    })
}

fn permissions(permissions: &Permissions) -> Value {
    match permissions {
        Permissions::Default => "default".into(),
        Permissions::Escalated => "escalated".into(),
        Permissions::Additional(more) => json!({
            "read": more.read, "write": more.write, "deny_read": more.deny_read, "network": more.network,
        }),
    }
}

fn profile(profile: &Profile) -> Value {
    let (files, roots, protected): (_, &[String], &[String]) = match &profile.files {
        Files::ReadOnly => ("read_only", &[], &[]),
        Files::WorkspaceWrite { writable_roots, protected } => ("workspace_write", writable_roots, protected),
        Files::FullAccess => ("full_access", &[], &[]),
        Files::External => ("external", &[], &[]),
    };
    let network = match &profile.network {
        Network::Off => "off",
        Network::On => "on",
        Network::Proxied { .. } => "proxied",
    };
    json!({
        "files": files, "writable_roots": roots, "protected": protected, "deny_read": profile.deny_read,
        "network": network,
    })
}

fn in_force(limit: &EnforcedLimit) -> Value {
    let by = match limit.by {
        LimitMechanism::Cgroup => "cgroup",
        LimitMechanism::Rlimit => "rlimit",
    };
    json!({ "value": limit.value, "by": by })
}

const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Approve => "approve",
        Verdict::ApproveForSession => "approve_for_session",
        Verdict::ApproveAndAddRule => "approve_and_add_rule",
        Verdict::Decline => "decline",
        Verdict::AbortTurn => "abort_turn",
    }
}

const fn confidence(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Likely => "likely",
        Confidence::Checked => "checked",
        Confidence::Certain => "certain",
    }
}

const fn reason(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Exited => "exited",
        EndReason::Signalled => "signalled",
        EndReason::Timeout(TimeoutKind::OneShot) => "one_shot_timeout",
        EndReason::Timeout(TimeoutKind::Hard) => "hard_timeout",
        EndReason::Timeout(TimeoutKind::NoOutput) => "no_output_timeout",
        EndReason::Timeout(TimeoutKind::AfterDisconnect) => "disconnect_timeout",
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
