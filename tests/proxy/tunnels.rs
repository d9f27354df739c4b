//! What tunnels carry.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use unified_exec::proxy::CONNECTIONS_MAX;

use crate::support::*;

const MEGABYTES: usize = 10;

/// No two megabytes are alike.
fn pattern() -> Vec<u8> {
    (0..MEGABYTES * 1024 * 1024 / 4)
        .flat_map(|word: usize| (word as u32).wrapping_mul(0x9e37_79b9).to_le_bytes())
        .collect()
}

async fn through(mut tunnel: TcpStream) {
    let sent = pattern();
    let (mut reader, mut writer) = tunnel.split();
    let write = async {
        writer.write_all(&sent).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let mut back = Vec::new();
    let read = async { reader.read_to_end(&mut back).await.unwrap() };
    timeout(SOON * 3, async { tokio::join!(write, read) }).await.unwrap();
    assert!(back == sent, "{} of {} bytes came back, or others", back.len(), sent.len());
}

#[tokio::test]
async fn ten_megabytes_come_back_whole_after_one_side_has_ended() {
    let port = echo().await;
    let proxy = Running::with_rules(&[("127.0.0.1", Allow)]);
    through(proxy.tunnel(&format!("127.0.0.1:{port}")).await.unwrap()).await;
    through(proxy.socks("127.0.0.1", port).await.unwrap()).await;
}

#[tokio::test]
async fn an_origin_that_ends_first_still_hears_the_client() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let origin = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        client.write_all(b"bye").await.unwrap();
        client.shutdown().await.unwrap();
        let mut heard = String::new();
        client.read_to_string(&mut heard).await.unwrap();
        heard
    });
    let proxy = Running::with_rules(&[("127.0.0.1", Allow)]);
    let mut tunnel = proxy.socks("127.0.0.1", port).await.unwrap();
    let mut said = String::new();
    tunnel.read_to_string(&mut said).await.unwrap();
    assert_eq!(said, "bye");
    tunnel.write_all(b"one more thing").await.unwrap();
    tunnel.shutdown().await.unwrap();
    assert_eq!(timeout(SOON, origin).await.unwrap().unwrap(), "one more thing");
}

#[tokio::test]
async fn as_many_tunnels_as_there_are_places_work_at_once_and_one_more_waits() {
    let port = echo().await;
    let proxy = Running::with_rules(&[("127.0.0.1", Allow)]);
    let mut tunnels = Vec::new();
    for at in 0..CONNECTIONS_MAX {
        let tunnel = if at % 2 == 0 {
            proxy.socks("127.0.0.1", port).await.unwrap()
        } else {
            proxy.tunnel(&format!("127.0.0.1:{port}")).await.unwrap()
        };
        tunnels.push(tunnel);
    }
    for (at, tunnel) in tunnels.iter_mut().enumerate() {
        assert!(echoes(tunnel, &format!("hello from {at}")).await);
    }
    let mut late = proxy.connect().await;
    late.write_all(&socks_request("127.0.0.1", port)).await.unwrap();
    let mut answer = [0; 12];
    let early = timeout(std::time::Duration::from_millis(200), late.read_exact(&mut answer)).await;
    assert!(early.is_err(), "there was a place for it");
    tunnels.pop();
    timeout(SOON, late.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer[3], 0);
    assert!(echoes(&mut late, "hello at last").await);
}
