//! Input: order, offsets, ends, and writes that do not get through.

use super::bench::input;
use super::*;
use crate::core::limits::INPUT_QUEUE_MAX;
use crate::core::process::EndReason;
use crate::core::session::*;
use crate::core::signal::Signal;

#[test]
fn input_is_delivered_in_order_one_piece_at_a_time() {
    let mut bench = Bench::new();
    let process = bench.background(shell().stdin());
    let first = bench.write(input(process, "one\n"));
    let second = bench.write(input(process, "two\n"));
    assert_eq!(bench.writes(process).len(), 1, "the second waits for the first");
    bench.wrote(process, 4, WriteOutcome::Whole);
    assert_eq!(bench.writes(process)[1].1, "two\n");
    bench.wrote(process, 4, WriteOutcome::Whole);
    assert_eq!(bench.told("stdin_written"), ["1000 stdin_written 0..4", "1000 stdin_written 4..8"]);
    bench.advance(250);
    assert_eq!(bench.result(first).stdin, Some((0, 4)));
    assert_eq!(bench.result(second).stdin, Some((4, 8)));
    assert_eq!(bench.result(second).end, WaitEnd::Yielded);
}

#[test]
fn input_sent_while_starting_is_delivered_after_the_spawn() {
    let mut bench = Bench::new();
    let start = bench.exec(shell().stdin());
    let process = bench.process_of(start);
    bench.write(input(process, "early"));
    assert!(bench.writes(process).is_empty());
    bench.spawned(process);
    assert_eq!(bench.writes(process)[0].1, "early");
}

#[test]
fn a_terminal_gets_100_ms_to_react_before_output_is_collected() {
    for (exec, waits) in [(shell().tty(), 350), (shell().stdin(), 250)] {
        let mut bench = Bench::new();
        let process = bench.background(exec);
        let call = bench.write(input(process, "x").yields(1));
        bench.wrote(process, 1, WriteOutcome::Whole);
        bench.advance(waits - 1);
        assert!(bench.waits(call));
        bench.advance(1);
        assert_eq!(bench.result(call).end, WaitEnd::Yielded);
    }
}

#[test]
fn the_yield_counts_from_the_delivery() {
    let mut bench = Bench::new();
    let process = bench.background(shell().stdin());
    let call = bench.write(input(process, "x").yields(5_000));
    bench.advance(3_000);
    bench.wrote(process, 1, WriteOutcome::Whole);
    bench.advance(4_999);
    assert!(bench.waits(call));
    bench.advance(1);
    assert_eq!(bench.result(call).end, WaitEnd::Yielded);
}

#[test]
fn a_poll_waits_at_least_five_seconds() {
    let mut bench = Bench::new();
    let process = bench.background(shell());
    for (asked, waited) in [(1, 5_000), (400_000, 300_000)] {
        let call = bench.write(input(process, "").yields(asked));
        bench.advance(waited - 1);
        assert!(bench.waits(call), "asked for {asked}");
        bench.advance(1);
        assert_eq!(bench.result(call).end, WaitEnd::Yielded);
        assert_eq!(bench.result(call).stdin, None);
    }
    assert!(bench.writes(process).is_empty());
}

#[test]
fn a_repeated_prefix_is_skipped_and_a_gap_is_refused() {
    let mut bench = Bench::new();
    let process = bench.background(shell().stdin());
    bench.write(input(process, "hello").at(0).frame());
    bench.wrote(process, 5, WriteOutcome::Whole);
    let overlapping = bench.write(input(process, "lo world").at(3).frame());
    assert_eq!(bench.writes(process)[1].1, " world");
    bench.wrote(process, 6, WriteOutcome::Whole);
    assert_eq!(bench.result(overlapping).stdin, Some((5, 11)));
    let known = bench.write(input(process, "hello").at(0).frame());
    assert_eq!(bench.result(known).end, WaitEnd::Delivered);
    assert_eq!(bench.writes(process).len(), 2, "nothing is delivered twice");
    let gap = bench.write(input(process, "!").at(12).frame());
    assert_eq!(*bench.write_error(gap), WriteError::OffsetGap { offset: 12, expected: 11 });
}

#[test]
fn an_eof_ends_the_input_of_a_pipe() {
    let mut bench = Bench::new();
    let process = bench.background(shell().stdin());
    let last = bench.write(input(process, "bye").eof().frame());
    let behind = bench.write(input(process, "late").frame());
    assert_eq!(bench.writes(process), [(1, "bye".into(), true)]);
    bench.wrote(process, 3, WriteOutcome::Whole);
    assert_eq!(bench.result(last).stdin, Some((0, 3)));
    assert_eq!(bench.told("stdin_written"), ["1000 stdin_written 0..3 eof"]);
    let ended = WriteError::StdinEnded { process, committed: 3, by: "an earlier eof" };
    assert_eq!(*bench.write_error(behind), ended);
    let later = bench.write(input(process, "x"));
    assert_eq!(*bench.write_error(later), ended);
    assert!(!bench.view(process).unwrap().stdin_open);
    let poll = bench.poll(process);
    assert!(bench.waits(poll), "a poll needs no input");
}

