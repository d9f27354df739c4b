//! `Interact`: output and input of a process in one stream.
//!
//! Input is delivered frame by frame, while output, signals, sizes and acknowledgements go on beside it: a program
//! that does not read its input can still be interrupted, and one that waits for its output to be taken still can
//! print. What cannot be delivered yet is read ahead up to a bound; beyond it the transport holds the client back.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep};
use tonic::{Request, Status, Streaming};

use super::attach::{AttachItem, Attached, FromAttach, Reading};
use super::collect::approval_pending;
use super::control;
use super::input::{Delivery, Frame, Offsets, deliver};
use crate::core::approval::Question;
use crate::core::ids::{ProcessId, TurnId};
use crate::core::limits::EXIT_COLLECT;
use crate::core::session::{ControlError, ControlFailure, TargetError, WriteError};
use crate::core::signal::Scope;
use crate::grpc::auth::Caller;
use crate::grpc::shared::Shared;
use crate::grpc::stream::{Answers, Source, answers};
use crate::grpc::{convert, pb, status};
use crate::host::stream::Refused;
use crate::host::{CallError, SessionHandle};
use pb::interact_request::Item;

/// Input that is read ahead of the process.
const AHEAD_BYTES: usize = 1024 * 1024;
/// The same while output waits for an acknowledgement, which may lie behind input in the stream.
const AHEAD_BYTES_MAX: usize = 8 * 1024 * 1024;
/// What every waiting frame counts as, beside its bytes.
const FRAME_COST: usize = 64;
/// Questions about one frame that may wait to be told: it is asked about once at a time, and anew after a change of
/// policy only when it is sent anew.
const QUESTIONS_BOUND: usize = 4;
/// Smallest window.
const WINDOW_BYTES_MIN: u64 = 4_096;

type Delivering = BoxFuture<'static, Result<Delivery, CallError<Refused>>>;
type Controlling = BoxFuture<'static, Result<(), CallError<ControlError>>>;

/// A client at work.
pub(super) struct Interacting {
    shared: Shared,
    session: SessionHandle,
    process: ProcessId,
    turn: TurnId,
    messages: Streaming<pb::InteractRequest>,
    finished: bool,
    output: Attached,
    begun: bool,
    window: Option<u64>,
    acked: u64,
    offsets: Offsets,
    input: VecDeque<Frame>,
    ahead_bytes: usize,
    /// The frame that is being delivered ends the input.
    ending: bool,
    eof: bool,
    delivering: Option<Delivering>,
    /// Questions about the frame that is being delivered; both ends are held here, so it never closes.
    questions: (mpsc::Sender<Arc<Question>>, mpsc::Receiver<Arc<Question>>),
    controlling: Option<Controlling>,
    /// Nobody reads input any more: the error of that, unless the end of the process is told soon.
    refused: Option<(Pin<Box<Sleep>>, Status)>,
}

impl fmt::Debug for Interacting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interacting").field("process", &self.process).finish_non_exhaustive()
    }
}

/// Opens the stream: its first message says whom it is about.
pub(in crate::grpc) async fn open(
    shared: &Shared,
    request: Request<Streaming<pb::InteractRequest>>,
) -> Result<Answers<pb::InteractResponse>, Status> {
    let caller = Caller::of(&request)?.clone();
    let mut messages = request.into_inner();
    let first = messages.message().await.map_err(status::request_stream)?;
    let Some(pb::InteractRequest { item: Some(Item::Open(open)) }) = first else {
        return Err(status::stream_protocol("the first message must be `open`"));
    };
    let session = shared.session(&caller, &open.session_id)?;
    let process = convert::process_id(open.process_id)?;
    let turn = convert::turn(&open.turn_id)?;
    let reading = Reading::new(open.cursor, open.from_end, open.flow, open.max_frame_bytes)?;
    let terms = shared.terms(convert::keepalive(open.keepalive_interval_ms))?;
    if let Some(size) = open.terminal_size {
        let size = convert::terminal_size("terminal_size", size)?;
        control::resize(shared, &session, process, size).await?;
    }
    let output = Attached::open(shared.clone(), session.clone(), process, reading).await?;
    let window = (open.window_bytes != 0).then(|| open.window_bytes.max(WINDOW_BYTES_MIN));
    let acked = output.cursor();
    let source = Interacting {
        shared: shared.clone(),
        session,
        process,
        turn,
        messages,
        finished: false,
        output,
        begun: false,
        window,
        acked,
        offsets: Offsets::new(None),
        input: VecDeque::new(),
        ahead_bytes: 0,
        ending: false,
        eof: false,
        delivering: None,
        questions: mpsc::channel(QUESTIONS_BOUND),
        controlling: None,
        refused: None,
    };
    Ok(answers(source, terms))
}

