//! What is kept of an event, and what is not.

use std::time::Duration;

use serde_json::{Value, json};

use crate::audit::record::facts;
use crate::core::approval::{Approval, Decision, Permissions, Question, State, Subject, Verdict};
use crate::core::ids::{ApprovalId, AttemptNumber, ProcessId, TurnId};
use crate::core::policy::{Confinement, Files, Network, Profile};
use crate::core::process::{Cause, Confidence, EndReason, Evidence, Exit, ExitStatus};
use crate::core::session::{AttemptView, FeedEvent, FeedKind};
use crate::core::spawn::{Enforced, EnforcedLimit, LimitMechanism, Mechanism};
use crate::core::time::Instant;

/// What must never be kept, wherever a child or a client may have it.
const SECRET: &str = "hunter2";

fn process() -> ProcessId {
    ProcessId::new(1_007).expect("a number")
}

fn kept(kind: FeedKind) -> Option<(&'static str, Value)> {
    facts(&FeedEvent { sequence: 1, at: Instant::ZERO, turn: None, request: None, kind })
}

fn question(subject: Subject) -> Question {
    Question {
        id: ApprovalId::new("apr_1"),
        process: process(),
        turn: TurnId::new("turn"),
        request: None,
        subject,
        argv: vec!["touch".to_owned(), "/etc/x".to_owned()],
        cwd: "/srv".to_owned(),
        environment: "local".to_owned(),
        tty: true,
        permissions: Permissions::Escalated,
        profile: profile(),
        justification: "needs it".to_owned(),
        reason: "it asks for more".to_owned(),
        rule: None,
        proposed_rule: Vec::new(),
        strict: false,
        policy_revision: 1,
        allowed: Vec::new(),
        asked_at: Instant::ZERO,
        expires_at: None,
    }
}

fn profile() -> Profile {
    let files =
        Files::WorkspaceWrite { writable_roots: vec!["/srv".to_owned()], protected: vec![".git".to_owned()] };
    Profile { files, network: Network::Off, deny_read: vec!["/srv/.env".to_owned()] }
}

fn evidence() -> Evidence {
    Evidence {
        confidence: Confidence::Checked,
        cause: Cause::Errno("permission denied"),
        path: Some("/etc/x".to_owned()),
        excerpt: format!("{SECRET}: permission denied"),
        early: true,
    }
}

fn attempt(confinement: Confinement) -> AttemptView {
    let exit = Exit {
        status: ExitStatus::Code(1),
        reason: EndReason::Exited,
        at: Instant::ZERO,
        lifetime: Duration::ZERO,
        usage: None,
    };
    let limit = EnforcedLimit { name: "memory_bytes", value: 1_024, by: LimitMechanism::Rlimit };
    AttemptView {
        number: AttemptNumber::FIRST,
        pid: Some(4_711),
        confinement,
        enforced: Enforced {
            mechanisms: vec![Mechanism::Bubblewrap, Mechanism::Seccomp],
            limits: vec![limit],
        },
        started_at: Instant::ZERO,
        output_end: 9,
        outputs_closed: true,
        exit: Some(exit),
        evidence: Some(evidence()),
    }
}

#[test]
fn input_is_kept_as_its_length_only() {
    let asked = question(Subject::Input { input: SECRET.into(), eof: false });
    let approval = Box::new(Approval { question: asked, state: State::Open });
    let (kind, facts) = kept(FeedKind::ApprovalRequested(approval)).expect("kept");
    assert_eq!(kind, "approval_requested");
    assert_eq!(facts["about"], json!({ "kind": "input", "bytes": 7, "eof": false }));
    assert!(!facts.to_string().contains(SECRET), "{facts}");
    let written =
        FeedKind::StdinWritten { process: process(), from: 3, to: 10, eof: false, incomplete: false };
    assert_eq!(kept(written).expect("kept").1["bytes"], 7);
}

#[test]
fn output_is_not_kept_nor_what_evidence_was_read_from() {
    let output = FeedKind::Output { process: process(), attempt: AttemptNumber::FIRST, from: 0, to: 9 };
    assert_eq!(kept(output), None);
    let retry = question(Subject::Retry { evidence: evidence() });
    for kind in [
        FeedKind::ApprovalRequested(Box::new(Approval { question: retry, state: State::Open })),
        FeedKind::AttemptDenied { process: process(), attempt: Box::new(attempt(Confinement::Bypassed)) },
        FeedKind::ProcessExited {
            process: process(),
            exit: attempt(Confinement::Bypassed).exit.expect("an end"),
            evidence: Some(evidence()),
        },
    ] {
        let (kind, facts) = kept(kind).expect("kept");
        let text = facts.to_string();
        assert!(
            text.contains("/etc/x") && text.contains("checked") && !text.contains(SECRET),
            "{kind}: {facts}"
        );
    }
}

#[test]
fn a_question_is_kept_with_all_that_was_judged_and_an_answer_with_who_gave_it() {
    let asked = question(Subject::Command);
    let (_, facts) =
        kept(FeedKind::ApprovalRequested(Box::new(Approval { question: asked.clone(), state: State::Open })))
            .expect("kept");
    for (key, value) in [
        ("approval", json!("apr_1")),
        ("argv", json!(["touch", "/etc/x"])),
        ("cwd", json!("/srv")),
        ("permissions", json!("escalated")),
        ("justification", json!("needs it")),
        ("reason", json!("it asks for more")),
    ] {
        assert_eq!(facts[key], value, "{key}");
    }
    assert_eq!(
        (&facts["profile"]["files"], &facts["profile"]["network"]),
        (&"workspace_write".into(), &"off".into())
    );
    let decision = Decision {
        verdict: Verdict::Decline,
        text: "no".to_owned(),
        rule: Vec::new(),
        by: "uid:0".to_owned(),
        at: Instant::ZERO,
    };
    let answered = Approval { question: asked, state: State::Decided(decision) };
    let (kind, facts) = kept(FeedKind::ApprovalDecided(Box::new(answered))).expect("kept");
    assert_eq!(kind, "approval_decided");
    assert_eq!(
        (&facts["state"], &facts["verdict"], &facts["by"], &facts["text"]),
        (&"declined".into(), &"decline".into(), &"uid:0".into(), &"no".into())
    );
}

#[test]
fn an_attempt_is_kept_with_what_held_it() {
    let started = |confinement| {
        let attempt = Box::new(attempt(confinement));
        kept(FeedKind::AttemptStarted { process: process(), attempt }).expect("kept").1
    };
    let held = started(Confinement::Profile(Box::new(profile())));
    assert_eq!(held["mechanisms"], json!(["bubblewrap", "seccomp"]));
    assert_eq!(
        (&held["confinement"], &held["profile"]["deny_read"]),
        (&"profile".into(), &json!(["/srv/.env"]))
    );
    assert_eq!(held["limits"]["memory_bytes"], json!({ "value": 1_024, "by": "rlimit" }));
    let bypassed = started(Confinement::Bypassed);
    assert_eq!((&bypassed["confinement"], &bypassed["profile"]), (&"bypassed".into(), &Value::Null));
}
