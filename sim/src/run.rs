//! What playing a scenario comes to, on whatever tier.

use crate::scenario::{Scenario, When};
use crate::transcript::Line;

/// What a scenario came to.
#[derive(Debug, Default)]
pub struct Run {
    /// The transcript.
    pub lines: Vec<Line>,
    /// Whether the order of lines within one millisecond says nothing: tasks made them.
    pub unordered: bool,
    /// Whether it went by the clock on the wall, on which things are late.
    pub wall: bool,
    /// Live processes of the session at the end.
    pub live: usize,
    /// Processes of the system at the end, descendants included.
    pub children: usize,
    /// Open questions at the end.
    pub questions: usize,
    /// Calls without an answer at the end, except those whose client went away.
    pub waiting: Vec<String>,
    /// What must never happen and did.
    pub broken: Vec<String>,
    /// Steps that found nothing to act on, or whose event never came; a failure unless the scenario is loose.
    pub missed: Vec<Missed>,
    /// What callers did, in order.
    pub steps: Vec<Step>,
    /// Milliseconds, of whatever clock the tier goes by.
    pub took: u64,
    /// What each child said, where real bytes flow: the call that started it, the attempt, the bytes.
    pub said: Vec<(String, usize, Vec<u8>)>,
}

impl Run {
    /// The transcript without what says nothing: the order inside one millisecond, and how many pieces output came in
    /// within it.
    pub fn canonical(&self) -> Vec<Line> {
        let mut lines = self.joined();
        lines.sort_by_cached_key(|line| (line.t, line.to_string()));
        lines
    }

    /// The transcript with all output of one process within one millisecond as one line, at the place of the first.
    pub(crate) fn joined(&self) -> Vec<Line> {
        let mut joined: Vec<Line> = Vec::with_capacity(self.lines.len());
        for line in &self.lines {
            let goes_on = |before: &&mut Line| {
                before.kind == "output"
                    && before.who == line.who
                    && before.get("n") == line.get("n")
                    && before.get("to") == line.get("from")
            };
            let of_same = |before: &&mut Line| before.t == line.t;
            let before = if line.kind == "output" {
                joined.iter_mut().rev().take_while(of_same).find(goes_on)
            } else {
                None
            };
            match before.and_then(|before| before.keys.iter_mut().find(|(key, _)| *key == "to")) {
                Some((_, to)) => *to = line.get("to").unwrap_or_default().into(),
                None => joined.push(line.clone()),
            }
        }
        joined
    }
}

impl Run {
    /// What must never happen and did, and steps that were left out, in words.
    pub(crate) fn problems(&self, scenario: &Scenario) -> Vec<String> {
        let missed = self.missed.iter().map(|missed| missed.words(scenario));
        self.broken.iter().cloned().chain(missed).collect()
    }
}

/// A step that was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// Which, from 0.
    pub step: usize,
    /// Why.
    pub why: Why,
}

/// Why a step was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its event never came.
    NeverCame,
    /// The call that it names has started no process.
    NoProcess,
    /// There is no such kept approval.
    NoGrant,
}

impl Missed {
    /// In words, with what the scenario says of the step.
    pub(crate) fn words(self, scenario: &Scenario) -> String {
        let when = scenario.when.get(self.step).map(|when| when.get_ref());
        let what = match (self.why, when) {
            (Why::NeverCame, Some(When { on: Some(on), .. })) => format!("{on} never came"),
            (Why::NoProcess, Some(When { to: Some(to), .. })) => {
                format!("call {to:?} has started no process")
            }
            (Why::NeverCame, _) => "its event never came".to_owned(),
            (Why::NoProcess, _) => "its call has started no process".to_owned(),
            (Why::NoGrant, _) => "there is no such grant".to_owned(),
        };
        format!("step {}: {what}", self.step + 1)
    }
}

/// A caller's step that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Virtual milliseconds since the start.
    pub t: u64,
    /// Which, from 0.
    pub step: usize,
    /// How many lines the transcript had before it.
    pub line: usize,
}
