//! Messages of the wire as lines.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use compact_str::{ToCompactString, format_compact};
use prost_types::Timestamp;
use unified_exec::core::ids::{ApprovalId, ProcessId};
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::event::Kind;

use super::{millis, refusal};
use crate::stage::heard::Event;
use crate::tell::Keys;
use crate::transcript::Word;

/// When the scenario began, by the wall, and what is early.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) start: SystemTime,
    pub(super) window: Duration,
}

/// When the attempts of processes began.
pub(super) type Attempts = BTreeMap<u32, SystemTime>;

fn time(timestamp: Option<&Timestamp>) -> Option<SystemTime> {
    timestamp.copied().and_then(|timestamp| SystemTime::try_from(timestamp).ok())
}

pub(super) fn event(event: pb::Event, clock: Clock, attempts: &mut Attempts) -> Event {
    let process = ProcessId::new(event.process_id);
    let request = Some(event.request_id).filter(|request| !request.is_empty());
    let attempt = event.attempt;
    let mut said = Event { process, request, ..Event::default() };
    let Some(kind) = event.kind else { return Event { kind: "?", ..said } };
    let number = ("n", attempt.to_compact_string());
    (said.kind, said.keys) = match kind {
        Kind::ApprovalRequested(approval) => {
            let keys = requested(&approval);
            said.asked = process.map(|process| (ApprovalId::new(approval.approval_id), process));
            ("approval_requested", keys)
        }
        Kind::ApprovalDecided(approval) => {
            let mut keys = vec![("kind", subject(&approval).into())];
            keys.extend(state(&approval));
            said.asked = process.map(|process| (ApprovalId::new(approval.approval_id), process));
            ("approval_decided", keys)
        }
        Kind::StartRefused(refused) => {
            ("start_refused", refusal::reasons(&refused.reason, &refused.message, "?"))
        }
        Kind::AttemptStarted(started) => {
            if let Some(at) = time(started.start_time.as_ref()) {
                attempts.insert(event.process_id, at);
            }
            let under = under(started.enforced.unwrap_or_default());
            ("attempt_started", vec![number, ("under", under.into())])
        }
        Kind::AttemptDenied(denied) => {
            let mut keys = vec![number];
            keys.extend(denied.exit.iter().flat_map(exit));
            keys.extend(denied.evidence.iter().flat_map(evidence));
            ("attempt_denied", keys)
        }
        Kind::SpawnFailed(failed) => {
            let failure = failed.failure.unwrap_or_default();
            ("spawn_failed", vec![("error", spawn_failure(failure.kind()).into()), number])
        }
        Kind::ProcessStarted(started) => {
            ("process_started", vec![("one_shot", started.one_shot.to_compact_string())])
        }
        Kind::Output(output) => ("output", vec![from(output.start), to(output.end), number]),
        Kind::OutputEventsEnded(_) => ("output_events_ended", vec![]),
        Kind::StdinWritten(written) => {
            let eof = ("eof", written.eof.to_compact_string());
            ("stdin_written", vec![from(written.start), to(written.end), eof])
        }
        Kind::ProcessExited(exited) => {
            let mut keys: Keys = exited.exit.iter().flat_map(exit).collect();
            let ended = exited.exit.as_ref().and_then(|exit| time(exit.end_time.as_ref()));
            let started = attempts.get(&event.process_id);
            let lifetime = ended.zip(started).and_then(|(end, start)| end.duration_since(*start).ok());
            let early = lifetime.is_some_and(|lifetime| lifetime <= clock.window);
            keys.push(("early", early.to_compact_string()));
            let sign = exited.evidence.iter().flat_map(evidence).filter(|(key, _)| *key != "early");
            keys.extend(sign);
            ("process_exited", keys)
        }
        Kind::OutputsClosed(closed) => {
            said.closed = u8::try_from(attempt).ok().map(|attempt| (attempt, closed.end));
            ("outputs_closed", vec![("end", closed.end.to_compact_string()), number])
        }
        Kind::ProcessRemoved(removed) => {
            let pruned = removed.reason() == pb::RemoveReason::Pruned;
            ("process_removed", vec![("pruned", pruned.to_compact_string())])
        }
        Kind::Interrupted(interrupted) => (
            "interrupted",
            vec![
                ("turn", event.turn_id.into()),
                ("waits", interrupted.waits_ended.to_compact_string()),
                ("withdrawn", interrupted.approvals_withdrawn.to_compact_string()),
            ],
        ),
        Kind::Cleaned(cleaned) => (
            "cleaned",
            vec![
                ("ended", cleaned.ended.to_compact_string()),
                ("survivors", cleaned.survivors.to_compact_string()),
            ],
        ),
        Kind::PolicyChanged(changed) => (
            "policy_changed",
            vec![
                ("revision", changed.policy_revision.to_compact_string()),
                ("fields", changed.fields.join(",").into()),
            ],
        ),
    };
    said
}