#[test]
fn an_eof_on_a_terminal_is_a_character_and_more_may_follow() {
    let mut bench = Bench::new();
    let process = bench.background(shell().tty());
    bench.write(input(process, "").eof().frame());
    bench.wrote(process, 0, WriteOutcome::Whole);
    bench.write(input(process, "more").frame());
    assert_eq!(bench.writes(process).len(), 2);
}

#[test]
fn a_write_that_outlasts_its_yield_stops_at_a_committed_offset() {
    let mut bench = Bench::new();
    let process = bench.background(shell().stdin());
    let call = bench.write(input(process, "0123456789"));
    bench.advance(250);
    assert_eq!(bench.stops(), 1);
    assert!(bench.waits(call), "the offset is not known yet");
    bench.wrote(process, 4, WriteOutcome::Stopped);
    let result = bench.result(call);
    assert_eq!((result.end, result.stdin), (WaitEnd::Yielded, Some((0, 4))));
    assert_eq!(bench.told("stdin_written"), ["1250 stdin_written 0..4"]);
    bench.write(input(process, "456789").at(4).frame());
    assert_eq!(bench.writes(process)[1].1, "456789", "the rest goes on from there");
}

#[test]
fn an_interrupted_large_write_stops_at_a_committed_offset() {
    let mut bench = Bench::new();
    let process = bench.background(shell().stdin());
    let call = bench.write(input(process, "0123456789"));
    let queued = bench.write(input(process, "never"));
    assert_eq!(bench.interrupt("t").waits, 2);
    assert_eq!((bench.result(queued).end, bench.result(queued).stdin), (WaitEnd::Interrupted, Some((0, 0))));
    assert_eq!(bench.stops(), 1);
    bench.advance(250);
    bench.wrote(process, 6, WriteOutcome::Stopped);
    let result = bench.result(call);
    assert_eq!((result.end, result.stdin), (WaitEnd::Interrupted, Some((0, 6))), "not Yielded");
    assert_eq!(bench.stops(), 1);
    assert_eq!(bench.writes(process).len(), 1, "what was interrupted in the queue is never delivered");
    assert_eq!(bench.signals_sent(), 0);
}

#[test]
fn input_that_never_got_its_turn_reports_where_the_input_is_now() {
    let mut bench = Bench::new();
    let process = bench.background(shell().stdin());
    bench.write(input(process, "0123456789").yields(30_000));
    bench.write(input(process, "abc").yields(30_000));
    let last = bench.write(input(process, "def"));
    bench.advance(200);
    bench.wrote(process, 10, WriteOutcome::Whole);
    bench.advance(50);
    let result = bench.result(last);
    assert_eq!((result.end, result.stdin), (WaitEnd::Yielded, Some((10, 10))));
}

#[test]
fn a_broken_pipe_followed_by_the_exit_tells_the_exit() {
    let mut bench = Bench::new();
    let process = bench.background(shell().stdin());
    let call = bench.write(input(process, "x").yields(1_000));
    bench.wrote(process, 0, WriteOutcome::Broken);
    assert!(bench.waits(call));
    bench.finishes(process, 9);
    assert_eq!(bench.result(call).exit.unwrap().shell_code(), 9);
}

#[test]
fn a_broken_pipe_of_a_process_that_lives_is_an_error() {
    let mut bench = Bench::new();
    let process = bench.background(shell().stdin());
    let call = bench.write(input(process, "xyz").yields(1_000));
    bench.wrote(process, 2, WriteOutcome::Broken);
    bench.advance(1_000);
    let ended = WriteError::StdinEnded { process, committed: 2, by: "the program" };
    assert_eq!(*bench.write_error(call), ended);
    let later = bench.write(input(process, "x").frame());
    assert_eq!(*bench.write_error(later), ended);
}

#[test]
fn a_process_without_stdin_takes_only_an_interrupt_as_a_signal_to_its_group() {
    let mut bench = Bench::new();
    let process = bench.background(shell());
    let refused = bench.write(input(process, "y\n"));
    assert_eq!(*bench.write_error(refused), WriteError::NoStdin { process });
    let eof = bench.write(input(process, "\u{3}").eof());
    assert_eq!(*bench.write_error(eof), WriteError::NoStdin { process });
    let twice = bench.write(input(process, "\u{3}\u{3}"));
    assert_eq!(*bench.write_error(twice), WriteError::NoStdin { process });
    let call = bench.write(input(process, "\u{3}"));
    assert_eq!(bench.blows(process), ["1000 INT Group"]);
    bench.dies_of(process, Signal::INT);
    bench.closed(process, 0);
    let exit = bench.result(call).exit.unwrap();
    assert_eq!((exit.shell_code(), exit.reason), (130, EndReason::Signalled));
}

