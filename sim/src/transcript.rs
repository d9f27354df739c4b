//! Lines of a transcript, and patterns that match them: `who kind key=value …`.

use std::collections::BTreeMap;
use std::fmt;

/// One line of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Virtual milliseconds since the start.
    pub t: u64,
    /// The call it belongs to; `-` for none.
    pub who: String,
    /// An event of the feed, or `answer`.
    pub kind: String,
    /// What it says, in the order in which it is printed.
    pub keys: Vec<(&'static str, String)>,
}

impl Line {
    pub(crate) fn new(t: u64, who: &str, kind: &str, keys: Vec<(&'static str, String)>) -> Self {
        Self { t, who: who.to_owned(), kind: kind.to_owned(), keys }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>7}  {} {}", self.t, self.who, self.kind)?;
        for (key, value) in &self.keys {
            write!(f, " {key}={value}")?;
        }
        Ok(())
    }
}

/// What a line must look like; keys that are not named may have any value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    who: String,
    kind: String,
    keys: BTreeMap<String, String>,
}

/// A pattern that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It does not begin with who and kind.
    #[error("a pattern is `who kind key=value …`, with `*` for anyone and `-` for no call; got {0:?}")]
    Short(String),
    /// A word that is no `key=value`.
    #[error("{word:?} in {pattern:?} is not `key=value`")]
    Word {
        /// The word.
        word: String,
        /// The whole pattern.
        pattern: String,
    },
    /// A kind that no line has, so that the pattern would match nothing.
    #[error("no event is called {0:?}; the kinds are {kinds}", kinds = KINDS.join(", "))]
    Kind(String),
}

/// The names of `behaviour.md` section 10, `answer` for what a call gets, `connection` for what a program gets.
const KINDS: [&str; 18] = [
    "answer",
    "connection",
    "approval_requested",
    "approval_decided",
    "start_refused",
    "attempt_started",
    "attempt_denied",
    "spawn_failed",
    "process_started",
    "output",
    "output_events_ended",
    "stdin_written",
    "process_exited",
    "outputs_closed",
    "process_removed",
    "interrupted",
    "cleaned",
    "policy_changed",
];

impl Pattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let mut words = text.split_whitespace();
        let (Some(who), Some(kind)) = (words.next(), words.next()) else {
            return Err(PatternError::Short(text.to_owned()));
        };
        if kind != "*" && !KINDS.contains(&kind) {
            return Err(PatternError::Kind(kind.to_owned()));
        }
        let keys = words
            .map(|word| match word.split_once('=') {
                Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
                None => Err(PatternError::Word { word: word.to_owned(), pattern: text.to_owned() }),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { who: who.to_owned(), kind: kind.to_owned(), keys })
    }

    /// Whether `line` looks like this.
    pub fn matches(&self, line: &Line) -> bool {
        let says =
            |key: &str, value: &str| line.keys.iter().any(|(name, said)| *name == key && said == value);
        (self.who == "*" || self.who == line.who)
            && (self.kind == "*" || self.kind == line.kind)
            && self.keys.iter().all(|(key, value)| says(key, value))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.who, self.kind)?;
        for (key, value) in &self.keys {
            write!(f, " {key}={value}")?;
        }
        Ok(())
    }
}
