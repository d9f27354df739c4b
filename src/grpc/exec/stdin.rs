//! `StreamStdin`: input in frames, one after another, and an answer when the client has sent all of it.

use tonic::{Request, Status, Streaming};

use super::input::{Delivery, Frame, Offsets, deliver};
use crate::core::ids::{ProcessId, RequestId, TurnId};
use crate::core::session::Idempotency;
use crate::grpc::auth::Caller;
use crate::grpc::shared::Shared;
use crate::grpc::{convert, pb, status};
use crate::host::SessionHandle;
use pb::stream_stdin_request::Item;

/// A stream under way.
struct Streamed {
    session: SessionHandle,
    process: ProcessId,
    turn: TurnId,
    request_id: String,
    offsets: Offsets,
    frames: u64,
    committed: u64,
    eof: bool,
}

/// Delivers everything that the client sends.
pub(in crate::grpc) async fn stream(
    shared: &Shared,
    request: Request<Streaming<pb::StreamStdinRequest>>,
) -> Result<pb::StreamStdinResponse, Status> {
    let caller = Caller::of(&request)?.clone();
    let _permit = shared.stream()?;
    let mut messages = request.into_inner();
    let Some(Item::Open(open)) = next(shared, &mut messages).await? else {
        return Err(status::stream_protocol("the first message must be `open`"));
    };
    let session = shared.session(&caller, &open.session_id)?;
    let process = convert::process_id(open.process_id)?;
    let view = session.process(process).await;
    let view = view.map_err(|error| shared.place(&session).call(error, status::Place::target))?;
    convert::id("request_id", &open.request_id)?;
    let mut streamed = Streamed {
        process,
        turn: convert::turn(&open.turn_id)?,
        request_id: open.request_id,
        offsets: Offsets::new(open.offset),
        frames: 0,
        committed: view.stdin_committed,
        eof: false,
        session,
    };
    while let Some(item) = next(shared, &mut messages).await.map_err(|error| streamed.so_far(&error))? {
        streamed.take(shared, item).await.map_err(|error| streamed.so_far(&error))?;
    }
    Ok(pb::StreamStdinResponse { committed: streamed.committed, eof: streamed.eof })
}

/// The next message; `None` once the client has finished sending.
async fn next(
    shared: &Shared,
    messages: &mut Streaming<pb::StreamStdinRequest>,
) -> Result<Option<Item>, Status> {
    let draining = shared.host.draining();
    let message = tokio::select! {
        biased;
        message = messages.message() => message,
        () = draining.cancelled() => return Err(status::draining()),
    };
    match message {
        Ok(None) => Ok(None),
        Ok(Some(pb::StreamStdinRequest { item: Some(item) })) => Ok(Some(item)),
        Ok(Some(pb::StreamStdinRequest { item: None })) => {
            Err(status::stream_protocol("a message says nothing; set one field of `item`"))
        }
        Err(broken) => Err(status::request_stream(broken)),
    }
}

impl Streamed {
    async fn take(&mut self, shared: &Shared, item: Item) -> Result<(), Status> {
        if self.eof {
            return Err(status::stream_protocol("nothing may follow `eof`"));
        }
        match item {
            Item::Open(_) => Err(status::stream_protocol("`open` may come only once, as the first message")),
            Item::Data(pb::StdinData { offset, data }) => {
                let data = convert::input_bytes("data.data", data)?;
                let offset = self.offsets.place(offset, data.len());
                if data.is_empty() {
                    return Ok(());
                }
                let request = self.idempotency(&pb::StdinData { offset, data: data.clone() })?;
                self.deliver(shared, Frame { data, eof: false, offset, request }).await
            }
            Item::Eof(pb::StdinEof {}) => {
                let request = self.idempotency(&pb::StdinEof {})?;
                let frame = Frame { data: bytes::Bytes::new(), eof: true, offset: None, request };
                self.deliver(shared, frame).await?;
                self.eof = true;
                Ok(())
            }
        }
    }

    /// Each frame of a stream that has a name has one too: a repeat is recognised frame by frame.
    fn idempotency<M: prost::Message>(&mut self, frame: &M) -> convert::Valid<Idempotency> {
        self.frames += 1;
        if self.request_id.is_empty() {
            return Ok(None);
        }
        let named = convert::idempotency("StreamStdin", &self.request_id, frame)?;
        let number = self.frames;
        Ok(named.map(|(_, print)| (RequestId::new(format!("{}\u{1f}{number}", self.request_id)), print)))
    }

    async fn deliver(&mut self, shared: &Shared, frame: Frame) -> Result<(), Status> {
        // Whoever streams input only learns of a question by not being answered.
        let asking = |_| {};
        let delivered = deliver(self.session.clone(), self.process, self.turn.clone(), frame, asking).await;
        let place = shared.place(&self.session);
        match delivered.map_err(|error| place.collecting(error, false))? {
            Delivery::Whole { committed } => {
                self.committed = committed;
                Ok(())
            }
            Delivery::Abandoned { committed } => {
                self.committed = committed;
                Err(status::input_abandoned(self.process, committed))
            }
            Delivery::Ended { exit, committed } => {
                self.committed = committed.unwrap_or(self.committed);
                Err(place.ended(self.process, &exit))
            }
        }
    }

    /// The error, with how far the input came.
    fn so_far(&self, error: &Status) -> Status {
        status::also(error, "committed", self.committed)
    }
}
