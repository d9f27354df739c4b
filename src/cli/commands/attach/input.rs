//! From our stdin to the process, with an eye on the keys that let go.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncReadExt as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::keys::{DetachKeys, Scanner};
use crate::cli::output;
use crate::grpc::pb;
use crate::grpc::pb::interact_request::Item;

/// Read at once.
const PIECE_BYTES: usize = 64 * 1024;
/// Typed or pasted ahead of a process that does not read; beyond it our terminal waits, and so do the keys.
const AHEAD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Forwards until stdin ends, the process is left, or nobody takes it any more.
pub(super) async fn forward(
    messages: mpsc::Sender<pb::InteractRequest>,
    keys: Option<DetachKeys>,
    tell_end: bool,
    detached: CancellationToken,
) {
    let mut stdin = tokio::io::stdin();
    let mut scanner = keys.map(Scanner::new);
    let mut ahead: VecDeque<Item> = VecDeque::new();
    let mut ahead_bytes = 0;
    let mut open = true;
    while open || !ahead.is_empty() {
        let mut piece = BytesMut::with_capacity(PIECE_BYTES);
        tokio::select! {
            permit = messages.reserve(), if !ahead.is_empty() => {
                let Ok(permit) = permit else { return };
                if let Some(item) = ahead.pop_front() {
                    ahead_bytes -= length(&item);
                    permit.send(pb::InteractRequest { item: Some(item) });
                }
            }
            read = stdin.read_buf(&mut piece), if open && ahead_bytes < AHEAD_BYTES_MAX => {
                if let Err(error) = &read {
                    output::note(&format!("our stdin cannot be read: {error}"));
                }
                open = read.is_ok_and(|read| read > 0);
                let typed = match &mut scanner {
                    None => piece.freeze(),
                    Some(scanner) => {
                        let scanned = scanner.scan(&piece);
                        if scanned.detach {
                            return detached.cancel();
                        }
                        Bytes::from(scanned.input)
                    }
                };
                ahead_bytes += typed.len();
                if !typed.is_empty() {
                    ahead.push_back(Item::Stdin(pb::StdinData { offset: None, data: typed }));
                }
                if !open && tell_end {
                    ahead.push_back(Item::Eof(pb::StdinEof {}));
                }
            }
        }
    }
    // Our side of the stream stays open, so that sizes still reach the process.
    messages.closed().await;
}

fn length(item: &Item) -> usize {
    match item {
        Item::Stdin(input) => input.data.len(),
        _ => 0,
    }
}
