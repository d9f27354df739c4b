//! Where in a file of rules something stands, and why it is not taken.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A place in a file of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
}

impl Place {
    /// The place of the byte `at` of a file's text.
    pub(super) fn of(file: &Path, text: &str, at: usize) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        Self {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// Rules that are not taken.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// A file or directory of rules cannot be read.
    #[error("cannot read the rules {}: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A file or directory of rules is not one that can be trusted or taken in.
    #[error("the rules {} are not taken: {problem}", file.display())]
    Unfit {
        /// The file.
        file: PathBuf,
        /// What is wrong, and the way out.
        problem: String,
    },
    /// A file says something that is not taken.
    #[error("{place}: {problem}")]
    Refused {
        /// Where.
        place: Place,
        /// What is wrong, and the way out.
        problem: String,
    },
}
