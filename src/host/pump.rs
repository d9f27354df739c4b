//! One task for each attempt: it reads output into the log, delivers input, and reports the exit.
//!
//! Three loops in one task, so that none of them can hold up another: a child that nobody reads from can still be
//! written to, and one that reads nothing can still be read and reaped.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Buf, Bytes, BytesMut};
use tokio::sync::{mpsc, oneshot};

use super::driver::Happened;
use super::log::OutputLog;
use super::ports::{Control, Eof, Exit, Exited, Output, Stdin};
use crate::core::ids::{AttemptNumber, ProcessId, WriteId};
use crate::core::limits::FRAME_BYTES_MAX;
use crate::core::session::{Event, WriteOutcome};

/// First size of a read buffer: most commands say little.
const READ_BYTES_MIN: usize = 2 * 1024;

/// Orders to a pump that may wait: the core keeps at most one write and its stop under way.
pub(super) const PUMP_ORDERS_BOUND: usize = 4;

/// What a driver orders.
#[derive(Debug)]
pub(super) enum Order {
    /// Deliver input.
    Write {
        /// Which delivery.
        write: WriteId,
        /// What.
        data: Bytes,
        /// Whether the input ends after it.
        eof: bool,
    },
    /// Stop this delivery.
    Stop(WriteId),
}

/// What a pump works on.
#[derive(Debug)]
pub(super) struct Pump {
    pub(super) process: ProcessId,
    pub(super) attempt: AttemptNumber,
    pub(super) log: Arc<OutputLog>,
    /// Set while the driver knows that the log has grown and has not looked yet.
    pub(super) grown: Arc<AtomicBool>,
    pub(super) events: mpsc::Sender<Happened>,
}

impl Pump {
    /// Runs until the child has been reaped, its outputs have ended and all its descendants are gone.
    pub(super) async fn run(
        self,
        output: Box<dyn Output>,
        stdin: Option<Box<dyn Stdin>>,
        exit: Box<dyn Exit>,
        control: Arc<dyn Control>,
        orders: mpsc::Receiver<Order>,
    ) {
        let (reaped, on_reaped) = oneshot::channel();
        // What a delivery came to is told before the end that broke it off: the answer about that end says how much was
        // taken.
        tokio::join!(
            biased;
            self.write(stdin, orders),
            self.read(output, on_reaped),
            self.wait(exit, control, reaped)
        );
    }

    async fn tell(&self, happened: impl Into<Happened>) {
        // A driver that is gone has dropped the child with everything else.
        self.events.send(happened.into()).await.ok();
    }

    async fn read(&self, mut output: Box<dyn Output>, mut reaped: oneshot::Receiver<()>) {
        let mut buffer = BytesMut::new();
        let mut size = READ_BYTES_MIN;
        let mut told = false;
        loop {
            let room = self.log.writable().await;
            if buffer.capacity() == 0 {
                buffer.reserve(size.min(room));
            }
            let read = tokio::select! {
                biased;
                _ = &mut reaped, if !told => None,
                stream = poll_fn(|cx| output.poll_read(cx, &mut buffer)) => Some(stream),
            };
            match read {
                None => {
                    output.leader_reaped();
                    told = true;
                }
                Some(None) => break,
                Some(Some(stream)) => {
                    let full = buffer.len() == buffer.capacity();
                    self.log.append(stream, buffer.split().freeze());
                    // Larger reads while the child floods, a small buffer while it is idle.
                    size =
                        if full { (size * 2).min(FRAME_BYTES_MAX) } else { (size / 2).max(READ_BYTES_MIN) };
                    if buffer.capacity() > size {
                        buffer = BytesMut::new();
                    }
                    if !self.grown.swap(true, Ordering::AcqRel) {
                        self.tell(Happened::Grown { process: self.process, attempt: self.attempt }).await;
                    }
                }
            }
        }
        self.log.close();
        let end = self.log.end();
        self.tell(Event::Closed { process: self.process, attempt: self.attempt, end }).await;
    }

    async fn write(&self, mut stdin: Option<Box<dyn Stdin>>, mut orders: mpsc::Receiver<Order>) {
        while let Some(order) = orders.recv().await {
            // A stop that comes after its delivery has ended is late, and means nothing.
            let Order::Write { write, data, eof } = order else { continue };
            let (taken, outcome) = deliver(&mut stdin, write, data, eof, &mut orders).await;
            self.tell(Event::Wrote { process: self.process, write, taken, outcome }).await;
        }
    }

    async fn wait(&self, exit: Box<dyn Exit>, control: Arc<dyn Control>, reaped: oneshot::Sender<()>) {
        let exited = exit.await;
        // The reader may have ended before: then nobody needs to know.
        reaped.send(()).ok();
        let (process, attempt) = (self.process, self.attempt);
        let Exited { status, usage, out_of_memory, at } = exited;
        self.tell(Event::Exited { process, attempt, status, usage, out_of_memory, at }).await;
        control.tree_gone().await;
        self.tell(Event::TreeGone { process, attempt }).await;
    }
}

/// Delivers one piece of input, and says how much of it was taken.
async fn deliver(
    stdin: &mut Option<Box<dyn Stdin>>,
    write: WriteId,
    mut data: Bytes,
    eof: bool,
    orders: &mut mpsc::Receiver<Order>,
) -> (u64, WriteOutcome) {
    let mut taken = 0;
    let Some(open) = stdin else { return (0, WriteOutcome::Broken) };
    let mut tail = match (eof, open.eof()) {
        (true, Eof::Type(bytes)) => bytes,
        (true, Eof::Close) | (false, _) => Bytes::new(),
    };
    while data.has_remaining() || tail.has_remaining() {
        let counts = data.has_remaining();
        let next = if counts { &mut data } else { &mut tail };
        let written = tokio::select! {
            biased;
            order = orders.recv() => match order {
                Some(Order::Stop(stopped)) if stopped == write => return (taken, WriteOutcome::Stopped),
                Some(Order::Stop(_) | Order::Write { .. }) => continue,
                None => return (taken, WriteOutcome::Stopped),
            },
            written = poll_fn(|cx| open.poll_write(cx, next)) => written,
        };
        match written {
            Ok(count) => {
                next.advance(count);
                taken += if counts { count as u64 } else { 0 };
            }
            Err(error) => {
                tracing::debug!(%error, "input could not be delivered");
                return (taken, WriteOutcome::Broken);
            }
        }
    }
    if eof && open.eof() == Eof::Close {
        *stdin = None;
    }
    (taken, WriteOutcome::Whole)
}

#[cfg(test)]
mod tests;