impl Source for Interacting {
    type Item = pb::InteractResponse;
    const ENDS_AT_DRAIN: bool = true;

    async fn next(&mut self) -> Option<Result<pb::InteractResponse, Status>> {
        if !self.begun {
            self.begun = true;
            let item = self.output.next_within(0).await?;
            return Some(item.map(pb::InteractResponse::from_attach));
        }
        loop {
            self.deliver_next();
            let room = self.room();
            let listens = self.listens(room);
            tokio::select! {
                biased;
                done = ready(&mut self.controlling) => {
                    self.controlling = None;
                    if let Some(error) = self.on_controlled(done) {
                        return Some(Err(error));
                    }
                }
                Some(question) = self.questions.1.recv() => {
                    let pending = approval_pending(self.shared.host.clock(), &question);
                    let item = pb::interact_response::Item::ApprovalPending(pending);
                    return Some(Ok(pb::InteractResponse { item: Some(item) }));
                }
                done = ready(&mut self.delivering) => {
                    self.delivering = None;
                    if let Some(item) = self.on_delivered(done) {
                        return Some(item);
                    }
                }
                refused = settled(&mut self.refused) => return Some(Err(refused)),
                message = self.messages.message(), if listens => {
                    if let Err(error) = self.on_message(message) {
                        return Some(Err(error));
                    }
                }
                item = self.output.next_within(room) => {
                    return item.map(|item| self.on_output(item));
                }
            }
        }
    }
}

impl Interacting {
    /// Bytes that may be sent before the next acknowledgement.
    fn room(&self) -> u64 {
        match self.window {
            None => u64::MAX,
            Some(window) => (self.acked.saturating_add(window)).saturating_sub(self.output.cursor()),
        }
    }

    /// Whether the next message is to be read.
    fn listens(&self, room: u64) -> bool {
        let most = if room == 0 { AHEAD_BYTES_MAX } else { AHEAD_BYTES };
        !self.finished && self.controlling.is_none() && self.ahead_bytes < most
    }

    fn deliver_next(&mut self) {
        if self.delivering.is_some() {
            return;
        }
        if self.output.exited() {
            self.input.clear();
            self.ahead_bytes = 0;
            self.refused = None;
        }
        if self.refused.is_some() {
            return;
        }
        let Some(frame) = self.input.pop_front() else { return };
        self.ahead_bytes = self.ahead_bytes.saturating_sub(frame.data.len() + FRAME_COST);
        self.ending = frame.eof;
        let (session, turn) = (self.session.clone(), self.turn.clone());
        let questions = self.questions.0.clone();
        // A client that does not read hears of the question later, or from the feed.
        let asking = move |question| drop(questions.try_send(question));
        self.delivering = Some(Box::pin(deliver(session, self.process, turn, frame, asking)));
    }

