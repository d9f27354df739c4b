//! What calls are told.

use super::Found;
use super::facts::{Called, Facts, Question};
use crate::scenario::{Mode, Op};

type Check = fn(&Facts<'_>, &mut Found);

/// How long an answer about an end waits for the outputs.
const COLLECT: u64 = 50;

pub(crate) const ALL: [(&str, &str, Check); 7] = [
    ("answered_once", "every call gets one answer", answered_once),
    (
        "running_was_true",
        "a process that is told to run had not been told to have ended, nor ended long ago",
        running,
    ),
    ("the_dead_have_no_id", "an answer about an ended process names no process", dead),
    (
        "exit_comes_with_its_output",
        "an exit is told with all output, or after it was waited for",
        exit_output,
    ),
    ("ranges_join", "answers of one process tell its output without gap and without going back", ranges),
    ("questions_hold_deadlines", "no call yields while a question of the session is open", held),
    ("yields_on_time", "a start yields exactly when its clamped time is over", yields),
];

fn answered_once(facts: &Facts<'_>, found: &mut Found) {
    for call in &facts.calls {
        if call.answers.len() > 1 {
            found.push(format!("{} was answered {} times", call.name, call.answers.len()));
        }
        let waits = facts.run.waiting.iter().any(|waiting| waiting == call.name);
        let missed = facts.run.missed.iter().any(|missed| missed.step == call.step);
        if call.done.is_some() && call.answers.is_empty() && !call.dropped && !waits && !missed {
            found.push(format!("{} was neither answered nor waits", call.name));
        }
    }
}

fn running(facts: &Facts<'_>, found: &mut Found) {
    for (call, at) in facts.answers().filter(|(_, at)| facts.says(*at, "process") == "live") {
        // A repeat gets the answer that was true when it was given first.
        if facts.is_repeated(call) {
            continue;
        }
        let Some(process) = facts.target(call).filter(|process| !facts.is_repeated(process)) else {
            continue;
        };
        if facts.first(process, "process_exited").is_some_and(|exited| facts.is_before(exited, at)) {
            found.push(format!("{} was told that {} runs, after its exit", call.name, process.name));
        }
        let started = facts.of_kind(process, "attempt_started").last().filter(|started| *started < at);
        let Some(started) = started else { continue };
        // Between its attempts a process lives, and nothing of it runs.
        let asked = |question: &Question<'_>| {
            question.who == process.name && question.kind == "retry" && question.asked < at
        };
        let denied = facts.of_kind(process, "attempt_denied").any(|denied| denied < at);
        if facts.says(started, "n") == "1" && (denied || facts.questions.iter().any(asked)) {
            continue;
        }
        let sandboxed = facts.says(started, "under") == "profile";
        let Some(end) = facts.own_end(process, sandboxed) else { continue };
        let heard = facts.t(started) + end.at + end.late;
        if facts.t(at) > heard {
            found.push(format!(
                "{} was told that {} runs, which ended {} ms before",
                call.name,
                process.name,
                facts.t(at) - heard
            ));
        }
    }
}

fn dead(facts: &Facts<'_>, found: &mut Found) {
    for (call, at) in facts.answers() {
        let ended = facts.says(at, "end") == "exited" && !facts.says(at, "code").is_empty();
        if ended && facts.says(at, "process") == "live" {
            found.push(format!("{} was told an exit and a process that lives", call.name));
        }
    }
}

fn exit_output(facts: &Facts<'_>, found: &mut Found) {
    for (call, at) in facts.answers().filter(|(_, at)| facts.says(*at, "end") == "exited") {
        let collects =
            matches!(call.when.op, Op::Exec | Op::Poll | Op::Write) && call.when.frame != Some(true);
        // A repeat is told what the first one was told, who may have asked for no output.
        let Some(process) = facts
            .target(call)
            .filter(|process| collects && !facts.is_repeated(process) && !facts.is_repeated(call))
        else {
            continue;
        };
        let n = facts.says(at, "n");
        if facts.says(at, "closed") == "true" {
            let closed =
                facts.of_kind(process, "outputs_closed").find(|closed| facts.says(*closed, "n") == n);
            let end = closed.and_then(|closed| facts.number(closed, "end"));
            if end.is_some_and(|end| facts.number(at, "to") != Some(end)) {
                found.push(format!("{} was told of an end without its last output", call.name));
            }
        } else if let Some(exit) = exit_instant(facts, process, at)
            && facts.t(at) < exit + COLLECT
            && !interrupted_at(facts, facts.t(at))
            && !is_due(facts, call, at)
        {
            found.push(format!(
                "{} was told of an exit {} ms after it, with open outputs",
                call.name,
                facts.t(at) - exit.min(facts.t(at))
            ));
        }
    }
}

