//! What a picture shows besides the transcript: starts, true ends, signals and descendants, each at its instant.

use crate::model::{Attempt, World};
use crate::transcript::Word;

/// Something that happened in the world.
#[derive(Debug)]
pub(crate) struct Mark {
    /// Virtual milliseconds since the start.
    pub(crate) t: u64,
    /// The call that started the process; empty for none.
    pub(crate) who: Word,
    /// Of that process; 0 for none.
    pub(crate) attempt: u8,
    pub(crate) what: What,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The answer to a step, and where it stands in the transcript.
    Answered {
        step: usize,
        line: usize,
    },
    /// The spawner has an order.
    Spawning,
    /// The program itself ended, which the session may hear of later.
    Exited,
    /// It reached somebody.
    Signal(&'static str),
    Forked {
        number: usize,
        name: &'static str,
    },
    DescendantEnded {
        number: usize,
    },
}

impl World<'_> {
    /// Keeps a mark, if marks are kept.
    pub(crate) fn mark(&mut self, of: Option<Attempt>, what: What) {
        let Some(marks) = &mut self.marks else { return };
        let who = of.and_then(|(process, _)| self.starters.get(&process)).cloned().unwrap_or_default();
        let (t, attempt) = (self.now.as_nanos() / 1_000_000, of.map_or(0, |(_, attempt)| attempt.get()));
        marks.push(Mark { t, who, attempt, what });
    }

    pub(super) fn mark_descendants(
        &mut self,
        of: Attempt,
        before: &[(usize, &'static str)],
        after: &[(usize, &'static str)],
    ) {
        for (number, name) in after.iter().filter(|child| !before.contains(child)) {
            self.mark(Some(of), What::Forked { number: *number, name });
        }
        for (number, _) in before.iter().filter(|child| !after.contains(child)) {
            self.mark(Some(of), What::DescendantEnded { number: *number });
        }
    }
}
