//! What lies between a client and the edge: a link that takes its time, and that can fail.

use std::future::ready;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;
use unified_exec::grpc::auth::Caller;
use unified_exec::grpc::server::Edge;

use crate::scenario::How;

/// Bytes on the way at each end, in each direction.
const BYTES: usize = 64 * 1024;
/// Pieces on the way that the link holds beyond that.
const PIECES: usize = 64;
/// What a client takes of one call ahead of reading it, in bytes: little, so that one that does not read is felt.
const STREAM_WINDOW: u32 = 64 * 1024;
/// What it takes of all calls.
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// One client's link to the edge.
#[derive(Debug)]
pub(super) struct Link {
    channel: Channel,
    failed: watch::Sender<Option<How>>,
}

impl Link {
    /// A link that takes `delay` each way; one that can fail is no straight pipe either.
    pub(super) fn new(edge: &Edge, caller: &Caller, delay: Duration, can_fail: bool) -> Self {
        let (failed, fails) = watch::channel(None);
        let (edge, caller) = (edge.clone(), caller.clone());
        let connect = move |_: Uri| {
            let (client, near) = duplex(BYTES);
            if delay.is_zero() && !can_fail {
                edge.serve_io(near, caller.clone());
                return ready(Ok::<_, std::io::Error>(TokioIo::new(client)));
            }
            let (far, server) = duplex(BYTES);
            let (near_out, near_in) = split(near);
            let (far_out, far_in) = split(far);
            tokio::spawn(carry(near_out, far_in, delay, fails.clone(), Way::Up));
            tokio::spawn(carry(far_out, near_in, delay, fails.clone(), Way::Down));
            edge.serve_io(server, caller.clone());
            ready(Ok(TokioIo::new(client)))
        };
        // The address only fills a header.
        let channel = Endpoint::from_static("http://sim")
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .connect_with_connector_lazy(service_fn(connect));
        Self { channel, failed }
    }

    pub(super) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// From now on it fails like this.
    pub(super) fn fail(&self, how: How) {
        self.failed.send_replace(Some(how));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

/// Carries bytes one way, each piece so long; ends with what it reads from, or when the link is cut.
async fn carry(
    mut from: ReadHalf<DuplexStream>,
    mut to: WriteHalf<DuplexStream>,
    delay: Duration,
    fails: watch::Receiver<Option<How>>,
    way: Way,
) {
    let (send, mut pieces) = mpsc::channel::<(Instant, Bytes)>(PIECES);
    let take = async move {
        let mut buffer = BytesMut::new();
        while let Ok(1..) = from.read_buf(&mut buffer).await {
            if send.send((Instant::now() + delay, buffer.split().freeze())).await.is_err() {
                return;
            }
        }
    };
    let (mut closes, mut cuts) = (fails.clone(), fails.clone());
    let cut = async move {
        if cuts.wait_for(|how| *how == Some(How::Cut)).await.is_err() {
            // Its client has left; what is still on the way arrives.
            std::future::pending().await
        }
    };
    let give = async move {
        let open = async {
            while let Some((due, piece)) = pieces.recv().await {
                if due > Instant::now() {
                    sleep_until(due).await;
                }
                // What is sent into silence is lost, and what nobody takes any more as well.
                if *fails.borrow() != Some(How::Silent) && to.write_all(&piece).await.is_err() {
                    return;
                }
            }
        };
        let closed = async {
            if closes.wait_for(|how| *how == Some(How::HalfClose)).await.is_err() || way == Way::Down {
                std::future::pending().await
            }
        };
        tokio::select! {
            biased;
            () = closed => {}
            () = open => {}
        }
        to.shutdown().await.ok();
        while pieces.recv().await.is_some() {}
    };
    tokio::select! {
        biased;
        () = cut => {}
        ((), ()) = async { tokio::join!(take, give) } => {}
    }
}
