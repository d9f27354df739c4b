//! Output of a process from a place on, with the news of its end.

use tonic::Status;

use crate::core::ids::{AttemptNumber, ProcessId};
use crate::core::output::Flow;
use crate::core::session::{AttemptView, TargetError};
use crate::grpc::shared::Shared;
use crate::grpc::stream::{Signs, Source};
use crate::grpc::{convert, pb, status};
use crate::host::log::{LogReader, Next};
use crate::host::{Followed, Following, SessionHandle};

use super::describe::describe;

/// An item of such a stream.
#[derive(Debug)]
pub(in crate::grpc) enum AttachItem {
    Attached(Box<pb::Attached>),
    Output(pb::Output),
    Gap(pb::Gap),
    AttemptDenied(pb::AttemptDenied),
    AttemptStarted(pb::AttemptStarted),
    Exited(pb::Exited),
    Closed(pb::Closed),
}

/// A response that carries such items.
pub(in crate::grpc) trait FromAttach: Signs + Send + Sized + 'static {
    fn from_attach(item: AttachItem) -> Self;
}

macro_rules! attach_response {
    ($response:ident, $item:path) => {
        impl FromAttach for pb::$response {
            fn from_attach(item: AttachItem) -> Self {
                use $item as Wire;
                let item = match item {
                    AttachItem::Attached(attached) => Wire::Attached(*attached),
                    AttachItem::Output(output) => Wire::Output(output),
                    AttachItem::Gap(gap) => Wire::Gap(gap),
                    AttachItem::AttemptDenied(denied) => Wire::AttemptDenied(denied),
                    AttachItem::AttemptStarted(started) => Wire::AttemptStarted(started),
                    AttachItem::Exited(exited) => Wire::Exited(exited),
                    AttachItem::Closed(closed) => Wire::Closed(closed),
                };
                Self { item: Some(item) }
            }
        }
    };
}

attach_response!(AttachResponse, pb::attach_response::Item);
attach_response!(InteractResponse, pb::interact_response::Item);

/// Where and how a client wants to read.
#[derive(Debug)]
pub(in crate::grpc) struct Reading {
    pub(in crate::grpc) cursor: Option<pb::Cursor>,
    pub(in crate::grpc) from_end: bool,
    pub(in crate::grpc) flow: Flow,
    pub(in crate::grpc) frame_bytes: usize,
}

impl Reading {
    pub(in crate::grpc) fn new(
        cursor: Option<pb::Cursor>,
        from_end: bool,
        flow: i32,
        max_frame_bytes: u32,
    ) -> convert::Valid<Self> {
        if from_end && cursor.is_some() {
            return convert::invalid("from_end", "is set beside `cursor`; give one of them");
        }
        let (flow, frame_bytes) = (convert::flow(flow)?, convert::frame_bytes(max_frame_bytes));
        Ok(Self { cursor, from_end, flow, frame_bytes })
    }
}

/// What is left of an attempt.
#[derive(Debug)]
enum Rest {
    Item(Box<AttachItem>),
    /// There is something, and the client has no room for it.
    NoRoom,
}

/// A client at a process.
#[derive(Debug)]
pub(in crate::grpc) struct Attached {
    shared: Shared,
    session: SessionHandle,
    process: ProcessId,
    /// What is told first.
    first: Option<Box<pb::Attached>>,
    reader: LogReader,
    attempt: AttemptNumber,
    flow: Flow,
    frame_bytes: usize,
    /// Whether a further attempt is followed too.
    all_attempts: bool,
    /// Keeps the process from counting as one without a client.
    following: Following,
    /// The denial of the attempt that is read, until all its output has been handed out.
    denied: Option<AttemptView>,
    /// A further attempt that has started, until all output of this one has been handed out.
    further: Option<AttemptView>,
    exited: bool,
    closed: bool,
}

impl Attached {
    /// Registers before it looks, so that no end is missed.
    pub(in crate::grpc) async fn open(
        shared: Shared,
        session: SessionHandle,
        process: ProcessId,
        reading: Reading,
    ) -> Result<Self, Status> {
        let Reading { cursor, from_end, flow, frame_bytes } = reading;
        let following = session.follow(process).await;
        let wanted = cursor.unwrap_or_default();
        let opened = shared.open(&session, process, wanted.attempt).await?;
        let end = opened.log.end();
        let offset = if from_end { end } else { wanted.offset };
        if offset > end {
            return Err(status::cursor_out_of_range(opened.attempt, offset, end));
        }
        let reader = opened.log.reader(offset, flow);
        let attempt = opened.attempt;
        let snapshot = describe(&shared, &session, opened.view, false).await;
        let first = pb::Attached { cursor: Some(convert::cursor(attempt, offset)), process: Some(snapshot) };
        Ok(Self {
            shared,
            session,
            process,
            first: Some(Box::new(first)),
            reader,
            attempt,
            flow,
            frame_bytes,
            all_attempts: wanted.attempt == 0,
            following,
            denied: None,
            further: None,
            exited: false,
            closed: false,
        })
    }

    /// Whether the client has been told of the end of the process.
    pub(in crate::grpc) const fn exited(&self) -> bool {
        self.exited
    }

