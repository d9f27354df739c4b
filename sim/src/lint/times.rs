//! The guard band: where a scenario also runs in real time, its programs do nothing at instants at which the kernel's
//! lateness would change what is expected.

use super::Subject;
use crate::scenario::{Mode, Op, Scenario, When};

/// Scenarios with this tag also run on real spawners (tier L3).
const REAL: &str = "real";
/// Real time comes late by up to so many milliseconds, on a busy machine.
const LATENESS: u64 = 250;
/// An act this near to a yield deadline may fall on either side of it.
const NEAR_YIELD: u64 = 100;

pub(super) fn check(subject: &mut Subject<'_>) {
    if !subject.scenario.tags.iter().any(|tag| tag == REAL) {
        return;
    }
    let mut found = Vec::new();
    for (call, started, sandboxed) in starts(subject) {
        let Some(acts) = acts(&subject.scenario, &call, sandboxed) else { continue };
        let window = millis(subject.scenario.service.limits().early_window);
        let guard = window / 2..=window + LATENESS;
        for (at, after) in acts {
            if guard.contains(&after) {
                found.push((
                    at,
                    format!(
                        "at {after} ms: in real time, {} to {} ms after a start are on either side of its window; move it \
                         out, or take the tag {REAL:?} away",
                        guard.start(),
                        guard.end()
                    ),
                ));
            }
            let deadlines = deadlines(subject, &call);
            if let Some(deadline) =
                deadlines.iter().find(|deadline| deadline.abs_diff(started + after) < NEAR_YIELD)
            {
                found.push((
                    at,
                    format!(
                        "at {} ms of the run: in real time, it may be on either side of the yield deadline at {deadline}; \
                         keep {NEAR_YIELD} ms between them",
                        started + after
                    ),
                ));
            }
        }
    }
    found.sort();
    found.dedup();
    for (at, problem) in found {
        subject.find(at, "program.acts", problem);
    }
}

/// The attempts of the run: their call, when they started, and whether a sandbox held them.
fn starts(subject: &Subject<'_>) -> Vec<(String, u64, bool)> {
    let started = subject.run.lines.iter().filter(|line| line.kind == "attempt_started");
    started.map(|line| (line.who.to_string(), line.t, line.get("under") == Some("profile"))).collect()
}

/// What the program of a call does: where that stands in the file, and when, counted from its start.
fn acts(scenario: &Scenario, call: &str, sandboxed: bool) -> Option<Vec<(usize, u64)>> {
    let is_start = |when: &&When| when.op == Op::Exec && when.call.as_deref() == Some(call);
    let cmd = scenario.when.iter().map(|when| when.get_ref()).find(is_start)?.cmd.as_ref()?;
    let acts = scenario.program.get(cmd)?.acts(sandboxed);
    Some(acts.iter().map(|act| (act.span().start, act.get_ref().at)).collect())
}

/// When the waits for a process are over, at the latest.
fn deadlines(subject: &Subject<'_>, call: &str) -> Vec<u64> {
    let mut deadlines = Vec::new();
    for done in &subject.run.steps {
        let Some(when) = subject.scenario.when.get(done.step).map(|when| when.get_ref()) else { continue };
        let interactive = matches!(when.mode, None | Some(Mode::Interactive));
        let about = if when.op == Op::Exec { when.call.as_deref() } else { when.to.as_deref() };
        if about != Some(call) || !interactive || !matches!(when.op, Op::Exec | Op::Write | Op::Poll) {
            continue;
        }
        let yielded = subject.run.lines.iter().skip(done.line).find(|line| {
            line.kind == "answer"
                && Some(line.who.as_str()) == when.call.as_deref()
                && line.get("end") == Some("yielded")
        });
        let asked = when.yield_ms.map(|asked| done.t + asked);
        deadlines.extend(yielded.map(|line| line.t).or(asked));
    }
    deadlines
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
