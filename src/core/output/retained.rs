//! What memory keeps of an attempt's output: its first and its last bytes, by absolute offset.
//!
//! ```text
//!   0            head.end          tail.start            end
//!   ├── head ─────┤┄┄┄┄┄┄ lost ┄┄┄┄┄┄├──────── tail ──────┤   append here
//! ```
//!
//! The head never changes once it is full; the tail forgets its oldest bytes, to the byte, when new ones come. So
//! there is at most one lost range, and a reader is told of it exactly. Nothing is ever taken out by reading.

use std::ops::Range;

use bytes::Bytes;

use super::Stream;
use super::span::Span;
use crate::core::limits::{FRAME_BYTES_MAX, LOG_CHUNKS_MAX};

/// Changes of stream that the head, and the tail, may hold; one less than half, because one more is there for a
/// moment and must not double an allocation.
const RUNS_MAX: usize = LOG_CHUNKS_MAX / 2 - 1;
/// How far the tail may outgrow its budget for bytes that are held: what a pump that had already been let through
/// may bring.
const HELD_BYTES_MAX: usize = 2 * FRAME_BYTES_MAX;
/// The same for changes of stream.
const HELD_RUNS_MAX: usize = 1_024;

/// Bytes `from..to` of a log that memory no longer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The first lost byte.
    pub from: u64,
    /// The first byte after it that is not lost.
    pub to: u64,
}

impl Gap {
    /// How many bytes are lost.
    pub const fn bytes(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }
}

/// Bytes of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where the bytes are in the log.
    pub offset: u64,
    /// Where they came from.
    pub stream: Stream,
    /// The bytes, never none.
    pub data: Bytes,
}

impl Piece {
    /// The offset after the last byte.
    pub fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }
}

/// What a reader at some offset gets next: first the gap, then the piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Lost bytes between the reader and the piece.
    pub gap: Option<Gap>,
    /// The next bytes; `None` at the end of the log.
    pub piece: Option<Piece>,
    /// Where to read on.
    pub next: u64,
}

/// A part of a range, whatever its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Bytes that are there.
    Bytes(Bytes),
    /// Bytes that are lost.
    Gap(Gap),
}

/// One append-only log with a head and a tail in memory.
#[derive(Debug)]
pub struct Retained {
    head: Span,
    tail: Span,
    head_bytes: usize,
    tail_bytes: usize,
    held: Option<u64>,
}

impl Retained {
    /// An empty log; nothing is allocated before the first byte.
    pub fn new(head_bytes: usize, tail_bytes: usize) -> Self {
        Self { head: Span::at(0), tail: Span::at(0), head_bytes, tail_bytes, held: None }
    }

    /// The offset after the last byte.
    pub fn end(&self) -> u64 {
        self.tail.end()
    }

    /// The budget of the tail.
    pub fn tail_bytes(&self) -> usize {
        self.tail_bytes
    }

    /// The two ranges that are held; either may be empty.
    pub fn retained(&self) -> [Range<u64>; 2] {
        [self.head.start()..self.head.end(), self.tail.start()..self.tail.end()]
    }

    /// The one range that is lost; empty if nothing is.
    pub fn lost(&self) -> Range<u64> {
        self.head.end()..self.tail.start()
    }

    /// How many bytes of `from..to` are lost.
    pub fn omitted(&self, from: u64, to: u64) -> u64 {
        let lost = self.lost();
        to.min(lost.end).saturating_sub(from.max(lost.start))
    }

    /// `from`, or the end of the lost range if it lies in there.
    pub fn first_not_lost_after(&self, from: u64) -> u64 {
        if self.lost().contains(&from) { self.tail.start() } else { from }
    }

    /// Adds bytes at the end and answers where the end is now. `data` is kept as it is if it is large; the
    /// allocation behind it should hold little else.
    pub fn append(&mut self, stream: Stream, data: Bytes) -> u64 {
        let slab = data.len();
        let mut rest = data;
        let first = rest.split_to(self.head_room(stream).min(slab));
        if !first.is_empty() {
            self.head.push(stream, first, slab);
            self.tail = Span::at(self.head.end());
        }
        self.tail.push(stream, rest, slab);
        self.evict();
        self.end()
    }

