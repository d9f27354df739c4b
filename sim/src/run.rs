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
    /// What must never happen and did, or a step that could not be done.
    pub broken: Vec<String>,
    /// Virtual milliseconds.
    pub took: u64,
}
