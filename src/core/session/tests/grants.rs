//! What answers leave behind: grants and rules; and the automatic reviewer.

use super::asking::*;
use super::bench::{input, unmatched};
use super::*;
use crate::core::approval::{Permissions, Review, State as Stands, Verdict};
use crate::core::policy::{Additional, ApprovalPolicy, Granular, RuleDecision};
use crate::core::session::*;

fn grants(bench: &mut Bench) -> Vec<crate::core::approval::Grant> {
    let call = bench.call(Call::Grants);
    match bench.answer(call) {
        Answer::Grants(grants) => grants.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_approval_for_the_session_spares_the_next_equal_question_and_counts_as_approved() {
    let mut bench = wary();
    let (_, process) = bench.asked(shell());
    bench.answers_with(Verdict::ApproveForSession);
    bench.spawned(process);
    bench.finishes(process, 0);
    let (_, second) = bench.running(shell());
    assert_eq!((bench.questions().len(), bench.spawns()), (1, 2));
    bench.is_denied(second);
    assert_eq!((bench.questions().len(), bench.spawns()), (1, 3), "the retry is silent");
    let grants = grants(&mut bench);
    assert_eq!((grants.len(), grants[0].uses, grants[0].by.as_str()), (1, 1, "alice"));
}

#[test]
fn another_place_terminal_rule_set_or_permission_is_not_granted() {
    let mut bench = wary();
    bench.asked(shell());
    bench.answers_with(Verdict::ApproveForSession);
    let mut elsewhere = shell();
    elsewhere.command.cwd = Some("/tmp".into());
    bench.asked(elsewhere);
    bench.asked(shell().tty());
    bench.asked(shell().asks_for(Permissions::Escalated));
    let more = Additional { write: vec!["/x".into()], ..Additional::default() };
    bench.asked(shell().asks_for(Permissions::Additional(more)));
    bench.assessment.fingerprint = "r2".into();
    bench.asked(shell());
    bench.assessment = crate::core::policy::Assessment { canonical: vec!["other".into()], ..unmatched() };
    bench.asked(shell());
    bench.assessment = unmatched();
    let spared = bench.exec(shell());
    assert!(bench.waits(spared));
    assert_eq!((bench.spawns(), bench.questions().len()), (2, 7));
}

#[test]
fn an_approval_for_once_grants_nothing_and_a_revoked_grant_no_more() {
    let mut bench = wary();
    bench.asked(shell());
    bench.approves();
    bench.asked(shell());
    bench.answers_with(Verdict::ApproveForSession);
    let id = grants(&mut bench)[0].id.clone();
    let revoked = bench.call(Call::Revoke { grant: id.clone() });
    assert!(matches!(bench.answer(revoked), Answer::Revoked(Some(_))));
    let again = bench.call(Call::Revoke { grant: id });
    assert!(matches!(bench.answer(again), Answer::Revoked(None)));
    bench.asked(shell());
}

#[test]
fn strict_review_looks_at_what_was_granted_and_at_what_needs_no_answer() {
    let mut bench = wary();
    bench.asked(shell());
    bench.answers_with(Verdict::ApproveForSession);
    bench.rights(strict(sandboxed(ApprovalPolicy::UnlessTrusted)));
    bench.asked(shell());
    bench.assessment = ruled(RuleDecision::Allow);
    bench.asked(shell());
    assert!(bench.question().strict, "no policy but strict review wanted it");
}

#[test]
fn an_approval_with_a_rule_waits_for_the_rule_and_stays_open_if_it_fails() {
    let mut bench = wary();
    let (call, process) = bench.asked(shell());
    let approval = bench.question().id.clone();
    let empty = bench.decide(&approval, Verdict::ApproveAndAddRule);
    assert!(matches!(bench.decided(empty), Err(DecideError::RuleEmpty)));
    let first = bench.decide_with(&approval, Verdict::ApproveAndAddRule, "", &["sleep"]);
    assert!(bench.waits(first) && bench.spawns() == 0);
    bench.event(Event::RuleAdded { call: first, result: Err("disk full".into()) });
    assert_eq!(bench.decided(first), Err(&DecideError::Rule { reason: "disk full".into() }));
    assert_eq!((bench.open(), bench.spawns()), (1, 0));
    let second = bench.decide_with(&approval, Verdict::ApproveAndAddRule, "", &["sleep"]);
    bench.event(Event::RuleAdded { call: second, result: Ok(()) });
    assert!(
        matches!(&bench.decided(second).unwrap().state, Stands::Decided(decision) if decision.rule == ["sleep"])
    );
    assert_eq!(bench.spawns(), 1);
    bench.spawned(process);
    assert!(bench.waits(call));
    assert!(grants(&mut bench).is_empty(), "the rule is what is kept");
}

#[test]
fn while_the_rule_of_an_answer_is_added_no_other_answer_counts() {
    let mut bench = wary();
    bench.asked(shell());
    let approval = bench.question().id.clone();
    let first = bench.decide_with(&approval, Verdict::ApproveAndAddRule, "", &["sleep"]);
    for verdict in [Verdict::ApproveAndAddRule, Verdict::Approve, Verdict::Decline] {
        let second = bench.decide_with(&approval, verdict, "", &["other"]);
        assert_eq!(bench.decided(second), Err(&DecideError::Deciding { approval: approval.clone() }));
    }
    let asked_for = bench.effects.iter().filter(|(_, effect)| matches!(effect, Effect::AllowRule { .. }));
    assert_eq!((asked_for.count(), bench.spawns()), (1, 0));
    bench.event(Event::RuleAdded { call: first, result: Ok(()) });
    assert!(bench.decided(first).is_ok());
    assert_eq!(bench.spawns(), 1);
}

#[test]
fn a_rule_that_is_added_too_late_starts_nothing() {
    let mut bench = wary();
    let (_, process) = bench.asked(shell());
    let approval = bench.question().id.clone();
    let adding = bench.decide_with(&approval, Verdict::ApproveAndAddRule, "", &["sleep"]);
    bench.interrupt("t");
    bench.event(Event::RuleAdded { call: adding, result: Ok(()) });
    assert!(matches!(bench.decided(adding), Err(DecideError::NotOpen { .. })));
    bench.assert_nothing_of(process);
}

// The automatic reviewer.

#[test]
fn the_automatic_reviewer_allows_denies_fails_or_leaves_it_to_a_person() {
    let mut bench = wary();
    bench.asked(shell());
    bench.reviews(Review::Allow { text: String::new() });
    assert_eq!(bench.spawns(), 1);
    let (denied, _) = bench.asked(shell());
    bench.reviews(Review::Deny { text: "no".into() });
    assert!(matches!(bench.refusal(denied), NotApproved::Declined { text, .. } if text == "no"));
    let (failed, _) = bench.asked(shell());
    bench.reviews(Review::Failed { cause: "timeout".into() });
    assert!(matches!(bench.refusal(failed), NotApproved::ReviewFailed { cause, .. } if cause == "timeout"));
    let (asked, _) = bench.asked(shell());
    bench.reviews(Review::AskPerson);
    assert!(bench.waits(asked) && bench.open() == 1);
    bench.approves();
    assert_eq!(bench.spawns(), 2);
}

#[test]
fn what_a_reviewer_leaves_to_a_person_is_declined_where_no_person_may_be_asked() {
    let mut bench = Bench::of(strict(sandboxed(ApprovalPolicy::Never)));
    let (call, process) = bench.asked(shell());
    bench.reviews(Review::AskPerson);
    assert!(matches!(bench.refusal(call), NotApproved::Declined { .. }));
    bench.assert_nothing_of(process);
}

#[test]
fn what_a_reviewer_leaves_to_a_person_is_declined_where_a_person_may_not_be_asked_about_such() {
    let rights = |granular| strict(sandboxed(ApprovalPolicy::Granular(granular)));
    let mut bench = Bench::of(rights(Granular { sandbox_approval: false, ..granular() }));
    let (call, _) = bench.asked(shell());
    bench.reviews(Review::AskPerson);
    assert!(matches!(bench.refusal(call), NotApproved::Declined { .. }));
    let mut bench = Bench::of(rights(Granular { stdin: false, ..granular() }));
    let (_, process) = bench.asked(shell().stdin());
    bench.reviews(Review::AskPerson);
    bench.approves();
    bench.spawned(process);
    let write = bench.write(input(process, "a"));
    bench.reviews(Review::AskPerson);
    assert!(matches!(bench.write_error(write), WriteError::NotApproved(NotApproved::Declined { .. })));
}
