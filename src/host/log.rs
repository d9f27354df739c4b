//! The output log of one attempt: one writer (the pump), any number of readers.
//!
//! ```text
//!   pump ── writable().await ── append ──► Retained ◄── next().await ── LogReader (a cursor)
//!                 ▲                            │
//!                 └──── moved (Block readers) ─┴── changed ──► every waiting reader
//! ```
//!
//! A reader is a cursor: reading takes nothing out, and a reader that never reads costs nobody anything. The one
//! exception is asked for: while a [`Flow::Block`] reader lags, [`OutputLog::writable`] does not resolve, so the
//! pump stops reading and the child stalls. Dropping the reader lets it run on.
//!
//! Waits register before they look, so no wakeup is lost; every future here may be dropped at any point, and a
//! cursor moves only when its bytes are handed out.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use super::ports::{Read, Telemetry};
use crate::core::limits::{FRAME_BYTES_MAX, LOG_HEAD_BYTES, LOG_TAIL_BYTES};
use crate::core::output::{Flow, Gap, Piece, Retained, Segment, Slice, Stream};

/// The output of one attempt.
#[derive(Debug)]
pub struct OutputLog {
    state: Mutex<State>,
    /// The log grew or was closed.
    changed: Notify,
    /// A [`Flow::Block`] reader moved on or went.
    moved: Notify,
    telemetry: Option<Arc<dyn Telemetry>>,
}

#[derive(Debug)]
struct State {
    retained: Retained,
    closed: bool,
    /// Where each [`Flow::Block`] reader is.
    blockers: BTreeMap<u64, u64>,
    next_blocker: u64,
    /// A trim that waits for [`Flow::Block`] readers.
    trim: Option<usize>,
}

/// How far a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The offset after the last byte.
    pub end: u64,
    /// Whether that is final.
    pub closed: bool,
}

/// What a reader gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Bytes.
    Piece(Piece),
    /// Bytes that the log no longer holds; the reader goes on behind them.
    Gap(Gap),
    /// The log is closed at this offset and the reader has had everything.
    Closed(u64),
}

impl Default for OutputLog {
    fn default() -> Self {
        Self::new()
    }
}

impl OutputLog {
    /// Tells `telemetry` what its readers lose.
    pub fn seen_by(mut self, telemetry: Arc<dyn Telemetry>) -> Self {
        self.telemetry = Some(telemetry);
        self
    }

    /// An empty log of the usual size.
    pub fn new() -> Self {
        Self::with_budget(LOG_HEAD_BYTES, LOG_TAIL_BYTES)
    }

    /// An empty log that keeps this many first and last bytes.
    pub fn with_budget(head_bytes: usize, tail_bytes: usize) -> Self {
        let state = State {
            retained: Retained::new(head_bytes, tail_bytes),
            closed: false,
            blockers: BTreeMap::new(),
            next_blocker: 0,
            trim: None,
        };
        Self { state: Mutex::new(state), changed: Notify::new(), moved: Notify::new(), telemetry: None }
    }

    /// No code panics while it holds the lock, and a log is valid between any two of its steps.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds bytes and answers where the end is now. Never waits; a pump awaits [`Self::writable`] first. A closed
    /// log takes nothing.
    pub fn append(&self, stream: Stream, data: Bytes) -> u64 {
        let end = {
            let mut state = self.lock();
            if state.closed || data.is_empty() {
                return state.retained.end();
            }
            state.retained.append(stream, data)
        };
        self.changed.notify_waiters();
        end
    }