    /// The offset of the next byte that is sent.
    pub(in crate::grpc) fn cursor(&self) -> u64 {
        self.reader.cursor()
    }

    pub(in crate::grpc) const fn attempt(&self) -> AttemptNumber {
        self.attempt
    }

    /// The next item, with at most `room` bytes of output. Cancel-safe.
    pub(in crate::grpc) async fn next_within(&mut self, room: u64) -> Option<Result<AttachItem, Status>> {
        if let Some(first) = self.first.take() {
            return Some(Ok(AttachItem::Attached(first)));
        }
        let bytes = usize::try_from(room).unwrap_or(usize::MAX).min(self.frame_bytes);
        loop {
            if self.denied.is_some() || self.further.is_some() {
                match self.rest_of_attempt(bytes) {
                    Some(Rest::Item(item)) => return Some(Ok(*item)),
                    Some(Rest::NoRoom) => std::future::pending::<()>().await,
                    None => {}
                }
                if let Some(denied) = self.denied.take() {
                    let denied = convert::attempt_denied(self.shared.host.clock(), &denied);
                    return Some(Ok(AttachItem::AttemptDenied(denied)));
                }
                if let Some(further) = self.further.clone() {
                    return Some(self.go_on_with(further).await);
                }
            }
            if self.exited && self.closed {
                return None;
            }
            let (attempt, reads) = (self.attempt, !self.closed && bytes > 0);
            tokio::select! {
                biased;
                followed = self.following.next(), if !self.exited => {
                    match self.on_followed(followed) {
                        Ok(None) => {}
                        Ok(Some(item)) => return Some(Ok(item)),
                        Err(error) => return Some(Err(error)),
                    }
                }
                next = self.reader.next(bytes), if reads => return Some(Ok(match next {
                    Next::Piece(piece) => AttachItem::Output(convert::output(attempt, piece)),
                    Next::Gap(gap) => AttachItem::Gap(convert::gap(attempt, gap)),
                    Next::Closed(end) => self.close(end),
                })),
                // The process has ended and there is no room: whoever waits for room hears of it.
                else => std::future::pending::<()>().await,
            }
        }
    }

    /// What the attempt that is left behind has still to say; what comes of it later, from somebody who survived it, is
    /// read by its number.
    fn rest_of_attempt(&mut self, bytes: usize) -> Option<Rest> {
        if self.closed {
            return None;
        }
        if bytes == 0 && self.reader.lags() {
            return Some(Rest::NoRoom);
        }
        let item = match self.reader.try_next(bytes.max(1))? {
            Next::Piece(piece) => AttachItem::Output(convert::output(self.attempt, piece)),
            Next::Gap(gap) => AttachItem::Gap(convert::gap(self.attempt, gap)),
            Next::Closed(end) => self.close(end),
        };
        Some(Rest::Item(Box::new(item)))
    }

    fn close(&mut self, end: u64) -> AttachItem {
        self.closed = true;
        AttachItem::Closed(pb::Closed { end: Some(convert::cursor(self.attempt, end)) })
    }

    /// Goes over to the log of a further attempt. May be dropped and begun again.
    async fn go_on_with(&mut self, further: AttemptView) -> Result<AttachItem, Status> {
        let number = u32::from(further.number.get());
        let opened = self.shared.open(&self.session, self.process, number).await?;
        self.reader = opened.log.reader(0, self.flow);
        self.attempt = further.number;
        self.closed = false;
        self.further = None;
        Ok(AttachItem::AttemptStarted(convert::attempt_started(self.shared.host.clock(), &further)))
    }

    fn on_followed(&mut self, followed: Followed) -> Result<Option<AttachItem>, Status> {
        let clock = self.shared.host.clock();
        match followed {
            Followed::AttemptDenied(denied) => {
                self.denied = Some(denied).filter(|denied| denied.number == self.attempt);
                Ok(None)
            }
            Followed::AttemptStarted(started) => {
                if started.number > self.attempt && self.all_attempts {
                    self.further = Some(started);
                    return Ok(None);
                }
                let ours = started.number == self.attempt;
                Ok(ours.then(|| AttachItem::AttemptStarted(convert::attempt_started(clock, &started))))
            }
            Followed::Exited(exit) => {
                self.exited = true;
                let exit = Some(convert::exit(clock, &exit));
                Ok(Some(AttachItem::Exited(pb::Exited { exit })))
            }
            // Without an end before: it was never started.
            Followed::Over(Ok(())) => {
                Err(self.shared.place(&self.session).target(TargetError::Unknown { process: self.process }))
            }
            Followed::Over(Err(error)) => {
                Err(self.shared.place(&self.session).call(error, status::Place::target))
            }
        }
    }
}

/// An attachment that is nothing else.
#[derive(Debug)]
pub(in crate::grpc) struct Attaching(pub(in crate::grpc) Attached);

impl Source for Attaching {
    type Item = pb::AttachResponse;
    const ENDS_AT_DRAIN: bool = true;

    async fn next(&mut self) -> Option<Result<pb::AttachResponse, Status>> {
        let item = self.0.next_within(u64::MAX).await?;
        Some(item.map(pb::AttachResponse::from_attach))
    }
}
