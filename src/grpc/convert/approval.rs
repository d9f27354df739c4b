//! Questions, answers and grants, both ways.

use prost_types::Timestamp;
use sha2::{Digest as _, Sha256};

use super::process::evidence;
use super::rights::{check_glob, check_path, profile_to_wire};
use super::{Valid, bounded, invalid, timestamp};
use crate::core::approval::{
    Approval, Decision, Grant, GrantKey, Permissions, Question, State, Subject, Verdict,
};
use crate::core::ids::{RequestId, SessionId};
use crate::core::policy::Additional;
use crate::grpc::pb;
use crate::host::clock::Clock;

/// Longest justification of an agent, and longest words of whoever decides.
pub(in crate::grpc) const WORDS_BYTES_MAX: usize = 4_096;
/// Words of one rule.
pub(in crate::grpc) const RULE_WORDS_MAX: usize = 64;
/// Longest word of a rule.
const RULE_WORD_BYTES_MAX: usize = 1_024;
/// Paths of one list of additional permissions.
const ADDITIONAL_MAX: usize = 64;

/// A question and where it stands.
pub(in crate::grpc) fn approval(clock: Clock, session: &SessionId, approval: &Approval) -> pb::Approval {
    let Approval { question, state } = approval;
    let mut wire = judged(session, question);
    wire.state = state_to_wire(state).into();
    wire.digest = digest(session, question).to_vec().into();
    wire.allowed_verdicts = question.allowed.iter().map(|verdict| verdict_to_wire(*verdict).into()).collect();
    wire.create_time = Some(timestamp(clock, question.asked_at));
    wire.expire_time = expiry(clock, question);
    if let State::Decided(decided) = state {
        wire.decision = Some(decision(clock, decided));
    }
    wire
}

/// When a question expires.
pub(in crate::grpc) fn expiry(clock: Clock, question: &Question) -> Option<Timestamp> {
    question.expires_at.map(|at| timestamp(clock, at))
}

/// What a reviewer is shown of a question that binds an answer: SHA-256 over the encoded message of everything that is
/// to be judged.
pub(in crate::grpc) fn digest(session: &SessionId, question: &Question) -> [u8; 32] {
    use prost::Message as _;
    Sha256::digest(judged(session, question).encode_to_vec()).into()
}

/// Everything that is to be judged, and nothing that changes.
fn judged(session: &SessionId, question: &Question) -> pb::Approval {
    let (permissions, additional) = permissions_to_wire(&question.permissions);
    let mut wire = pb::Approval {
        approval_id: question.id.to_string(),
        session_id: session.to_string(),
        turn_id: question.turn.to_string(),
        request_id: question.request.as_ref().map(RequestId::to_string).unwrap_or_default(),
        process_id: question.process.get(),
        argv: question.argv.clone(),
        cwd: question.cwd.clone(),
        environment_id: question.environment.clone(),
        tty: question.tty,
        sandbox_permissions: permissions.into(),
        additional_permissions: additional,
        profile: Some(profile_to_wire(&question.profile)),
        justification: question.justification.clone(),
        reason: question.reason.clone(),
        rule: question.rule.clone().unwrap_or_default(),
        proposed_prefix_rule: question.proposed_rule.clone(),
        policy_revision: question.policy_revision,
        ..Default::default()
    };
    let kind = match &question.subject {
        Subject::Command => pb::ApprovalKind::Command,
        Subject::Retry { evidence: sign } => {
            wire.evidence = Some(evidence(sign));
            pb::ApprovalKind::Retry
        }
        Subject::Input { input, eof } => {
            wire.input = input.clone();
            wire.input_eof = *eof;
            pb::ApprovalKind::Stdin
        }
        Subject::Connection { host, port } => {
            (wire.host, wire.port) = (host.clone(), u32::from(*port));
            pb::ApprovalKind::Network
        }
    };
    wire.kind = kind.into();
    wire
}

fn decision(clock: Clock, decision: &Decision) -> pb::Decision {
    pb::Decision {
        verdict: verdict_to_wire(decision.verdict).into(),
        text: decision.text.clone(),
        prefix_rule: decision.rule.clone(),
        decided_by: decision.by.clone(),
        decide_time: Some(timestamp(clock, decision.at)),
    }
}

/// Where a question stands.
pub(in crate::grpc) const fn state_to_wire(state: &State) -> pb::ApprovalState {
    match state {
        State::Open => pb::ApprovalState::Open,
        State::Decided(decision) if decision.verdict.approves() => pb::ApprovalState::Approved,
        State::Decided(_) | State::ReviewFailed { .. } => pb::ApprovalState::Declined,
        State::Expired { .. } => pb::ApprovalState::Expired,
        State::Withdrawn { .. } => pb::ApprovalState::Withdrawn,
    }
}

