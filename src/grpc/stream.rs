//! Every long stream: items of a source as the transport asks for them, a sign of life when there are none, and word of
//! a shutdown. That a call ends at its deadline holds for all of them, see `guard`.
//!
//! Nothing is queued here and no task runs: an item is made when the transport has room for it, so a client that does
//! not read costs its place in a log and nothing else.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::Status;

use super::{convert, pb};
use crate::host::clock::Clock;

/// A stream of answers.
pub(super) type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// How a stream is to be run.
#[derive(Debug)]
pub(super) struct Terms {
    /// Silence after which a sign of life is sent.
    pub(super) keepalive: Duration,
    /// Fires when the server shuts down.
    pub(super) draining: CancellationToken,
    /// For the time of a sign of life.
    pub(super) clock: Clock,
    /// Its place among the open streams.
    pub(super) permit: OwnedSemaphorePermit,
}

/// Something to stream.
pub(super) trait Source: Send + 'static {
    /// What clients get.
    type Item: Signs + Send + 'static;

    /// Whether the stream ends once the client has heard of a shutdown; else the source ends it.
    const ENDS_AT_DRAIN: bool;

    /// The next item; `None` is the end. Cancel-safe.
    fn next(&mut self) -> impl Future<Output = Option<Result<Self::Item, Status>>> + Send;
}

/// Items that any long stream may carry.
pub(super) trait Signs {
    /// A sign of life.
    fn keepalive(sign: pb::Keepalive) -> Self;
    /// Word of a shutdown.
    fn draining(word: pb::Draining) -> Self;
}

/// Items of a response whose `item` has the usual signs.
macro_rules! signs {
    ($($response:ident => $item:path),+ $(,)?) => {$(
        impl Signs for pb::$response {
            fn keepalive(sign: pb::Keepalive) -> Self {
                use $item as Item;
                Self { item: Some(Item::Keepalive(sign)) }
            }

            fn draining(word: pb::Draining) -> Self {
                use $item as Item;
                Self { item: Some(Item::Draining(word)) }
            }
        }
    )+};
}

signs! {
    ExecCommandResponse => pb::exec_command_response::Item,
    ExecToCompletionResponse => pb::exec_to_completion_response::Item,
    WriteStdinResponse => pb::write_stdin_response::Item,
    AttachResponse => pb::attach_response::Item,
    InteractResponse => pb::interact_response::Item,
    WatchSessionResponse => pb::watch_session_response::Item,
    WatchApprovalsResponse => pb::watch_approvals_response::Item,
}

struct Running<S> {
    /// Absent once the stream is over, so that what it holds is let go at once.
    source: Option<S>,
    keepalive: Duration,
    /// Absent once it has been told.
    draining: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    clock: Clock,
    _permit: OwnedSemaphorePermit,
}

/// The stream of a source.
pub(super) fn answers<S: Source>(source: S, terms: Terms) -> Answers<S::Item> {
    let Terms { keepalive, draining, clock, permit } = terms;
    let running = Running {
        source: Some(source),
        keepalive,
        draining: Some(Box::pin(draining.cancelled_owned())),
        clock,
        _permit: permit,
    };
    Box::pin(unfold(running, |mut running| async move {
        let item = running.next().await?;
        if item.is_err() {
            running.source = None;
        }
        Some((item, running))
    }))
}

impl<S: Source> Running<S> {
    async fn next(&mut self) -> Option<Result<S::Item, Status>> {
        let source = self.source.as_mut()?;
        tokio::select! {
            biased;
            () = fired(&mut self.draining) => {
                self.draining = None;
                if S::ENDS_AT_DRAIN {
                    self.source = None;
                }
                let message = "the server is shutting down".to_owned();
                Some(Ok(S::Item::draining(pb::Draining { grace_ms: 0, message })))
            }
            next = source.next() => next,
            () = sleep(self.keepalive) => {
                let time = Some(convert::timestamp(self.clock, self.clock.now()));
                Some(Ok(S::Item::keepalive(pb::Keepalive { time })))
            }
        }
    }
}

/// Resolves when `future` does; never, if there is none.
async fn fired<F: Future<Output = ()> + ?Sized>(future: &mut Option<Pin<Box<F>>>) {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
