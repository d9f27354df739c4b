//! What a policy rejects, and under what an approved or trusted start runs.

use super::asking::*;
use super::bench::unmatched;
use super::*;
use crate::core::approval::Permissions;
use crate::core::orchestrate::Forbidden;
use crate::core::policy::{Additional, ApprovalPolicy, Granular, Profile, Rights, RuleDecision};
use crate::core::session::*;

#[test]
fn what_the_policy_rejects_is_forbidden_and_asks_nobody() {
    let mut bench = Bench::of(sandboxed(ApprovalPolicy::Never));
    let escalates = bench.exec(shell().asks_for(Permissions::Escalated));
    assert_eq!(*bench.start_error(escalates), StartError::Forbidden(Forbidden::Escalation));
    bench.assessment = ruled(RuleDecision::Prompt);
    let prompts = bench.exec(shell());
    assert!(matches!(bench.start_error(prompts), StartError::Forbidden(Forbidden::RulePrompt { .. })));
    bench.assessment = ruled(RuleDecision::Forbidden);
    let forbidden = bench.exec(shell());
    assert!(matches!(bench.start_error(forbidden), StartError::Forbidden(Forbidden::Rule { .. })));
    bench.assessment = unmatched();
    bench.assessment.segments[0].danger = Some("rm -rf".into());
    let dangerous = bench.exec(shell());
    assert!(matches!(bench.start_error(dangerous), StartError::Forbidden(Forbidden::Danger { .. })));
    assert_eq!((bench.questions().len(), bench.spawns(), bench.session.processes.len()), (0, 0, 0));
}

#[test]
fn a_granular_policy_rejects_by_kind() {
    let rights = |granular| sandboxed(ApprovalPolicy::Granular(granular));
    let mut bench = Bench::of(rights(Granular { rules: false, ..granular() }));
    bench.asked(shell().asks_for(Permissions::Escalated));
    bench.assessment = ruled(RuleDecision::Prompt);
    let prompts = bench.exec(shell());
    assert!(matches!(bench.start_error(prompts), StartError::Forbidden(Forbidden::RulePrompt { .. })));
    bench.rights(rights(Granular { sandbox_approval: false, ..granular() }));
    bench.asked(shell());
    bench.assessment = unmatched();
    let escalates = bench.exec(shell().asks_for(Permissions::Escalated));
    assert_eq!(*bench.start_error(escalates), StartError::Forbidden(Forbidden::Escalation));
}

#[test]
fn an_approved_escalation_runs_without_a_sandbox_and_a_trusted_line_does_unasked() {
    let mut bench = Bench::of(sandboxed(ApprovalPolicy::OnRequest));
    let (_, escalated) = bench.approved(shell().asks_for(Permissions::Escalated));
    assert_eq!(bench.sandbox(escalated), None);
    bench.assessment = ruled(RuleDecision::Allow);
    let (_, trusted) = bench.running(shell());
    assert_eq!((bench.sandbox(trusted), bench.questions().len()), (None, 1));
}

#[test]
fn paths_that_may_not_be_read_keep_every_sandbox() {
    let rights = sandboxed(ApprovalPolicy::OnRequest);
    let profile = Profile { deny_read: vec!["/secret".into()], ..rights.profile.clone() };
    let mut bench = Bench::of(Rights { profile: profile.clone(), ..rights });
    let (_, escalated) = bench.approved(shell().asks_for(Permissions::Escalated));
    assert_eq!(bench.sandbox(escalated), Some(profile.clone()));
    bench.assessment = ruled(RuleDecision::Allow);
    let (_, trusted) = bench.running(shell());
    assert_eq!(bench.sandbox(trusted), Some(profile));
    let read = Additional { read: vec!["/secret".into()], ..Additional::default() };
    let (_, excepted) = bench.approved(shell().asks_for(Permissions::Additional(read)));
    let sandbox = bench.sandbox(excepted).expect("an exception leaves a path, not the sandbox");
    assert!(sandbox.deny_read.is_empty());
}
