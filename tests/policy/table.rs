//! The rows of the policy table: a file-system denial in the window.

use std::time::Duration;

use unified_exec::core::approval::Verdict;
use unified_exec::core::policy::{ApprovalPolicy, RuleDecision};
use unified_exec::core::session::{Mode, StartError};

use crate::stage::{ProfileKind, Scene, Stage, granular, scene};

/// Waits for the end: the yield is never reached.
const TO_THE_END: Mode = Mode::Follow;

/// What a row comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comes {
    /// The denial is the result, with its output.
    Surfaced,
    /// An attempt without a sandbox did it.
    Done,
    /// Nothing ran.
    Refused,
}

async fn row(scene: Scene, spawns: usize, asked: &[&str], comes: Comes) {
    let shown = format!("{scene:?}");
    let stage = Stage::set(scene);
    let result = stage.run(&stage.touch(), TO_THE_END).await;
    let told = stage.told().await;
    let was = match &result {
        Ok(collected) if collected.result.exit.unwrap().shell_code() == 0 => Comes::Done,
        Ok(_) => Comes::Surfaced,
        Err(_) => Comes::Refused,
    };
    assert_eq!((told.spawns, &told.asked[..], was), (spawns, asked, comes), "{shown}: {result:?} {told:?}");
    assert_eq!(stage.forbidden().exists(), comes == Comes::Done, "{shown}");
    assert_eq!(
        told.denied,
        spawns.saturating_sub(1),
        "{shown}: attempt 1 is told as denied before attempt 2"
    );
    if let Ok(collected) = result {
        assert!(collected.text.text.contains("trying"), "{shown}: the result has its output");
        assert_eq!(collected.result.live_process(), None, "{shown}");
        assert_eq!(collected.result.attempts.len(), spawns, "{shown}");
        assert_eq!(collected.result.evidence.is_some(), comes == Comes::Surfaced, "{shown}: {collected:?}");
    }
}

#[tokio::test]
async fn never_surfaces() {
    row(scene(ApprovalPolicy::Never), 1, &[], Comes::Surfaced).await;
}

#[tokio::test]
async fn on_request_surfaces() {
    row(scene(ApprovalPolicy::OnRequest), 1, &[], Comes::Surfaced).await;
}

#[tokio::test]
async fn granular_asks_and_retries_if_the_first_attempt_was_not_approved() {
    row(scene(granular(true)), 2, &["retry"], Comes::Done).await;
}

#[tokio::test]
async fn granular_surfaces_if_the_retry_is_declined() {
    let declined = Scene { answer: Verdict::Decline, ..scene(granular(true)) };
    row(declined, 1, &["retry"], Comes::Surfaced).await;
}

#[tokio::test]
async fn granular_retries_silently_if_the_first_attempt_was_approved() {
    let prompted = Scene { rule: Some(RuleDecision::Prompt), ..scene(granular(true)) };
    row(prompted, 2, &["command"], Comes::Done).await;
}

#[tokio::test]
async fn granular_without_sandbox_approval_surfaces() {
    row(scene(granular(false)), 1, &[], Comes::Surfaced).await;
}

#[tokio::test]
async fn unless_trusted_retries_silently_what_was_approved() {
    row(scene(ApprovalPolicy::UnlessTrusted), 2, &["command"], Comes::Done).await;
}

#[tokio::test]
async fn unless_trusted_runs_what_a_rule_allows_without_a_sandbox() {
    let trusted = Scene { rule: Some(RuleDecision::Allow), ..scene(ApprovalPolicy::UnlessTrusted) };
    row(trusted, 1, &[], Comes::Done).await;
}

#[tokio::test]
async fn an_allowed_command_keeps_its_sandbox_where_paths_may_not_be_read() {
    let trusted =
        Scene { rule: Some(RuleDecision::Allow), deny_read: true, ..scene(ApprovalPolicy::UnlessTrusted) };
    row(trusted, 1, &[], Comes::Surfaced).await;
}

