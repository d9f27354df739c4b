//! Whatever callers and the world do, in whatever order, the promises hold; [`Life`](super::life::Life) checks them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::asking::{granular, sandboxed};
use super::bench::{input, unmatched};
use super::life::{KINDS, Step, TABLE, live};
use super::*;
use crate::core::approval::{State, Subject, Verdict};
use crate::core::ids::{AttemptNumber, CallId, ProcessId};
use crate::core::limits::Limits;
use crate::core::policy::ApprovalPolicy;
use crate::core::process::EndReason;
use crate::core::session::*;
use crate::core::signal::Signal;
use crate::core::spawn::Enforced;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0u8..KINDS, any::<u8>(), any::<u16>()), 1..240)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_promises_hold_and_the_same_inputs_have_the_same_effects(steps in steps()) {
        let (one, two) = (live(&steps), live(&steps));
        prop_assert_eq!(format!("{:?}", one.bench.effects), format!("{:?}", two.bench.effects));
    }

    #[test]
    fn a_spawner_that_breaks_its_contract_panics_nobody(steps in steps()) {
        let limits = Limits { processes_max: TABLE, ..Limits::default() };
        let rights = [sandboxed(ApprovalPolicy::UnlessTrusted), sandboxed(ApprovalPolicy::Granular(granular()))];
        let mut bench = Bench::built(rights[steps.len() & 1].clone(), limits, true);
        let mut process = ProcessId::new(1_000).unwrap();
        for (kind, whom, choice) in steps {
            let (end, writes) = (u64::from(choice), bench.writes(process).len());
            let attempt = if choice & 1 == 0 { AttemptNumber::FIRST } else { AttemptNumber::SECOND };
            match kind % 20 {
                0 | 1 => {
                    let call = bench.exec(shell().stdin());
                    process = if bench.waits(call) { bench.session.waits[&call].process } else { process };
                }
                2 => bench.event(Event::Spawned {
                    process,
                    attempt,
                    pid: None,
                    enforced: Enforced::default(),
                    at: bench.now,
                }),
                3 => bench.spawn_fails(process),
                4 => bench.output_of(process, attempt, end),
                5 => bench.exited(process, i32::from(whom)),
                6 => bench.event(Event::Closed { process, attempt, end }),
                7 => bench.tree_gone_of(process, attempt),
                8 if writes > 0 => bench.wrote(process, end, WriteOutcome::Whole),
                9 => bench.surveyed(process, &["x"]),
                10 => drop(bench.write(input(process, "abc"))),
                11 => bench.event(Event::Watched { wait: CallId(end), outcome: WatchOutcome::Ended { at: 0 } }),
                12 => bench.drops(CallId(end & 31)),
                13 => drop(bench.terminate(process)),
                14 if bench.open() > 0 => bench.decides_any(),
                15 => bench.dies_of(process, Signal::SYS),
                16 => bench.event(Event::Excerpt { process, attempt, output: bytes::Bytes::new() }),
                17 => bench.event(Event::Assessed { process, assessment: unmatched() }),
                18 => bench.event(Event::RuleAdded { call: CallId(end & 31), result: Ok(()) }),
                19 => bench.connects(process, end & 7, "x.example"),
                _ => bench.advance(u64::from(choice & 1023)),
            }
        }
        for (call, answers) in (0..40).map(|call| (call, bench.answers(CallId(call)).len())) {
            prop_assert!(answers <= 1, "call {} has {} answers", call, answers);
        }
    }
}

