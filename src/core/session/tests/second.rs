//! Second attempts: who gets one, and what becomes of it.

use super::asking::*;
use super::bench::input;
use super::*;
use crate::core::approval::{Permissions, Review, Subject, Verdict};
use crate::core::ids::{AttemptNumber, CallId, ProcessId};
use crate::core::limits::Limits;
use crate::core::policy::{Additional, ApprovalPolicy, Profile, Rights};
use crate::core::process::Confidence;
use crate::core::session::*;
use crate::core::signal::Signal;

#[test]
fn under_never_and_on_request_a_denial_is_surfaced_unasked() {
    for policy in [ApprovalPolicy::Never, ApprovalPolicy::OnRequest] {
        let mut bench = Bench::of(sandboxed(policy));
        let (call, process) = bench.running(shell());
        bench.is_denied(process);
        assert_surfaced(&bench, call);
        assert_eq!(bench.questions().len(), 0);
    }
}

#[test]
fn with_paths_that_may_not_be_read_or_an_owners_network_a_denial_is_surfaced() {
    let rights = sandboxed(ApprovalPolicy::UnlessTrusted);
    let profile = Profile { deny_read: vec!["/secret".into()], ..rights.profile.clone() };
    let mut bench = Bench::of(Rights { profile, ..rights.clone() });
    let (call, process) = bench.approved(shell());
    bench.is_denied(process);
    assert_surfaced(&bench, call);
    let mut bench = Bench::of(rights);
    let (call, process) = bench.approved(shell());
    bench.event(Event::OwnerNetwork { rules: Some(Vec::new()) });
    bench.is_denied(process);
    assert_surfaced(&bench, call);
}

#[test]
fn strict_review_looks_afresh_at_a_retry_of_what_was_approved() {
    let mut bench = Bench::of(strict(sandboxed(ApprovalPolicy::UnlessTrusted)));
    let (_, process) = bench.asked(shell());
    bench.reviews(Review::Allow { text: String::new() });
    bench.spawned(process);
    bench.is_denied(process);
    assert_eq!((bench.questions().len(), bench.spawns()), (2, 1));
    assert!(bench.question().strict);
    bench.reviews(Review::Allow { text: String::new() });
    assert_eq!(bench.spawns(), 2);
}

#[test]
fn evidence_as_sure_as_the_session_wants_leads_to_the_gates() {
    let limits = Limits { min_confidence: Confidence::Certain, ..Limits::default() };
    let mut bench = Bench::built(sandboxed(ApprovalPolicy::UnlessTrusted), limits, true);
    let (_, process) = bench.approved(shell());
    bench.is_denied(process);
    assert_eq!(bench.spawns(), 2, "a wait status is certain");
}

#[test]
fn nobody_who_waits_no_longer_gets_a_second_attempt() {
    let ends: [fn(&mut Bench, CallId); 2] =
        [|bench, _| drop(bench.interrupt("t")), |bench, call| bench.drops(call)];
    for end in ends {
        let mut bench = retries_silently();
        let (call, process) = bench.approved(shell());
        bench.advance(10);
        end(&mut bench, call);
        assert_eq!(bench.state(process), Some(State::Running), "it survives the call");
        bench.is_denied(process);
        bench.tree_gone(process);
        assert_eq!((bench.spawns(), bench.state(process)), (1, Some(State::Ended)));
        assert!(bench.view(process).unwrap().attempts[0].evidence.is_some());
    }
}

#[test]
fn an_interrupted_start_tells_of_its_survivor() {
    let mut bench = retries_silently();
    let (call, process) = bench.approved(shell());
    let report = bench.interrupt("t");
    assert_eq!(report.alive, [process]);
    assert_eq!(
        (bench.result(call).end, bench.result(call).live_process()),
        (WaitEnd::Interrupted, Some(process))
    );
}

#[test]
fn an_interrupt_while_the_end_is_judged_stops_a_second_attempt() {
    let mut bench = retries_silently();
    let (call, process) = bench.approved(shell());
    bench.dies_of(process, Signal::SYS);
    bench.interrupt("t");
    bench.advance(70);
    assert_eq!((bench.result(call).end, bench.spawns()), (WaitEnd::Exited, 1));
}

