//! Whatever callers and the world do, in whatever order, the promises hold; [`Life`](super::life::Life) checks them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::bench::input;
use super::life::{KINDS, Step, TABLE, live};
use super::*;
use crate::core::ids::{CallId, ProcessId};
use crate::core::limits::Limits;
use crate::core::session::*;

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
        let mut bench = Bench::with(Limits { processes_max: TABLE, ..Limits::default() });
        let mut process = ProcessId::new(1_000).unwrap();
        for (kind, whom, choice) in steps {
            let (end, writes) = (u64::from(choice), bench.writes(process).len());
            match kind % 16 {
                0 | 1 => {
                    let call = bench.exec(shell().stdin());
                    process = if bench.waits(call) { bench.process_of(call) } else { process };
                }
                2 => bench.spawned(process),
                3 => bench.spawn_fails(process),
                4 => bench.output(process, end),
                5 => bench.exited(process, i32::from(whom)),
                6 => bench.closed(process, end),
                7 => bench.tree_gone(process),
                8 if writes > 0 => bench.wrote(process, end, WriteOutcome::Whole),
                9 => bench.surveyed(process, &["x"]),
                10 => drop(bench.write(input(process, "abc"))),
                11 => bench.event(Event::Watched { wait: CallId(end), outcome: WatchOutcome::Ended { at: 0 } }),
                12 => bench.drops(CallId(end & 31)),
                13 => drop(bench.terminate(process)),
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
    ]);
    for _ in 0..200 {
        let steps = steps().new_tree(&mut runner).unwrap().current();
        for (_, effect) in live(&steps).bench.effects {
            let path = match effect {
                Effect::StopWrite { .. } => "stopped_write",
                Effect::Publish(FeedEvent { kind: FeedKind::ProcessExited { exit, .. }, .. })
                    if exit.reason == crate::core::process::EndReason::Pruned =>
                {
                    "pruned"
                }
                Effect::Reply { answer, .. } => match answer {
                    Answer::Exec(Err(StartError::TableFull { .. })) => "table_full",
                    Answer::Exec(Ok(result)) if result.end == WaitEnd::OneShotInterrupted => {
                        "one_shot_interrupted"
                    }
                    Answer::Write(Ok(result)) if result.end == WaitEnd::Interrupted => "interrupted_write",
                    Answer::Write(Ok(result)) | Answer::Exec(Ok(result)) if !result.paused.is_zero() => {
                        "held"
                    }
                    Answer::Write(Err(WriteError::OffsetGap { .. })) => "offset_gap",
                    Answer::Write(Err(WriteError::Target(TargetError::Gone { .. }))) => "gone",
                    Answer::Terminate(Ok(report)) | Answer::Ended(report) if !report.survivors.is_empty() => {
                        "survivors"
                    }
                    _ => continue,
                },
                _ => continue,
            };
            *seen.entry(path).or_default() += 1;
        }
    }
    assert!(seen.values().all(|times| *times > 0), "{seen:?}");
}
