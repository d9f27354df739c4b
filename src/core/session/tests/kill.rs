//! Terminate, the ladder, survivors, and the end of a session.

use super::*;
use crate::core::process::{EndReason, ExitStatus};
use crate::core::session::*;
use crate::core::signal::{Scope, Signal};
use crate::core::time::Instant;

#[test]
fn the_ladder_is_term_then_kill_after_a_second_then_a_report_of_who_survived() {
    let mut bench = Bench::new();
    let process = bench.background(shell());
    let call = bench.terminate(process);
    bench.advance(3_000);
    assert_eq!(bench.blows(process), ["1000 TERM Tree", "2000 KILL", "4000 survey"]);
    assert!(bench.waits(call));
    bench.surveyed(process, &["stuck"]);
    let report = bench.report(call);
    assert!(report.ended.is_empty());
    assert_eq!((report.survivors[0].0, report.survivors[0].1[0].name.as_str()), (process, "stuck"));
    assert_eq!(bench.state(process), Some(State::Running));
    let again = bench.terminate(process);
    assert_eq!(bench.blows(process).len(), 4, "a second attempt climbs anew");
    bench.vanishes(process, Signal::KILL);
    assert_eq!(bench.report(again).ended.len(), 1);
}

#[test]
fn descendants_that_outlive_the_leader_get_the_rest_of_the_ladder() {
    let mut bench = Bench::new();
    let process = bench.background(shell());
    let call = bench.terminate(process);
    bench.dies_of(process, Signal::TERM);
    bench.closed(process, 0);
    assert!(bench.waits(call), "its descendants live");
    bench.advance(1_000);
    assert_eq!(bench.blows(process), ["1000 TERM Tree", "2000 KILL"]);
    bench.tree_gone(process);
    let exit = bench.report(call).ended[0].1.unwrap();
    assert_eq!(exit.reason, EndReason::Terminated);
}

#[test]
fn terminate_during_a_first_yield_gives_that_call_an_exited_result() {
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell());
    let terminated = bench.terminate(process);
    assert_eq!(bench.state(process), Some(State::Stopping));
    bench.vanishes(process, Signal::TERM);
    let result = bench.result(call);
    let exit = result.exit.unwrap();
    assert_eq!((result.end, result.live_process()), (WaitEnd::Exited, None));
    assert_eq!((exit.reason, exit.shell_code()), (EndReason::Terminated, 143));
    assert_eq!(bench.report(terminated).ended, [(process, Some(exit))]);
}

#[test]
fn terminate_wakes_a_poll_and_does_not_queue_behind_it() {
    let mut bench = Bench::new();
    let process = bench.background(shell());
    let poll = bench.poll(process);
    bench.terminate(process);
    bench.vanishes(process, Signal::TERM);
    assert_eq!(bench.result(poll).end, WaitEnd::Exited);
}

#[test]
fn two_terminates_join_one_ladder() {
    let mut bench = Bench::new();
    let process = bench.background(shell());
    let first = bench.terminate(process);
    bench.advance(500);
    let second = bench.terminate(process);
    let cleaned = bench.clean();
    bench.advance(500);
    assert_eq!(bench.blows(process), ["1000 TERM Tree", "2000 KILL"]);
    bench.vanishes(process, Signal::KILL);
    for call in [first, second, cleaned] {
        let exit = bench.report(call).ended[0].1.unwrap();
        assert_eq!(exit.reason, EndReason::Terminated, "the first reason stays");
    }
}

#[test]
fn terminate_of_what_is_gone_touches_nobody() {
    let mut bench = Bench::new();
    let process = bench.background(shell());
    bench.finishes(process, 0);
    let call = bench.terminate(process);
    assert_eq!(*bench.report(call), EndReport::default());
    assert_eq!(bench.signals_sent(), 0);
}

#[test]
fn an_exit_before_the_term_is_the_processs_own() {
    let mut bench = Bench::new();
    let process = bench.background(shell());
    bench.terminate(process);
    bench.ends(process, ExitStatus::Code(0), Instant::from_millis(999));
    assert_eq!(bench.view(process).unwrap().exit.unwrap().reason, EndReason::Exited);
    let process = bench.background(shell());
    bench.terminate(process);
    bench.exited(process, 0);
    let reason = bench.view(process).unwrap().exit.unwrap().reason;
    assert_eq!(reason, EndReason::Terminated, "a program may catch TERM and exit with 0");
}

