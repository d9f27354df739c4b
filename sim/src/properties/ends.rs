//! What must come in the end: once faults have stopped and everything that lives was to end.

use super::Found;
use super::facts::Facts;
use crate::scenario::{Mode, Op};

type Check = fn(&Facts<'_>, &mut Found);

pub(crate) const ALL: [(&str, &str, Check); 4] = [
    ("cleaned_leaves_nothing", "after a clean nothing that it was about lives", cleaned),
    ("calls_end", "every call that has a bound has ended by its bound", calls_end),
    ("nothing_is_left", "after a last clean or close no process, question or call is left", nothing_left),
    ("no_livelock", "a millisecond holds a bounded number of events", livelock),
];

/// Beyond every yield, bound and drain of one call that no question and no lease holds: the longest yield, and a start.
const LONGEST: u64 = 60_000;
/// More lines than that in one millisecond are no run but a loop.
const LINES_AT_ONCE: usize = 10_000;

fn cleaned(facts: &Facts<'_>, found: &mut Found) {
    for (at, line) in facts.run.lines.iter().enumerate().filter(|(_, line)| line.kind == "cleaned") {
        if line.get("survivors") != Some("0") {
            if !facts.anybody_is_stuck() {
                found.push(format!("a clean at {} left somebody alive", line.t));
            }
            continue;
        }
        // Of several sweeps that run at once each tells its own; the earliest that is not yet told began last.
        let sweeps = facts.run.steps.iter().filter(|step| step.line <= at).filter(|step| {
            facts
                .scenario
                .when
                .get(step.step)
                .is_some_and(|when| matches!(when.get_ref().op, Op::Clean | Op::Close))
        });
        let Some(sweep) = sweeps.min_by_key(|step| step.line) else { continue };
        for call in facts.starts().filter(|call| !facts.is_repeated(call)) {
            let before = facts.first(call, "process_started").is_some_and(|started| started < sweep.line);
            let alive = facts.first(call, "process_exited").is_none_or(|exited| exited > at);
            if before && alive && !facts.anybody_is_stuck() {
                found.push(format!("{} lives after the clean at {}", call.name, line.t));
            }
        }
    }
}

/// The line at which the last clean or close of a scenario was asked for, if nothing was asked for later.
fn last_sweep(facts: &Facts<'_>) -> Option<(crate::run::Step, Op)> {
    let last = facts.run.steps.last()?;
    let when = facts.scenario.when.get(last.step)?.get_ref();
    matches!(when.op, Op::Clean | Op::Close).then_some((*last, when.op))
}

fn calls_end(facts: &Facts<'_>, found: &mut Found) {
    let Some((sweep, _)) = last_sweep(facts) else { return };
    let held = facts
        .questions
        .iter()
        .any(|question| question.decided.first().is_none_or(|closed| facts.t(*closed) + LONGEST >= sweep.t));
    for call in facts.calls.iter().filter(|call| !call.dropped && !facts.is_repeated(call)) {
        let bounded = match call.when.op {
            Op::Exec => !matches!(call.when.mode, Some(Mode::Follow)) && !facts.anybody_is_stuck(),
            Op::Write => call.when.frame != Some(true),
            Op::Poll => true,
            Op::Wait => call.when.timeout.is_some(),
            Op::Attach => false,
            Op::Clean | Op::Close | Op::Terminate => !facts.anybody_is_stuck(),
            _ => true,
        };
        let Some(done) = call.done.filter(|done| bounded && !held && done.t + LONGEST < sweep.t) else {
            continue;
        };
        let late = call.answers.first().is_none_or(|at| *at >= sweep.line);
        let missed = facts.run.missed.iter().any(|missed| missed.step == call.step);
        if late && !missed {
            found.push(format!("{} of {} has no answer at {}", call.name, done.t, sweep.t));
        }
    }
}

fn nothing_left(facts: &Facts<'_>, found: &mut Found) {
    let Some((_, op)) = last_sweep(facts) else { return };
    if facts.anybody_is_stuck() {
        return;
    }
    let run = facts.run;
    for (what, count) in
        [("live processes", run.live), ("children", run.children), ("questions", run.questions)]
    {
        if count > 0 {
            found.push(format!("{count} {what} are left at the end"));
        }
    }
    let following =
        |name: &String| op == Op::Clean && facts.call(name).is_some_and(|call| call.when.op == Op::Attach);
    for waiting in run.waiting.iter().filter(|name| !following(name)) {
        found.push(format!("{waiting} waits at the end"));
    }
}

fn livelock(facts: &Facts<'_>, found: &mut Found) {
    let lines = &facts.run.lines;
    let spans = lines.iter().zip(lines.iter().skip(LINES_AT_ONCE));
    if let Some((line, _)) = spans.into_iter().find(|(first, last)| first.t == last.t) {
        found.push(format!("more than {LINES_AT_ONCE} lines at {}", line.t));
    }
}
