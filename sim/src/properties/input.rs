//! Input: to whom it goes, in which order, and when it may.

use super::Found;
use super::facts::Facts;
use crate::scenario::{Op, When};

type Check = fn(&Facts<'_>, &mut Found);

pub(crate) const ALL: [(&str, &str, Check); 5] = [
    ("input_has_no_holes", "delivered input joins", joins),
    ("no_input_while_it_is_asked_about", "nothing is delivered while a question about input is open", waits),
    ("delivered_is_what_was_sent", "no more is delivered than calls sent that were not refused", accounted),
    ("no_refuses_the_write", "a write whose input was not approved is told so", told),
    ("refused_input_is_not_delivered", "a write that was refused has delivered nothing", refused),
];

fn joins(facts: &Facts<'_>, found: &mut Found) {
    for call in facts.starts().filter(|call| !facts.is_repeated(call)) {
        let mut end = 0;
        for at in facts.of_kind(call, "stdin_written") {
            if facts.number(at, "from") != Some(end) {
                found.push(format!("{}: input from {} after {end}", call.name, facts.says(at, "from")));
            }
            end = facts.number(at, "to").unwrap_or(end);
        }
    }
}

fn waits(facts: &Facts<'_>, found: &mut Found) {
    for question in facts.questions.iter().filter(|question| question.kind == "input") {
        let closed = question.decided.first().copied().unwrap_or(usize::MAX);
        let Some(call) = facts.call(question.who) else { continue };
        if facts.of_kind(call, "stdin_written").any(|at| at > question.asked && at < closed) {
            found.push(format!(
                "{}: input was delivered while question {} was open",
                call.name, question.number
            ));
        }
    }
}

fn accounted(facts: &Facts<'_>, found: &mut Found) {
    for call in facts.starts().filter(|call| !facts.is_repeated(call)) {
        let delivered =
            facts.of_kind(call, "stdin_written").filter_map(|at| facts.number(at, "to")).max().unwrap_or(0);
        let mut sent = 0;
        for (step, when) in facts.done_before(usize::MAX, Op::Write) {
            let write = when.call.as_deref().and_then(|name| facts.call(name));
            let refused = write
                .is_some_and(|write| write.answers.iter().any(|at| !facts.says(*at, "error").is_empty()));
            // What was given up, or met a closed input, may have been taken in part.
            let broken = write.is_some_and(|write| {
                let partly =
                    |at: &usize| matches!(facts.says(*at, "error"), "stdin_ended" | "input_abandoned");
                write.answers.iter().any(partly)
            });
            let counts = !refused || broken || in_pieces(when);
            if when.to.as_deref() == Some(call.name) && counts && step.t <= facts.run.took {
                sent +=
                    when.input.as_deref().unwrap_or_default().len() as u64 * when.times.unwrap_or(1) as u64;
            }
        }
        if delivered > sent {
            found.push(format!("{}: {delivered} bytes were delivered, and {sent} sent", call.name));
        }
    }
}

/// On the wire the end of a stream is a message of its own, which can be refused after its data was taken.
fn in_pieces(when: &When) -> bool {
    when.frame == Some(true) && when.eof == Some(true)
}

/// For a write that stood alone: whatever was delivered while it was on its way was its own.
fn refused(facts: &Facts<'_>, found: &mut Found) {
    for write in facts.calls.iter().filter(|call| call.when.op == Op::Write && !facts.is_repeated(call)) {
        let (Some(done), Some(at)) = (write.done, write.answers.first().copied()) else { continue };
        let error = facts.says(at, "error");
        let refused = matches!(
            error,
            "declined"
                | "stale"
                | "expired"
                | "review_failed"
                | "forbidden"
                | "new_terminal"
                | "review_nul"
                | "review_too_large"
        );
        let Some(process) = facts.target(write).filter(|_| refused && !in_pieces(write.when)) else {
            continue;
        };
        let others = facts.done_before(at, Op::Write).any(|(step, when)| {
            step.step != write.step && when.to == write.when.to && {
                let other = when.call.as_deref().and_then(|name| facts.call(name));
                other.is_none_or(|other| other.answers.first().is_none_or(|answered| *answered > done.line))
            }
        });
        let delivered = facts.of_kind(process, "stdin_written").any(|line| line >= done.line && line < at);
        if !others && delivered {
            found.push(format!("{} was refused as {error}, and its input was delivered", write.name));
        }
    }
}

fn told(facts: &Facts<'_>, found: &mut Found) {
    for question in facts.questions.iter().filter(|question| question.kind == "input") {
        let Some(closed) = question.decided.first().copied() else { continue };
        if !matches!(facts.says(closed, "state"), "declined" | "turn_aborted" | "expired" | "review_failed") {
            continue;
        }
        let mut writes = facts.calls.iter().filter(|call| {
            call.when.op == Op::Write
                && facts.target(call).is_some_and(|process| process.name == question.who)
        });
        let refused = |at: &usize| facts.t(*at) == facts.t(closed) && !facts.says(*at, "error").is_empty();
        if !writes.any(|write| write.dropped || write.answers.iter().any(refused)) {
            found.push(format!(
                "{}: question {} was answered with no, and no write was told",
                question.who, question.number
            ));
        }
    }
}
