//! What reaches callers, in the words of a transcript.

use unified_exec::core::ids::{ApprovalId, ProcessId};

use super::received::Received;
use crate::run::Missed;
use crate::tell::Keys;

/// What a caller hears.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Something in the session's feed.
    Event(Event),
    /// What a step's call came to, and which process it started.
    Answer { step: usize, process: Option<ProcessId>, keys: Keys },
    /// What a program got for a connection.
    Connection { process: ProcessId, keys: Keys },
    /// Which process a request has started.
    Started { process: ProcessId, request: String },
    /// The output that a call was given.
    Received(Received),
    /// A step found nothing to act on.
    Missed(Missed),
    /// What must never happen.
    Broken(String),
}

/// An event of the feed.
#[derive(Debug, Default)]
pub(crate) struct Event {
    pub(crate) process: Option<ProcessId>,
    /// The request of the call that it belongs to.
    pub(crate) request: Option<String>,
    pub(crate) kind: &'static str,
    pub(crate) keys: Keys,
    /// The question that it is about, and whose that is.
    pub(crate) asked: Option<(ApprovalId, ProcessId)>,
    /// Which attempt's outputs have closed, and where.
    pub(crate) closed: Option<(u8, u64)>,
}
