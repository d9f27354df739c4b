//! One contiguous stretch of retained bytes.
//!
//! Bytes and stream tags are kept apart: `chunks` hold the bytes whatever stream they are of, `runs` say where the
//! stream changes. Two streams that alternate byte by byte therefore cost 16 bytes a change, and not an allocation.
//!
//! Small chunks are copied on the way in (they would pin the buffer they were read into) and joined in groups, so
//! that the number of chunks follows from the number of bytes. Large ones are kept as they came.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};

use super::{Piece, Stream};

/// Copying less than this costs no more than the bookkeeping that it saves.
pub(super) const SMALL_BYTES: usize = 4 * 1024;
/// This many small chunks are joined into one.
const YOUNG_CHUNKS_MAX: usize = 64;
/// A joined chunk of this size is left alone: below it, joining copies a byte a bounded number of times.
const SETTLED_BYTES: usize = 16 * 1024;
/// A chunk that uses less than one part in so many of the allocation it came in gets an allocation of its own.
const SLAB_SHARE: usize = 4;

/// Bytes `start..end` of a log.
#[derive(Debug, Default)]
pub(super) struct Span {
    start: u64,
    end: u64,
    chunks: VecDeque<Chunk>,
    runs: VecDeque<Run>,
    /// How many of the last chunks are small and may still be joined.
    young: usize,
}

#[derive(Debug)]
struct Chunk {
    start: u64,
    data: Bytes,
    /// Size of the allocation behind `data`, as far as the log knows.
    slab: usize,
}

/// From `start` to the next run, all bytes are of `stream`.
#[derive(Debug, Clone, Copy)]
struct Run {
    start: u64,
    stream: Stream,
}

impl Chunk {
    fn end(&self) -> u64 {
        self.start + self.data.len() as u64
    }

    /// The part of this chunk within `from..to`.
    fn part(&self, from: u64, to: u64) -> Bytes {
        let from = from.clamp(self.start, self.end());
        let to = to.clamp(from, self.end());
        self.data.slice((from - self.start) as usize..(to - self.start) as usize)
    }

    fn drop_front(&mut self, to: u64) {
        self.data.advance((to - self.start) as usize);
        self.start = to;
        self.release_slab();
    }

    fn release_slab(&mut self) {
        if self.slab > SMALL_BYTES && self.data.len() < self.slab / SLAB_SHARE {
            self.data = Bytes::copy_from_slice(&self.data);
            self.slab = self.data.len();
        }
    }
}