#[test]
fn a_signal_of_a_caller_is_no_end_of_ours() {
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell());
    let signalled = bench.call(bench::signal(process, Signal::KILL, Scope::Process));
    bench.event(Event::Controlled { call: signalled, result: Ok(()) });
    assert!(matches!(bench.answer(signalled), Answer::Control(Ok(()))));
    bench.vanishes(process, Signal::KILL);
    let exit = bench.result(call).exit.unwrap();
    assert_eq!((exit.reason, exit.shell_code()), (EndReason::Signalled, 137));
    let late = bench.call(bench::signal(process, Signal::TERM, Scope::Tree));
    assert!(matches!(
        bench.answer(late),
        Answer::Control(Err(ControlError::Target(TargetError::Gone { .. })))
    ));
}

#[test]
fn descendants_of_an_ended_process_can_be_signalled_as_a_tree_only() {
    let mut bench = Bench::new();
    let (_, process) = bench.running(shell());
    bench.exited(process, 0);
    bench.closed(process, 0);
    let leader = bench.call(bench::signal(process, Signal::TERM, Scope::Process));
    assert!(matches!(bench.answer(leader), Answer::Control(Err(_))));
    bench.call(bench::signal(process, Signal::TERM, Scope::Tree));
    assert_eq!(bench.blows(process), ["0 TERM Tree"]);
}

#[test]
fn close_ends_everything_answers_everybody_and_forgets() {
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell());
    let (_, ended) = bench.running(shell());
    bench.finishes(ended, 0);
    let follower = bench.call(Call::Attach { process: ended });
    let poll = bench.poll(process);
    let waiting = bench.wait_for(process, Condition::Literal("never".into()), None);
    let closed = bench.call(Call::Close { reason: EndReason::SessionClosed });
    let refused = bench.exec(shell());
    assert_eq!(*bench.start_error(refused), StartError::Closing);
    assert!(!bench.session.is_over());
    bench.dies_of(process, Signal::TERM);
    bench.tree_gone(process);
    assert!(!bench.session.is_over(), "the last output and process_exited are to come");
    bench.advance(100);
    assert!(bench.session.is_over());
    for call in [call, poll] {
        assert_eq!(bench.result(call).exit.unwrap().reason, EndReason::SessionClosed);
    }
    assert_eq!(bench.wait_end(waiting), ConditionEnd::Ended);
    assert!(matches!(bench.answer(follower), Answer::Attached(Ok(()))));
    assert_eq!(bench.report(closed).ended.len(), 1);
    assert_eq!(bench.told("process_exited").len(), 2);
    assert_eq!(bench.told("process_removed").len(), 2);
    assert_eq!(bench.session.next_deadline(), None);
}

#[test]
fn close_lets_go_of_survivors_and_of_whoever_waits_for_them() {
    let mut bench = Bench::new();
    let (call, process) = bench.running(shell().follow());
    let closed = bench.call(Call::Close { reason: EndReason::ServerShutdown });
    bench.advance(3_000);
    bench.surveyed(process, &["stuck"]);
    assert_eq!(bench.report(closed).survivors.len(), 1);
    assert_eq!(bench.result(call).end, WaitEnd::Interrupted);
    assert!(bench.session.is_over());
    assert_eq!(bench.session.next_deadline(), None);
}

#[test]
fn close_while_starting_waits_for_the_start_to_come_to_something() {
    for fails in [true, false] {
        let mut bench = Bench::new();
        let call = bench.exec(shell());
        let process = bench.process_of(call);
        let closed = bench.call(Call::Close { reason: EndReason::SessionClosed });
        assert!(bench.waits(closed));
        if fails {
            bench.spawn_fails(process);
        } else {
            bench.spawned(process);
            bench.vanishes(process, Signal::TERM);
        }
        assert!(bench.session.is_over());
        bench.answer(call);
        bench.answer(closed);
        assert_eq!(bench.told("process_removed").len(), usize::from(!fails), "what never was is not removed");
    }
}

#[test]
fn closing_an_empty_session_is_over_at_once() {
    let mut bench = Bench::new();
    let closed = bench.call(Call::Close { reason: EndReason::SessionClosed });
    assert_eq!(*bench.report(closed), EndReport::default());
    assert!(bench.session.is_over());
}
