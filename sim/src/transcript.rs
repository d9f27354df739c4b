//! Lines of a transcript, and patterns that match them: `who kind key=value …`.

use std::fmt;

use compact_str::CompactString;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A word of a line: short ones, which nearly all are, need no allocation.
pub type Word = CompactString;

/// One line of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Virtual milliseconds since the start.
    pub t: u64,
    /// The call it belongs to; `-` for none.
    pub who: Word,
    /// An event of the feed, or `answer`.
    pub kind: &'static str,
    /// What it says, in the order in which it is printed.
    pub keys: Vec<(&'static str, Word)>,
}

impl Line {
    pub(crate) fn new(t: u64, who: Word, kind: &'static str, keys: Vec<(&'static str, Word)>) -> Self {
        Self { t, who, kind, keys }
    }

    /// What it says under `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.keys.iter().find(|(name, _)| *name == key).map(|(_, value)| value.as_str())
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

/// A value that a tier does not tell: equal to anything.
const UNTOLD: &str = "?";
/// In a pattern: whoever, whatever.
const ANY: &str = "*";

/// What a line must look like; keys that are not named may have any value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    who: Word,
    /// `None` for any.
    kind: Option<&'static str>,
    /// Ordered by key.
    keys: Vec<(Word, Word)>,
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
pub(crate) const KINDS: [&str; 18] = [
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
    /// A pattern made in code; `kind` is the name of an event.
    pub(crate) fn of(who: &str, kind: &'static str, keys: &[(&str, &str)]) -> Self {
        let mut keys: Vec<(Word, Word)> =
            keys.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        keys.sort();
        Self { who: who.into(), kind: Some(kind), keys }
    }

    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let mut words = text.split_whitespace();
        let (Some(who), Some(kind)) = (words.next(), words.next()) else {
            return Err(PatternError::Short(text.to_owned()));
        };
        let known = KINDS.into_iter().find(|known| *known == kind);
        if kind != ANY && known.is_none() {
            return Err(PatternError::Kind(kind.to_owned()));
        }
        let mut keys = words
            .map(|word| match word.split_once('=') {
                Some((key, value)) => Ok((Word::from(key), Word::from(value))),
                None => Err(PatternError::Word { word: word.to_owned(), pattern: text.to_owned() }),
            })
            .collect::<Result<Vec<_>, _>>()?;
        keys.sort();
        Ok(Self { who: who.into(), kind: known, keys })
    }

    /// Whose lines it matches: a call, `*` or `-`.
    pub(crate) fn who(&self) -> &str {
        &self.who
    }

    /// What kind of lines; `*` for all.
    pub(crate) fn kind(&self) -> &str {
        self.kind.unwrap_or(ANY)
    }

    /// What they must say.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&str, &str)> {
        self.keys.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether `line` looks like this.
    pub fn matches(&self, line: &Line) -> bool {
        self.kind.is_none_or(|kind| kind == line.kind)
            && (self.who == line.who || self.who == ANY)
            && self
                .keys
                .iter()
                .all(|(key, value)| line.get(key).is_some_and(|said| said == value || said == UNTOLD))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.who, self.kind())?;
        for (key, value) in &self.keys {
            write!(f, " {key}={value}")?;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
