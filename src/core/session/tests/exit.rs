//! How an end is told: to the call that waits, to later calls, to the feed; each once.

use super::bench::input;
use super::*;
use crate::core::process::{EndReason, ExitStatus, TimeoutKind};
use crate::core::session::*;
use crate::core::signal::Signal;
use crate::core::time::Instant;

#[test]
fn an_exit_during_the_yield_answers_once_the_outputs_are_closed() {
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell());
    bench.advance(300);
    bench.exited(process, 17);
    assert!(bench.waits(call), "its last output may be on the way");
    bench.advance(20);
    bench.closed(process, 9);
    let result = bench.result(call);
    assert_eq!((result.end, result.next, result.outputs_closed), (WaitEnd::Exited, 9, true));
    assert_eq!(result.exit.unwrap().shell_code(), 17);
    assert_eq!(result.wall_time, ms(320));
    assert_eq!(result.live_process(), None, "a result about an ended process carries no process id");
}

#[test]
fn a_grandchild_that_holds_the_pipe_delays_an_answer_by_50_ms_and_the_feed_by_100() {
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell());
    bench.advance(300);
    bench.exited(process, 0);
    bench.advance(49);
    assert!(bench.waits(call));
    bench.output(process, 4);
    bench.advance(1);
    let result = bench.result(call);
    assert_eq!((result.end, result.next, result.outputs_closed), (WaitEnd::Exited, 4, false));
    bench.advance(49);
    assert!(bench.told("process_exited").is_empty());
    bench.advance(1);
    assert_eq!(bench.told("process_exited"), ["400 process_exited 0 Exited"]);
    bench.advance(5_000);
    bench.output(process, 6);
    bench.closed(process, 6);
    let late = ["5400 output 4..6", "5400 outputs_closed 6"];
    assert_eq!(bench.feed()[4..], late, "late output is still told, the exit is not told again");
}

#[test]
fn the_grace_for_trailing_output_counts_from_the_reapers_time() {
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell());
    bench.advance(330);
    bench.ends(process, ExitStatus::Code(0), Instant::from_millis(300));
    bench.advance(20);
    assert_eq!(bench.result(call).wall_time, ms(350));
}

#[test]
fn outputs_that_close_first_do_not_end_a_process() {
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell());
    bench.closed(process, 3);
    assert!(bench.waits(call));
    bench.advance(500);
    bench.exited(process, 0);
    assert!(bench.result(call).outputs_closed);
    assert_eq!(bench.feed()[2..], ["0 output 0..3", "0 outputs_closed 3", "500 process_exited 0 Exited"]);
}

#[test]
fn a_yield_that_expires_while_the_outputs_drain_tells_the_exit() {
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell());
    bench.advance(980);
    bench.exited(process, 1);
    bench.advance(20);
    let result = bench.result(call);
    assert_eq!((result.end, result.live_process()), (WaitEnd::Exited, None));
}

#[test]
fn a_poll_sees_the_end_of_a_process_that_ended_meanwhile_once() {
    let mut bench = Bench::new();
    let process = bench.background(shell());
    bench.output(process, 8);
    bench.finishes(process, 4);
    bench.advance(30_000);
    let seen = bench.poll(process);
    let result = bench.result(seen);
    assert_eq!((result.end, result.from, result.next), (WaitEnd::Exited, 0, 8));
    let exit = result.exit.unwrap();
    let again = bench.poll(process);
    let gone = TargetError::Gone { process, exit: Box::new(exit) };
    assert_eq!(*bench.write_error(again), WriteError::Target(gone.clone()));
    let written = bench.write(input(process, "x"));
    assert_eq!(*bench.write_error(written), WriteError::Target(gone));
}

#[test]
fn an_end_that_was_told_while_draining_is_not_told_again() {
    let mut bench = Bench::new();
    let (_, process) = bench.running(shell());
    bench.exited(process, 0);
    bench.advance(60);
    let again = bench.poll(process);
    assert!(matches!(bench.write_error(again), WriteError::Target(TargetError::Gone { .. })));
}

#[test]
fn input_to_a_process_that_ended_untold_reports_the_end() {
    let mut bench = Bench::new();
    let process = bench.background(shell().stdin());
    bench.finishes(process, 4);
    let call = bench.write(input(process, "x"));
    let result = bench.result(call);
    assert_eq!((result.end, result.stdin), (WaitEnd::Exited, Some((0, 0))));
}

#[test]
fn an_id_that_never_was_is_unknown_to_every_call() {
    let mut bench = Bench::new();
    let process = crate::core::ids::ProcessId::new(4_242).unwrap();
    let poll = bench.poll(process);
    let unknown = TargetError::Unknown { process };
    assert_eq!(*bench.write_error(poll), WriteError::Target(unknown.clone()));
    let waiting = bench.wait_for(process, Condition::Exit, None);
    assert!(matches!(bench.answer(waiting), Answer::Wait(Err(error)) if *error == unknown));
    let terminated = bench.terminate(process);
    assert!(matches!(bench.answer(terminated), Answer::Terminate(Err(error)) if *error == unknown));
    let attached = bench.call(Call::Attach { process });
    assert!(matches!(bench.answer(attached), Answer::Attached(Err(error)) if *error == unknown));
    let resized = bench.call(Call::Resize { process, size: Default::default() });
    assert!(matches!(bench.answer(resized), Answer::Control(Err(ControlError::Target(_)))));
}

