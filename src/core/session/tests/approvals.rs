//! Questions about starts: asked, answered, expired, withdrawn; and the grants that answers leave behind.

use super::asking::{granular, ruled, sandboxed, strict};
use super::bench::{input, unmatched};
use super::*;
use crate::core::approval::{Approval, Permissions, Review, State as Stands, Verdict};
use crate::core::ids::{ApprovalId, CallId};
use crate::core::limits::{Limits, QUESTIONS_OPEN_MAX};
use crate::core::orchestrate::Forbidden;
use crate::core::policy::{Additional, ApprovalPolicy, Granular, Profile, Rights, RuleDecision};
use crate::core::process::EndReason;
use crate::core::session::*;

/// Everything is asked about.
fn wary() -> Bench {
    Bench::of(sandboxed(ApprovalPolicy::UnlessTrusted))
}

fn refusal(bench: &Bench, call: CallId) -> &NotApproved {
    match bench.start_error(call) {
        StartError::NotApproved(why) => why,
        other => panic!("{other:?}"),
    }
}

fn stands(bench: &mut Bench, approval: &ApprovalId) -> Approval {
    let call = bench.call(Call::Approval { approval: approval.clone() });
    match bench.answer(call) {
        Answer::Approval(Ok(approval)) => (**approval).clone(),
        other => panic!("{other:?}"),
    }
}

fn grants(bench: &mut Bench) -> Vec<crate::core::approval::Grant> {
    let call = bench.call(Call::Grants);
    match bench.answer(call) {
        Answer::Grants(grants) => grants.clone(),
        other => panic!("{other:?}"),
    }
}

/// Nothing of the start is left.
fn assert_gone(bench: &mut Bench, process: crate::core::ids::ProcessId) {
    assert_eq!((bench.spawns(), bench.open(), bench.state(process)), (0, 0, None));
    assert!(bench.session.processes.is_empty() && bench.session.requests.is_empty());
    assert_eq!(bench.session.next_deadline(), None, "a timer is left behind");
}

#[test]
fn nothing_starts_before_it_is_approved_and_the_question_shows_all_there_is_to_judge() {
    let mut bench = wary();
    let mut exec = shell().turn("u").request("r", 1).tty();
    (exec.justification, exec.proposed_rule) = ("because".into(), vec!["sleep".into()]);
    let (call, process) = bench.asked(exec);
    let question = bench.question();
    assert_eq!((bench.spawns(), bench.state(process)), (0, Some(State::Asking)));
    assert_eq!(question.argv, ["sh", "-c", "sleep"]);
    assert_eq!(
        (question.cwd.as_str(), question.environment.as_str(), question.tty),
        ("/work", "local", true)
    );
    assert_eq!((question.turn.as_str(), question.request.as_ref().unwrap().as_str()), ("u", "r"));
    assert_eq!(
        (question.justification.as_str(), &question.proposed_rule[..]),
        ("because", &["sleep".to_owned()][..])
    );
    assert_eq!(question.profile, sandboxed(ApprovalPolicy::Never).profile);
    assert_eq!((question.policy_revision, question.expires_at), (1, Some(bench.now + ms(600_000))));
    assert!(matches!(bench.progress(call)[..], [Progress::Asking { .. }]), "nothing is collected yet");
    bench.approves();
    assert_eq!(bench.spawns(), 1);
    assert!(bench.sandbox(process).is_some(), "an approved start keeps its sandbox");
    bench.spawned(process);
    bench.finishes(process, 0);
    assert_eq!(bench.result(call).exit.unwrap().shell_code(), 0);
    assert_eq!(
        bench.feed()[..4],
        [
            "0 approval_requested no rule allows it",
            "0 approval_decided approved",
            "0 attempt_started 1",
            "0 process_started"
        ]
    );
}

#[test]
fn a_declined_start_leaves_nothing_and_tells_the_reviewers_words() {
    let mut bench = wary();
    let (call, process) = bench.asked(shell().request("r", 1));
    let approval = bench.question().id.clone();
    let decision = bench.decide_with(&approval, Verdict::Decline, "not today", &[]);
    assert!(matches!(
        bench.decided(decision).unwrap().state,
        Stands::Decided(ref decision) if decision.by == "alice" && decision.text == "not today"
    ));
    assert_eq!(*refusal(&bench, call), NotApproved::Declined { approval, text: "not today".into() });
    assert_gone(&mut bench, process);
    assert!(bench.told("start_refused").len() == 1);
}