    /// Bytes that the head still takes; none once the tail has begun.
    fn head_room(&self, stream: Stream) -> usize {
        let full = self.head.runs() >= RUNS_MAX && self.head.last_stream() != Some(stream);
        if full || self.tail.end() > self.head.end() {
            0
        } else {
            self.head_bytes.saturating_sub(self.head.len())
        }
    }

    fn evict(&mut self) {
        let mut to = self.end().saturating_sub(self.tail_bytes as u64);
        if let Some(held) = self.held {
            to = to.min(held).max(to.saturating_sub(HELD_BYTES_MAX as u64));
        }
        if to > self.tail.start() {
            self.tail.drop_front(to);
        }
        while self.tail.runs() > RUNS_MAX {
            let end = self.tail.end_of_run(0);
            if self.held.is_some_and(|held| held < end) && self.tail.runs() <= RUNS_MAX + HELD_RUNS_MAX {
                break;
            }
            self.tail.drop_front(end);
        }
    }

    /// Holds every byte from `from` on, or none. What is held outlives the budget of the tail by as much as one
    /// append that was on its way; [`Self::room`] says when to stop appending.
    pub fn hold(&mut self, from: Option<u64>) {
        self.held = from;
        self.evict();
    }

    /// How many bytes may be appended before one that is held would have to go; `None` if nothing is held.
    pub fn room(&self) -> Option<usize> {
        let held = self.held?;
        if self.tail.runs() >= RUNS_MAX && held < self.tail.end_of_run(0) {
            return Some(0);
        }
        let begun = self.tail.end() > self.head.end();
        let start = if begun { self.tail.start() } else { self.head.start() + self.head_bytes as u64 };
        let room = (held.max(start)).saturating_add(self.tail_bytes as u64).saturating_sub(self.end());
        Some(usize::try_from(room).unwrap_or(usize::MAX))
    }

    /// What a reader at `from` gets next: at most `max_bytes` and at least one, if there is any.
    pub fn slice(&self, from: u64, max_bytes: usize) -> Slice {
        let at = self.first_not_lost_after(from);
        let gap = (at > from).then_some(Gap { from, to: at });
        let span = if at < self.head.end() { &self.head } else { &self.tail };
        let piece = span.piece(at, max_bytes);
        let next = piece.as_ref().map_or(at, Piece::end);
        Slice { gap, piece, next }
    }

    /// The range `from..to` in order, as far as the log goes, without copies.
    pub fn segments(&self, from: u64, to: u64) -> Vec<Segment> {
        let lost = self.lost();
        let gap = Gap { from: from.max(lost.start), to: to.min(lost.end) };
        let gap = (gap.from < gap.to).then_some(Segment::Gap(gap));
        let head = self.head.bytes(from, to).map(Segment::Bytes);
        head.chain(gap).chain(self.tail.bytes(from, to).map(Segment::Bytes)).collect()
    }

    /// The first offset that [`Self::trim`] would keep.
    pub fn trimmed_start(&self, tail_bytes: usize) -> u64 {
        let start = self.end().saturating_sub(tail_bytes as u64);
        if start < self.head.end() && self.lost().is_empty() { start } else { start.max(self.tail.start()) }
    }

    /// Keeps at most the last `tail_bytes`, now and from now on, in no more memory than they need.
    pub fn trim(&mut self, tail_bytes: usize) {
        let start = self.trimmed_start(tail_bytes);
        let tail = std::mem::take(&mut self.tail);
        let head = std::mem::take(&mut self.head);
        self.tail = if start < tail.start() {
            let mut kept = head;
            kept.join(tail);
            kept
        } else {
            tail
        };
        self.tail.drop_front(start);
        self.tail.compact();
        self.tail_bytes = tail_bytes.min(self.tail_bytes.saturating_add(self.head_bytes));
        self.head_bytes = 0;
    }
}

#[cfg(test)]
mod tests;
