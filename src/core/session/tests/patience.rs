//! What stands still while a question is open, and what does not; slots and lanes of a start that asks.

use super::asking::*;
use super::bench::input;
use super::*;
use crate::core::approval::{Permissions, Verdict};
use crate::core::limits::Limits;
use crate::core::policy::{ApprovalPolicy, RuleDecision};
use crate::core::session::*;

#[test]
fn yield_deadlines_stand_still_while_a_question_is_open_and_then_go_on_exactly() {
    let mut bench = Bench::of(sandboxed(ApprovalPolicy::OnRequest));
    let (running, _) = bench.running(shell().yields(1_000));
    bench.advance(400);
    bench.asked(shell().asks_for(Permissions::Escalated));
    bench.advance(5_000);
    assert!(bench.waits(running));
    bench.declines();
    bench.advance(599);
    assert!(bench.waits(running));
    bench.advance(1);
    let result = bench.result(running);
    assert_eq!((result.end, result.paused, result.wall_time), (WaitEnd::Yielded, ms(5_000), ms(6_000)));
}

#[test]
fn two_questions_and_a_lease_hold_deadlines_until_the_last_of_them_is_gone() {
    let mut bench = Bench::of(sandboxed(ApprovalPolicy::OnRequest));
    let (running, _) = bench.running(shell().yields(1_000));
    bench.asked(shell().asks_for(Permissions::Escalated));
    bench.asked(shell().asks_for(Permissions::Escalated));
    bench.hold("l", 10_000);
    bench.advance(2_000);
    bench.declines();
    bench.advance(2_000);
    let first = bench.questions()[0].id.clone();
    bench.decide(&first, Verdict::Decline);
    bench.advance(5_999);
    assert!(bench.waits(running));
    bench.advance(1_000);
    assert!(bench.waits(running));
    bench.advance(1);
    assert_eq!(bench.result(running).paused, ms(10_000));
}

#[test]
fn an_open_question_holds_no_bound_on_a_life() {
    let mut bench = Bench::of(sandboxed(ApprovalPolicy::OnRequest));
    let (_, one_shot) = bench.running(shell().one_shot(Some(2_000)));
    let hard = Timeouts { hard: Some(ms(3_000)), ..Timeouts::default() };
    let (_, bounded) = bench.running(shell().timeouts(hard));
    let silent = Timeouts { no_output: Some(ms(1_000)), ..Timeouts::default() };
    let (_, quiet) = bench.running(shell().timeouts(silent));
    bench.asked(shell().asks_for(Permissions::Escalated));
    bench.advance(3_000);
    assert_eq!(bench.blows(one_shot), ["2000 TERM Tree", "3000 KILL"]);
    assert_eq!(bench.blows(bounded), ["3000 TERM Tree"]);
    assert_eq!(bench.blows(quiet)[..2], ["1000 TERM Tree", "2000 KILL"]);
}

#[test]
fn a_start_waits_its_whole_yield_after_its_own_question() {
    let mut bench = wary();
    let (call, process) = bench.asked(shell().yields(1_000));
    bench.advance(9_000);
    bench.approves();
    bench.advance(500);
    bench.spawned(process);
    bench.advance(999);
    assert!(bench.waits(call));
    bench.advance(1);
    assert_eq!(
        (bench.result(call).end, bench.result(call).live_process()),
        (WaitEnd::Yielded, Some(process))
    );
}

#[test]
fn a_start_that_asks_takes_no_slot_and_may_find_none_when_it_is_approved() {
    let limits =
        Limits { processes_max: 1, when_full: crate::core::limits::WhenFull::Reject, ..Limits::default() };
    let mut bench = Bench::built(sandboxed(ApprovalPolicy::UnlessTrusted), limits, true);
    let (asking, _) = bench.asked(shell());
    bench.assessment = ruled(RuleDecision::Allow);
    let (_, running) = bench.running(shell());
    assert_eq!(bench.state(running), Some(State::Running), "the one that asks is in nobody's way");
    bench.approves();
    assert_eq!(*bench.start_error(asking), StartError::TableFull { limit: 1 });
    assert_eq!((bench.session.processes.len(), bench.spawns()), (1, 1));
}

#[test]
fn input_and_signals_find_nothing_before_an_answer() {
    let mut bench = wary();
    let (_, process) = bench.asked(shell().stdin());
    let write = bench.write(input(process, "x"));
    assert_eq!(*bench.write_error(write), WriteError::NotStarted { process });
    let signal = bench.call(super::bench::signal(
        process,
        crate::core::signal::Signal::INT,
        crate::core::signal::Scope::Tree,
    ));
    assert!(matches!(bench.answer(signal), Answer::Control(Err(ControlError::Starting { .. }))));
    let poll = bench.poll(process);
    bench.declines();
    assert!(matches!(bench.write_error(poll), WriteError::Target(TargetError::Unknown { .. })));
}

#[test]
fn what_is_looked_up_when_an_interrupt_comes_starts_nothing() {
    let mut bench = wary();
    bench.slow_host = true;
    let call = bench.exec(shell());
    bench.interrupt("t");
    assert_eq!(*bench.start_error(call), StartError::Cancelled);
    let process = bench.effects.iter().find_map(|(_, effect)| match effect {
        Effect::Assess { process, .. } => Some(*process),
        _ => None,
    });
    let process = process.unwrap();
    bench.event(Event::Assessed { process, assessment: ruled(RuleDecision::Allow) });
    bench.assert_nothing_of(process);
}