#[test]
fn a_start_that_was_answered_gets_no_second_attempt_and_one_that_is_being_judged_does() {
    let limits = Limits { early_window: ms(20_000), ..Limits::default() };
    let mut bench = Bench::built(sandboxed(ApprovalPolicy::UnlessTrusted), limits, true);
    let (call, process) = bench.approved(shell().yields(1_000));
    bench.advance(1_000);
    assert_eq!(bench.result(call).end, WaitEnd::Yielded);
    bench.is_denied(process);
    assert_eq!(bench.spawns(), 1);
    let (call, process) = bench.approved(shell().yields(1_000));
    bench.advance(990);
    bench.dies_of(process, Signal::SYS);
    bench.advance(60);
    assert_eq!((bench.waits(call), bench.spawns()), (true, 3));
    bench.spawned(process);
    bench.advance(1_000);
    assert_eq!(
        (bench.result(call).end, bench.result(call).live_process()),
        (WaitEnd::Yielded, Some(process))
    );
}

#[test]
fn a_poll_whose_time_is_over_while_an_end_is_judged_is_answered_though_another_attempt_follows() {
    let limits = Limits { early_window: ms(20_000), ..Limits::default() };
    let mut bench = Bench::built(sandboxed(ApprovalPolicy::UnlessTrusted), limits, true);
    let (_, process) = bench.approved(shell().yields(30_000));
    let poll = bench.poll(process);
    bench.advance(4_990);
    bench.dies_of(process, Signal::SYS);
    bench.advance(20);
    assert_eq!(bench.spawns(), 2);
    bench.spawned(process);
    bench.advance(20);
    assert_eq!(bench.result(poll).live_process(), Some(process));
}

#[test]
fn a_poll_that_is_interrupted_while_an_end_is_judged_is_told_what_that_comes_to() {
    let mut bench = Bench::built(sandboxed(ApprovalPolicy::Never), Limits::default(), true);
    let (_, process) = bench.running(shell().yields(250));
    bench.advance(1_000);
    let poll = bench.poll(process);
    bench.dies_of(process, Signal::SYS);
    bench.interrupt("t");
    bench.advance(70);
    assert_eq!((bench.result(poll).end, bench.result(poll).live_process()), (WaitEnd::Exited, None));

    let mut bench = retries_silently();
    let (_, process) = bench.approved(shell().turn("first"));
    let poll = bench.poll(process);
    bench.dies_of(process, Signal::SYS);
    bench.interrupt("t");
    bench.advance(20);
    assert_eq!(bench.spawns(), 2);
    assert_eq!(
        (bench.result(poll).end, bench.result(poll).live_process()),
        (WaitEnd::Interrupted, Some(process))
    );
}

#[test]
fn what_has_taken_input_is_not_run_again() {
    let deliver: [fn(&mut Bench, ProcessId); 3] = [
        |bench, process| {
            bench.write(input(process, "yes"));
            bench.wrote(process, 3, WriteOutcome::Whole);
        },
        |bench, process| {
            bench.write(input(process, "").eof());
            bench.wrote(process, 0, WriteOutcome::Whole);
        },
        // It may have taken some.
        |bench, process| {
            bench.write(input(process, "yes"));
        },
    ];
    for deliver in deliver {
        let mut bench = retries_silently();
        let (call, process) = bench.approved(shell().stdin());
        deliver(&mut bench, process);
        bench.is_denied(process);
        assert_surfaced(&bench, call);
    }
}

#[test]
fn input_that_nobody_read_goes_to_the_second_attempt_after_a_review() {
    let mut bench = retries_silently();
    let (_, process) = bench.approved(shell().stdin());
    let write = bench.write(input(process, "yes"));
    bench.wrote(process, 0, WriteOutcome::Broken);
    bench.is_denied(process);
    bench.spawned(process);
    assert!(bench.waits(write), "it is told of the end or of its time");
    let second = bench.write(input(process, "yes"));
    assert_eq!(bench.writes(process).len(), 1, "the sandbox is gone, so somebody is asked");
    bench.approves();
    assert_eq!(bench.writes(process).len(), 2);
    bench.wrote(process, 3, WriteOutcome::Whole);
    bench.advance(250);
    assert_eq!(bench.result(second).stdin, Some((0, 3)));
}

