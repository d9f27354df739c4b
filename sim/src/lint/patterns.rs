//! Patterns that no line can match, and expectations that say less than they seem to.

use super::Subject;
use super::vocabulary::dead;
use crate::scenario::{Op, Order};
use crate::transcript::Pattern;

pub(super) fn check(subject: &mut Subject<'_>) {
    for (at, field, pattern) in all(subject) {
        let steps = &subject.scenario.when;
        let starts = |who: &str| {
            let mut named = steps.iter().map(|when| when.get_ref());
            named.find(|when| when.call.as_deref() == Some(who)).map(|when| when.op == Op::Exec)
        };
        if let Some(problem) = dead(&pattern, starts) {
            subject.find(at, field, format!("`{pattern}` can match nothing: {problem}"));
        }
    }
    quiet(subject);
    order(subject);
}

/// Every pattern of a file, and where it stands.
fn all(subject: &Subject<'_>) -> Vec<(usize, &'static str, Pattern)> {
    let expect = &subject.scenario.expect;
    let mut all = Vec::new();
    for when in &subject.scenario.when {
        all.extend(when.get_ref().on.clone().map(|pattern| (when.span().start, "when.on", pattern)));
    }
    let mut add = |at, field, text: &str| {
        all.extend(Pattern::parse(text).ok().map(|pattern| (at, field, pattern)));
    };
    for event in &expect.events {
        add(event.span().start, "expect.events", &event.get_ref().e);
    }
    for never in &expect.never {
        add(never.span().start, "expect.never", never.get_ref());
    }
    for quiet in &expect.quiet {
        let (at, quiet) = (quiet.span().start, quiet.get_ref());
        add(at, "expect.quiet.from", &quiet.from);
        add(at, "expect.quiet.to", &quiet.to);
        add(at, "expect.quiet.no", &quiet.no);
    }
    all
}

/// A stretch of time that ends before it begins is quiet whatever happens.
fn quiet(subject: &mut Subject<'_>) {
    let place = |text: &str| {
        let pattern = Pattern::parse(text).ok()?;
        subject.run.lines.iter().position(|line| pattern.matches(line))
    };
    let mut empty = Vec::new();
    for quiet in &subject.scenario.expect.quiet {
        let (at, quiet) = (quiet.span().start, quiet.get_ref());
        if let (Some(from), Some(to)) = (place(&quiet.from), place(&quiet.to))
            && to <= from
        {
            empty.push((at, format!("`{}` comes before `{}`", quiet.to, quiet.from)));
        }
    }
    for (at, problem) in empty {
        subject.find(at, "expect.quiet", problem);
    }
}

/// Events that may have others between them, although none come.
fn order(subject: &mut Subject<'_>) {
    let expect = &subject.scenario.expect;
    let (written, came, order) = (expect.events.len(), subject.run.lines.len(), expect.order);
    let vacuous = written == 0 && expect.never.is_empty() && expect.quiet.is_empty();
    let at = subject.at("[expect]");
    if order == Order::Subsequence && vacuous {
        subject.find(at, "expect", "nothing is expected; any run would pass");
    } else if order == Order::Subsequence && written == came {
        let problem = "these are all lines of the run; write \"exact\", so that a new one is noticed";
        subject.find(subject.at("order"), "expect.order", problem);
    }
}