#[test]
fn a_one_shot_out_of_time_is_killed_and_reports_124() {
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell().one_shot(None));
    bench.advance(10_000);
    assert_eq!(bench.blows(process), ["10000 TERM Tree"]);
    bench.vanishes(process, Signal::TERM);
    let exit = bench.result(call).exit.unwrap();
    assert_eq!((exit.reason, exit.shell_code()), (EndReason::Timeout(TimeoutKind::OneShot), 124));
    let (call, process) = bench.running(shell().one_shot(Some(90_000_000)));
    bench.advance(3_599_999);
    assert!(bench.blows(process).is_empty());
    bench.advance(1);
    assert_eq!(bench.blows(process).len(), 1, "the setting caps it at an hour");
    bench.vanishes(process, Signal::TERM);
    assert_eq!(bench.result(call).exit.unwrap().shell_code(), 124);
}

#[test]
fn an_exit_that_beat_the_timeout_is_the_programs_own() {
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell().one_shot(Some(500)));
    bench.advance(500);
    bench.ends(process, ExitStatus::Code(0), Instant::from_millis(499));
    bench.closed(process, 0);
    let exit = bench.result(call).exit.unwrap();
    assert_eq!((exit.reason, exit.shell_code()), (EndReason::Exited, 0));
}

#[test]
fn an_exit_at_the_instant_of_its_bound_is_the_programs_own() {
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell().one_shot(Some(500)));
    bench.now = Instant::from_millis(500);
    bench.finishes(process, 0);
    bench.advance(0);
    assert_eq!(bench.result(call).exit.unwrap().reason, EndReason::Exited);
    assert_eq!(bench.signals_sent(), 0);
}

#[test]
fn a_one_shot_that_outlives_the_kill_is_answered_all_the_same() {
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell().one_shot(Some(500)));
    bench.advance(3_500);
    assert!(bench.waits(call));
    bench.surveyed(process, &["stuck"]);
    assert_eq!(bench.result(call).live_process(), Some(process));
}

#[test]
fn every_bound_on_a_life_ends_it_and_is_named() {
    let bound = Some(ms(2_000));
    let cases = [
        (Timeouts { hard: bound, ..Timeouts::default() }, TimeoutKind::Hard),
        (Timeouts { no_output: bound, ..Timeouts::default() }, TimeoutKind::NoOutput),
    ];
    for (timeouts, kind) in cases {
        let mut bench = Bench::new();
        let process = bench.background(shell().timeouts(timeouts));
        bench.advance(999);
        assert_eq!(bench.signals_sent(), 0);
        bench.advance(1);
        assert_eq!(bench.blows(process), ["2000 TERM Tree"]);
        bench.vanishes(process, Signal::TERM);
        let poll = bench.poll(process);
        let exit = bench.result(poll).exit.unwrap();
        assert_eq!((exit.reason, exit.shell_code()), (EndReason::Timeout(kind), 143));
    }
}

#[test]
fn output_restarts_the_clock_of_silence_but_not_of_the_whole_life() {
    let mut bench = Bench::new();
    let timeouts = Timeouts { no_output: Some(ms(2_000)), hard: Some(ms(5_000)), ..Timeouts::default() };
    let (_, process) = bench.running(shell().timeouts(timeouts));
    for end in 1..=3 {
        bench.advance(1_500);
        bench.output(process, end);
    }
    assert!(bench.blows(process).is_empty());
    bench.advance(500);
    assert_eq!(bench.blows(process), ["5000 TERM Tree"]);
}

#[test]
fn a_life_without_a_client_ends_after_its_bound() {
    let timeouts = Timeouts { after_disconnect: Some(ms(2_000)), ..Timeouts::default() };
    let mut bench = Bench::new();
    let process = bench.background(shell().timeouts(timeouts));
    bench.advance(1_999);
    let attached = bench.call(Call::Attach { process });
    bench.advance(60_000);
    bench.drops(attached);
    bench.advance(1_000);
    let waiting = bench.wait_for(process, Condition::Exit, Some(5_000));
    bench.advance(5_000);
    assert_eq!(bench.wait_end(waiting), ConditionEnd::TimedOut);
    bench.advance(1_999);
    assert_eq!(bench.signals_sent(), 0, "each client restarts the clock when it leaves");
    bench.advance(1);
    assert_eq!(bench.blows(process).len(), 1);
    bench.vanishes(process, Signal::TERM);
    let poll = bench.poll(process);
    let reason = bench.result(poll).exit.unwrap().reason;
    assert_eq!(reason, EndReason::Timeout(TimeoutKind::AfterDisconnect));
}

#[test]
fn descendants_outlive_a_natural_exit_unless_asked_otherwise() {
    let mut bench = Bench::new();
    let (_, process) = bench.running(shell());
    bench.exited(process, 0);
    bench.closed(process, 0);
    bench.advance(60_000);
    assert_eq!(bench.signals_sent(), 0);
    assert!(bench.view(process).unwrap().has_descendants);

    let mut asked = shell();
    asked.kill_descendants_on_exit = true;
    let (call, process) = bench.running(asked);
    bench.exited(process, 0);
    assert_eq!(bench.blows(process), ["60000 TERM Tree"]);
    bench.closed(process, 0);
    bench.advance(1_000);
    assert_eq!(bench.blows(process), ["60000 TERM Tree", "61000 KILL"]);
    bench.tree_gone(process);
    assert_eq!(bench.result(call).exit.unwrap().reason, EndReason::Exited, "the program's own end");
}
