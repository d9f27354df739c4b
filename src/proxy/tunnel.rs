//! Bytes in both directions, until both have ended.

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, copy_bidirectional_with_sizes, join};
use tokio::net::TcpStream;

/// Bytes on the way in each direction of each tunnel, besides those in the kernel.
const BUFFER_BYTES: usize = 16 * 1024;

/// Carries `early`, which the client has sent ahead, and then whatever comes. The end of one direction is passed on as
/// such, and the other goes on; an error of one ends both.
pub(super) async fn carry(mut client: TcpStream, early: Bytes, mut origin: TcpStream) {
    let (from_client, to_client) = client.split();
    let mut client = join(early.chain(from_client), to_client);
    let carried = copy_bidirectional_with_sizes(&mut client, &mut origin, BUFFER_BYTES, BUFFER_BYTES).await;
    match carried {
        Ok((sent, received)) => tracing::debug!(sent, received, "a child's tunnel ended"),
        Err(error) => tracing::debug!(%error, "a child's tunnel broke"),
    }
}
