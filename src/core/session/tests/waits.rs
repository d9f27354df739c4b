//! Waits for conditions, followers, and resizes.

use super::*;
use crate::core::command::TerminalSize;
use crate::core::session::*;

#[test]
fn a_wait_for_the_exit_is_over_at_the_exit() {
    let mut bench = Bench::new();
    let process = bench.background(shell());
    let exit = bench.wait_for(process, Condition::Exit, None);
    let closed = bench.wait_for(process, Condition::Closed, None);
    bench.exited(process, 0);
    assert_eq!(bench.wait_end(exit), ConditionEnd::Met(None));
    bench.advance(60_000);
    assert!(bench.waits(closed), "somebody still holds its outputs");
    bench.closed(process, 0);
    assert_eq!(bench.wait_end(closed), ConditionEnd::Met(None));
    let late = bench.wait_for(process, Condition::Exit, None);
    assert_eq!(bench.wait_end(late), ConditionEnd::Met(None));
}

#[test]
fn a_wait_for_output_is_over_at_the_first_byte_past_its_start() {
    let mut bench = Bench::new();
    let process = bench.background(shell());
    bench.output(process, 5);
    let call = bench.wait_for(process, Condition::Output, None);
    assert!(bench.waits(call), "old output is not waited for");
    bench.output(process, 8);
    assert_eq!(bench.wait_end(call), ConditionEnd::Met(Some((5, 8))));
    let never = bench.wait_for(process, Condition::Output, None);
    bench.finishes(process, 0);
    assert_eq!(bench.wait_end(never), ConditionEnd::Ended);
}

#[test]
fn a_search_is_the_hosts_and_stops_with_its_wait() {
    let mut bench = Bench::new();
    let process = bench.background(shell());
    let found = bench.wait_for(process, Condition::Literal("ready".into()), None);
    let late = bench.wait_for(process, Condition::Regex("x+".into()), Some(700));
    let searches = |bench: &Bench| {
        let watch = |effect: &Effect| matches!(effect, Effect::Watch { .. });
        let unwatch = |effect: &Effect| matches!(effect, Effect::Unwatch { .. });
        let count = |of: &dyn Fn(&Effect) -> bool| bench.effects.iter().filter(|(_, e)| of(e)).count();
        (count(&watch), count(&unwatch))
    };
    assert_eq!(searches(&bench), (2, 0));
    bench.event(Event::Watched { wait: found, outcome: WatchOutcome::Found { from: 3, to: 8 } });
    assert_eq!(bench.wait_end(found), ConditionEnd::Met(Some((3, 8))));
    assert_eq!(searches(&bench), (2, 0), "the host stopped by itself");
    bench.advance(700);
    assert_eq!(bench.wait_end(late), ConditionEnd::TimedOut);
    assert_eq!(searches(&bench), (2, 1));
    bench.event(Event::Watched { wait: late, outcome: WatchOutcome::Ended { at: 9 } });
    assert_eq!(bench.answers(late).len(), 1);
}

#[test]
fn a_follower_is_answered_when_the_process_is_forgotten() {
    let mut bench = Bench::new();
    let process = bench.background(shell());
    let stays = bench.call(Call::Attach { process });
    let leaves = bench.call(Call::Attach { process });
    bench.drops(leaves);
    bench.finishes(process, 0);
    bench.advance(599_999);
    assert!(bench.waits(stays));
    bench.advance(1);
    assert!(matches!(bench.answer(stays), Answer::Attached(Ok(()))));
    assert!(bench.answers(leaves).is_empty());
}

#[test]
fn a_follower_hears_of_the_exit_once_whenever_it_came() {
    let mut bench = Bench::new();
    let process = bench.background(shell());
    let before = bench.call(Call::Attach { process });
    bench.exited(process, 3);
    let between = bench.call(Call::Attach { process });
    bench.closed(process, 0);
    let after = bench.call(Call::Attach { process });
    bench.advance(1_000);
    for call in [before, between, after] {
        assert!(
            matches!(bench.progress(call)[..], [Progress::Exited { exit, .. }] if exit.shell_code() == 3)
        );
    }
}

#[test]
fn a_search_that_lost_output_says_so() {
    let mut bench = Bench::new();
    let process = bench.background(shell());
    let call = bench.wait_for(process, Condition::Literal("x".into()), None);
    bench.event(Event::Watched { wait: call, outcome: WatchOutcome::Lost { from: 4, to: 9 } });
    assert_eq!(bench.wait_end(call), ConditionEnd::Lost { from: 4, to: 9 });
}

#[test]
fn only_terminals_have_a_size() {
    let mut bench = Bench::new();
    let pipe = bench.background(shell());
    let size = TerminalSize { rows: 50, cols: 132 };
    let refused = bench.call(Call::Resize { process: pipe, size });
    let no_terminal = ControlError::Failed(ControlFailure::NoTerminal);
    assert!(matches!(bench.answer(refused), Answer::Control(Err(error)) if *error == no_terminal));
    let process = bench.background(shell().tty());
    let call = bench.call(Call::Resize { process, size });
    assert!(bench.waits(call), "the host says whether it worked");
    bench.event(Event::Controlled { call, result: Ok(()) });
    assert!(matches!(bench.answer(call), Answer::Control(Ok(()))));
    assert_eq!(bench.view(process).unwrap().terminal, Some(size));
    bench.finishes(process, 0);
    let late = bench.call(Call::Resize { process, size });
    let gone = |error: &ControlError| matches!(error, ControlError::Target(TargetError::Gone { .. }));
    assert!(matches!(bench.answer(late), Answer::Control(Err(error)) if gone(error)));
}

#[test]
fn a_session_and_its_processes_can_be_described() {
    let mut bench = Bench::new();
    let process = bench.background(shell());
    let ended = bench.background(shell());
    bench.finishes(ended, 0);
    let call = bench.call(Call::Describe);
    match bench.answer(call) {
        Answer::Session(view) => assert_eq!((view.live, view.policy_revision, view.closing), (1, 1, false)),
        other => panic!("{other:?}"),
    }
    for (include_ended, count) in [(false, 1), (true, 2)] {
        let call = bench.call(Call::List { include_ended });
        assert!(matches!(bench.answer(call), Answer::Processes(views) if views.len() == count));
    }
    assert_eq!(bench.state(process), Some(State::Running));
}