    fn on_message(&mut self, message: Result<Option<pb::InteractRequest>, Status>) -> Result<(), Status> {
        let message = message.map_err(status::request_stream)?;
        let Some(pb::InteractRequest { item }) = message else {
            self.finished = true;
            return Ok(());
        };
        let ended = self.output.exited();
        match item {
            None => Err(status::stream_protocol("a message says nothing; set one field of `item`")),
            Some(Item::Open(_)) => {
                Err(status::stream_protocol("`open` may come only once, as the first message"))
            }
            Some(Item::Stdin(_) | Item::Eof(_)) if self.eof => {
                Err(status::stream_protocol("no input may follow `eof`"))
            }
            Some(Item::Ack(cursor)) => {
                self.on_ack(cursor);
                Ok(())
            }
            // Its end is told, and nothing of this has a meaning any more.
            Some(Item::Stdin(_) | Item::Eof(_) | Item::Resize(_) | Item::Signal(_)) if ended => Ok(()),
            Some(Item::Stdin(pb::StdinData { offset, data })) => {
                let data = convert::input_bytes("stdin.data", data)?;
                let offset = self.offsets.place(offset, data.len());
                if !data.is_empty() {
                    self.queue(Frame { data, eof: false, offset, request: None });
                }
                Ok(())
            }
            Some(Item::Eof(pb::StdinEof {})) => {
                self.eof = true;
                self.queue(Frame { data: bytes::Bytes::new(), eof: true, offset: None, request: None });
                Ok(())
            }
            Some(Item::Resize(size)) => {
                let size = convert::terminal_size("resize", size)?;
                let (session, process) = (self.session.clone(), self.process);
                self.controlling = Some(Box::pin(async move { session.resize(process, size).await }));
                Ok(())
            }
            Some(Item::Signal(pb::InteractSignal { signal, scope })) => {
                let signal = control::named("signal.signal", &signal)?;
                // On pipes the foreground group is the process group.
                let scope = control::scope(scope, Scope::Foreground)?;
                let (session, process) = (self.session.clone(), self.process);
                self.controlling =
                    Some(Box::pin(async move { session.signal(process, signal, scope).await }));
                Ok(())
            }
        }
    }

    fn queue(&mut self, frame: Frame) {
        self.ahead_bytes += frame.data.len() + FRAME_COST;
        self.input.push_back(frame);
    }

    /// What lies ahead of what was sent, or is of another attempt, acknowledges nothing.
    fn on_ack(&mut self, cursor: pb::Cursor) {
        if cursor.attempt == 0 || cursor.attempt == u32::from(self.output.attempt().get()) {
            self.acked = self.acked.max(cursor.offset.min(self.output.cursor()));
        }
    }

    fn on_controlled(&self, done: Result<(), CallError<ControlError>>) -> Option<Status> {
        match done {
            Ok(())
            // `exited` tells.
            | Err(CallError::Refused(
                ControlError::Target(TargetError::Gone { .. }) | ControlError::Failed(ControlFailure::Gone),
            )) => None,
            Err(error) => {
                Some(self.shared.place(&self.session).call(error, |place, error| place.control(self.process, error)))
            }
        }
    }

    fn on_delivered(
        &mut self,
        done: Result<Delivery, CallError<Refused>>,
    ) -> Option<Result<pb::InteractResponse, Status>> {
        use pb::interact_response::Item as Wire;
        match done {
            Ok(Delivery::Whole { committed }) => {
                let committed = pb::StdinCommitted { offset: committed, eof: self.ending };
                Some(Ok(pb::InteractResponse { item: Some(Wire::StdinCommitted(committed)) }))
            }
            Ok(Delivery::Abandoned { committed }) => {
                Some(Err(status::input_abandoned(self.process, committed)))
            }
            Ok(Delivery::Ended { .. }) => None,
            Err(error) => {
                let closed =
                    matches!(error, CallError::Refused(Refused::Write(WriteError::StdinEnded { .. })));
                let error = self.shared.place(&self.session).collecting(error, false);
                if closed {
                    self.refused = Some((Box::pin(sleep(EXIT_COLLECT)), error));
                    return None;
                }
                Some(Err(error))
            }
        }
    }

    fn on_output(&mut self, item: Result<AttachItem, Status>) -> Result<pb::InteractResponse, Status> {
        let item = item?;
        if let AttachItem::AttemptStarted(_) = item {
            // Its log begins anew, and so do acknowledgements.
            self.acked = self.output.cursor();
        }
        Ok(pb::InteractResponse::from_attach(item))
    }
}

/// Resolves to a refusal once no end has explained it; never, if there is none.
async fn settled(refused: &mut Option<(Pin<Box<Sleep>>, Status)>) -> Status {
    match refused {
        Some((wait, error)) => {
            wait.await;
            error.clone()
        }
        None => std::future::pending().await,
    }
}

/// Resolves when `future` does; never, if there is none.
async fn ready<T>(future: &mut Option<BoxFuture<'static, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