/// Whether waits of some turn were ended at this instant: who waits for outputs then is answered with what there is.
fn interrupted_at(facts: &Facts<'_>, t: u64) -> bool {
    facts.run.lines.iter().any(|line| line.kind == "interrupted" && line.t == t)
}

/// Whether an answer can have come because the time of its call was over, however the process was.
fn is_due(facts: &Facts<'_>, call: &Called<'_>, at: usize) -> bool {
    let shortest = match call.when.op {
        Op::Poll => 5_000,
        _ => 250,
    };
    let begun =
        facts.first(call, "attempt_started").map(|at| facts.t(at)).or_else(|| call.done.map(|step| step.t));
    begun.is_some_and(|begun| facts.t(at) >= begun + shortest)
}

/// When the attempt that answer `at` is about ended, if it ended by itself and what it does tells.
fn exit_instant(facts: &Facts<'_>, process: &Called<'_>, at: usize) -> Option<u64> {
    let n = facts.says(at, "n");
    let started = facts.of_kind(process, "attempt_started").find(|started| facts.says(*started, "n") == n)?;
    let end = facts.own_end(process, facts.says(started, "under") == "profile")?;
    let own = facts.says(at, "reason") == "exited"
        && end.exit.is_some_and(|code| facts.number(at, "code") == u64::try_from(code).ok());
    own.then(|| facts.t(started) + end.at)
}

fn ranges(facts: &Facts<'_>, found: &mut Found) {
    for process in facts.starts().filter(|process| !facts.is_repeated(process)) {
        let mut told: Vec<(usize, &Called<'_>)> = Vec::new();
        for (call, at) in facts.answers().filter(|(_, at)| !facts.says(*at, "to").is_empty()) {
            let about = facts.target(call).is_some_and(|about| about.name == process.name);
            if about && call.when.frame != Some(true) {
                told.push((at, call));
            }
        }
        told.sort_unstable_by_key(|(at, _)| *at);
        // Whether a client that went away at the very instant of its answer was told cannot be seen from outside.
        let dropped = facts.run.unordered
            && facts.calls.iter().any(|call| {
                call.dropped && facts.target(call).is_some_and(|about| about.name == process.name)
            });
        let (mut attempt, mut covered) = ("", 0);
        for (at, call) in told {
            let name = call.name;
            let (Some(from), Some(to)) = (facts.number(at, "from"), facts.number(at, "to")) else { continue };
            if facts.says(at, "n") != attempt {
                (attempt, covered) = (facts.says(at, "n"), 0);
            }
            if from > covered && !dropped {
                found.push(format!(
                    "{name} was told {from}..{to} of {}, and nobody {covered}..{from}",
                    process.name
                ));
            }
            if to < from || to < covered && !facts.is_repeated(call) {
                found.push(format!("{name} was told {from}..{to} of {}, behind {covered}", process.name));
            }
            covered = covered.max(to);
        }
    }
}

fn yields(facts: &Facts<'_>, found: &mut Found) {
    for (call, at) in facts.answers().filter(|(_, at)| facts.says(*at, "end") == "yielded") {
        let when = call.when;
        let interactive = matches!(when.mode, None | Some(Mode::Interactive));
        if when.op != Op::Exec || !interactive || facts.is_repeated(call) {
            continue;
        }
        let length = when.yield_ms.unwrap_or(10_000).clamp(250, 30_000);
        let paused = facts.number(at, "paused").unwrap_or(0);
        let due = |started| facts.t(started) + length + paused;
        if !facts.of_kind(call, "attempt_started").any(|started| due(started) == facts.t(at)) {
            found.push(format!(
                "{} yielded at {}, neither {length} ms after its start nor held",
                call.name,
                facts.t(at)
            ));
        }
    }
}

fn held(facts: &Facts<'_>, found: &mut Found) {
    for (call, at) in facts.answers().filter(|(_, at)| facts.says(*at, "end") == "yielded") {
        let open = |question: &&Question<'_>| {
            // A yield that was due at the instant of the question was over.
            facts.t(question.asked) < facts.t(at)
                && question.decided.first().is_none_or(|closed| *closed > at)
        };
        // Who could not be killed is let go of, and a repeat is told what its first was told.
        if facts.anybody_is_stuck() || facts.is_repeated(call) {
            continue;
        }
        if let Some(question) = facts.questions.iter().find(open) {
            found.push(format!("{} yielded while question {} was open", call.name, question.number));
        }
    }
}
