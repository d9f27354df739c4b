//! What is asked twice under one request id happens once.

use super::bench::input;
use super::*;
use crate::core::ids::RequestId;
use crate::core::session::*;
use crate::core::signal::Signal;

#[test]
fn a_repeat_in_flight_joins_and_hears_the_progress_so_far() {
    let mut bench = Bench::new();
    let first = bench.exec(shell().request("r", 1));
    let process = bench.process_of(first);
    let early = bench.exec(shell().request("r", 1));
    bench.spawned(process);
    let late = bench.exec(shell().request("r", 1));
    assert_eq!(bench.spawns(), 1);
    assert_eq!(bench.progress(early), bench.progress(first));
    assert_eq!(bench.progress(late), bench.progress(first));
    bench.finishes(process, 3);
    for call in [early, late] {
        assert_eq!(bench.result(call), bench.result(first));
    }
}

#[test]
fn a_repeat_after_the_answer_gets_the_same_answer() {
    let mut bench = Bench::new();
    let (first, process) = bench.running(shell().request("r", 1));
    bench.advance(1_000);
    bench.output(process, 50);
    bench.finishes(process, 0);
    let again = bench.exec(shell().request("r", 1));
    assert_eq!(bench.result(again), bench.result(first), "as it was then, chunk id included");
    assert_eq!(bench.spawns(), 1);
}

#[test]
fn another_request_under_the_same_id_is_refused() {
    let mut bench = Bench::new();
    let (_, process) = bench.running(shell().stdin().request("r", 1));
    let other = bench.exec(shell().request("r", 2));
    let reused = RequestId::new("r");
    assert_eq!(*bench.start_error(other), StartError::RequestReused { request: reused.clone() });
    let write = bench.write(input(process, "x").request("r", 3));
    assert_eq!(*bench.write_error(write), WriteError::RequestReused { request: reused });
    assert!(bench.writes(process).is_empty());
}

#[test]
fn a_repeat_after_a_disconnect_waits_anew_and_starts_nothing() {
    for spawned_first in [true, false] {
        let mut bench = Bench::new();
        let first = bench.exec(shell().request("r", 1));
        let process = bench.process_of(first);
        if spawned_first {
            bench.spawned(process);
        }
        bench.output(process, 5);
        bench.drops(first);
        bench.advance(20_000);
        let again = bench.exec(shell().request("r", 1));
        if !spawned_first {
            bench.spawned(process);
        }
        assert_eq!(bench.progress(again).len(), 3);
        bench.advance(999);
        assert!(bench.waits(again), "its own yield counts from now");
        bench.advance(1);
        let result = bench.result(again);
        assert_eq!((result.end, result.process, result.from), (WaitEnd::Yielded, process, 0));
        assert_eq!((bench.spawns(), bench.answers(first).len()), (1, 0));
    }
}

#[test]
fn a_repeat_after_a_disconnect_finds_an_end_that_came_meanwhile() {
    let mut bench = Bench::new();
    let (first, process) = bench.running(shell().request("r", 1));
    bench.drops(first);
    bench.output(process, 9);
    bench.finishes(process, 6);
    let again = bench.exec(shell().request("r", 1));
    let result = bench.result(again);
    assert_eq!((result.exit.unwrap().shell_code(), result.from, result.next), (6, 0, 9));
}

#[test]
fn a_disconnected_one_shot_is_not_started_again_by_a_repeat() {
    let mut bench = Bench::new();
    let (first, process) = bench.running(shell().one_shot(None).request("r", 1));
    bench.drops(first);
    let again = bench.exec(shell().one_shot(None).request("r", 1));
    bench.vanishes(process, Signal::TERM);
    assert_eq!(bench.result(again).exit.unwrap().shell_code(), 143);
    assert_eq!(bench.spawns(), 1);
}

#[test]
fn one_of_two_callers_may_leave_a_one_shot() {
    let mut bench = Bench::new();
    let (first, _) = bench.running(shell().one_shot(None).request("r", 1));
    let second = bench.exec(shell().one_shot(None).request("r", 1));
    bench.drops(first);
    assert_eq!(bench.signals_sent(), 0);
    bench.drops(second);
    assert_eq!(bench.signals_sent(), 1);
}

#[test]
fn a_spawn_that_failed_lets_the_id_be_used_again() {
    let mut bench = Bench::new();
    let first = bench.exec(shell().request("r", 1));
    let joined = bench.exec(shell().request("r", 1));
    bench.spawn_fails(bench.process_of(first));
    assert_eq!(bench.start_error(joined), bench.start_error(first));
    bench.exec(shell().request("r", 2));
    assert_eq!(bench.spawns(), 2);
}

#[test]
fn a_refused_start_lets_the_id_be_used_again() {
    let mut bench = Bench::with(crate::core::limits::Limits { processes_max: 1, ..Default::default() });
    let (_, process) = bench.running(shell());
    let refused = bench.exec(shell().request("r", 1));
    assert_eq!(*bench.start_error(refused), StartError::TableFull { limit: 1 });
    bench.finishes(process, 0);
    let again = bench.exec(shell().request("r", 1));
    assert!(bench.waits(again));
}

#[test]
fn a_repeated_write_is_delivered_once_before_and_after_a_disconnect() {
    let mut bench = Bench::new();
    let process = bench.background(shell().stdin());
    let first = bench.write(input(process, "x\n").request("w", 1));
    bench.drops(first);
    let second = bench.write(input(process, "x\n").request("w", 1));
    assert_eq!(bench.progress(second).len(), 1, "a write is told of no start");
    bench.wrote(process, 2, WriteOutcome::Whole);
    bench.advance(250);
    let third = bench.write(input(process, "x\n").request("w", 1));
    assert_eq!(bench.result(third), bench.result(second));
    assert_eq!((bench.writes(process).len(), bench.answers(first).len()), (1, 0));
}

#[test]
fn a_repeated_interrupt_character_is_sent_once() {
    let mut bench = Bench::new();
    let process = bench.background(shell());
    let first = bench.write(input(process, "\u{3}").request("w", 1));
    bench.drops(first);
    let second = bench.write(input(process, "\u{3}").request("w", 1));
    bench.advance(250);
    assert_eq!(bench.result(second).end, WaitEnd::Yielded);
    assert_eq!(bench.signals_sent(), 1);
}

#[test]
fn ids_are_remembered_as_long_as_the_process_or_its_tombstone() {
    let mut bench = Bench::new();
    let (_, process) = bench.running(shell().request("r", 1));
    bench.finishes(process, 0);
    bench.advance(599_999);
    bench.exec(shell().request("r", 1));
    assert_eq!(bench.spawns(), 1);
    bench.advance(1);
    bench.exec(shell().request("r", 1));
    assert_eq!(bench.spawns(), 2);
}