/// An answer.
pub(in crate::grpc) const fn verdict_to_wire(verdict: Verdict) -> pb::Verdict {
    match verdict {
        Verdict::Approve => pb::Verdict::Approve,
        Verdict::ApproveForSession => pb::Verdict::ApproveForSession,
        Verdict::ApproveAndAddRule => pb::Verdict::ApproveAndAddRule,
        Verdict::Decline => pb::Verdict::Decline,
        Verdict::AbortTurn => pb::Verdict::AbortTurn,
    }
}

/// A kept approval.
pub(in crate::grpc) fn grant(clock: Clock, session: &SessionId, grant: &Grant) -> pb::Grant {
    let mut wire = pb::Grant {
        grant_id: grant.id.to_string(),
        session_id: session.to_string(),
        approval_id: grant.approval.to_string(),
        create_time: Some(timestamp(clock, grant.at)),
        decided_by: grant.by.clone(),
        uses: grant.uses,
        ..Default::default()
    };
    match &grant.key {
        GrantKey::Command { environment, executable, canonical, cwd, tty, permissions, rules } => {
            let (permissions, additional) = permissions_to_wire(permissions);
            wire.environment_id.clone_from(environment);
            wire.executable.clone_from(executable);
            wire.command.clone_from(canonical);
            wire.cwd.clone_from(cwd);
            wire.tty = *tty;
            wire.sandbox_permissions = permissions.into();
            wire.additional_permissions = additional;
            wire.rules_fingerprint.clone_from(rules);
        }
        GrantKey::Connection { environment, host, port } => {
            wire.environment_id.clone_from(environment);
            wire.host.clone_from(host);
            wire.port = u32::from(*port);
        }
    }
    wire
}

fn permissions_to_wire(
    permissions: &Permissions,
) -> (pb::SandboxPermissions, Option<pb::AdditionalPermissions>) {
    match permissions {
        Permissions::Default => (pb::SandboxPermissions::UseDefault, None),
        Permissions::Escalated => (pb::SandboxPermissions::RequireEscalated, None),
        Permissions::Additional(Additional { read, write, deny_read, network }) => {
            let additional = pb::AdditionalPermissions {
                read: read.clone(),
                write: write.clone(),
                deny_read: deny_read.clone(),
                network: *network,
            };
            (pb::SandboxPermissions::WithAdditionalPermissions, Some(additional))
        }
    }
}

/// What a command asks for in relation to its session's profile.
pub(super) fn permissions(
    asked: pb::SandboxPermissions,
    additional: Option<pb::AdditionalPermissions>,
) -> Valid<Permissions> {
    const FIELD: &str = "command.additional_permissions";
    match (asked, additional) {
        (pb::SandboxPermissions::WithAdditionalPermissions, None) => {
            invalid(FIELD, "is required with WITH_ADDITIONAL_PERMISSIONS")
        }
        (pb::SandboxPermissions::WithAdditionalPermissions, Some(wire)) => {
            additional_permissions(wire).map(Permissions::Additional)
        }
        (_, Some(_)) => invalid(FIELD, "is set, but sandbox_permissions does not ask for it"),
        (pb::SandboxPermissions::RequireEscalated, None) => Ok(Permissions::Escalated),
        (pb::SandboxPermissions::Unspecified | pb::SandboxPermissions::UseDefault, None) => {
            Ok(Permissions::Default)
        }
    }
}

fn additional_permissions(wire: pb::AdditionalPermissions) -> Valid<Additional> {
    const FIELD: &str = "command.additional_permissions";
    let pb::AdditionalPermissions { read, write, deny_read, network } = wire;
    for (name, paths) in [("read", &read), ("write", &write), ("deny_read", &deny_read)] {
        let field = format!("{FIELD}.{name}");
        if paths.len() > ADDITIONAL_MAX {
            return invalid(
                field,
                format!("has {} entries; at most {ADDITIONAL_MAX} are allowed", paths.len()),
            );
        }
        for (at, path) in paths.iter().enumerate() {
            let entry = format!("{field}[{at}]");
            bounded(&entry, path, super::config::PATH_BYTES_MAX)?;
            let checked = if name == "deny_read" { check_glob(path) } else { check_path(path) };
            if let Err(problem) = checked {
                return invalid(entry, format!("{path:?} {problem}"));
            }
        }
    }
    if read.is_empty() && write.is_empty() && deny_read.is_empty() && !network {
        return invalid(FIELD, "asks for nothing; set one of its fields");
    }
    Ok(Additional { read, write, deny_read, network })
}

/// The words of a rule that somebody proposes.
pub(in crate::grpc) fn rule_words(field: &str, words: Vec<String>) -> Valid<Vec<String>> {
    if words.len() > RULE_WORDS_MAX {
        return invalid(field, format!("has {} words; at most {RULE_WORDS_MAX} are allowed", words.len()));
    }
    for (at, word) in words.iter().enumerate() {
        bounded(&format!("{field}[{at}]"), word, RULE_WORD_BYTES_MAX)?;
        if word.is_empty() || word.contains('\0') {
            return invalid(format!("{field}[{at}]"), format!("{word:?} is no word of a command"));
        }
    }
    Ok(words)
}
