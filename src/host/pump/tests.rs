use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::*;
use crate::core::command::TerminalSize;
use crate::core::output::Stream;
use crate::core::process::ExitStatus;
use crate::core::signal::{Scope, Signal};
use crate::core::spawn::Descendant;
use crate::core::time::Instant as At;
use crate::host::ports::{BoxFuture, ControlError};

/// A handle on a child that ends at one instant, which every handle sees.
#[derive(Debug)]
struct Ending {
    end: Pin<Box<Sleep>>,
    /// Output before that, each piece at a millisecond of its own.
    says: Option<Pin<Box<Sleep>>>,
    left: u32,
}

impl Ending {
    fn at(end: Instant, says: u32) -> Self {
        let first = (says > 0).then(|| Box::pin(tokio::time::sleep(Duration::from_millis(1))));
        Self { end: Box::pin(sleep_until(end)), says: first, left: says }
    }
}

impl Stdin for Ending {
    fn poll_write(&mut self, cx: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        self.end.as_mut().poll(cx).map(|()| Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn eof(&self) -> Eof {
        Eof::Close
    }
}

impl Output for Ending {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut BytesMut) -> Poll<Option<Stream>> {
        if let Some(says) = &mut self.says
            && says.as_mut().poll(cx).is_ready()
        {
            self.left -= 1;
            let next = (self.left > 0).then(|| Box::pin(tokio::time::sleep(Duration::from_millis(1))));
            self.says = next;
            into.extend_from_slice(b"x");
            return Poll::Ready(Some(Stream::Stdout));
        }
        self.end.as_mut().poll(cx).map(|()| None)
    }

    fn leader_reaped(&mut self) {}
}

impl Future for Ending {
    type Output = Exited;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Exited> {
        let exited = Exited { status: ExitStatus::Code(0), usage: None, out_of_memory: false, at: At::ZERO };
        self.end.as_mut().poll(cx).map(|()| exited)
    }
}

impl Exit for Ending {}

#[derive(Debug)]
struct Gone;

impl Control for Gone {
    fn signal(&self, _: Signal, _: Scope) -> Result<(), ControlError> {
        Err(ControlError::Gone)
    }

    fn kill_tree(&self) {}

    fn resize(&self, _: TerminalSize) -> Result<(), ControlError> {
        Err(ControlError::Gone)
    }

    fn tree_gone(&self) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }

    fn descendants(&self) -> BoxFuture<Vec<Descendant>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

#[tokio::test(start_paused = true)]
async fn how_a_delivery_broke_off_is_told_before_the_end_that_broke_it() {
    // However often the pump had something to do before.
    for says in 0..6 {
        let end = Instant::now() + Duration::from_millis(50);
        let (events, mut happened) = mpsc::channel(32);
        let (order, orders) = mpsc::channel(PUMP_ORDERS_BOUND);
        let data = Bytes::from_static(b"more than it takes");
        order.send(Order::Write { write: WriteId(1), data, eof: false }).await.unwrap();
        let process = ProcessId::new(ProcessId::MIN).unwrap();
        let (log, grown) = (Arc::new(OutputLog::new()), Arc::new(AtomicBool::new(false)));
        let pump = Pump { process, attempt: AttemptNumber::FIRST, log, grown, events };
        let handle = |says| Box::new(Ending::at(end, says));
        let running = pump.run(handle(says), Some(handle(0)), handle(0), Arc::new(Gone), orders);
        tokio::join!(running, async {
            tokio::time::sleep_until(end + Duration::from_millis(1)).await;
            drop(order);
        });
        let mut told = Vec::new();
        while let Some(happened) = happened.recv().await {
            match happened {
                Happened::Event(Event::Wrote { outcome, .. }) => told.push(format!("wrote {outcome:?}")),
                Happened::Event(Event::Exited { .. }) => told.push("exited".to_owned()),
                _ => {}
            }
        }
        assert_eq!(told, ["wrote Broken", "exited"], "after {says} pieces of output");
    }
}
