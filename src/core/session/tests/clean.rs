//! Interrupt, disconnect and clean, in every phase.

use super::bench::input;
use super::*;
use crate::core::process::EndReason;
use crate::core::session::*;
use crate::core::signal::Signal;

#[test]
fn an_interrupt_while_starting_ends_the_call_and_the_survivor_enters_the_table() {
    let mut bench = Bench::new();
    let call = bench.exec(shell());
    let process = bench.process_of(call);
    let report = bench.interrupt("t");
    assert_eq!((report.waits, report.alive, report.one_shots), (1, vec![process], vec![]));
    let result = bench.result(call);
    assert_eq!((result.end, result.live_process()), (WaitEnd::Interrupted, Some(process)));
    bench.spawned(process);
    bench.advance(60_000);
    assert_eq!(bench.state(process), Some(State::Running));
    assert_eq!((bench.spawns(), bench.signals_sent()), (1, 0));
}

#[test]
fn an_interrupt_ends_the_waits_of_its_turn_and_kills_nobody() {
    let mut bench = Bench::new();
    let process = bench.background(shell().stdin());
    let calls = [
        bench.exec(shell()),
        bench.poll(process),
        bench.wait_for(process, Condition::Exit, None),
        bench.write(input(process, "active")),
        bench.write(input(process, "queued")),
    ];
    let (window, windowed) = bench.running(shell());
    let other = bench.exec(shell().turn("other"));
    let report = bench.interrupt("t");
    assert_eq!(report.waits, 6);
    bench.wrote(process, 0, WriteOutcome::Stopped);
    for call in [calls[0], calls[1], calls[3], calls[4], window] {
        assert_eq!(bench.result(call).end, WaitEnd::Interrupted);
    }
    assert_eq!(bench.wait_end(calls[2]), ConditionEnd::Interrupted);
    assert!(bench.waits(other), "the other turn goes on");
    assert_eq!(bench.signals_sent(), 0);
    assert_eq!(bench.told("interrupted"), ["1000 interrupted t 6"]);
    assert_eq!(bench.state(windowed), Some(State::Running));
}

#[test]
fn an_interrupted_poll_is_answered_once_also_at_the_instant_of_its_yield() {
    let mut bench = Bench::new();
    let process = bench.background(shell());
    let call = bench.poll(process);
    bench.now = bench.now + ms(5_000);
    bench.interrupt("t");
    bench.advance(0);
    assert_eq!(bench.result(call).end, WaitEnd::Interrupted, "a call comes before a deadline of its instant");
}

#[test]
fn the_next_turn_writes_to_a_terminal_that_was_interrupted() {
    let mut bench = Bench::new();
    let (_, process) = bench.running(shell().tty());
    bench.interrupt("t");
    let mut next = input(process, ":q\n");
    next.turn = crate::core::ids::TurnId::new("next");
    bench.write(next);
    assert_eq!(bench.writes(process)[0].1, ":q\n");
}

#[test]
fn an_interrupted_one_shot_dies_with_its_descendants_and_alone() {
    let mut bench = Bench::new();
    let (_, bystander) = bench.running(shell());
    let (call, process) = bench.running(shell().one_shot(None));
    let report = bench.interrupt("t");
    assert_eq!((report.one_shots, report.alive), (vec![process], vec![bystander]));
    let result = bench.result(call);
    assert_eq!((result.end, result.live_process()), (WaitEnd::OneShotInterrupted, None));
    assert_eq!(bench.blows(process), ["0 TERM Tree"]);
    bench.advance(1_000);
    assert_eq!(bench.blows(process), ["0 TERM Tree", "1000 KILL"]);
    bench.vanishes(process, Signal::KILL);
    assert!(bench.blows(bystander).is_empty());
    assert_eq!(bench.view(process).unwrap().exit.unwrap().reason, EndReason::Interrupted);
}

#[test]
fn a_one_shot_interrupted_while_starting_dies_as_soon_as_it_lives() {
    let mut bench = Bench::new();
    let call = bench.exec(shell().one_shot(None));
    let process = bench.process_of(call);
    bench.interrupt("t");
    assert_eq!(bench.result(call).end, WaitEnd::OneShotInterrupted);
    bench.advance(30);
    bench.spawned(process);
    assert_eq!(bench.blows(process), ["30 TERM Tree"]);
}

#[test]
fn a_client_that_disconnects_changes_nothing_for_a_process() {
    let mut bench = Bench::new();
    let process = bench.background(shell().stdin());
    let calls = [
        bench.exec(shell()),
        bench.poll(process),
        bench.wait_for(process, Condition::Exit, None),
        bench.write(input(process, "active")),
        bench.write(input(process, "queued")),
    ];
    for call in calls {
        bench.drops(call);
    }
    bench.wrote(process, 6, WriteOutcome::Whole);
    bench.wrote(process, 6, WriteOutcome::Whole);
    bench.advance(60_000);
    for call in calls {
        assert!(bench.answers(call).is_empty(), "nobody is there to be answered");
    }
    assert_eq!(bench.signals_sent(), 0);
    assert_eq!(bench.told("stdin_written").len(), 2, "what was sent is delivered");
    assert_eq!(bench.state(process), Some(State::Running));
}

