//! Waits on what a log says: a literal, a regular expression, or nothing for a while.
//!
//! A search reads the log like any other reader and takes nothing out of it. It looks at the bytes as they come, in
//! a window that reaches far enough back for a match that spans pieces:
//!
//! - a literal is found however it is split;
//! - of a regular expression, a match of up to [`REGEX_REACH`] bytes is found however it is split; a longer one only
//!   as far as it came in one piece.
//!
//! The first match is the first **in time**: `\d+` answers with the digits that were there when the first came, and
//! `$` and `\z` mean the end of what has been printed so far, which is what a wait for a prompt wants. `^` and `\A`
//! mean the offset where the search began, or the end of a gap. A gap ends every match that had begun before it.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use regex::bytes::{Regex, RegexBuilder};
use tokio::time::Instant;

use super::log::{Extent, Next, OutputLog};
use crate::core::output::{Flow, Piece, Stream};
use crate::core::session::{Condition, WatchOutcome};

/// How far back a search for a regular expression looks: each new piece costs a search of as much again.
pub const REGEX_REACH: usize = 16 * 1024;
/// Longest literal, and longest text of a regular expression.
pub const PATTERN_BYTES_MAX: usize = 8 * 1024;
/// Largest compiled regular expression. A search costs size times bytes at worst, on a thread that others need: this
/// much takes some 50 ms for the longest window, where 1 MiB takes seconds.
pub const REGEX_SIZE_MAX: usize = 128 * 1024;
/// Memory of a search for its states; too little makes it slow, not wrong.
const REGEX_CACHE_MAX: usize = 1024 * 1024;
/// Bytes before the first possible match, for `\b`: one character.
const CONTEXT: usize = 4;

/// What to look for.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    /// How far a match may reach back from new bytes.
    reach: usize,
}

/// Why there is no such pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Nothing to look for.
    #[error("the pattern is empty")]
    Empty,
    /// More than [`PATTERN_BYTES_MAX`].
    #[error("the pattern has {bytes} bytes; at most {PATTERN_BYTES_MAX} are allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// More than [`REGEX_SIZE_MAX`] once compiled.
    #[error(
        "the regular expression needs more than {REGEX_SIZE_MAX} bytes once compiled; use smaller counts, or no (?u)"
    )]
    TooLarge,
    /// Not a regular expression.
    #[error("not a regular expression over bytes (begin with (?u) to use classes of Unicode): {reason}")]
    Syntax {
        /// What is wrong with it, over several lines.
        reason: String,
    },
}

impl Pattern {
    /// Exactly these bytes.
    pub fn literal(bytes: &[u8]) -> Result<Self, PatternError> {
        check_length(bytes)?;
        let escaped: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        // A literal is searched as one, not by the states that it compiles to.
        let regex = compile(&escaped, 8 * REGEX_SIZE_MAX)?;
        Ok(Self { regex, reach: bytes.len() - 1 })
    }

    /// A regular expression in the syntax of the `regex` crate, over bytes: `.` is any byte but a line feed, `\w` and
    /// the like are ASCII. `(?u)` in front turns characters and Unicode on, at fifty times the size a class.
    pub fn regex(text: &str) -> Result<Self, PatternError> {
        check_length(text.as_bytes())?;
        Ok(Self { regex: compile(text, REGEX_SIZE_MAX)?, reach: REGEX_REACH })
    }
}

fn check_length(pattern: &[u8]) -> Result<(), PatternError> {
    match pattern.len() {
        0 => Err(PatternError::Empty),
        bytes if bytes > PATTERN_BYTES_MAX => Err(PatternError::TooLong { bytes }),
        _ => Ok(()),
    }
}

fn compile(text: &str, size_max: usize) -> Result<Regex, PatternError> {
    let mut builder = RegexBuilder::new(text);
    builder.unicode(false).size_limit(size_max).dfa_size_limit(REGEX_CACHE_MAX);
    builder.build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => PatternError::TooLarge,
        error => PatternError::Syntax { reason: error.to_string() },
    })
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The first match is the bytes `from..to`; with a chosen stream, other bytes may lie between them.
    At {
        /// Its first byte.
        from: u64,
        /// The offset after its last byte.
        to: u64,
    },
    /// The log was closed here, without a match.
    Ended(u64),
}

/// A search's end, and what it could not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// How it ended.
    pub found: Found,
    /// Bytes that the log had lost before they were searched; if not 0, an earlier match may have been among them.
    pub missed: u64,
}

/// Waits for the first match at or after `from`, in one stream or in all bytes as they came. Cancel-safe: a dropped
/// search leaves nothing behind and may be started again.
pub async fn find(log: &Arc<OutputLog>, from: u64, pattern: &Pattern, stream: Option<Stream>) -> Search {
    let mut reader = log.reader(from, Flow::DropWithGap);
    let mut window = Window::default();
    let mut missed = 0;
    loop {
        match reader.next(REGEX_REACH).await {
            Next::Piece(piece) if stream.is_none_or(|stream| stream == piece.stream) => {
                window.push(&piece);
                if let Some((from, to)) = window.search(&pattern.regex) {
                    return Search { found: Found::At { from, to }, missed };
                }
                window.keep(pattern.reach);
                // A search takes longer than a read; others are to have their turn between two of them.
                tokio::task::yield_now().await;
            }
            Next::Piece(_) => {}
            Next::Gap(gap) => {
                window = Window::default();
                missed += gap.bytes();
            }
            Next::Closed(end) => return Search { found: Found::Ended(end), missed },
        }
    }
}