#[test]
fn an_answer_may_end_the_turn() {
    let mut bench = wary();
    let (first, _) = bench.asked(shell());
    let (second, _) = bench.asked(shell());
    let (other, _) = bench.asked(shell().turn("u"));
    let approval = bench.questions()[0].id.clone();
    bench.decide_with(&approval, Verdict::AbortTurn, "stop", &[]);
    assert!(matches!(refusal(&bench, first), NotApproved::TurnAborted { text, .. } if text == "stop"));
    assert_eq!(*bench.start_error(second), StartError::Cancelled);
    assert!(bench.waits(other), "another turn goes on");
    assert_eq!((bench.spawns(), bench.open()), (0, 1));
}

#[test]
fn a_question_expires_exactly_when_it_says() {
    let mut bench = wary();
    let (call, process) = bench.asked(shell());
    bench.advance(599_999);
    assert!(bench.waits(call));
    bench.advance(1);
    assert_eq!(*refusal(&bench, call), NotApproved::Expired { approval: bench.question().id.clone() });
    assert_gone(&mut bench, process);
    assert_eq!(bench.told("approval_decided"), ["600000 approval_decided expired"]);
}

#[test]
fn a_question_that_never_expires_waits() {
    let limits = Limits { approval_expiry: None, ..Limits::default() };
    let mut bench = Bench::built(sandboxed(ApprovalPolicy::UnlessTrusted), limits, true);
    let (call, _) = bench.asked(shell());
    bench.advance(100_000_000);
    assert!(bench.waits(call) && bench.session.next_deadline().is_none());
}

#[test]
fn an_interrupt_withdraws_the_questions_of_its_turn() {
    let mut bench = wary();
    let (call, process) = bench.asked(shell());
    let report = bench.interrupt("t");
    assert_eq!((report.waits, report.withdrawn, report.alive), (1, 1, vec![]));
    assert_eq!(*bench.start_error(call), StartError::Cancelled);
    assert_gone(&mut bench, process);
    let late = bench.decide(&bench.question().id.clone(), Verdict::Approve);
    assert!(matches!(bench.decided(late), Err(DecideError::NotOpen { state, .. })
        if matches!(**state, Stands::Withdrawn { .. })));
    assert_eq!(bench.spawns(), 0);
}

#[test]
fn a_client_that_goes_away_takes_its_question_along_unless_a_repeat_waits() {
    let mut bench = wary();
    let (first, process) = bench.asked(shell().request("r", 1));
    let repeat = bench.exec(shell().request("r", 1));
    assert!(
        matches!(bench.progress(repeat)[..], [Progress::Asking { question }] if question.process == process),
        "a repeat hears of the question"
    );
    bench.drops(first);
    assert_eq!((bench.open(), bench.questions().len()), (1, 1));
    bench.drops(repeat);
    assert_gone(&mut bench, process);
    assert_eq!(bench.told("approval_decided"), ["0 approval_decided withdrawn"]);
}

#[test]
fn a_repeat_gets_the_answer_of_the_start_it_joined_and_one_after_a_refusal_asks_anew() {
    let mut bench = wary();
    let (first, _) = bench.asked(shell().request("r", 1));
    let repeat = bench.exec(shell().request("r", 1));
    let other = bench.exec(shell().request("r", 2));
    assert!(matches!(bench.start_error(other), StartError::RequestReused { .. }));
    bench.declines();
    assert_eq!(bench.start_error(first), bench.start_error(repeat));
    let (again, process) = bench.asked(shell().request("r", 1));
    bench.approves();
    bench.spawned(process);
    bench.finishes(process, 3);
    assert_eq!(bench.result(again).exit.unwrap().shell_code(), 3);
}

#[test]
fn clean_terminate_and_close_end_a_start_that_is_asked_about() {
    let endings: [fn(crate::core::ids::ProcessId) -> Call; 3] = [
        |_| Call::Clean,
        |process| Call::Terminate { process },
        |_| Call::Close { reason: EndReason::SessionClosed },
    ];
    for ending in endings {
        let mut bench = wary();
        let (call, process) = bench.asked(shell());
        let end = bench.call(ending(process));
        assert_eq!(*bench.start_error(call), StartError::Cancelled);
        assert_eq!(bench.report(end).ended, [(process, None)]);
        assert_gone(&mut bench, process);
        assert_eq!(bench.told("approval_decided").len(), 1);
        assert!(bench.blows(process).is_empty(), "there was nobody to signal");
    }
}

#[test]
fn a_change_of_policy_makes_every_open_question_stale() {
    let mut bench = wary();
    let (first, one) = bench.asked(shell());
    let (second, _) = bench.asked(shell().turn("u"));
    bench.rights(sandboxed(ApprovalPolicy::OnRequest));
    for call in [first, second] {
        assert!(matches!(refusal(&bench, call), NotApproved::Stale { .. }));
    }
    assert_gone(&mut bench, one);
    let (third, _) = bench.running(shell());
    assert!(bench.waits(third), "under the new policy nobody is asked");
}