/// A walk that never comes to the rare paths proves nothing about them.
#[test]
fn the_random_lives_come_to_the_rare_paths() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = BTreeMap::from([
        ("pruned", 0),
        ("table_full", 0),
        ("survivors", 0),
        ("stopped_write", 0),
        ("offset_gap", 0),
        ("one_shot_interrupted", 0),
        ("interrupted_write", 0),
        ("held", 0),
        ("gone", 0),
        ("retried", 0),
        ("retry_asked", 0),
        ("retry_declined", 0),
        ("retry_spawn_failed", 0),
        ("denial_surfaced", 0),
        ("denied_late", 0),
        ("forbidden", 0),
        ("aborted", 0),
        ("expired", 0),
        ("stale_start", 0),
        ("stale_input", 0),
        ("input_asked", 0),
        ("input_declined", 0),
        ("new_terminal", 0),
        ("connection_asked", 0),
        ("connection_refused", 0),
        ("answered_late", 0),
        ("rule_failed", 0),
        ("review_failed", 0),
        ("full_after_approval", 0),
    ]);
    for _ in 0..1_000 {
        let steps = steps().new_tree(&mut runner).unwrap().current();
        let bench = live(&steps).bench;
        for path in bench.effects.iter().flat_map(|(_, effect)| rare(effect)) {
            *seen.entry(path).or_default() += 1;
        }
        let full = bench.told("start_refused").iter().filter(|line| line.contains("live processes")).count();
        *seen.entry("full_after_approval").or_default() += full;
    }
    assert!(seen.values().all(|times| *times > 0), "{seen:?}");
}

/// Which rare paths an effect shows.
fn rare(effect: &Effect) -> Option<&'static str> {
    match effect {
        Effect::StopWrite { .. } => Some("stopped_write"),
        Effect::Connect { answer: Err(ConnectionRefused::NotApproved { .. }), .. } => {
            Some("connection_refused")
        }
        Effect::Ask { question } => match question.subject {
            Subject::Retry { .. } => Some("retry_asked"),
            Subject::Input { .. } => Some("input_asked"),
            Subject::Connection { .. } => Some("connection_asked"),
            Subject::Command => None,
        },
        Effect::Publish(event) => rare_event(&event.kind),
        Effect::Reply { answer, .. } => rare_answer(answer),
        _ => None,
    }
}

fn rare_event(kind: &FeedKind) -> Option<&'static str> {
    match kind {
        FeedKind::AttemptDenied { .. } => Some("retried"),
        FeedKind::SpawnFailed { attempt: AttemptNumber::SECOND, .. } => Some("retry_spawn_failed"),
        FeedKind::ProcessExited { exit, .. } if exit.reason == EndReason::Pruned => Some("pruned"),
        FeedKind::ProcessExited { evidence: Some(evidence), .. } => {
            Some(if evidence.early { "denial_surfaced" } else { "denied_late" })
        }
        FeedKind::ApprovalDecided(approval) => match (&approval.state, &approval.question.subject) {
            (State::Expired { .. }, _) => Some("expired"),
            (State::ReviewFailed { .. }, _) => Some("review_failed"),
            (State::Decided(decision), _) if decision.verdict == Verdict::AbortTurn => Some("aborted"),
            (State::Decided(decision), Subject::Retry { .. }) if !decision.verdict.approves() => {
                Some("retry_declined")
            }
            (State::Decided(decision), Subject::Input { .. }) if !decision.verdict.approves() => {
                Some("input_declined")
            }
            _ => None,
        },
        _ => None,
    }
}

fn rare_answer(answer: &Answer) -> Option<&'static str> {
    let path = match answer {
        Answer::Exec(Err(StartError::TableFull { .. })) => "table_full",
        Answer::Exec(Err(StartError::Forbidden(_))) => "forbidden",
        Answer::Exec(Err(StartError::NotApproved(NotApproved::Stale { .. }))) => "stale_start",
        Answer::Exec(Ok(result)) if result.end == WaitEnd::OneShotInterrupted => "one_shot_interrupted",
        Answer::Write(Ok(result)) if result.end == WaitEnd::Interrupted => "interrupted_write",
        Answer::Write(Ok(result)) | Answer::Exec(Ok(result)) if !result.paused.is_zero() => "held",
        Answer::Write(Err(WriteError::OffsetGap { .. })) => "offset_gap",
        Answer::Write(Err(WriteError::NewTerminal { .. })) => "new_terminal",
        Answer::Write(Err(WriteError::NotApproved(NotApproved::Stale { .. }))) => "stale_input",
        Answer::Write(Err(WriteError::Target(TargetError::Gone { .. }))) => "gone",
        Answer::Decided(Err(DecideError::NotOpen { .. })) => "answered_late",
        Answer::Decided(Err(DecideError::Rule { .. })) => "rule_failed",
        Answer::Terminate(Ok(report)) | Answer::Ended(report) if !report.survivors.is_empty() => "survivors",
        _ => return None,
    };
    Some(path)
}