#[test]
fn input_that_is_asked_about_when_its_attempt_is_denied_is_asked_about_anew() {
    let mut bench = retries_silently();
    let more = Additional { write: vec!["/more".into()], ..Additional::default() };
    let (_, process) = bench.approved(shell().stdin().asks_for(Permissions::Additional(more)));
    let write = bench.write(input(process, "yes"));
    let first = bench.question();
    assert!(matches!(first.subject, Subject::Input { .. }));
    bench.dies_of(process, Signal::SYS);
    assert_eq!(bench.open(), 0, "the answer would be for an attempt that is no more");
    bench.closed(process, 0);
    bench.spawned(process);
    assert_eq!(bench.open(), 1);
    assert_eq!(bench.question().permissions, Permissions::Escalated, "it runs without a sandbox now");
    let late = bench.decide(&first.id, Verdict::Approve);
    assert!(
        matches!(bench.decided(late), Err(DecideError::NotOpen { .. })) && bench.writes(process).is_empty()
    );
    bench.approves();
    bench.wrote(process, 3, WriteOutcome::Whole);
    bench.advance(250);
    assert_eq!(bench.result(write).stdin, Some((0, 3)));
}

// The second attempt.

#[test]
fn a_second_attempt_that_cannot_start_surfaces_the_denial_of_the_first() {
    let mut bench = retries_silently();
    let (call, process) = bench.approved(shell());
    bench.output(process, 5);
    bench.dies_of(process, Signal::SYS);
    bench.closed(process, 5);
    bench.spawn_fails(process);
    bench.tree_gone_of(process, AttemptNumber::FIRST);
    let result = bench.result(call);
    assert_eq!((result.attempt, result.from, result.next), (AttemptNumber::FIRST, 0, 5));
    assert!(result.evidence.is_some() && result.attempts.len() == 1);
    assert_eq!(bench.told("process_exited").len(), 1);
    assert_eq!(bench.told("spawn_failed").len(), 1);
    assert_eq!(bench.state(process), Some(State::Ended));
    bench.advance(600_000);
    assert_eq!(bench.state(process), None, "nothing holds its tombstone");
}

#[test]
fn what_is_gone_before_its_second_attempt_fails_to_start_is_gone() {
    let mut bench = retries_silently();
    let (_, process) = bench.approved(shell());
    bench.is_denied(process);
    bench.tree_gone_of(process, AttemptNumber::FIRST);
    let end = bench.terminate(process);
    bench.spawn_fails(process);
    assert_eq!(bench.report(end).ended.len(), 1);
    assert!(bench.blows(process).iter().all(|blow| blow.ends_with("KILL")), "{:?}", bench.blows(process));
}

#[test]
fn a_second_attempt_is_judged_no_more() {
    let mut bench = retries_silently();
    let (call, process) = bench.approved(shell());
    bench.is_denied(process);
    bench.spawned(process);
    bench.is_denied(process);
    let result = bench.result(call);
    assert_eq!((bench.spawns(), result.evidence.is_none(), result.attempts.len()), (2, true, 2));
}

#[test]
fn a_kill_that_comes_while_the_second_attempt_is_started_reaches_it() {
    let mut bench = retries_silently();
    let (call, process) = bench.approved(shell());
    bench.is_denied(process);
    let end = bench.terminate(process);
    bench.tree_gone_of(process, AttemptNumber::FIRST);
    assert!(bench.waits(end) && bench.waits(call));
    bench.spawned(process);
    assert!(bench.blows(process).contains(&"0 TERM Tree".to_owned()), "{:?}", bench.blows(process));
    assert_eq!(bench.state(process), Some(State::Stopping));
    bench.dies_of(process, Signal::TERM);
    bench.closed(process, 0);
    assert!(
        bench.waits(end),
        "descendants of the second attempt may live: the first's end says nothing of them"
    );
    bench.tree_gone(process);
    assert_eq!(bench.report(end).ended.len(), 1);
}