#[test]
fn an_answer_that_is_second_late_or_for_nothing_is_refused_and_changes_nothing() {
    let mut bench = wary();
    let (_, process) = bench.asked(shell());
    let approval = bench.question().id.clone();
    bench.approves();
    let before = bench.feed();
    let second = bench.decide(&approval, Verdict::Decline);
    assert!(matches!(bench.decided(second), Err(DecideError::NotOpen { state, .. })
        if matches!(**state, Stands::Decided(_))));
    let unknown = bench.decide(&ApprovalId::new("nothing"), Verdict::Approve);
    assert!(matches!(bench.decided(unknown), Err(DecideError::Unknown { .. })));
    bench.event(Event::Reviewed { approval, review: Review::Deny { text: String::new() } });
    assert_eq!((bench.feed(), bench.spawns()), (before, 1));
    assert_eq!(bench.state(process), Some(State::Starting));
}

#[test]
fn too_many_open_questions_refuse_the_next_start() {
    let mut bench = wary();
    for _ in 0..QUESTIONS_OPEN_MAX {
        bench.asked(shell());
    }
    let refused = bench.exec(shell());
    assert_eq!(*bench.start_error(refused), StartError::TooManyQuestions { limit: QUESTIONS_OPEN_MAX });
    assert_eq!(bench.session.processes.len(), QUESTIONS_OPEN_MAX);
    bench.declines();
    bench.asked(shell());
}

// Grants.

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
fn a_rule_that_is_added_too_late_starts_nothing() {
    let mut bench = wary();
    let (_, process) = bench.asked(shell());
    let approval = bench.question().id.clone();
    let adding = bench.decide_with(&approval, Verdict::ApproveAndAddRule, "", &["sleep"]);
    bench.interrupt("t");
    bench.event(Event::RuleAdded { call: adding, result: Ok(()) });
    assert!(matches!(bench.decided(adding), Err(DecideError::NotOpen { .. })));
    assert_gone(&mut bench, process);
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
    assert!(matches!(refusal(&bench, denied), NotApproved::Declined { text, .. } if text == "no"));
    let (failed, _) = bench.asked(shell());
    bench.reviews(Review::Failed { cause: "timeout".into() });
    assert!(matches!(refusal(&bench, failed), NotApproved::ReviewFailed { cause, .. } if cause == "timeout"));
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
    assert!(matches!(refusal(&bench, call), NotApproved::Declined { .. }));
    assert_gone(&mut bench, process);
}

#[test]
fn what_a_reviewer_leaves_to_a_person_is_declined_where_a_person_may_not_be_asked_about_such() {
    let rights = |granular| strict(sandboxed(ApprovalPolicy::Granular(granular)));
    let mut bench = Bench::of(rights(Granular { sandbox_approval: false, ..granular() }));
    let (call, _) = bench.asked(shell());
    bench.reviews(Review::AskPerson);
    assert!(matches!(refusal(&bench, call), NotApproved::Declined { .. }));
    let mut bench = Bench::of(rights(Granular { stdin: false, ..granular() }));
    let (_, process) = bench.asked(shell().stdin());
    bench.reviews(Review::AskPerson);
    bench.approves();
    bench.spawned(process);
    let write = bench.write(input(process, "a"));
    bench.reviews(Review::AskPerson);
    assert!(matches!(bench.write_error(write), WriteError::NotApproved(NotApproved::Declined { .. })));
}

// Policy.

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

// Time and room.

#[test]
fn yield_deadlines_stand_still_while_a_question_is_open_and_then_go_on_exactly() {
    let mut bench = Bench::of(sandboxed(ApprovalPolicy::OnRequest));
    let (running, _) = bench.running(shell().yields(1_000));
    bench.advance(400);
    bench.asked(shell().asks_for(Permissions::Escalated));
    bench.advance(5_000);
    assert!(bench.waits(running));
    bench.declines();
    bench.advance(599);
    assert!(bench.waits(running));
    bench.advance(1);
    let result = bench.result(running);
    assert_eq!((result.end, result.paused, result.wall_time), (WaitEnd::Yielded, ms(5_000), ms(6_000)));
}

