//! Who makes room in a full table, and how long ended processes are remembered.

use super::*;
use crate::core::ids::ProcessId;
use crate::core::limits::{Limits, WhenFull};
use crate::core::process::EndReason;
use crate::core::session::*;
use crate::core::signal::Signal;

/// A table that is full: `count` processes in the order of their use, none of them busy.
fn full(count: usize, limits: Limits) -> (Bench, Vec<ProcessId>) {
    let mut bench = Bench::with(limits);
    let processes: Vec<_> = (0..count).map(|_| bench.running(shell()).1).collect();
    bench.advance(1_000);
    (bench, processes)
}

fn victims(bench: &Bench, processes: &[ProcessId]) -> Vec<usize> {
    (0..processes.len()).filter(|at| !bench.blows(processes[*at]).is_empty()).collect()
}

fn occupied(bench: &Bench) -> usize {
    bench.session.processes.values().filter(|process| process.occupies_slot()).count()
}

#[test]
fn the_65th_process_ends_the_least_recently_used_one() {
    let (mut bench, processes) = full(64, Limits::default());
    bench.poll(processes[0]);
    bench.advance(5_000);
    let call = bench.exec(shell());
    assert!(bench.waits(call));
    assert_eq!(victims(&bench, &processes), [1], "the first one was used since");
    assert_eq!(occupied(&bench), 64);
    bench.vanishes(processes[1], Signal::TERM);
    let poll = bench.poll(processes[1]);
    assert_eq!(bench.result(poll).exit.unwrap().reason, EndReason::Pruned);
}

#[test]
fn a_victim_that_will_not_die_climbs_the_ladder_and_takes_no_slot() {
    let (mut bench, processes) = full(9, Limits { processes_max: 9, ..Limits::default() });
    bench.exec(shell());
    bench.advance(3_000);
    assert_eq!(bench.blows(processes[0]), ["1000 TERM Tree", "2000 KILL", "4000 survey"]);
    bench.surveyed(processes[0], &["stuck"]);
    assert_eq!(occupied(&bench), 9);
}

#[test]
fn the_eight_most_recently_used_are_never_pruned() {
    for limit in [1, 8] {
        let (mut bench, processes) = full(limit, Limits { processes_max: limit, ..Limits::default() });
        let call = bench.exec(shell());
        assert_eq!(*bench.start_error(call), StartError::TableFull { limit });
        assert!(victims(&bench, &processes).is_empty());
    }
    let (mut bench, processes) = full(9, Limits { processes_max: 9, ..Limits::default() });
    bench.exec(shell());
    assert_eq!(victims(&bench, &processes), [0]);
}

#[test]
fn whoever_is_in_use_is_passed_over_until_nobody_is_left() {
    let limits = Limits { processes_max: 12, ..Limits::default() };
    let mut bench = Bench::with(limits);
    let processes: Vec<_> = (0..12).map(|_| bench.running(shell().stdin()).1).collect();
    bench.advance(1_000);
    bench.wait_for(processes[0], Condition::Exit, None);
    bench.call(Call::Attach { process: processes[1] });
    bench.write(bench::input(processes[2], "x").frame());
    for process in &processes[4..] {
        bench.poll(*process);
    }
    bench.exec(shell());
    assert_eq!(victims(&bench, &processes), [3]);
    bench.exec(shell());
    assert_eq!(victims(&bench, &processes), [1, 3], "being watched is not being in use");
    let refused = bench.exec(shell());
    assert_eq!(*bench.start_error(refused), StartError::TableFull { limit: 12 });
}

#[test]
fn an_ended_process_leaves_first_and_its_descendants_live_on() {
    let limits = Limits { processes_max: 10, ..Limits::default() };
    let (mut bench, processes) = full(10, limits);
    bench.exited(processes[1], 0);
    bench.advance(60);
    let call = bench.exec(shell());
    assert!(bench.waits(call));
    assert!(victims(&bench, &processes).is_empty());
    assert_eq!(bench.told("process_exited"), ["1060 process_exited 0 Exited"]);
    assert_eq!(occupied(&bench), 10);
    bench.advance(100);
    assert_eq!(bench.told("process_exited").len(), 1);
}

#[test]
fn who_is_being_ended_makes_room_before_who_is_not() {
    let limits = Limits { processes_max: 10, ..Limits::default() };
    let (mut bench, processes) = full(10, limits);
    bench.terminate(processes[1]);
    bench.exec(shell());
    assert_eq!(victims(&bench, &processes), [1]);
    assert_eq!(bench.blows(processes[1]).len(), 1);
    assert_eq!(occupied(&bench), 10);
    bench.exec(shell());
    assert_eq!(victims(&bench, &processes), [0, 1], "its slot is given once");
}

