//! Denied attempts: what is evidence and when, and what ends while a second one is decided on.

use super::asking::*;
use super::*;
use crate::core::approval::{Permissions, Review, Subject, Verdict};
use crate::core::ids::{AttemptNumber, CallId, ProcessId};
use crate::core::limits::Limits;
use crate::core::policy::{ApprovalPolicy, Confinement};
use crate::core::process::{Confidence, EndReason, ExitStatus};
use crate::core::session::*;
use crate::core::signal::Signal;

/// A first attempt runs unasked; a second one is asked about.
fn asks_to_retry() -> Bench {
    Bench::of(sandboxed(ApprovalPolicy::Granular(granular())))
}

/// A denied first attempt, with the question about a second open.
fn denied(bench: &mut Bench, exec: Exec) -> (CallId, ProcessId) {
    let (call, process) = bench.running(exec);
    bench.is_denied(process);
    bench.tree_gone(process);
    assert!(matches!(bench.question().subject, Subject::Retry { .. }));
    (call, process)
}

#[test]
fn a_denied_start_that_was_approved_is_retried_once_without_a_sandbox_and_without_a_question() {
    let mut bench = retries_silently();
    let (call, process) = bench.approved(shell());
    bench.output(process, 5);
    bench.advance(80);
    bench.dies_of(process, Signal::SYS);
    bench.closed(process, 5);
    assert_eq!((bench.spawns(), bench.questions().len(), bench.sandbox(process)), (2, 1, None));
    bench.spawned(process);
    bench.output(process, 7);
    bench.exited(process, 0);
    bench.closed(process, 7);
    let result = bench.result(call);
    assert_eq!((result.attempt, result.from, result.next), (AttemptNumber::SECOND, 0, 7));
    assert_eq!((result.exit.unwrap().shell_code(), result.evidence.is_none()), (0, true));
    let [first, second] = &result.attempts[..] else { panic!("{result:?}") };
    assert!(first.evidence.as_ref().is_some_and(|evidence| evidence.early) && first.output_end == 5);
    assert_eq!(second.confinement, Confinement::Bypassed);
    let feed: Vec<String> = bench.feed()[2..].to_vec();
    assert_eq!(
        feed,
        [
            "0 attempt_started 1",
            "0 process_started",
            "0 output 0..5",
            "80 outputs_closed 5",
            "80 attempt_denied",
            "80 attempt_started 2",
            "80 output 0..7",
            "80 process_exited 0 Exited",
            "80 outputs_closed 7",
        ]
    );
}

#[test]
fn a_denied_start_that_nobody_approved_is_asked_about() {
    let mut bench = asks_to_retry();
    let (call, process) = denied(&mut bench, shell());
    let question = bench.question();
    assert!(
        matches!(&question.subject, Subject::Retry { evidence } if evidence.confidence == Confidence::Certain)
    );
    assert_eq!(question.permissions, Permissions::Escalated);
    assert!(!question.allowed.contains(&Verdict::ApproveForSession), "it is about one moment");
    assert_eq!(bench.state(process), Some(State::Asking));
    assert!(matches!(bench.progress(call).last(), Some(Progress::Asking { .. })));
    bench.approves();
    assert_eq!((bench.spawns(), bench.sandbox(process)), (2, None));
    bench.spawned(process);
    bench.finishes(process, 4);
    assert_eq!(bench.result(call).exit.unwrap().shell_code(), 4);
    for (event, times) in
        [("process_started", 1), ("attempt_started", 2), ("attempt_denied", 1), ("process_exited", 1)]
    {
        assert_eq!(bench.told(event).len(), times, "{event}");
    }
}

#[test]
fn an_answer_that_is_no_surfaces_the_denial() {
    let ends: [fn(&mut Bench); 5] = [
        Bench::declines,
        |bench| bench.answers_with(Verdict::AbortTurn),
        |bench| bench.advance(600_000),
        |bench| bench.reviews(Review::Deny { text: String::new() }),
        |bench| bench.reviews(Review::Failed { cause: "crashed".into() }),
    ];
    for end in ends {
        let mut bench = asks_to_retry();
        let (call, _) = denied(&mut bench, shell());
        end(&mut bench);
        assert_surfaced(&bench, call);
    }
}

#[test]
fn whatever_ends_the_call_the_process_or_the_policy_surfaces_the_denial() {
    let ends: [fn(&mut Bench, ProcessId); 7] = [
        |bench, _| drop(bench.interrupt("t")),
        |bench, _| {
            bench.clean();
        },
        |bench, process| {
            bench.terminate(process);
        },
        |bench, _| bench.rights(sandboxed(ApprovalPolicy::UnlessTrusted)),
        |bench, _| bench.event(Event::OwnerNetwork { rules: Some(Vec::new()) }),
        |bench, _| bench.rights(sandboxed(ApprovalPolicy::Never)),
        |bench, _| {
            bench.call(Call::Close { reason: EndReason::SessionClosed });
        },
    ];
    for end in ends {
        let mut bench = asks_to_retry();
        let (call, process) = denied(&mut bench, shell());
        end(&mut bench, process);
        assert_surfaced(&bench, call);
        assert_eq!(bench.open(), 0);
        assert!(bench.blows(process).is_empty(), "nothing of it was left to signal");
    }
}

#[test]
fn whoever_ends_a_process_that_is_asked_about_also_means_what_its_attempt_left_behind() {
    let mut bench = asks_to_retry();
    let (call, process) = bench.running(shell());
    bench.is_denied(process);
    let end = bench.terminate(process);
    assert_surfaced(&bench, call);
    assert_eq!(bench.blows(process), ["0 TERM Tree"]);
    assert!(bench.waits(end));
    bench.tree_gone(process);
    assert_eq!(bench.report(end).ended.len(), 1);
}

