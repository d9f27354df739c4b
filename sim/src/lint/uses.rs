//! What is there and does nothing: programs, rules and calls that nobody names, steps that never come.

use super::Subject;
use crate::scenario::{Op, When};
use crate::transcript::Pattern;

pub(super) fn check(subject: &mut Subject<'_>) {
    programs(subject);
    rules(subject);
    calls(subject);
    steps(subject);
}

fn whens(subject: &Subject<'_>) -> Vec<(usize, When)> {
    subject.scenario.when.iter().map(|when| (when.span().start, when.get_ref().clone())).collect()
}

fn programs(subject: &mut Subject<'_>) {
    let names: Vec<String> = subject.scenario.program.keys().cloned().collect();
    let steps = whens(subject);
    for name in names {
        if !steps.iter().any(|(_, when)| when.cmd.as_ref() == Some(&name)) {
            let at = subject.at(&format!("[program.{name:?}]"));
            subject.find(at, format!("program.{name:?}"), "no step runs it; take it out, or run it");
        }
    }
}

/// A rule that begins no command of the file decides nothing.
fn rules(subject: &mut Subject<'_>) {
    let rules: Vec<String> = subject.scenario.rules.keys().cloned().collect();
    let steps = whens(subject);
    for rule in rules {
        let words: Vec<&str> = rule.split_whitespace().collect();
        let begins = |line: &str| {
            line.split(" && ").any(|command| {
                let command: Vec<&str> = command.split_whitespace().collect();
                command.starts_with(&words)
            })
        };
        if !steps.iter().filter_map(|(_, when)| when.cmd.as_deref()).any(begins) {
            let at = subject.at(&format!("{rule:?}"));
            subject.find(at, format!("rules.{rule:?}"), "no command of this file begins with it");
        }
    }
}

/// The name of a call is there to be spoken of.
fn calls(subject: &mut Subject<'_>) {
    let expect = &subject.scenario.expect;
    let quiet = expect.quiet.iter().map(|quiet| quiet.get_ref());
    let texts = expect
        .events
        .iter()
        .map(|event| &event.get_ref().e)
        .chain(expect.never.iter().map(|never| never.get_ref()))
        .chain(quiet.flat_map(|quiet| [&quiet.from, &quiet.to, &quiet.no]));
    let mut named: Vec<String> =
        texts.filter_map(|text| Pattern::parse(text).ok()).map(|pattern| pattern.who().to_owned()).collect();
    let steps = whens(subject);
    for (_, when) in &steps {
        named.extend(when.on.iter().map(|pattern| pattern.who().to_owned()));
        named.extend(when.to.clone());
        named.extend(when.call.clone().filter(|_| when.op == Op::Disconnect));
    }
    for (at, when) in steps {
        let Some(call) = when.call.filter(|call| !named.contains(call)) else { continue };
        let problem = format!("nothing is expected of {call:?}, and no step names it");
        subject.find(at, "when.call", problem);
    }
}

/// Every step must come in a run on the core, unless the scenario is loose.
fn steps(subject: &mut Subject<'_>) {
    if subject.scenario.loose {
        return;
    }
    for (number, (at, when)) in whens(subject).into_iter().enumerate() {
        if subject.run.steps.iter().any(|done| done.step == number) {
            continue;
        }
        let (field, problem) = match (&when.on, when.at) {
            (Some(on), _) if subject.run.lines.iter().any(|line| on.matches(line)) => {
                ("when.delay", format!("the run is over when it is due, at {} ms", subject.run.took))
            }
            (Some(on), _) => ("when.on", format!("`{on}` never comes, so neither does this step")),
            (None, _) => ("when.at", format!("the run is over at {} ms, before this step", subject.run.took)),
        };
        subject.find(at, field, problem);
    }
}