/// Events of a recorded feed as patterns of lines.
#[derive(Debug)]
pub(crate) struct Lines {
    clock: Clock,
    attempts: Attempts,
}

impl Lines {
    /// Of a feed that began at `start`; `window` is what is early.
    pub(crate) const fn new(start: SystemTime, window: Duration) -> Self {
        Self { clock: Clock { start, window }, attempts: Attempts::new() }
    }

    /// The pattern of the line that tells an event about `who`; `question` is the number of the one that it is about.
    pub(crate) fn pattern(&mut self, who: &str, question: Option<usize>, told: pb::Event) -> String {
        let Event { kind, keys, .. } = event(told, self.clock, &mut self.attempts);
        let mut pattern = format!("{who} {kind}");
        let number = question.map(|number| ("n", number.to_compact_string()));
        for (key, value) in number.into_iter().chain(keys).filter(|(_, value)| value != "?") {
            pattern.push_str(&format_compact!(" {key}={value}"));
        }
        pattern
    }
}

fn from(offset: u64) -> (&'static str, Word) {
    ("from", offset.to_compact_string())
}

fn to(offset: u64) -> (&'static str, Word) {
    ("to", offset.to_compact_string())
}

fn under(enforced: pb::Enforced) -> &'static str {
    match enforced.kind() {
        _ if enforced.bypassed => "bypassed",
        pb::SandboxKind::External => "external",
        // What restricts nothing looks the same on the wire as a profile that allows everything.
        _ if enforced.mechanisms.is_empty() => "unrestricted",
        _ => "profile",
    }
}

fn subject(approval: &pb::Approval) -> &'static str {
    match approval.kind() {
        pb::ApprovalKind::Unspecified => "?",
        pb::ApprovalKind::Command => "command",
        pb::ApprovalKind::Retry => "retry",
        pb::ApprovalKind::Stdin => "input",
        pb::ApprovalKind::Network => "connection",
    }
}

fn requested(approval: &pb::Approval) -> Keys {
    let permissions = match approval.sandbox_permissions() {
        pb::SandboxPermissions::RequireEscalated => "escalated",
        pb::SandboxPermissions::WithAdditionalPermissions => "additional",
        pb::SandboxPermissions::Unspecified | pb::SandboxPermissions::UseDefault => "default",
    };
    vec![
        ("kind", subject(approval).into()),
        ("permissions", permissions.into()),
        ("strict", "?".into()),
        ("rule", (!approval.rule.is_empty()).to_compact_string()),
    ]
}

/// Where a question stands.
pub(super) fn state(approval: &pb::Approval) -> Keys {
    let decision = approval.decision.as_ref();
    let verdict = decision.map(pb::Decision::verdict);
    let state = match (approval.state(), verdict) {
        (pb::ApprovalState::Approved, Some(pb::Verdict::ApproveForSession)) => "approved_for_session",
        (pb::ApprovalState::Approved, Some(pb::Verdict::ApproveAndAddRule)) => "approved_with_rule",
        (pb::ApprovalState::Approved, _) => "approved",
        (pb::ApprovalState::Declined, Some(pb::Verdict::AbortTurn)) => "turn_aborted",
        (pb::ApprovalState::Declined, Some(_)) => "declined",
        (pb::ApprovalState::Declined, None) => "review_failed",
        (pb::ApprovalState::Expired, _) => "expired",
        (pb::ApprovalState::Withdrawn, _) => "withdrawn",
        (pb::ApprovalState::Open | pb::ApprovalState::Unspecified, _) => "open",
    };
    let mut keys = vec![("state", state.into())];
    keys.extend(decision.map(|decision| {
        (
            "by",
            if decision.decided_by == "automatic" { decision.decided_by.as_str().into() } else { "?".into() },
        )
    }));
    keys
}