#[test]
fn a_one_shot_that_runs_out_of_time_while_it_is_asked_about_is_not_tried_again() {
    let mut bench = asks_to_retry();
    let (call, process) = bench.running(shell().one_shot(Some(2_000)));
    bench.is_denied(process);
    bench.advance(2_000);
    assert_surfaced(&bench, call);
    assert_eq!(bench.blows(process), ["2000 TERM Tree"], "descendants may live");
}

#[test]
fn a_one_shot_that_runs_out_of_time_while_it_is_judged_is_not_tried_again() {
    let mut bench = retries_silently();
    let (call, process) = bench.approved(shell().one_shot(Some(100)));
    bench.advance(99);
    bench.dies_of(process, Signal::SYS);
    bench.tree_gone(process);
    bench.advance(20);
    assert_eq!(bench.spawns(), 1);
    bench.advance(50);
    assert_eq!(bench.result(call).exit.unwrap().reason, EndReason::Signalled, "it had ended before");
    assert!(bench.blows(process).is_empty());
}

#[test]
fn a_second_attempt_has_what_is_left_of_its_life() {
    let mut bench = retries_silently();
    let (call, process) = bench.approved(shell().one_shot(Some(1_000)));
    bench.advance(100);
    bench.is_denied(process);
    bench.tree_gone_of(process, AttemptNumber::FIRST);
    bench.advance(300);
    bench.spawned(process);
    bench.advance(600);
    assert_eq!(
        bench.blows(process),
        ["100 KILL", "1000 TERM Tree"],
        "the first attempt's rest, then the second"
    );
    bench.vanishes(process, Signal::TERM);
    let exit = bench.result(call).exit.unwrap();
    assert_eq!((exit.shell_code(), bench.spawns()), (124, 2));
}

// When.

#[test]
fn an_exit_at_150_ms_is_early_and_one_at_151_is_late() {
    for (at, spawns) in [(149, 2), (150, 2), (151, 1)] {
        let mut bench = retries_silently();
        let (call, process) = bench.approved(shell());
        bench.advance(160);
        let status = ExitStatus::Signal { number: Signal::SYS.number(), core_dumped: false };
        let reaped = crate::core::time::Instant::from_millis(at);
        bench.ends(process, status, reaped);
        bench.closed(process, 0);
        assert_eq!(bench.spawns(), spawns, "the reaper's time counts: {at} ms");
        if spawns == 1 {
            let evidence = bench.result(call).evidence.clone().unwrap();
            assert!(!evidence.early && bench.result(call).live_process().is_none());
            assert_eq!(bench.told("attempt_denied").len(), 0);
        }
    }
}

#[test]
fn trailing_output_is_waited_for_20_ms_and_not_longer() {
    let mut bench = retries_silently();
    let (_, process) = bench.approved(shell());
    bench.advance(10);
    bench.dies_of(process, Signal::SYS);
    bench.advance(19);
    assert_eq!(bench.spawns(), 1);
    bench.advance(1);
    assert_eq!(bench.spawns(), 2);
}

#[test]
fn a_success_and_an_end_without_a_sandbox_are_not_judged() {
    let mut bench = retries_silently();
    let (call, process) = bench.approved(shell());
    bench.exited(process, 0);
    assert_eq!(bench.state(process), Some(State::Draining), "nothing is waited for");
    bench.closed(process, 0);
    assert!(bench.result(call).evidence.is_none());
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell());
    bench.is_denied(process);
    assert!(bench.result(call).evidence.is_none());
    assert_eq!(bench.spawns(), 1);
}

#[test]
fn a_death_by_our_hand_is_no_evidence() {
    let mut bench = retries_silently();
    let (call, process) = bench.approved(shell());
    bench.terminate(process);
    bench.advance(5);
    bench.vanishes(process, Signal::SYS);
    let result = bench.result(call);
    assert_eq!((result.evidence.is_none(), result.exit.unwrap().reason), (true, EndReason::Terminated));
    assert_eq!((bench.spawns(), bench.state(process)), (1, Some(State::Ended)));
}

#[test]
fn a_failure_that_is_no_denial_is_the_result() {
    let mut bench = retries_silently();
    let (call, process) = bench.approved(shell());
    bench.finishes(process, 2);
    assert_eq!((bench.result(call).exit.unwrap().shell_code(), bench.spawns()), (2, 1));
}

#[test]
fn a_late_denial_is_told_with_its_evidence_and_nothing_starts_again() {
    let mut bench = asks_to_retry();
    let process = bench.background(shell());
    let poll = bench.poll(process);
    bench.advance(1_000);
    bench.is_denied(process);
    let result = bench.result(poll);
    assert!(result.evidence.as_ref().is_some_and(|evidence| !evidence.early));
    assert_eq!((result.live_process(), bench.spawns(), bench.questions().len()), (None, 1, 0));
}

#[test]
fn a_question_about_a_retry_holds_the_slot_of_its_process() {
    let limits =
        Limits { processes_max: 1, when_full: crate::core::limits::WhenFull::Reject, ..Limits::default() };
    let rights = sandboxed(ApprovalPolicy::Granular(granular()));
    let mut bench = Bench::built(rights, limits, true);
    denied(&mut bench, shell());
    let refused = bench.exec(shell());
    assert_eq!(*bench.start_error(refused), StartError::TableFull { limit: 1 });
}
