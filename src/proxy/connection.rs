//! One connection of a child: which protocol it speaks, and how it is let go.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::dial::Dialer;
use super::{REQUEST_MAX, http, socks};

/// How long a client that was told no may go on talking before it is cut off.
const LINGER_MAX: Duration = Duration::from_secs(1);
/// What is read of that at once, and thrown away.
const LINGER_BYTES: usize = 4096;

/// Serves it until it ends.
pub(super) async fn serve(client: TcpStream, dialer: Arc<Dialer>) {
    if let Err(error) = client.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let mut first = [0];
    match timeout(REQUEST_MAX, client.peek(&mut first)).await {
        Ok(Ok(0)) => {}
        Ok(Ok(_)) if first == [socks::VERSION] => socks::serve(client, &dialer).await,
        Ok(Ok(_)) => http::serve(client, dialer).await,
        Ok(Err(error)) => tracing::debug!(%error, "a child's connection broke before it said anything"),
        Err(_) => tracing::debug!("a child's connection said nothing"),
    }
}

/// Ends a connection so that the last words reach the client: closing with unread input would throw them away.
pub(super) async fn let_go(mut client: TcpStream) {
    let last_words = async {
        client.shutdown().await?;
        let mut rest = [0; LINGER_BYTES];
        while client.read(&mut rest).await? > 0 {}
        Ok::<(), std::io::Error>(())
    };
    if !matches!(timeout(LINGER_MAX, last_words).await, Ok(Ok(()))) {
        tracing::trace!("a child's connection did not end by itself");
    }
}
