//! The life of one process: its order, its output, its end.

use super::Found;
use super::facts::{Called, Facts};
use crate::scenario::{Mode, Op};

type Check = fn(&Facts<'_>, &mut Found);

pub(crate) const ALL: [(&str, &str, Check); 8] = [
    ("lives_in_order", "started, then output, then the end; each once", order),
    ("output_has_no_holes", "output events join, and end where the outputs do", output),
    ("closed_is_the_last_of_it", "no output of an attempt follows its closed outputs", closed_last),
    ("early_is_up_to_the_window", "an end is early up to the window and including it", early),
    ("ends_have_causes", "a process ends by itself, or because somebody or something asked for it", causes),
    ("interrupt_kills_one_shots_only", "an interrupt ends no process but one-shots of its turn", interrupt),
    ("own_end_is_told", "a program that ends by itself is reported with its own code", own_end),
    (
        "kill_comes_after_the_grace",
        "who ignores TERM is killed one second after it, no sooner and no later",
        ladder,
    ),
];

/// From TERM to KILL.
const GRACE: u64 = 1_000;
/// How long the feed waits for outputs after an end.
const FEED: u64 = 100;

fn order(facts: &Facts<'_>, found: &mut Found) {
    for call in facts.starts().filter(|call| !call.lines.is_empty() && !facts.is_repeated(call)) {
        for kind in ["process_started", "process_exited", "attempt_denied", "process_removed"] {
            if facts.of_kind(call, kind).count() > 1 {
                found.push(format!("{}: {kind} twice", call.name));
            }
        }
        let started = facts.first(call, "process_started");
        let attempt = facts.first(call, "attempt_started");
        if started.is_some() != attempt.is_some()
            || started.zip(attempt).is_some_and(|(started, attempt)| started < attempt)
        {
            found.push(format!("{}: process_started without attempt_started before it", call.name));
        }
        for kind in ["output", "process_exited", "outputs_closed", "stdin_written", "process_removed"] {
            if facts.first(call, kind).is_some_and(|at| started.is_none_or(|started| started > at)) {
                found.push(format!("{}: {kind} before process_started", call.name));
            }
        }
        let removed = facts.first(call, "process_removed");
        let exited = facts.first(call, "process_exited");
        if removed.is_some_and(|removed| exited.is_none_or(|exited| exited > removed))
            && !facts.anybody_is_stuck()
        {
            found.push(format!("{}: forgotten before its end was told", call.name));
        }
        // What a program is told does not come by the feed: on most tiers nothing orders the two within a millisecond.
        if removed
            .is_some_and(|removed| call.lines.last().is_some_and(|last| facts.is_before(removed, *last)))
        {
            found.push(format!("{}: something of it after it was forgotten", call.name));
        }
    }
}

fn output(facts: &Facts<'_>, found: &mut Found) {
    for call in facts.starts().filter(|call| !facts.is_repeated(call)) {
        for n in ["1", "2"] {
            let mut end = 0;
            for at in facts.of_kind(call, "output").filter(|at| facts.says(*at, "n") == n) {
                let (from, to) = (facts.number(at, "from"), facts.number(at, "to"));
                if from != Some(end) || to <= from {
                    found.push(format!("{}: output {from:?}..{to:?} after {end}", call.name));
                }
                end = to.unwrap_or(end);
            }
            let closed = facts.of_kind(call, "outputs_closed").filter(|at| facts.says(*at, "n") == n);
            for at in closed {
                if facts.number(at, "end") != Some(end) {
                    found.push(format!(
                        "{}: outputs closed at {}, told up to {end}",
                        call.name,
                        facts.says(at, "end")
                    ));
                }
            }
        }
    }
}

fn closed_last(facts: &Facts<'_>, found: &mut Found) {
    for call in facts.starts().filter(|call| !facts.is_repeated(call)) {
        for closed in facts.of_kind(call, "outputs_closed") {
            let n = facts.says(closed, "n");
            let same = |kind| facts.of_kind(call, kind).any(|at| at > closed && facts.says(at, "n") == n);
            if same("output") || same("outputs_closed") {
                found.push(format!("{}: output of attempt {n} after its outputs had closed", call.name));
            }
        }
    }
}

/// The last attempt of a process, by its line.
fn last_attempt(facts: &Facts<'_>, call: &Called<'_>) -> Option<usize> {
    facts.of_kind(call, "attempt_started").last()
}

/// Whether line `at`, an end, says what the program of the attempt that started at line `started` does by itself.
fn is_own_end(facts: &Facts<'_>, call: &Called<'_>, started: usize, at: usize) -> Option<u64> {
    let end = facts.own_end(call, facts.says(started, "under") == "profile")?;
    let code = end.exit.and_then(|code| u64::try_from(code).ok());
    let own = facts.says(at, "reason") == "exited" && code.is_some() && facts.number(at, "code") == code;
    own.then_some(end.at)
}

fn early(facts: &Facts<'_>, found: &mut Found) {
    for call in facts.starts().filter(|call| !facts.is_repeated(call)) {
        let ends = facts.of_kind(call, "attempt_denied").zip(facts.first(call, "attempt_started"));
        let ends = ends.chain(facts.first(call, "process_exited").zip(last_attempt(facts, call)));
        for (at, started) in ends {
            let Some(lived) = is_own_end(facts, call, started, at) else { continue };
            let early = (lived <= facts.window()).to_string();
            if facts.says(at, "early") != early {
                found.push(format!("{} ended after {lived} ms, which is early={early}", call.name));
            }
        }
    }
}

fn causes(facts: &Facts<'_>, found: &mut Found) {
    for call in facts.starts().filter(|call| !facts.is_repeated(call)) {
        for at in facts.of_kind(call, "process_exited") {
            let when = call.when;
            let aimed = |op| facts.done_before(at, op).any(|(_, step)| step.to.as_deref() == Some(call.name));
            let caused = match facts.says(at, "reason") {
                "exited" => facts.acts_like(call, |act| act.exit.is_some()),
                "signalled" => {
                    let keys = facts.done_before(at, Op::Write).any(|(_, step)| {
                        step.to.as_deref() == Some(call.name)
                            && step.input.as_deref().is_some_and(|input| input.contains('\u{3}'))
                    });
                    facts.acts_like(call, |act| act.signal.is_some()) || aimed(Op::Signal) || keys
                }
                "terminated" => aimed(Op::Terminate),
                "cleaned" => facts.done_before(at, Op::Clean).next().is_some(),
                "session_closed" => facts.done_before(at, Op::Close).next().is_some(),
                "one_shot_timeout" => when.mode == Some(Mode::OneShot),
                "hard_timeout" => when.hard_timeout.is_some(),
                "no_output_timeout" => when.no_output_timeout.is_some(),
                "after_disconnect" => when.after_disconnect.is_some(),
                "pruned" => facts.scenario.service.processes_max.is_some(),
                "interrupted" | "disconnected" => when.mode == Some(Mode::OneShot),
                _ => true,
            };
            if !caused {
                found.push(format!(
                    "{} ended as {}, for which there is no cause",
                    call.name,
                    facts.says(at, "reason")
                ));
            }
        }
    }
}

fn interrupt(facts: &Facts<'_>, found: &mut Found) {
    for call in facts.starts().filter(|call| !facts.is_repeated(call)) {
        let Some(at) = facts.first(call, "process_exited") else { continue };
        if facts.says(at, "reason") != "interrupted" {
            continue;
        }
        let turn = call.when.turn.as_deref().unwrap_or("t");
        let interrupts =
            facts.done_before(at, Op::Interrupt).any(|(_, step)| step.turn.as_deref() == Some(turn));
        let aborts = facts.run.lines.iter().take(at).any(|line| line.get("state") == Some("turn_aborted"));
        let one_shot =
            facts.first(call, "process_started").is_some_and(|at| facts.says(at, "one_shot") == "true");
        if !one_shot || !(interrupts || aborts) {
            found.push(format!("{} was ended by an interrupt", call.name));
        }
    }
}

fn own_end(facts: &Facts<'_>, found: &mut Found) {
    let harmless =
        |op| matches!(op, Op::Exec | Op::Poll | Op::Wait | Op::Attach | Op::Decide | Op::Hold | Op::Revoke);
    let mut steps =
        facts.run.steps.iter().filter_map(|step| Some((step, facts.scenario.when.get(step.step)?.get_ref())));
    let disturbed = steps.find(|(_, when)| !harmless(when.op)).map_or(u64::MAX, |(step, _)| step.t);
    for call in facts.starts().filter(|call| !facts.is_repeated(call)) {
        let when = call.when;
        let bounded = when.mode == Some(Mode::OneShot)
            || when.hard_timeout.or(when.no_output_timeout).or(when.after_disconnect).is_some()
            || facts.scenario.service.processes_max.is_some();
        let (Some(started), false) = (last_attempt(facts, call), bounded) else { continue };
        let Some(end) = facts.own_end(call, facts.says(started, "under") == "profile") else { continue };
        let Some(code) = end.exit.and_then(|code| u64::try_from(code).ok()) else { continue };
        // Told at the latest when the feed waits no longer for outputs.
        if facts.t(started) + end.at + end.late + FEED >= disturbed {
            continue;
        }
        let denied =
            facts.of_kind(call, "attempt_denied").next().is_some() && facts.says(started, "n") == "1";
        let told = facts.first(call, "process_exited");
        let right = told
            .is_some_and(|at| facts.says(at, "reason") == "exited" && facts.number(at, "code") == Some(code));
        let asked =
            facts.questions.iter().any(|question| question.who == call.name && question.kind == "retry");
        if !right && !denied && !asked {
            found.push(format!("{} exits with {code} by itself, and that was not told", call.name));
        }
    }
}

fn ladder(facts: &Facts<'_>, found: &mut Found) {
    for call in facts.starts().filter(|call| !facts.is_repeated(call)) {
        let Some(at) = facts.first(call, "process_exited") else { continue };
        let op = match facts.says(at, "reason") {
            "terminated" => Op::Terminate,
            "cleaned" => Op::Clean,
            "session_closed" => Op::Close,
            _ => continue,
        };
        let stubborn = facts.acts_like(call, |act| act.ignore.is_some() || act.hang.is_some());
        let own = facts.acts_like(call, |act| act.signal.is_some() || act.exit == Some(137));
        if facts.says(at, "code") != "137" || !stubborn || own {
            continue;
        }
        let Some(started) = last_attempt(facts, call) else { continue };
        let asked = facts
            .done_before(at, op)
            .filter(|(_, step)| op != Op::Terminate || step.to.as_deref() == Some(call.name));
        let begun = call.done.and_then(|done| facts.nth(done));
        let asked = asked.map(|(step, _)| step).filter(|step| facts.nth(*step) > begun);
        let since = asked.map(|step| step.t.max(facts.t(started))).min();
        let signalled = facts.done_before(at, Op::Signal).next().is_some();
        if let Some(since) = since.filter(|_| !signalled)
            && !(since + GRACE..=since + GRACE + FEED).contains(&facts.t(at))
        {
            found.push(format!(
                "{} was killed {} ms after it was to end",
                call.name,
                facts.t(at).saturating_sub(since)
            ));
        }
    }
}
