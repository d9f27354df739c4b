//! A command becomes a process: phases, window, yields of a start.

use super::bench::input;
use super::*;
use crate::core::ids::ProcessId;
use crate::core::limits::{EARLY_WINDOW, Limits};
use crate::core::process::{ExitStatus, Phase};
use crate::core::session::*;
use crate::core::signal::{Scope, Signal};
use crate::core::time::Instant;

fn phase(bench: &Bench, process: ProcessId) -> &'static str {
    match bench.session.processes.get(&process).map(|process| &process.phase) {
        None => "none",
        Some(Phase::Reserved) => "reserved",
        Some(Phase::Asking { .. }) => "asking",
        Some(Phase::Judging { .. }) => "judging",
        Some(Phase::Starting) => "starting",
        Some(Phase::Window { .. }) => "window",
        Some(Phase::Running { .. }) => "running",
        Some(Phase::Draining { .. }) => "draining",
        Some(Phase::Ended { .. }) => "ended",
    }
}

#[test]
fn a_process_walks_through_its_phases() {
    let mut bench = Bench::new();
    let call = bench.exec(shell());
    let process = bench.process_of(call);
    assert_eq!(phase(&bench, process), "starting");
    assert_eq!(bench.state(process), Some(State::Starting));
    bench.advance(5);
    bench.spawned(process);
    assert_eq!(phase(&bench, process), "window");
    bench.advance(149);
    assert_eq!(phase(&bench, process), "window");
    bench.advance(1);
    assert_eq!(phase(&bench, process), "running");
    assert_eq!(bench.state(process), Some(State::Running));
    bench.exited(process, 0);
    assert_eq!(phase(&bench, process), "draining");
    assert_eq!(bench.state(process), Some(State::Draining));
    bench.closed(process, 0);
    assert_eq!(phase(&bench, process), "ended");
    bench.tree_gone(process);
    bench.advance(600_000);
    assert_eq!(phase(&bench, process), "none");
    assert_eq!(bench.session.next_deadline(), None, "nothing is left behind");
}

#[test]
fn the_feed_tells_a_life_in_order() {
    let mut bench = Bench::new();
    let (_, process) = bench.running(shell());
    bench.output(process, 5);
    bench.advance(10);
    bench.output(process, 9);
    bench.exited(process, 3);
    bench.output(process, 12);
    bench.closed(process, 12);
    let told = [
        "0 attempt_started 1",
        "0 process_started",
        "0 output 0..5",
        "10 output 5..9",
        "10 output 9..12",
        "10 process_exited 3 Exited",
        "10 outputs_closed 12",
    ];
    assert_eq!(bench.feed(), told);
}

#[test]
fn an_exit_is_early_up_to_the_window_and_only_the_reapers_time_counts() {
    for (at, early) in [(149, true), (150, true), (151, false)] {
        let mut bench = Bench::new();
        let (call, process) = bench.running(shell());
        bench.advance(180);
        bench.ends(process, ExitStatus::Code(1), Instant::from_millis(at));
        bench.closed(process, 0);
        let exit = bench.result(call).exit.unwrap();
        assert_eq!(exit.lifetime, ms(at));
        assert_eq!(exit.is_early(EARLY_WINDOW), early, "{at} ms");
    }
}

#[test]
fn a_start_yields_after_its_clamped_time_counted_from_the_spawn() {
    for (asked, waited) in [(1, 250), (250, 250), (7_000, 7_000), (99_000, 30_000)] {
        let mut bench = Bench::new();
        let call = bench.exec(shell().yields(asked));
        bench.advance(40);
        let process = bench.process_of(call);
        bench.spawned(process);
        bench.advance(waited - 1);
        assert!(bench.waits(call), "asked for {asked}");
        bench.output(process, 3);
        bench.advance(1);
        let result = bench.result(call);
        assert_eq!((result.end, result.from, result.next), (WaitEnd::Yielded, 0, 3));
        assert_eq!(result.live_process(), Some(process));
        assert_eq!(result.wall_time, ms(40 + waited));
    }
}

#[test]
fn a_follower_waits_for_the_end_and_its_process_does_not_depend_on_it() {
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell().follow());
    bench.advance(3_600_000);
    assert!(bench.waits(call));
    bench.drops(call);
    assert_eq!(bench.signals_sent(), 0);
    assert_eq!(bench.state(process), Some(State::Running));
}

