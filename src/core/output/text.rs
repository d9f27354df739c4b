//! Text for models: a few header lines, then the output, cut in the middle to a budget of tokens.
//!
//! ```text
//! Chunk ID: 3f9a01
//! Wall time: 0.2500 seconds
//! Process running with session ID 4711
//! Original token count: 5000
//! Output:
//! first lines …4800 tokens truncated…last lines
//! ```
//!
//! A token is four bytes. The budget bounds everything after `Output:`, the statement in the middle included; where
//! the budget is too small for even that statement, the statement stands alone. It counts every byte of the range
//! that the text does not show, whether the log had lost it or the budget had no room.

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

use super::utf8::is_continuation;
use super::{Gap, Segment};
use crate::core::ids::ProcessId;
use crate::core::limits::BYTES_PER_TOKEN;

const REPLACEMENT: &str = "\u{fffd}";

/// What the header lines say.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Header {
    /// Names this answer; six hex digits.
    pub chunk_id: Option<String>,
    /// How long the caller waited.
    pub wall_time: Option<Duration>,
    /// What became of the process.
    pub state: Option<ProcessState>,
}

/// What a model is told of a process; an ended one has no session id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// It ended with this code.
    Exited(i32),
    /// It lives and may be written to.
    Running(ProcessId),
}

/// Text for a model, and what was counted on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelText {
    /// Header lines and output.
    pub text: String,
    /// Where in `text` the output begins.
    pub output_start: usize,
    /// The header's chunk id.
    pub chunk_id: Option<String>,
    /// Tokens of the whole range, lost bytes included.
    pub original_token_count: u64,
    /// Tokens of the range that the text does not show.
    pub omitted_tokens: u64,
    /// Bytes of the range that the text does not show.
    pub omitted_bytes: u64,
}

impl ModelText {
    /// The output without the header lines.
    pub fn output(&self) -> &str {
        self.text.get(self.output_start..).unwrap_or_default()
    }
}

/// Tokens that `bytes` bytes count as.
pub const fn tokens(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

/// Writes the header and the output that `segments` are, in order, in at most `budget_tokens`. If the segments have
/// several gaps, what lies between the first and the last is not shown: the text has one cut.
pub fn render(header: &Header, segments: &[Segment], budget_tokens: u32) -> ModelText {
    let total = segments.iter().map(segment_bytes).sum();
    let budget = u64::from(budget_tokens).saturating_mul(BYTES_PER_TOKEN);
    let output = Output::cut(segments, total, usize::try_from(budget).unwrap_or(usize::MAX));
    let mut text = header_lines(header, tokens(total));
    let output_start = text.len();
    text.push_str(&output.front.text);
    if output.omitted > 0 {
        text.push_str(&statement(tokens(output.omitted)));
    }
    text.push_str(&output.back.text);
    ModelText {
        text,
        output_start,
        chunk_id: header.chunk_id.clone(),
        original_token_count: tokens(total),
        omitted_tokens: tokens(output.omitted),
        omitted_bytes: output.omitted,
    }
}

fn segment_bytes(segment: &Segment) -> u64 {
    match segment {
        Segment::Bytes(bytes) => bytes.len() as u64,
        Segment::Gap(gap) => gap.bytes(),
    }
}

/// The words that models of this kind of tool have been trained on.
fn statement(tokens: u64) -> String {
    format!("…{tokens} tokens truncated…")
}

fn header_lines(header: &Header, original_tokens: u64) -> String {
    let mut lines = String::new();
    let mut line = |line: std::fmt::Arguments<'_>| {
        // Writing to a string does not fail.
        let _ = writeln!(lines, "{line}");
    };
    if let Some(id) = &header.chunk_id {
        line(format_args!("Chunk ID: {id}"));
    }
    if let Some(wall_time) = header.wall_time {
        line(format_args!("Wall time: {:.4} seconds", wall_time.as_secs_f64()));
    }
    match header.state {
        Some(ProcessState::Exited(code)) => line(format_args!("Process exited with code {code}")),
        Some(ProcessState::Running(id)) => line(format_args!("Process running with session ID {id}")),
        None => {}
    }
    line(format_args!("Original token count: {original_tokens}"));
    line(format_args!("Output:"));
    lines
}

/// Text of one side of the cut, and how many bytes of the log it shows.
#[derive(Default)]
struct Side {
    text: String,
    shown: usize,
}

impl Side {
    /// Adds text that stands for so many bytes.
    fn take(&mut self, text: &str, bytes: usize) {
        self.text.push_str(text);
        self.shown += bytes;
    }
}

#[derive(Default)]
struct Output {
    front: Side,
    back: Side,
    omitted: u64,
}