#[test]
fn two_questions_and_a_lease_hold_deadlines_until_the_last_of_them_is_gone() {
    let mut bench = Bench::of(sandboxed(ApprovalPolicy::OnRequest));
    let (running, _) = bench.running(shell().yields(1_000));
    bench.asked(shell().asks_for(Permissions::Escalated));
    bench.asked(shell().asks_for(Permissions::Escalated));
    bench.hold("l", 10_000);
    bench.advance(2_000);
    bench.declines();
    bench.advance(2_000);
    let first = bench.questions()[0].id.clone();
    bench.decide(&first, Verdict::Decline);
    bench.advance(5_999);
    assert!(bench.waits(running));
    bench.advance(1_000);
    assert!(bench.waits(running));
    bench.advance(1);
    assert_eq!(bench.result(running).paused, ms(10_000));
}

#[test]
fn an_open_question_holds_no_bound_on_a_life() {
    let mut bench = Bench::of(sandboxed(ApprovalPolicy::OnRequest));
    let (_, one_shot) = bench.running(shell().one_shot(Some(2_000)));
    let hard = Timeouts { hard: Some(ms(3_000)), ..Timeouts::default() };
    let (_, bounded) = bench.running(shell().timeouts(hard));
    let silent = Timeouts { no_output: Some(ms(1_000)), ..Timeouts::default() };
    let (_, quiet) = bench.running(shell().timeouts(silent));
    bench.asked(shell().asks_for(Permissions::Escalated));
    bench.advance(3_000);
    assert_eq!(bench.blows(one_shot), ["2000 TERM Tree", "3000 KILL"]);
    assert_eq!(bench.blows(bounded), ["3000 TERM Tree"]);
    assert_eq!(bench.blows(quiet)[..2], ["1000 TERM Tree", "2000 KILL"]);
}

#[test]
fn a_start_waits_its_whole_yield_after_its_own_question() {
    let mut bench = wary();
    let (call, process) = bench.asked(shell().yields(1_000));
    bench.advance(9_000);
    bench.approves();
    bench.advance(500);
    bench.spawned(process);
    bench.advance(999);
    assert!(bench.waits(call));
    bench.advance(1);
    assert_eq!(
        (bench.result(call).end, bench.result(call).live_process()),
        (WaitEnd::Yielded, Some(process))
    );
}

#[test]
fn a_start_that_asks_takes_no_slot_and_may_find_none_when_it_is_approved() {
    let limits =
        Limits { processes_max: 1, when_full: crate::core::limits::WhenFull::Reject, ..Limits::default() };
    let mut bench = Bench::built(sandboxed(ApprovalPolicy::UnlessTrusted), limits, true);
    let (asking, _) = bench.asked(shell());
    bench.assessment = ruled(RuleDecision::Allow);
    let (_, running) = bench.running(shell());
    assert_eq!(bench.state(running), Some(State::Running), "the one that asks is in nobody's way");
    bench.approves();
    assert_eq!(*bench.start_error(asking), StartError::TableFull { limit: 1 });
    assert_eq!((bench.session.processes.len(), bench.spawns()), (1, 1));
}

#[test]
fn input_and_signals_find_nothing_before_an_answer() {
    let mut bench = wary();
    let (_, process) = bench.asked(shell().stdin());
    let write = bench.write(input(process, "x"));
    assert_eq!(*bench.write_error(write), WriteError::NotStarted { process });
    let signal = bench.call(super::bench::signal(
        process,
        crate::core::signal::Signal::INT,
        crate::core::signal::Scope::Tree,
    ));
    assert!(matches!(bench.answer(signal), Answer::Control(Err(ControlError::Starting { .. }))));
    let poll = bench.poll(process);
    bench.declines();
    assert!(matches!(bench.write_error(poll), WriteError::Target(TargetError::Unknown { .. })));
}

#[test]
fn what_is_looked_up_when_an_interrupt_comes_starts_nothing() {
    let mut bench = wary();
    bench.slow_host = true;
    let call = bench.exec(shell());
    bench.interrupt("t");
    assert_eq!(*bench.start_error(call), StartError::Cancelled);
    let process = bench.effects.iter().find_map(|(_, effect)| match effect {
        Effect::Assess { process, .. } => Some(*process),
        _ => None,
    });
    let process = process.unwrap();
    bench.event(Event::Assessed { process, assessment: ruled(RuleDecision::Allow) });
    assert_gone(&mut bench, process);
}

#[test]
fn questions_are_listed_open_or_all() {
    let mut bench = wary();
    bench.asked(shell());
    bench.declines();
    bench.asked(shell());
    let listed = |bench: &mut Bench, include_closed| {
        let call = bench.call(Call::Approvals { include_closed });
        match bench.answer(call) {
            Answer::Approvals(approvals) => approvals.len(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((listed(&mut bench, false), listed(&mut bench, true)), (1, 2));
    let first = bench.questions()[0].id.clone();
    assert!(matches!(stands(&mut bench, &first).state, Stands::Decided(_)));
}
