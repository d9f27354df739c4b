//! Our stdin goes to the command, as fast as it takes it.

use tokio::io::AsyncReadExt as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::drive::Target;
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::grpc::pb;
use crate::grpc::pb::stream_stdin_request::Item;

/// Read at once; also the size of frame that the contract recommends.
const PIECE_BYTES: usize = 64 * 1024;
/// Frames on their way: enough to keep the connection busy, and no more memory than that.
const FRAMES_QUEUED: usize = 4;

/// Forwards until stdin ends, which is told, or the command takes no more.
pub(super) async fn forward(mut target: Target, process_id: u32) {
    let (frames, queue) = mpsc::channel(FRAMES_QUEUED);
    let open = pb::StdinOpen { session_id: target.session.clone(), process_id, ..Default::default() };
    let sending = async move {
        if send(&frames, Item::Open(open)).await {
            pieces(&frames).await;
        }
    };
    let call = target.client.exec.stream_stdin(ReceiverStream::new(queue));
    let ((), answer) = tokio::join!(sending, call);
    if let Err(status) = answer {
        let failure = Failure::from(status);
        // A command that does not read its input to the end is nothing special.
        if !["PROCESS_ENDED", "STDIN_CLOSED", "INPUT_ABANDONED", "SESSION_NOT_FOUND"]
            .contains(&failure.reason())
        {
            output::note(&format!("input is not forwarded any more: {}", failure.to_text().trim_end()));
        }
    }
}

async fn pieces(frames: &mpsc::Sender<pb::StreamStdinRequest>) {
    let mut stdin = tokio::io::stdin();
    loop {
        let mut piece = bytes::BytesMut::with_capacity(PIECE_BYTES);
        let item = match stdin.read_buf(&mut piece).await {
            Ok(0) => Item::Eof(pb::StdinEof {}),
            Ok(_) => Item::Data(pb::StdinData { offset: None, data: piece.freeze() }),
            Err(error) => {
                output::note(&format!("our stdin cannot be read: {error}"));
                Item::Eof(pb::StdinEof {})
            }
        };
        let last = matches!(item, Item::Eof(_));
        if !send(frames, item).await || last {
            return;
        }
    }
}

/// Whether anybody still takes it.
async fn send(frames: &mpsc::Sender<pb::StreamStdinRequest>, item: Item) -> bool {
    frames.send(pb::StreamStdinRequest { item: Some(item) }).await.is_ok()
}