#[test]
fn the_last_output_of_a_denied_attempt_says_nothing_of_the_second() {
    let mut bench = retries_silently();
    let (call, process) = bench.approved(shell());
    bench.dies_of(process, Signal::SYS);
    bench.advance(20);
    bench.spawned(process);
    bench.output_of(process, AttemptNumber::FIRST, 9);
    bench.exited(process, 0);
    bench.event(Event::Closed { process, attempt: AttemptNumber::FIRST, end: 9 });
    assert!(bench.waits(call) && bench.told("process_exited").is_empty());
    bench.output(process, 3);
    bench.closed(process, 3);
    assert_eq!((bench.result(call).next, bench.told("process_exited").len()), (3, 1));
}

#[test]
fn every_call_that_waits_hears_which_attempt_it_collects_and_the_cursor_starts_anew() {
    let mut bench = retries_silently();
    let (call, process) = bench.approved(shell().request("r", 1));
    bench.output(process, 5);
    let poll = bench.poll(process);
    bench.event(Event::Read { process, attempt: AttemptNumber::FIRST, to: 5 });
    bench.dies_of(process, Signal::SYS);
    bench.closed(process, 5);
    for waiting in [call, poll] {
        let collected: Vec<(u8, u64)> = bench
            .progress(waiting)
            .into_iter()
            .filter_map(|progress| match progress {
                Progress::Collecting { attempt, from, .. } => Some((attempt.get(), *from)),
                _ => None,
            })
            .collect();
        assert_eq!(collected, [(1, 0), (2, 0)]);
    }
    bench.spawned(process);
    bench.event(Event::Read { process, attempt: AttemptNumber::FIRST, to: 99 });
    assert_eq!(bench.view(process).unwrap().cursor, 0);
    let repeat = bench.exec(shell().request("r", 1));
    let told: Vec<&str> = bench
        .progress(repeat)
        .into_iter()
        .map(|progress| match progress {
            Progress::Collecting { .. } => "collecting",
            Progress::AttemptStarted { .. } => "attempt",
            Progress::Started { .. } => "started",
            Progress::AttemptDenied { .. } => "denied",
            Progress::Asking { .. } | Progress::Exited { .. } => "else",
        })
        .collect();
    assert_eq!(
        told,
        ["collecting", "attempt", "started", "denied", "attempt"],
        "in the order in which it was"
    );
    bench.output(process, 2);
    bench.finishes(process, 0);
    for waiting in [call, poll, repeat] {
        assert_eq!((bench.result(waiting).from, bench.result(waiting).attempts.len()), (0, 2));
    }
}

#[test]
fn a_wait_for_the_end_is_met_by_the_end_of_the_second_attempt_and_of_its_outputs() {
    let mut bench = retries_silently();
    let (_, process) = bench.approved(shell());
    let exit = bench.wait_for(process, Condition::Exit, None);
    let closed = bench.wait_for(process, Condition::Closed, None);
    bench.output(process, 5);
    bench.dies_of(process, Signal::SYS);
    bench.closed(process, 5);
    bench.spawned(process);
    assert!(bench.waits(exit) && bench.waits(closed), "that was not the end");
    bench.output(process, 2);
    bench.exited(process, 0);
    let told = |bench: &Bench, call| match bench.answer(call) {
        Answer::Wait(Ok(result)) => (result.end, result.attempt, result.output_end),
        other => panic!("{other:?}"),
    };
    assert_eq!(told(&bench, exit), (ConditionEnd::Met(None), AttemptNumber::SECOND, 2));
    bench.advance(60_000);
    assert!(bench.waits(closed), "somebody still holds the outputs of the second attempt");
    bench.closed(process, 3);
    assert_eq!(told(&bench, closed), (ConditionEnd::Met(None), AttemptNumber::SECOND, 3));
}

#[test]
fn a_stray_report_about_the_first_attempt_does_not_start_the_second() {
    let mut bench = retries_silently();
    let (_, process) = bench.approved(shell());
    bench.is_denied(process);
    bench.event(Event::Spawned {
        process,
        attempt: AttemptNumber::FIRST,
        pid: None,
        enforced: crate::core::spawn::Enforced::default(),
        at: bench.now,
    });
    assert_eq!(bench.state(process), Some(State::Starting));
}