#[tokio::test]
async fn strict_review_sees_the_retry_anew() {
    let strict = |policy| Scene { strict: true, ..scene(policy) };
    row(strict(ApprovalPolicy::UnlessTrusted), 2, &["command", "retry"], Comes::Done).await;
    row(strict(granular(true)), 2, &["command", "retry"], Comes::Done).await;
}

#[tokio::test]
async fn whatever_may_not_be_read_or_an_owners_network_policy_surfaces() {
    for policy in [ApprovalPolicy::UnlessTrusted, granular(true)] {
        let asked: &[&str] = if policy == ApprovalPolicy::UnlessTrusted { &["command"] } else { &[] };
        row(Scene { deny_read: true, ..scene(policy.clone()) }, 1, asked, Comes::Surfaced).await;
        row(Scene { owner_network: true, ..scene(policy) }, 1, asked, Comes::Surfaced).await;
    }
}

#[tokio::test]
async fn external_and_full_access_are_never_sandboxed_here() {
    for profile in [ProfileKind::External, ProfileKind::FullAccess] {
        row(Scene { profile, ..scene(ApprovalPolicy::Never) }, 1, &[], Comes::Done).await;
    }
}

#[tokio::test]
async fn an_approved_escalation_starts_without_a_sandbox() {
    let escalated = Scene { escalate: true, ..scene(ApprovalPolicy::OnRequest) };
    row(escalated, 1, &["command"], Comes::Done).await;
}

#[tokio::test]
async fn an_escalation_is_no_way_around_what_may_not_be_read() {
    let escalated = Scene { escalate: true, deny_read: true, ..scene(ApprovalPolicy::OnRequest) };
    row(escalated, 1, &["command"], Comes::Surfaced).await;
}

#[tokio::test]
async fn an_escalation_is_forbidden_where_nobody_may_be_asked_about_it() {
    for policy in [ApprovalPolicy::Never, granular(false)] {
        let escalated = Scene { escalate: true, ..scene(policy) };
        row(escalated, 0, &[], Comes::Refused).await;
    }
}

#[tokio::test]
async fn what_a_rule_forbids_is_refused_and_nobody_is_asked() {
    let forbidden = Scene { rule: Some(RuleDecision::Forbidden), ..scene(ApprovalPolicy::OnRequest) };
    let stage = Stage::set(forbidden);
    let refused = stage.run(&stage.touch(), TO_THE_END).await.unwrap_err();
    assert!(matches!(refused, StartError::Forbidden(_)), "{refused:?}");
    assert_eq!(stage.told().await.spawns, 0);
}

#[tokio::test]
async fn a_declined_command_never_runs() {
    let declined = Scene { answer: Verdict::Decline, ..scene(ApprovalPolicy::UnlessTrusted) };
    row(declined, 0, &["command"], Comes::Refused).await;
}

#[tokio::test]
async fn a_late_denial_is_reported_and_nothing_is_started_again() {
    for policy in [ApprovalPolicy::UnlessTrusted, granular(true), ApprovalPolicy::Never] {
        let asked: &[&str] = if policy == ApprovalPolicy::UnlessTrusted { &["command"] } else { &[] };
        let late = Scene { early_window: Duration::from_millis(50), ..scene(policy) };
        let stage = Stage::set(late);
        let collected = stage.run(&format!("sleep 1; {}", stage.touch()), TO_THE_END).await.unwrap();
        let told = stage.told().await;
        assert_eq!((told.spawns, &told.asked[..]), (1, asked));
        let evidence = collected.result.evidence.expect("the denial is reported");
        assert!(!evidence.early);
        assert!(!stage.forbidden().exists());
    }
}

#[tokio::test]
async fn a_failure_of_its_own_is_no_denial() {
    for cmd in ["cat nowhere", "exit 7", "kill -9 $$", "echo sandbox seccomp landlock; exit 1"] {
        let stage = Stage::set(scene(granular(true)));
        let collected = stage.run(cmd, TO_THE_END).await.unwrap();
        let told = stage.told().await;
        assert_eq!((told.spawns, told.asked.len()), (1, 0), "{cmd}");
        assert_eq!(collected.result.evidence, None, "{cmd}");
    }
}