impl Output {
    fn cut(segments: &[Segment], total: u64, budget: usize) -> Self {
        let first_gap = segments.iter().position(|segment| matches!(segment, Segment::Gap(_)));
        let last_gap = segments.iter().rposition(|segment| matches!(segment, Segment::Gap(_)));
        let before = Bytes::of(&segments[..first_gap.unwrap_or(segments.len())]);
        let after = Bytes::of(&segments[last_gap.map_or(0, |gap| gap + 1)..]);
        // Text is never shorter than its bytes, so what has more bytes than the budget need not be tried.
        if first_gap.is_none() && before.len <= budget {
            let front = before.front(usize::MAX);
            if front.text.len() <= budget {
                return Self { front, ..Self::default() };
            }
        }
        let room = budget.saturating_sub(statement(tokens(total)).len());
        let mut front = before.front(room / 2);
        let already_shown = if first_gap.is_none() { front.shown } else { 0 };
        let back = after.back(room - front.text.len(), already_shown);
        if first_gap.is_some() {
            // A short side leaves its room to the other.
            front = before.front(room - back.text.len());
        }
        let omitted = total - (front.shown + back.shown) as u64;
        Self { front, back, omitted }
    }
}

/// Contiguous bytes of the log, in parts.
struct Bytes<'a> {
    parts: Vec<&'a [u8]>,
    len: usize,
}

impl<'a> Bytes<'a> {
    fn of(segments: &'a [Segment]) -> Self {
        let parts: Vec<&[u8]> = segments
            .iter()
            .filter_map(|segment| match segment {
                Segment::Bytes(bytes) => Some(&bytes[..]),
                Segment::Gap(Gap { .. }) => None,
            })
            .collect();
        let len = parts.iter().map(|part| part.len()).sum();
        Self { parts, len }
    }

    /// The bytes `from..to`, as far as there are any; a copy where they lie in several parts.
    fn range(&self, from: usize, to: usize) -> Cow<'a, [u8]> {
        let (mut range, mut at) = (Cow::Borrowed(&[][..]), 0);
        for part in &self.parts {
            let within = |offset: usize| offset.saturating_sub(at).min(part.len());
            let piece = part.get(within(from)..within(to.max(from))).unwrap_or_default();
            match (piece, &mut range) {
                ([], _) => {}
                (piece, Cow::Borrowed([])) => range = Cow::Borrowed(piece),
                (piece, range) => range.to_mut().extend_from_slice(piece),
            }
            at += part.len();
        }
        range
    }

    /// As many characters from the front as fit in `room` bytes of text.
    fn front(&self, room: usize) -> Side {
        // Three bytes more, so that no character within the room is cut by the range.
        let bytes = self.range(0, room.saturating_add(3));
        let mut side = Side { text: String::with_capacity(bytes.len().min(room)), shown: 0 };
        for chunk in bytes.utf8_chunks() {
            let (text, malformed) = (chunk.valid(), chunk.invalid());
            let left = (room - side.text.len()).min(text.len());
            let fits = (0..=left).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            side.take(&text[..fits], fits);
            if fits < text.len() || side.text.len() + REPLACEMENT.len() > room {
                break;
            }
            if !malformed.is_empty() {
                side.take(REPLACEMENT, malformed.len());
            }
        }
        side
    }

    /// As many characters from the back as fit in `room` bytes of text, none from before `not_before`.
    fn back(&self, room: usize, not_before: usize) -> Side {
        let start = self.len.saturating_sub(room).max(not_before);
        let range = self.range(start, self.len);
        let begun_before = if start > not_before {
            range.iter().take(3).take_while(|byte| is_continuation(**byte)).count()
        } else {
            0
        };
        let bytes = &range[begun_before..];
        let lengths = bytes.utf8_chunks().map(|chunk| match chunk.invalid() {
            [] => chunk.valid().len(),
            _ => chunk.valid().len() + REPLACEMENT.len(),
        });
        let mut excess = lengths.sum::<usize>().saturating_sub(room);
        let mut side = Side::default();
        for chunk in bytes.utf8_chunks() {
            let (text, malformed) = (chunk.valid(), chunk.invalid());
            let least = excess.min(text.len());
            let skipped = (least..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
            excess = excess.saturating_sub(skipped);
            side.take(&text[skipped..], text.len() - skipped);
            match malformed {
                [] => {}
                _ if excess > 0 => excess = excess.saturating_sub(REPLACEMENT.len()),
                _ => side.take(REPLACEMENT, malformed.len()),
            }
        }
        side
    }
}

#[cfg(test)]
mod tests;