#[test]
fn an_interrupt_character_waits_for_the_spawn() {
    let mut bench = Bench::new();
    let start = bench.exec(shell());
    let process = bench.process_of(start);
    bench.write(input(process, "\u{3}"));
    assert!(bench.blows(process).is_empty(), "there is nobody to signal");
    bench.spawned(process);
    assert_eq!(bench.blows(process), ["0 INT Group"]);
}

#[test]
fn an_interrupt_character_in_a_stream_is_acknowledged_at_once() {
    let mut bench = Bench::new();
    let process = bench.background(shell());
    let frame = bench.write(input(process, "\u{3}").frame());
    assert_eq!(bench.result(frame).end, WaitEnd::Delivered);
}

#[test]
fn an_interrupt_character_to_a_terminal_is_input() {
    let mut bench = Bench::new();
    let process = bench.background(shell().tty());
    bench.write(input(process, "\u{3}"));
    assert_eq!(bench.writes(process)[0].1, "\u{3}");
    assert_eq!(bench.signals_sent(), 0);
}

#[test]
fn too_much_waiting_input_is_refused() {
    let mut bench = Bench::new();
    let process = bench.background(shell().stdin());
    for _ in 0..=INPUT_QUEUE_MAX {
        bench.write(input(process, "x").frame());
    }
    let call = bench.write(input(process, "x").frame());
    assert_eq!(
        *bench.write_error(call),
        WriteError::QueueFull { process, limit: INPUT_QUEUE_MAX, committed: 0 }
    );
    let poll = bench.poll(process);
    assert!(bench.waits(poll), "a poll never queues behind input");
}

#[test]
fn an_acknowledged_frame_leaves_output_and_end_to_the_next_poll() {
    let mut bench = Bench::new();
    let process = bench.background(shell().stdin());
    let frame = bench.write(input(process, "exit\n").frame());
    bench.output(process, 7);
    bench.wrote(process, 5, WriteOutcome::Whole);
    assert_eq!((bench.result(frame).from, bench.result(frame).next), (0, 0));
    let last = bench.write(input(process, "x").frame());
    bench.finishes(process, 0);
    assert_eq!(bench.result(last).end, WaitEnd::Exited);
    let poll = bench.poll(process);
    let result = bench.result(poll);
    assert_eq!((result.end, result.from, result.next), (WaitEnd::Exited, 0, 7));
}

#[test]
fn a_frame_whose_client_went_away_does_not_keep_the_lane() {
    let mut bench = Bench::new();
    let process = bench.background(shell().stdin());
    let stuck = bench.write(input(process, "big").frame());
    bench.drops(stuck);
    bench.advance(10);
    bench.write(input(process, "y").yields(30_000));
    bench.advance(29_989);
    assert_eq!(bench.stops(), 0);
    bench.advance(1);
    assert_eq!(bench.stops(), 1);
    bench.wrote(process, 1, WriteOutcome::Stopped);
    assert!(bench.answers(stuck).is_empty());
    assert_eq!(bench.writes(process)[1].1, "y");
}

#[test]
fn reads_move_the_cursor_and_dropped_calls_do_not() {
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell());
    bench.output(process, 10);
    bench.drops(call);
    assert_eq!(bench.view(process).unwrap().cursor, 0);
    let poll = bench.poll(process);
    bench.advance(5_000);
    assert_eq!((bench.result(poll).from, bench.result(poll).next), (0, 10));
    bench.event(Event::Read { process, attempt: crate::core::ids::AttemptNumber::FIRST, to: 14 });
    bench.output(process, 20);
    let poll = bench.poll(process);
    bench.advance(5_000);
    assert_eq!((bench.result(poll).from, bench.result(poll).next), (14, 20));
}

#[test]
fn a_write_whose_client_went_away_tells_nobody_anything() {
    let mut bench = Bench::new();
    let process = bench.background(shell().stdin());
    let seen = bench.view(process).unwrap().cursor;
    let write = bench.write(input(process, "ls\n"));
    bench.drops(write);
    bench.wrote(process, 3, WriteOutcome::Whole);
    bench.output(process, seen + 9);
    bench.finishes(process, 0);
    assert_eq!(bench.view(process).unwrap().cursor, seen);
    let poll = bench.poll(process);
    assert_eq!((bench.result(poll).from, bench.result(poll).next), (seen, seen + 9));
    assert_eq!(bench.result(poll).end, WaitEnd::Exited);
}
