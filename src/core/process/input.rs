//! The input lane of a process: what was sent is delivered in order, one piece at a time, by absolute offsets.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::core::ids::{ApprovalId, CallId, WriteId};

/// The input side of a process.
#[derive(Debug)]
pub(crate) struct Input {
    /// Whether it was started with an input at all.
    pub(crate) present: bool,
    /// Bytes that the child's side has taken.
    pub(crate) committed: u64,
    /// Why no more input is taken.
    pub(crate) ended: Option<InputEnd>,
    /// Waits behind the piece that is under way.
    pub(crate) queue: VecDeque<Queued>,
    /// Under way.
    pub(crate) active: Option<Active>,
    /// The piece that somebody is asked about; nothing goes past it.
    pub(crate) reviewing: Option<Reviewing>,
}

/// A piece of input that somebody is asked about.
#[derive(Debug)]
pub(crate) struct Reviewing {
    /// The question.
    pub(crate) approval: ApprovalId,
    /// The piece.
    pub(crate) piece: Queued,
}

/// Why no more input is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputEnd {
    /// A caller ended it.
    Eof,
    /// The program closed it.
    Program,
}

impl InputEnd {
    /// For errors.
    pub(crate) const fn by(self) -> &'static str {
        match self {
            Self::Eof => "an earlier eof",
            Self::Program => "the program",
        }
    }
}

/// A piece of input that waits.
#[derive(Debug)]
pub(crate) struct Queued {
    /// The call it came with.
    pub(crate) call: CallId,
    /// Its bytes.
    pub(crate) data: Bytes,
    /// Where they start, if the caller said.
    pub(crate) offset: Option<u64>,
    /// Whether the input ends after them.
    pub(crate) eof: bool,
    /// Whether somebody approved exactly this.
    pub(crate) approved: bool,
}

/// The piece that is under way.
#[derive(Debug)]
pub(crate) struct Active {
    /// Its delivery.
    pub(crate) write: WriteId,
    /// The call it came with.
    pub(crate) call: CallId,
    /// Whether the input ends after it.
    pub(crate) eof: bool,
    /// Whether it was asked to stop.
    pub(crate) stopping: bool,
}

impl Input {
    /// An input that takes bytes, or one that does not exist.
    pub(crate) const fn new(present: bool) -> Self {
        Self { present, committed: 0, ended: None, queue: VecDeque::new(), active: None, reviewing: None }
    }

    /// Another attempt takes it, untouched: what the program of the last one closed is open again.
    pub(crate) fn reopen(&mut self) {
        self.ended = None;
    }

    /// Whether nothing of it can have reached a program: neither bytes nor an end.
    pub(crate) fn is_untouched(&self) -> bool {
        self.committed == 0 && self.active.is_none() && self.ended != Some(InputEnd::Eof)
    }

    /// Whether input may still be sent.
    pub(crate) const fn is_open(&self) -> bool {
        self.present && self.ended.is_none()
    }

    /// Whether a piece waits or is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.active.is_some() || self.reviewing.is_some() || !self.queue.is_empty()
    }
}