fn exit(exit: &pb::Exit) -> Keys {
    let reason = match (exit.reason(), exit.timeout()) {
        (pb::ExitReason::Exited, _) => "exited",
        (pb::ExitReason::Signalled, _) => "signalled",
        (pb::ExitReason::Oom, _) => "out_of_memory",
        (pb::ExitReason::Timeout, pb::TimeoutKind::OneShot) => "one_shot_timeout",
        (pb::ExitReason::Timeout, pb::TimeoutKind::Hard) => "hard_timeout",
        (pb::ExitReason::Timeout, pb::TimeoutKind::NoOutput) => "no_output_timeout",
        (pb::ExitReason::Timeout, pb::TimeoutKind::AfterDisconnect) => "after_disconnect",
        (pb::ExitReason::Cleaned, _) => "cleaned",
        (pb::ExitReason::Terminated, _) => "terminated",
        (pb::ExitReason::Pruned, _) => "pruned",
        (pb::ExitReason::SessionClosed, _) => "session_closed",
        (pb::ExitReason::ServerShutdown, _) => "server_shutdown",
        (pb::ExitReason::Interrupted, _) => "interrupted",
        (pb::ExitReason::Disconnected, _) => "disconnected",
        _ => "?",
    };
    vec![("code", exit.shell_code.to_compact_string()), ("reason", reason.into())]
}

fn evidence(evidence: &pb::Evidence) -> Keys {
    let confidence = match evidence.confidence() {
        pb::Confidence::Likely => "likely",
        pb::Confidence::Checked => "checked",
        pb::Confidence::Certain => "certain",
        pb::Confidence::None | pb::Confidence::Unspecified => "?",
    };
    vec![("evidence", confidence.into()), ("early", evidence.early.to_compact_string())]
}

const fn spawn_failure(kind: pb::SpawnFailureKind) -> &'static str {
    use pb::SpawnFailureKind as Of;
    match kind {
        Of::ProgramNotFound => "program_missing",
        Of::ProgramNotExecutable => "program_denied",
        Of::CwdNotFound => "cwd_missing",
        Of::Exhausted => "exhausted",
        Of::Sandbox => "sandbox_unavailable",
        _ => "other",
    }
}

/// What a start or a write came to.
pub(super) fn result(result: &pb::ExecResult, one_shot: bool) -> Keys {
    let end = match result.wait_end() {
        pb::WaitEnd::Exited => "exited",
        pb::WaitEnd::Yielded | pb::WaitEnd::Unspecified => "yielded",
        pb::WaitEnd::Interrupted if one_shot => "one_shot_interrupted",
        pb::WaitEnd::Interrupted => "interrupted",
    };
    let mut keys: Keys = vec![("end", end.into())];
    keys.extend(result.exit.iter().flat_map(exit));
    // A one-shot never carries an id on the wire, and one that lives in spite of everything is told by its missing exit.
    let process = match result.process_id {
        Some(_) => "live",
        None if one_shot && result.exit.is_none() => "?",
        None => "none",
    };
    let (start, next) = (result.start.unwrap_or_default(), result.next.unwrap_or_default());
    keys.extend([
        ("process", process.into()),
        from(start.offset),
        to(next.offset),
        ("closed", result.outputs_closed.to_compact_string()),
        ("n", start.attempt.to_compact_string()),
    ]);
    keys.extend(result.evidence.iter().flat_map(evidence));
    if let Some((start, end)) = result.stdin_start.zip(result.stdin_end) {
        keys.push(("stdin", format_compact!("{start}..{end}")));
    }
    if result.paused_ms > 0 {
        keys.push(("paused", result.paused_ms.to_compact_string()));
    }
    keys
}

/// A frame was taken: how much of the input by now, and nothing of the output.
pub(super) fn delivered() -> Keys {
    let unknown = ["code", "reason", "process", "from", "to", "closed", "n", "stdin"];
    let mut keys: Keys = vec![("end", "delivered".into())];
    keys.extend(unknown.map(|key| (key, "?".into())));
    keys
}

pub(super) fn waited(response: &pb::WaitResponse) -> Keys {
    let end = match response.outcome() {
        pb::WaitOutcome::Matched => "met",
        pb::WaitOutcome::Timeout => "timed_out",
        pb::WaitOutcome::Exited => "ended",
        pb::WaitOutcome::Interrupted => "interrupted",
        pb::WaitOutcome::Gap => "lost",
        pb::WaitOutcome::Unspecified => "?",
    };
    vec![("end", end.into()), ("output_end", "?".into())]
}

pub(super) fn ended(ended: usize, survivors: usize) -> Keys {
    vec![("ended", ended.to_compact_string()), ("survivors", survivors.to_compact_string())]
}

pub(super) fn held(until: Option<&Timestamp>, clock: Clock) -> Keys {
    let until = time(until).and_then(|until| until.duration_since(clock.start).ok());
    let until = until.map_or_else(|| "none".into(), |until| millis(until).to_compact_string());
    vec![("held_until", until)]
}