impl Span {
    /// An empty span that will begin at `offset`.
    pub(super) fn at(offset: u64) -> Self {
        Self { start: offset, end: offset, ..Self::default() }
    }

    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Changes of stream, counting the first.
    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }

    pub(super) fn last_stream(&self) -> Option<Stream> {
        self.runs.back().map(|run| run.stream)
    }

    /// Where the run after the `n`th begins.
    pub(super) fn end_of_run(&self, n: usize) -> u64 {
        self.runs.get(n + 1).map_or(self.end, |run| run.start)
    }

    #[cfg(test)]
    pub(super) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Adds bytes, which lie in an allocation of `slab` bytes.
    pub(super) fn push(&mut self, stream: Stream, data: Bytes, slab: usize) {
        if data.is_empty() {
            return;
        }
        if self.last_stream() != Some(stream) {
            self.runs.push_back(Run { start: self.end, stream });
        }
        let (start, len) = (self.end, data.len());
        self.end += len as u64;
        if len < SMALL_BYTES {
            self.chunks.push_back(Chunk { start, data: Bytes::copy_from_slice(&data), slab: len });
            self.young += 1;
            if self.young == YOUNG_CHUNKS_MAX || self.young_bytes() >= SETTLED_BYTES {
                self.join_young();
            }
        } else {
            self.join_young();
            self.young = 0;
            let mut chunk = Chunk { start, data, slab };
            chunk.release_slab();
            self.chunks.push_back(chunk);
        }
    }

    fn young_start(&self) -> usize {
        self.chunks.len().saturating_sub(self.young)
    }

    fn young_bytes(&self) -> usize {
        self.chunks.get(self.young_start()).map_or(0, |chunk| (self.end - chunk.start) as usize)
    }

    fn join_young(&mut self) {
        self.join_from(self.young_start());
        self.young = usize::from(self.chunks.back().is_some_and(|chunk| chunk.data.len() < SETTLED_BYTES));
    }

    /// Makes one chunk, in an allocation of its own, of those from the `first`th on.
    fn join_from(&mut self, first: usize) {
        let Some(start) = self.chunks.get(first).map(|chunk| chunk.start) else { return };
        if self.chunks.len() - first == 1 {
            return;
        }
        let bytes: usize = self.chunks.range(first..).map(|chunk| chunk.data.len()).sum();
        let mut joined = Vec::with_capacity(bytes);
        for chunk in self.chunks.drain(first..) {
            joined.extend_from_slice(&chunk.data);
        }
        self.chunks.push_back(Chunk { start, data: joined.into(), slab: bytes });
    }

    /// Forgets the bytes before `to`.
    pub(super) fn drop_front(&mut self, to: u64) {
        let to = to.clamp(self.start, self.end);
        while self.chunks.front().is_some_and(|chunk| chunk.end() <= to) {
            self.chunks.pop_front();
        }
        if let Some(chunk) = self.chunks.front_mut().filter(|chunk| chunk.start < to) {
            chunk.drop_front(to);
        }
        while self.runs.front().is_some() && self.end_of_run(0) <= to {
            self.runs.pop_front();
        }
        if let Some(run) = self.runs.front_mut() {
            run.start = run.start.max(to);
        }
        self.start = to;
        self.young = self.young.min(self.chunks.len());
    }

    /// Adds the span that begins where this one ends.
    pub(super) fn join(&mut self, next: Self) {
        debug_assert_eq!(self.end, next.start, "spans are joined only where they touch");
        let same_stream = self
            .last_stream()
            .is_some_and(|stream| next.runs.front().is_some_and(|run| run.stream == stream));
        self.runs.extend(next.runs.into_iter().skip(usize::from(same_stream)));
        self.chunks.extend(next.chunks);
        self.end = next.end;
        self.young = 0;
    }

    /// Gives back every byte of memory that the span does not need.
    pub(super) fn compact(&mut self) {
        self.join_from(0);
        if let Some(chunk) = self.chunks.front_mut().filter(|chunk| chunk.slab > chunk.data.len()) {
            chunk.data = Bytes::copy_from_slice(&chunk.data);
            chunk.slab = chunk.data.len();
        }
        self.young = 0;
        self.chunks.shrink_to_fit();
        self.runs.shrink_to_fit();
    }

    /// At most `max` bytes (and at least one) of one stream from `from` on; `None` outside the span. A slice where
    /// the bytes lie in one chunk; where several small chunks follow each other, a copy of them.
    pub(super) fn piece(&self, from: u64, max: usize) -> Option<Piece> {
        if from < self.start || from >= self.end {
            return None;
        }
        let run = self.runs.partition_point(|run| run.start <= from).checked_sub(1)?;
        let stream = self.runs.get(run)?.stream;
        let limit = self.end_of_run(run).min(from.saturating_add(max.max(1) as u64));
        let first = self.chunk_at(from);
        let data = self.chunks.get(first)?.part(from, limit);
        let data = self.gather(first, from, limit).unwrap_or(data);
        Some(Piece { offset: from, stream, data })
    }

    fn chunk_at(&self, offset: u64) -> usize {
        self.chunks.partition_point(|chunk| chunk.end() <= offset)
    }

    /// Copies of the small chunks from the `first`th on, if there are at least two within `from..limit`.
    fn gather(&self, first: usize, from: u64, limit: u64) -> Option<Bytes> {
        let small = |chunk: &Chunk| {
            let len = chunk.end().min(limit).saturating_sub(chunk.start.max(from));
            len > 0 && len < SMALL_BYTES as u64
        };
        let count = self.chunks.range(first..).take_while(|chunk| small(chunk)).count();
        if count < 2 {
            return None;
        }
        let to = self.chunks.get(first + count - 1)?.end().min(limit);
        let mut gathered = Vec::with_capacity((to - from) as usize);
        for chunk in self.chunks.range(first..first + count) {
            gathered.extend_from_slice(&chunk.part(from, limit));
        }
        Some(gathered.into())
    }

    /// The bytes `from..to`, whatever their stream.
    pub(super) fn bytes(&self, from: u64, to: u64) -> impl Iterator<Item = Bytes> {
        self.chunks
            .range(self.chunk_at(from)..)
            .take_while(move |chunk| chunk.start < to)
            .map(move |chunk| chunk.part(from, to))
            .filter(|part| !part.is_empty())
    }
}
