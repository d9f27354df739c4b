//! Input that comes as a stream: frames in order, each delivered before the next.

use std::sync::Arc;

use bytes::Bytes;

use crate::core::approval::Question;
use crate::core::ids::{ProcessId, TurnId};
use crate::core::output::Flow;
use crate::core::process::Exit;
use crate::core::session::{Idempotency, TargetError, WaitEnd, Write, WriteAnswer, WriteError};
use crate::host::stream::{Item, Refused, StreamOptions};
use crate::host::{CallError, SessionHandle};

/// Nobody reads output on this way.
const SILENT: StreamOptions = StreamOptions { output: false, ..StreamOptions::new(Flow::DropWithGap, 0) };

/// A piece of input, or its end.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) data: Bytes,
    pub(super) eof: bool,
    /// Where it starts, if anybody said.
    pub(super) offset: Option<u64>,
    pub(super) request: Idempotency,
}

/// What came of a frame.
#[derive(Debug)]
pub(super) enum Delivery {
    /// All of it was taken.
    Whole {
        /// The input's offset after it.
        committed: u64,
    },
    /// It was called off.
    Abandoned {
        /// The input's offset after what was taken.
        committed: u64,
    },
    /// The process had ended, or ended over it.
    Ended {
        /// How.
        exit: Exit,
        /// The input's offset after what was taken, if any could be.
        committed: Option<u64>,
    },
}

/// Delivers a frame to a process; `asking` hears what is asked about it. A client that goes away meanwhile has not ended the input.
pub(super) async fn deliver(
    session: SessionHandle,
    process: ProcessId,
    turn: TurnId,
    frame: Frame,
    asking: impl Fn(Arc<Question>),
) -> Result<Delivery, CallError<Refused>> {
    let Frame { data, eof, offset, request } = frame;
    let len = data.len() as u64;
    let answer = WriteAnswer::Delivered;
    let write = Write { turn, request, process, input: data, offset, eof, answer };
    let mut stream = session.write(write, SILENT).await;
    let result = loop {
        match stream.next().await {
            Some(Ok(Item::Result(collected))) => break collected.result,
            Some(Ok(Item::Asking { question })) => asking(question),
            Some(Ok(_)) => {}
            Some(Err(CallError::Refused(Refused::Write(WriteError::Target(TargetError::Gone {
                exit,
                ..
            }))))) => {
                return Ok(Delivery::Ended { exit: *exit, committed: None });
            }
            Some(Err(error)) => return Err(error),
            None => return Err(CallError::SessionGone),
        }
    };
    let (start, committed) = result.stdin.unwrap_or_default();
    let whole = committed >= start.max(offset.unwrap_or(start) + len) && !eof;
    match (result.end, result.exit) {
        (WaitEnd::Delivered, _) => Ok(Delivery::Whole { committed }),
        (_, _) if whole => Ok(Delivery::Whole { committed }),
        (_, Some(exit)) => Ok(Delivery::Ended { exit, committed: Some(committed) }),
        (_, None) => Ok(Delivery::Abandoned { committed }),
    }
}

/// Where the frames of a stream start. Once an offset was named, every frame has one, so that a stream that is
/// taken up again writes nothing twice; before, input goes wherever the input of the process is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offsets(Option<u64>);

impl Offsets {
    pub(super) const fn new(first: Option<u64>) -> Self {
        Self(first)
    }

    /// The place of the next frame, of `len` bytes.
    pub(super) fn place(&mut self, named: Option<u64>, len: usize) -> Option<u64> {
        let start = named.or(self.0);
        self.0 = start.map(|start| start.saturating_add(len as u64));
        start
    }
}
