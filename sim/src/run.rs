//! What playing a scenario comes to, on whatever tier.

use crate::transcript::Line;

/// What a scenario came to.
#[derive(Debug)]
pub struct Run {
    /// The transcript.
    pub lines: Vec<Line>,
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
    pub missed: Vec<String>,
    /// What callers did, in order.
    pub steps: Vec<Step>,
    /// Virtual milliseconds.
    pub took: u64,
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