/// The first match in all bytes at or after `from`, up to the first gap: what lies behind one is another search's.
/// `look` only looks at what is there; else more is waited for. Cancel-safe.
pub async fn find_to_gap(
    log: &Arc<OutputLog>,
    from: u64,
    pattern: &Pattern,
    look: bool,
) -> Option<WatchOutcome> {
    let mut reader = log.reader(from, Flow::DropWithGap);
    let mut window = Window::default();
    loop {
        let next = if look { reader.try_next(REGEX_REACH)? } else { reader.next(REGEX_REACH).await };
        match next {
            Next::Piece(piece) => {
                window.push(&piece);
                if let Some((from, to)) = window.search(&pattern.regex) {
                    return Some(WatchOutcome::Found { from, to });
                }
                window.keep(pattern.reach);
                tokio::task::yield_now().await;
            }
            Next::Gap(gap) => return Some(WatchOutcome::Lost { from: gap.from, to: gap.to }),
            Next::Closed(at) => return Some(WatchOutcome::Ended { at }),
        }
    }
}

/// Waits for what a session wants to know of an attempt's output. Conditions that are not about its bytes, and
/// expressions that the edge should have refused, end at once.
pub(super) async fn look_for(log: &Arc<OutputLog>, from: u64, condition: Condition) -> WatchOutcome {
    let pattern = match condition {
        Condition::Quiet(lasting) => {
            let end = quiet(log, lasting).await.end;
            return WatchOutcome::Found { from: end, to: end };
        }
        Condition::Literal(bytes) => Pattern::literal(&bytes),
        Condition::Regex(text) => Pattern::regex(&text),
        Condition::Exit | Condition::Closed | Condition::Output => return WatchOutcome::Ended { at: from },
    };
    let found = match pattern {
        Ok(pattern) => find_to_gap(log, from, &pattern, false).await,
        Err(_) => None,
    };
    found.unwrap_or(WatchOutcome::Ended { at: from })
}

/// Waits until nothing has been appended for `lasting`, counted from now: what had been quiet before does not count,
/// because whoever waits has usually just typed something. Output at the last moment counts. A closed log is quiet
/// at once.
pub async fn quiet(log: &OutputLog, lasting: Duration) -> Extent {
    let mut extent = log.extent();
    let mut silence = pin!(tokio::time::sleep(lasting));
    while !extent.closed {
        tokio::select! {
            biased;
            grown = log.changed(extent.end) => {
                extent = grown;
                silence.as_mut().reset(Instant::now() + lasting);
            }
            () = &mut silence => break,
        }
    }
    extent
}

/// The last bytes of what is searched, and where in the log they are.
#[derive(Debug, Default)]
struct Window {
    bytes: Vec<u8>,
    /// No match begins before this position: it has been looked for, or is context.
    first: usize,
    /// From each mark to the next, positions and offsets run in parallel.
    marks: VecDeque<Mark>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    position: usize,
    offset: u64,
}

impl Window {
    fn push(&mut self, piece: &Piece) {
        let position = self.bytes.len();
        if self.marks.is_empty() || self.offset(position) != piece.offset {
            self.marks.push_back(Mark { position, offset: piece.offset });
        }
        self.bytes.extend_from_slice(&piece.data);
    }

    /// Where in the log the byte at `position` is, or would be if it followed the last one.
    fn offset(&self, position: usize) -> u64 {
        let next = self.marks.partition_point(|mark| mark.position <= position);
        let mark = next.checked_sub(1).and_then(|mark| self.marks.get(mark));
        mark.map_or(0, |mark| mark.offset + (position - mark.position) as u64)
    }

    fn search(&self, regex: &Regex) -> Option<(u64, u64)> {
        let found = regex.find_at(&self.bytes, self.first)?;
        let from = self.offset(found.start());
        // The last byte says where a match ends: what follows it may be of the other stream.
        let to = if found.is_empty() { from } else { self.offset(found.end() - 1) + 1 };
        Some((from, to))
    }

    /// Forgets all but the last `reach` bytes and their context.
    fn keep(&mut self, reach: usize) {
        let first = self.bytes.len().saturating_sub(reach);
        let dropped = first.saturating_sub(CONTEXT);
        self.first = self.first.max(first) - dropped;
        self.bytes.drain(..dropped);
        while self.marks.get(1).is_some_and(|mark| mark.position <= dropped) {
            self.marks.pop_front();
        }
        for mark in &mut self.marks {
            mark.offset += dropped.saturating_sub(mark.position) as u64;
            mark.position = mark.position.saturating_sub(dropped);
        }
    }
}

#[cfg(test)]
mod tests;
