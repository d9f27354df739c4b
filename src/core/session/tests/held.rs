//! Leases hold yield deadlines, and nothing else.

use super::bench::input;
use super::*;
use crate::core::limits::HOLDS_MAX;
use crate::core::session::*;
use crate::core::signal::Signal;
use crate::core::time::Instant;

fn held_until(bench: &Bench, call: crate::core::ids::CallId) -> Option<Instant> {
    match bench.answer(call) {
        Answer::Held(Ok(until)) => *until,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_held_yield_stands_still_and_reports_for_how_long() {
    let mut bench = Bench::new();
    let (call, _) = bench.running(shell());
    bench.advance(400);
    let held = bench.hold("ask", 60_000);
    assert_eq!(held_until(&bench, held), Some(Instant::from_millis(60_400)));
    bench.advance(3_000);
    assert!(bench.waits(call));
    let given_back = bench.hold("ask", 0);
    assert_eq!(held_until(&bench, given_back), None);
    bench.advance(599);
    assert!(bench.waits(call));
    bench.advance(1);
    let result = bench.result(call);
    assert_eq!((result.end, result.paused, result.wall_time), (WaitEnd::Yielded, ms(3_000), ms(4_000)));
}

#[test]
fn a_lease_that_is_not_given_back_runs_out() {
    let mut bench = Bench::new();
    let (call, _) = bench.running(shell());
    bench.hold("ask", 5_000);
    bench.advance(5_999);
    assert!(bench.waits(call));
    bench.advance(1);
    assert_eq!(bench.result(call).paused, ms(5_000));
}

#[test]
fn a_lease_is_ten_minutes_at_most_and_renewed_by_its_name() {
    let mut bench = Bench::new();
    let held = bench.hold("ask", 3_600_000);
    assert_eq!(held_until(&bench, held), Some(Instant::from_millis(600_000)));
    bench.advance(300_000);
    let renewed = bench.hold("ask", 400_000);
    assert_eq!(held_until(&bench, renewed), Some(Instant::from_millis(700_000)));
    let (call, _) = bench.running(shell());
    bench.advance(400_000 + 999);
    assert!(bench.waits(call));
    bench.advance(1);
    assert_eq!(bench.result(call).paused, ms(400_000), "held from its start");
}

#[test]
fn of_two_leases_the_last_one_counts() {
    let mut bench = Bench::new();
    let (call, _) = bench.running(shell());
    bench.hold("one", 1_000);
    bench.hold("two", 2_000);
    bench.advance(2_999);
    assert!(bench.waits(call));
    bench.advance(1);
    assert_eq!(bench.result(call).paused, ms(2_000));
}

#[test]
fn leases_are_bounded_and_one_that_exists_can_still_be_renewed() {
    let mut bench = Bench::new();
    for lease in 0..HOLDS_MAX {
        bench.hold(&lease.to_string(), 1_000);
    }
    let refused = bench.hold("one more", 1_000);
    let too_many = HoldError::TooMany { limit: HOLDS_MAX };
    assert!(matches!(bench.answer(refused), Answer::Held(Err(error)) if *error == too_many));
    let renewed = bench.hold("0", 2_000);
    assert_eq!(held_until(&bench, renewed), Some(Instant::from_millis(2_000)));
}

#[test]
fn a_hold_at_the_instant_of_a_yield_still_holds_it() {
    let mut bench = Bench::new();
    let (call, _) = bench.running(shell());
    bench.now = Instant::from_millis(1_000);
    bench.hold("ask", 500);
    bench.advance(499);
    assert!(bench.waits(call));
    bench.advance(1);
    assert_eq!(bench.result(call).paused, ms(500));
}

#[test]
fn an_exit_returns_at_once_also_while_held() {
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell());
    bench.hold("ask", 60_000);
    bench.advance(100);
    bench.finishes(process, 0);
    let result = bench.result(call);
    assert_eq!((result.end, result.paused), (WaitEnd::Exited, ms(100)));
}

#[test]
fn a_poll_and_a_write_are_held_too_and_a_queued_write_counts_all_of_it() {
    let mut bench = Bench::new();
    let process = bench.background(shell().stdin());
    bench.hold("ask", 10_000);
    let poll = bench.poll(process);
    let write = bench.write(input(process, "x"));
    bench.advance(4_000);
    bench.wrote(process, 1, WriteOutcome::Whole);
    bench.advance(6_000 + 249);
    assert!(bench.waits(write));
    bench.advance(1);
    assert_eq!(bench.result(write).paused, ms(10_000), "before its delivery and after it");
    bench.advance(4_750);
    assert_eq!(bench.result(poll).paused, ms(10_000));
}

#[test]
fn bounds_on_lives_windows_and_kill_grace_go_on() {
    let mut bench = Bench::new();
    let timeouts = Timeouts { hard: Some(ms(2_000)), ..Timeouts::default() };
    let (_, hard) = bench.running(shell().timeouts(timeouts));
    let timeouts = Timeouts { no_output: Some(ms(2_000)), ..Timeouts::default() };
    let (_, silent) = bench.running(shell().timeouts(timeouts));
    let (_, once) = bench.running(shell().one_shot(Some(2_000)));
    let timed = bench.wait_for(hard, Condition::Exit, Some(1_500));
    bench.hold("ask", 60_000);
    bench.advance(1_500);
    assert_eq!(bench.wait_end(timed), ConditionEnd::TimedOut, "a timeout is no yield");
    bench.advance(500);
    for process in [hard, silent, once] {
        assert_eq!(bench.blows(process), ["2000 TERM Tree"]);
    }
    bench.advance(1_000);
    for process in [hard, silent, once] {
        assert_eq!(bench.blows(process), ["2000 TERM Tree", "3000 KILL"]);
        bench.vanishes(process, Signal::KILL);
    }
}