#[test]
fn a_one_shot_dies_with_its_client() {
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell().one_shot(None));
    bench.drops(call);
    assert_eq!(bench.blows(process), ["0 TERM Tree"]);
    bench.vanishes(process, Signal::TERM);
    assert_eq!(bench.view(process).unwrap().exit.unwrap().reason, EndReason::Disconnected);
    assert!(bench.answers(call).is_empty());
}

#[test]
fn a_poll_of_a_one_shot_may_be_dropped_without_harm() {
    let mut bench = Bench::new();
    let (_, process) = bench.running(shell().one_shot(None));
    let poll = bench.poll(process);
    bench.drops(poll);
    assert_eq!(bench.signals_sent(), 0);
}

#[test]
fn clean_ends_everything_in_every_phase() {
    let mut bench = Bench::new();
    let running = bench.background(shell());
    let (_, ended) = bench.running(shell());
    bench.finishes(ended, 0);
    let (_, parent) = bench.running(shell());
    bench.exited(parent, 0);
    bench.closed(parent, 0);
    let (_, draining) = bench.running(shell());
    bench.exited(draining, 0);
    let (windowed_call, windowed) = bench.running(shell());
    let starting_call = bench.exec(shell());
    let starting = bench.process_of(starting_call);
    let cleaned = bench.clean();
    for process in [running, parent, draining, windowed] {
        assert_eq!(bench.blows(process), ["1000 TERM Tree"]);
    }
    assert!(bench.blows(ended).is_empty(), "nothing of it is left");
    assert!(bench.blows(starting).is_empty(), "there is nobody to signal yet");
    bench.advance(10);
    bench.spawned(starting);
    assert_eq!(bench.blows(starting), ["1010 TERM Tree"]);
    for process in [running, windowed, starting] {
        bench.vanishes(process, Signal::TERM);
    }
    bench.tree_gone(parent);
    assert!(bench.waits(cleaned));
    bench.tree_gone(draining);
    bench.closed(draining, 0);
    let mut gone: Vec<_> = bench.report(cleaned).ended.iter().map(|(process, _)| *process).collect();
    gone.sort();
    let mut all = vec![running, parent, draining, windowed, starting];
    all.sort();
    assert_eq!(gone, all);
    for (call, reason) in [(windowed_call, EndReason::Cleaned), (starting_call, EndReason::Cleaned)] {
        let result = bench.result(call);
        assert_eq!((result.end, result.exit.unwrap().reason), (WaitEnd::Exited, reason));
    }
    let reason = |bench: &mut Bench, process| bench.view(process).unwrap().exit.unwrap().reason;
    assert_eq!(reason(&mut bench, parent), EndReason::Exited, "it had ended by itself");
    assert_eq!(bench.told("cleaned"), ["1010 cleaned 5 0"]);
}

#[test]
fn cleaned_is_told_after_everything_that_it_ended() {
    let mut bench = Bench::new();
    let process = bench.background(shell());
    let cleaned = bench.clean();
    bench.dies_of(process, Signal::TERM);
    bench.tree_gone(process);
    assert!(bench.waits(cleaned), "its last output may be on the way");
    bench.closed(process, 4);
    let told: Vec<_> = bench.feed().into_iter().skip(2).collect();
    let order =
        ["1000 output 0..4", "1000 process_exited 143 Cleaned", "1000 outputs_closed 4", "1000 cleaned 1 0"];
    assert_eq!(told, order);
    assert!(!bench.waits(cleaned));
    bench.advance(5_000);
    assert_eq!(bench.blows(process).len(), 1, "no KILL for who is gone");
}

#[test]
fn a_later_write_to_a_cleaned_terminal_names_the_reason() {
    let mut bench = Bench::new();
    let process = bench.background(shell().tty());
    bench.clean();
    bench.vanishes(process, Signal::TERM);
    let first = bench.write(input(process, "x"));
    assert_eq!(bench.result(first).exit.unwrap().reason, EndReason::Cleaned);
    let second = bench.write(input(process, "x"));
    match bench.write_error(second) {
        WriteError::Target(TargetError::Gone { exit, .. }) => assert_eq!(exit.reason, EndReason::Cleaned),
        other => panic!("{other:?}"),
    }
}

#[test]
fn clean_of_an_empty_session_answers_at_once() {
    let mut bench = Bench::new();
    let cleaned = bench.clean();
    assert_eq!(*bench.report(cleaned), EndReport::default());
}
