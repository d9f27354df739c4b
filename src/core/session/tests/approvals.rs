//! Questions about starts: asked, answered, expired, withdrawn.

use super::asking::*;
use super::*;
use crate::core::approval::{Approval, Review, State as Stands, Verdict};
use crate::core::ids::ApprovalId;
use crate::core::limits::{Limits, QUESTIONS_OPEN_MAX};
use crate::core::policy::ApprovalPolicy;
use crate::core::process::EndReason;
use crate::core::session::*;

fn stands(bench: &mut Bench, approval: &ApprovalId) -> Approval {
    let call = bench.call(Call::Approval { approval: approval.clone() });
    match bench.answer(call) {
        Answer::Approval(Ok(approval)) => (**approval).clone(),
        other => panic!("{other:?}"),
    }
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
    assert_eq!(*bench.refusal(call), NotApproved::Declined { approval, text: "not today".into() });
    bench.assert_nothing_of(process);
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
    assert!(matches!(bench.refusal(first), NotApproved::TurnAborted { text, .. } if text == "stop"));
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
    assert_eq!(*bench.refusal(call), NotApproved::Expired { approval: bench.question().id.clone() });
    bench.assert_nothing_of(process);
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
    bench.assert_nothing_of(process);
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
    bench.assert_nothing_of(process);
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
        bench.assert_nothing_of(process);
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
        assert!(matches!(bench.refusal(call), NotApproved::Stale { .. }));
    }
    bench.assert_nothing_of(one);
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
