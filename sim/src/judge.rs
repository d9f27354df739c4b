//! Holds a run against what its scenario expects.

mod arrange;

use std::fmt;

use crate::properties::{BROKEN, violations};
use crate::run::Run;
use crate::scenario::{Expect, Expected, Order, Quiet, Scenario};
use crate::transcript::{Line, Pattern};
use crate::wall;

/// Whether a run was as expected.
#[derive(Debug)]
pub struct Verdict {
    /// What was not; empty is a pass.
    pub failures: Vec<String>,
    /// The transcript, with what is missing from it and what is too many in it.
    pub comparison: Comparison,
}

/// The transcript, with what is missing from it and what is too many in it.
#[derive(Debug)]
pub struct Comparison(Vec<Row>);

#[derive(Debug)]
enum Row {
    Agrees(Line),
    Missing(String),
    TooMany(Line),
}

impl Verdict {
    /// Whether everything was as expected.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.0 {
            match row {
                Row::Agrees(line) => writeln!(f, "    {line}")?,
                Row::Missing(expected) => writeln!(f, "  - {expected}")?,
                Row::TooMany(line) => writeln!(f, "  + {line}")?,
            }
        }
        Ok(())
    }
}

/// Judges a run of `scenario`.
pub fn judge(scenario: &Scenario, run: &Run) -> Verdict {
    let expect = &scenario.expect;
    let mut failures = run.broken.clone();
    if !scenario.loose {
        failures.extend(run.missed.iter().map(|missed| missed.words(scenario)));
    }
    // Nobody knows the causes of what a true program does.
    let known = scenario.true_program().is_none();
    let found = known
        .then(|| violations(scenario, run))
        .into_iter()
        .flatten()
        .filter(|found| found.property != BROKEN);
    failures.extend(found.map(|found| format!("{}: {}", found.property, found.what)));
    let arranged = match (run.wall, run.unordered) {
        (true, _) => Some(wall::arrange(scenario, &run.lines)),
        (false, true) => Some(arrange::arrange(expect, run)),
        (false, false) => None,
    };
    let lines = arranged.as_deref().unwrap_or(&run.lines);
    let comparison = match expect.order {
        Order::Exact => compare_exactly(expect, lines, &mut failures),
        Order::Subsequence => compare_subsequence(expect, lines, &mut failures),
    };
    for never in &expect.never {
        let matching = run.lines.iter().filter(|line| matches(never.get_ref(), line));
        failures.extend(matching.map(|line| format!("never {:?}, but: {line}", never.get_ref())));
    }
    for quiet in &expect.quiet {
        judge_quiet(quiet.get_ref(), run, &mut failures);
    }
    let resources = [
        ("live", run.live, expect.at_end.live),
        ("children", run.children, expect.at_end.children),
        ("waiting", run.waiting.len(), expect.at_end.waiting),
        ("questions", run.questions, expect.at_end.questions),
    ];
    for (name, came, expected) in resources {
        if came != expected {
            failures.push(format!("at_end: {name} = {came}, expected {expected}"));
        }
    }
    let counts = [
        ("spawns", expect.spawns, &["attempt_started", "spawn_failed"][..]),
        ("questions", expect.questions, &["approval_requested"][..]),
    ];
    for (name, expected, kinds) in counts {
        let came = run.lines.iter().filter(|line| kinds.contains(&line.kind)).count();
        if let Some(expected) = expected.filter(|expected| *expected != came) {
            failures.push(format!("{name} = {came}, expected {expected}"));
        }
    }
    Verdict { failures, comparison }
}

fn matches(pattern: &str, line: &Line) -> bool {
    Pattern::parse(pattern).is_ok_and(|pattern| pattern.matches(line))
}

fn is_expected(expected: &Expected, line: &Line) -> bool {
    expected.t.is_none_or(|t| t == line.t) && matches(&expected.e, line)
}

fn shown(expected: &Expected) -> String {
    let t = expected.t.map_or_else(|| "*".into(), |t| t.to_string());
    format!("{t:>7}  {}", expected.e)
}

/// Rows agree as far as they can: a line too many, or one that is missing, does not make all later ones differ.
fn compare_exactly(expect: &Expect, lines: &[Line], failures: &mut Vec<String>) -> Comparison {
    let mut rows = Vec::new();
    let mut left = lines.iter();
    let mut differ = 0;
    for expected in expect.events.iter().map(|event| event.get_ref()) {
        let Some(at) = left.as_slice().iter().position(|line| is_expected(expected, line)) else {
            rows.push(Row::Missing(shown(expected)));
            differ += 1;
            continue;
        };
        rows.extend(left.by_ref().take(at).cloned().map(Row::TooMany));
        differ += at;
        rows.extend(left.next().cloned().map(Row::Agrees));
    }
    differ += left.len();
    rows.extend(left.cloned().map(Row::TooMany));
    if differ > 0 {
        failures.push(format!("{differ} lines differ: `-` is missing, `+` is too many"));
    }
    Comparison(rows)
}

fn compare_subsequence(expect: &Expect, lines: &[Line], failures: &mut Vec<String>) -> Comparison {
    let mut rows = Vec::new();
    let mut left = expect.events.iter().map(|event| event.get_ref()).peekable();
    for line in lines {
        left.next_if(|expected| is_expected(expected, line));
        rows.push(Row::Agrees(line.clone()));
    }
    for missing in left {
        failures.push(format!("missing: {}", shown(missing).trim_start()));
        rows.push(Row::Missing(shown(missing)));
    }
    Comparison(rows)
}

fn judge_quiet(quiet: &Quiet, run: &Run, failures: &mut Vec<String>) {
    let lines = &run.lines;
    for pattern in [&quiet.from, &quiet.to] {
        if !lines.iter().any(|line| matches(pattern, line)) {
            failures.push(format!("quiet: {pattern:?} never came"));
        }
    }
    let Some(from) = lines.iter().position(|line| matches(&quiet.from, line)) else { return };
    let after = lines.get(from + 1..).unwrap_or_default();
    let between = after.split(|line| matches(&quiet.to, line)).next().unwrap_or_default();
    // Where the order inside a millisecond says nothing, only what is strictly between is between.
    let (begin, end) = (lines.get(from), after.get(between.len()));
    let at_an_end = |line: &Line| [begin, end].into_iter().flatten().any(|end| end.t == line.t);
    let noise = between.iter().filter(|line| matches(&quiet.no, line) && !(run.unordered && at_an_end(line)));
    failures.extend(noise.map(|line| format!("quiet from {:?} to {:?}, but: {line}", quiet.from, quiet.to)));
}