#[test]
fn ended_processes_take_no_slot() {
    let (mut bench, processes) = full(64, Limits { when_full: WhenFull::Reject, ..Limits::default() });
    let refused = bench.exec(shell());
    assert_eq!(*bench.start_error(refused), StartError::TableFull { limit: 64 });
    bench.finishes(processes[63], 0);
    let call = bench.exec(shell());
    assert!(bench.waits(call));
    assert_eq!(bench.signals_sent(), 0);
}

#[test]
fn a_tombstone_is_trimmed_after_a_minute_and_forgotten_after_ten() {
    let mut bench = Bench::new();
    let (_, process) = bench.running(shell());
    bench.finishes(process, 0);
    let trims = |bench: &Bench| {
        bench.effects.iter().filter(|(_, effect)| matches!(effect, Effect::Trim { .. })).count()
    };
    bench.advance(59_999);
    assert_eq!(trims(&bench), 0);
    bench.advance(1);
    assert_eq!(trims(&bench), 1);
    bench.advance(539_999);
    assert_eq!(bench.state(process), Some(State::Ended));
    bench.advance(1);
    assert_eq!(bench.state(process), None);
    assert_eq!(bench.told("process_removed"), ["600000 process_removed pruned=false"]);
    let forgotten = bench.effects.iter().filter(|(_, effect)| matches!(effect, Effect::Forget { .. }));
    assert_eq!(forgotten.count(), 1);
}

#[test]
fn a_caller_may_keep_output_for_longer_but_not_beyond_the_tombstone() {
    let mut bench = Bench::new();
    let timeouts = Timeouts { retention: Some(ms(9_000_000)), ..Timeouts::default() };
    let (_, process) = bench.running(shell().timeouts(timeouts));
    bench.finishes(process, 0);
    bench.advance(600_000);
    let last: Vec<_> = bench.effects.iter().rev().take(3).map(|(_, effect)| effect).collect();
    assert!(matches!(last[..], [Effect::Forget { .. }, Effect::Publish(_), Effect::Trim { .. }]), "{last:?}");
}

#[test]
fn a_session_remembers_the_last_64_ends() {
    let mut bench = Bench::new();
    let processes: Vec<_> = (0..65)
        .map(|_| {
            let (_, process) = bench.running(shell());
            bench.finishes(process, 0);
            process
        })
        .collect();
    assert_eq!(bench.state(processes[0]), None);
    assert_eq!(bench.state(processes[1]), Some(State::Ended));
    let poll = bench.poll(processes[0]);
    assert!(matches!(bench.write_error(poll), WriteError::Target(TargetError::Unknown { .. })));
}

#[test]
fn living_descendants_keep_an_ended_process_reachable_and_push_nobody_out() {
    let mut bench = Bench::new();
    let parents: Vec<_> = (0..70)
        .map(|_| {
            let (_, process) = bench.running(shell());
            bench.exited(process, 0);
            bench.closed(process, 0);
            process
        })
        .collect();
    let (_, newest) = bench.running(shell());
    bench.finishes(newest, 0);
    assert_eq!(bench.state(newest), Some(State::Ended));
    bench.advance(3_600_000);
    assert!(parents.iter().all(|parent| bench.state(*parent) == Some(State::Ended)));
    let listed = bench.call(Call::List { include_ended: false });
    assert!(matches!(bench.answer(listed), Answer::Processes(views) if views.len() == 70));
    let cleaned = bench.clean();
    for parent in &parents {
        assert_eq!(bench.blows(*parent).len(), 1);
        bench.tree_gone(*parent);
    }
    assert_eq!(bench.report(cleaned).ended.len(), 70);
    assert_eq!(bench.session.ended.len(), 64);
}

#[test]
fn an_id_is_not_used_again_while_its_tombstone_lives() {
    let mut bench = Bench::new();
    let (_, first) = bench.running(shell());
    bench.finishes(first, 0);
    // The generator is made to draw the same number again.
    bench.session.ids = crate::core::ids::IdGenerator::new(7);
    let (_, second) = bench.running(shell());
    assert_eq!(second.get(), first.get() + 1);
    bench.advance(600_000);
    bench.session.ids = crate::core::ids::IdGenerator::new(7);
    assert_eq!(bench.running(shell()).1, first);
}