#[test]
fn a_spawn_that_fails_leaves_nothing_behind() {
    let mut bench = Bench::new();
    let call = bench.exec(shell().stdin().request("r", 1));
    let process = bench.process_of(call);
    let written = bench.write(input(process, "x"));
    let waiting = bench.wait_for(process, Condition::Exit, None);
    let terminated = bench.terminate(process);
    let attached = bench.call(Call::Attach { process });
    bench.spawn_fails(process);
    assert!(matches!(bench.start_error(call), StartError::Spawn(_)));
    assert!(matches!(bench.write_error(written), WriteError::Target(TargetError::Unknown { .. })));
    assert!(matches!(bench.answer(waiting), Answer::Wait(Err(TargetError::Unknown { .. }))));
    assert_eq!(bench.report(terminated).ended, [(process, None)]);
    assert!(matches!(bench.answer(attached), Answer::Attached(Ok(()))));
    assert_eq!(bench.feed(), ["0 spawn_failed"]);
    assert_eq!(bench.state(process), None);
    assert_eq!(bench.session.next_deadline(), None);
}

#[test]
fn an_attempt_starts_once() {
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell());
    bench.spawned(process);
    bench.spawn_fails(process);
    assert!(bench.waits(call));
    bench.exited(process, 0);
    bench.closed(process, 0);
    bench.spawned(process);
    bench.advance(1_000);
    assert_eq!(bench.told("process_exited").len(), 1);
    assert_eq!(bench.told("process_started").len(), 1);
    assert_eq!(bench.state(process), Some(State::Ended));
}

#[test]
fn an_end_that_is_reported_twice_is_told_once() {
    let mut bench = Bench::new();
    let (_, process) = bench.running(shell());
    for _ in 0..2 {
        bench.exited(process, 0);
        bench.closed(process, 0);
        bench.tree_gone(process);
    }
    assert_eq!(bench.feed()[2..], ["0 process_exited 0 Exited", "0 outputs_closed 0"]);
}

#[test]
fn nobody_can_signal_what_is_still_being_started() {
    let mut bench = Bench::new();
    let call = bench.exec(shell());
    let process = bench.process_of(call);
    let signalled = bench.call(bench::signal(process, Signal::INT, Scope::Tree));
    let starting = ControlError::Starting { process };
    assert!(matches!(bench.answer(signalled), Answer::Control(Err(error)) if *error == starting));
    assert_eq!(bench.signals_sent(), 0);
}

#[test]
fn what_cannot_run_as_asked_is_refused_before_a_spawn() {
    let mut bench = Bench::configured(Limits::default(), false);
    let interactive = bench.exec(shell());
    assert_eq!(*bench.start_error(interactive), StartError::NotInteractive);
    let following = bench.exec(shell().follow());
    assert_eq!(*bench.start_error(following), StartError::NotInteractive);
    let mut empty = shell().one_shot(None);
    empty.command.program = crate::core::command::Program::Argv(Vec::new());
    let empty = bench.exec(empty);
    assert!(matches!(bench.start_error(empty), StartError::Invalid(invalid) if invalid.field == "argv"));
    assert_eq!(bench.spawns(), 0);
    bench.exec(shell().one_shot(None));
    assert_eq!(bench.spawns(), 1);
}

#[test]
fn a_call_hears_its_progress_before_its_output() {
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell());
    let progress = bench.progress(call);
    assert!(matches!(progress[0], Progress::Collecting { from: 0, .. }), "{progress:?}");
    assert!(matches!(progress[1], Progress::AttemptStarted { .. }), "{progress:?}");
    assert!(matches!(progress[2], Progress::Started { process: started, .. } if *started == process));
    let spawn = bench.effects.iter().position(|(_, effect)| matches!(effect, Effect::Spawn { .. }));
    assert_eq!(spawn, Some(0), "the log is opened before anybody collects from it");
}

#[test]
fn output_events_end_after_ten_thousand_and_the_log_goes_on() {
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell());
    for end in 1..=10_050 {
        bench.output(process, end);
    }
    assert_eq!(bench.told("output").len(), 10_000);
    assert_eq!(bench.told("output_events_ended").len(), 1);
    bench.advance(1_000);
    assert_eq!(bench.result(call).next, 10_050);
}