    /// All outputs have ended. May be repeated.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_waiters();
    }

    /// The offset after the last byte.
    pub fn end(&self) -> u64 {
        self.lock().retained.end()
    }

    /// Whether all outputs have ended.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// End and closedness, of one moment.
    pub fn extent(&self) -> Extent {
        let state = self.lock();
        Extent { end: state.retained.end(), closed: state.closed }
    }

    /// The one range that the log no longer holds; empty if it holds everything.
    pub fn lost(&self) -> std::ops::Range<u64> {
        self.lock().retained.lost()
    }

    /// How many bytes of `from..to` the log no longer holds.
    pub fn omitted(&self, from: u64, to: u64) -> u64 {
        self.lock().retained.omitted(from, to)
    }

    /// One slice for a caller that keeps its own cursor.
    pub fn slice(&self, from: u64, max_bytes: usize) -> Slice {
        let slice = self.lock().retained.slice(from, max_bytes);
        self.note(slice.gap);
        slice
    }

    fn note(&self, gap: Option<Gap>) {
        if let (Some(gap), Some(telemetry)) = (gap, &self.telemetry) {
            telemetry.read(Read::OutputGap(gap.bytes()));
        }
    }

    /// The range `from..to` of one moment, as far as the log goes; shares the bytes.
    pub fn snapshot(&self, from: u64, to: u64) -> Vec<Segment> {
        self.lock().retained.segments(from, to)
    }

    /// Keeps at most the last `tail_bytes`, now and from now on. Waits for no one, but takes effect only when every
    /// [`Flow::Block`] reader has had what goes.
    pub fn trim(&self, tail_bytes: usize) {
        let mut state = self.lock();
        state.trim = Some(state.trim.map_or(tail_bytes, |pending| pending.min(tail_bytes)));
        state.trim_if_read();
    }

    /// Resolves once the log is longer than `seen` or closed.
    pub async fn changed(&self, seen: u64) -> Extent {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let extent = self.extent();
            if extent.end > seen || extent.closed {
                return extent;
            }
            changed.await;
        }
    }

    /// Resolves when the pump may read on, with the number of bytes that it may append without loss to a
    /// [`Flow::Block`] reader: at least [`FRAME_BYTES_MAX`] on a log of the usual size.
    pub async fn writable(&self) -> usize {
        loop {
            let mut moved = pin!(self.moved.notified());
            moved.as_mut().enable();
            if let Some(room) = self.lock().room_for_a_frame() {
                return room;
            }
            moved.await;
        }
    }

    /// A reader at `from`, which may lie before, inside or after what is held.
    pub fn reader(self: &Arc<Self>, from: u64, flow: Flow) -> LogReader {
        let blocker = match flow {
            Flow::DropWithGap => None,
            Flow::Block => Some(self.lock().add_blocker(from)),
        };
        LogReader { log: Arc::clone(self), cursor: from, blocker }
    }
}

impl State {
    fn room_for_a_frame(&self) -> Option<usize> {
        let Some(room) = self.retained.room() else { return Some(usize::MAX) };
        // A tail of a few bytes (tests, trimmed logs) must not wait for room that it can never have.
        let enough = FRAME_BYTES_MAX.min(self.retained.tail_bytes() / 2).max(1);
        (room >= enough || self.retained.tail_bytes() == 0).then_some(room.max(1))
    }

    fn add_blocker(&mut self, cursor: u64) -> u64 {
        let id = self.next_blocker;
        self.next_blocker += 1;
        self.blockers.insert(id, cursor);
        self.hold();
        id
    }

    /// To be called whenever `blockers` has changed.
    fn hold(&mut self) {
        self.retained.hold(self.blockers.values().min().copied());
        self.trim_if_read();
    }

    fn trim_if_read(&mut self) {
        let Some(tail_bytes) = self.trim else { return };
        let start = self.retained.trimmed_start(tail_bytes);
        if self.blockers.values().all(|cursor| *cursor >= start) {
            self.retained.trim(tail_bytes);
            self.trim = None;
        }
    }
}

/// A cursor in a log.
#[derive(Debug)]
pub struct LogReader {
    log: Arc<OutputLog>,
    cursor: u64,
    blocker: Option<u64>,
}

impl LogReader {
    /// Where the reader is: the offset of the next byte it will get.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// The offset after the last byte of the log.
    pub fn end(&self) -> u64 {
        self.log.end()
    }

    /// Whether there is something that the reader has not got.
    pub fn lags(&self) -> bool {
        self.cursor < self.log.end()
    }

    /// The next bytes, at most `max_bytes` (and at least one) of one stream; waits until there are any. Small pieces
    /// that have gathered come as one. Cancel-safe.
    pub async fn next(&mut self, max_bytes: usize) -> Next {
        // A reader that always finds something must still let others run.
        tokio::task::coop::consume_budget().await;
        loop {
            if let Some(next) = self.try_next(max_bytes) {
                return next;
            }
            self.log.changed(self.cursor).await;
        }
    }

    /// The same without waiting; `None` if there is nothing yet.
    pub fn try_next(&mut self, max_bytes: usize) -> Option<Next> {
        let next = {
            let mut state = self.log.lock();
            let slice = state.retained.slice(self.cursor, max_bytes);
            let (next, cursor) = match (slice.gap, slice.piece) {
                (Some(gap), _) => (Next::Gap(gap), gap.to),
                (None, Some(piece)) => (Next::Piece(piece), slice.next),
                (None, None) if state.closed => return Some(Next::Closed(state.retained.end())),
                (None, None) => return None,
            };
            self.cursor = cursor;
            if let Some(id) = self.blocker {
                state.blockers.insert(id, cursor);
                state.hold();
            }
            next
        };
        if self.blocker.is_some() {
            self.log.moved.notify_waiters();
        }
        if let Next::Gap(gap) = &next {
            self.log.note(Some(*gap));
        }
        Some(next)
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        if let Some(id) = self.blocker {
            {
                let mut state = self.log.lock();
                state.blockers.remove(&id);
                state.hold();
            }
            self.log.moved.notify_waiters();
        }
    }
}

#[cfg(test)]
mod any;
#[cfg(test)]
mod tests;
