//! The table of processes: its bound, who makes room, and what is asked for twice.

use super::Found;
use super::facts::{Called, Facts};
use crate::scenario::{Mode, Op, When};

type Check = fn(&Facts<'_>, &mut Found);

/// So many of the most recently used processes are never pruned.
const PROTECTED: usize = 8;

pub(crate) const ALL: [(&str, &str, Check); 4] = [
    ("table_keeps_its_bound", "no more processes live than the table holds", bound),
    ("the_busy_are_not_pruned", "who is waited for is not pruned", busy),
    ("the_recent_are_not_pruned", "the most recently used processes are not pruned", recent),
    ("asked_twice_happens_once", "a request that comes again starts nothing again", repeats),
];

fn bound(facts: &Facts<'_>, found: &mut Found) {
    // Whoever cannot be killed has given up its slot without an end that would tell.
    if facts.anybody_is_stuck() {
        return;
    }
    let limit = facts.scenario.service.processes_max.unwrap_or(64);
    let mut events: Vec<(usize, bool)> = Vec::new();
    for call in facts.starts() {
        // Whoever is being ended may give its slot up before it has ended.
        let ended_by_us = facts
            .of_kind(call, "process_exited")
            .any(|at| !matches!(facts.says(at, "reason"), "exited" | "signalled" | "session_closed"));
        if ended_by_us || facts.is_repeated(call) {
            continue;
        }
        events.extend(facts.first(call, "process_started").map(|at| (at, true)));
        events.extend(facts.first(call, "process_exited").map(|at| (at, false)));
        let removed =
            facts.first(call, "process_removed").filter(|_| facts.first(call, "process_exited").is_none());
        events.extend(removed.map(|at| (at, false)));
    }
    events.sort_unstable();
    let mut live = 0usize;
    for (at, starts) in events {
        live = if starts { live + 1 } else { live.saturating_sub(1) };
        if live > limit {
            found.push(format!("{live} processes live at {}, and the table holds {limit}", facts.t(at)));
            return;
        }
    }
}

fn pruned<'f>(facts: &'f Facts<'_>) -> impl Iterator<Item = (&'f Called<'f>, usize)> {
    facts.starts().filter(|call| !facts.is_repeated(call)).filter_map(|call| {
        let at = facts.first(call, "process_exited").filter(|at| facts.says(*at, "reason") == "pruned")?;
        Some((call, at))
    })
}

fn busy(facts: &Facts<'_>, found: &mut Found) {
    for (call, _) in pruned(facts) {
        let own = call.answers.iter().any(|at| facts.says(*at, "reason") == "pruned");
        if own && call.when.mode != Some(Mode::OneShot) {
            found.push(format!("{} was pruned while its own start waited for it", call.name));
        }
    }
}

/// Uses are starts, input, polls, waits and signals. Whoever was used after the victim, and had started by then, is more
/// recent; a victim needs so many of them, and one more that takes its slot.
fn recent(facts: &Facts<'_>, found: &mut Found) {
    for (victim, exited) in pruned(facts) {
        let uses = |call: &Called<'_>| {
            let refused = |when: &When| {
                let by = when.call.as_deref().and_then(|name| facts.call(name));
                by.is_some_and(|by| by.answers.iter().any(|at| !facts.says(*at, "error").is_empty()))
            };
            let about = |op| {
                let aimed = facts.done_before(exited, op);
                aimed.filter(|(_, when)| when.to.as_deref() == Some(call.name) && !refused(when))
            };
            let aimed = [Op::Write, Op::Poll, Op::Wait, Op::Attach, Op::Signal].into_iter().flat_map(about);
            // A call after the decision, which comes at most 3 s before the end, does not count; and one that was refused is none.
            aimed
                .map(|(step, _)| step)
                .filter(|step| step.t + 3_200 < facts.t(exited))
                .chain(call.done)
                .max_by_key(|step| step.line)
        };
        let Some(last) = uses(victim) else { continue };
        let later = facts.starts().filter(|call| call.name != victim.name).filter(|call| {
            let used = facts.run.steps.iter().rev().find(|step| {
                let when = facts.scenario.when.get(step.step).map(|when| when.get_ref());
                when.is_some_and(|when| {
                    when.to.as_deref() == Some(call.name) || when.call.as_deref() == Some(call.name)
                })
            });
            used.is_some_and(|used| (used.t, used.line) >= (last.t, last.line))
        });
        if later.count() < PROTECTED {
            found.push(format!("{} was pruned, and fewer than {PROTECTED} were used after it", victim.name));
        }
    }
}

fn repeats(facts: &Facts<'_>, found: &mut Found) {
    for call in facts.starts().filter(|call| call.when.request.is_some()) {
        let same = facts
            .starts()
            .filter(|other| other.when.request == call.when.request && other.when.cmd == call.when.cmd);
        let mut lives: Vec<(usize, usize)> = same
            .filter_map(|other| {
                let started = facts.first(other, "process_started")?;
                Some((started, facts.first(other, "process_removed").unwrap_or(usize::MAX)))
            })
            .collect();
        lives.sort_unstable();
        let twice = lives.iter().zip(lives.iter().skip(1)).any(|(first, second)| second.0 < first.1);
        if twice {
            found.push(format!(
                "the request of {} started a second process while the first was known",
                call.name
            ));
        }
    }
}
