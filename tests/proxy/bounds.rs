//! Clients that take their time or talk too much.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;
use unified_exec::proxy::{HEADER_BYTES_MAX, REQUEST_MAX};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_get_to_the_point_is_cut_off_in_time() {
    for beginning in [
        &b""[..],
        b"G",
        b"CONNECT origin.test:443 HTTP/1.1\r\nHost: ori",
        b"\x05",
        b"\x05\x01\x00",
        b"\x05\x01\x00\x05\x01\x00\x03\xffabc",
    ] {
        let proxy = Running::with_rules(&[("*", Allow)]);
        let mut client = proxy.connect().await;
        client.write_all(beginning).await.unwrap();
        let started = Instant::now();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        let took = started.elapsed();
        // The wait for the first byte and the one for the rest are two.
        assert!(took >= REQUEST_MAX && took <= REQUEST_MAX * 2 + SOON, "{beginning:?} {took:?}");
    }
}

#[tokio::test]
async fn headers_beyond_the_bound_are_refused_as_such() {
    let proxy = Running::with_rules(&[("*", Allow)]);
    let long = format!("GET http://a.test/ HTTP/1.1\r\nX-Long: {}\r\n\r\n", "x".repeat(HEADER_BYTES_MAX));
    let answer = proxy.say(long.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let many = format!("GET http://a.test/ HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(1000));
    let answer = proxy.say(many.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn a_client_that_floods_while_it_is_held_is_not_read_any_further() {
    let (gate, mut held) = RuleGate::asking(rules(&[("127.0.0.1", Allow)]));
    let proxy = Running::start(gate, Scripted::to(&["127.0.0.1"]));
    for request in [
        b"CONNECT origin.test:443 HTTP/1.1\r\n\r\n".to_vec(),
        b"POST http://origin.test/ HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\n".to_vec(),
        socks_request("origin.test", 443),
    ] {
        let mut client = proxy.connect().await;
        client.write_all(&request).await.unwrap();
        let _question = held.recv().await.unwrap();
        let block = vec![b'x'; 1024 * 1024];
        let mut sent = 0;
        // What is not read fills the kernel's buffers, and then the client has to wait.
        while let Ok(written) =
            tokio::time::timeout(std::time::Duration::from_millis(300), client.write(&block)).await
        {
            sent += written.unwrap();
            assert!(sent < 64 * 1024 * 1024, "it is read without end");
        }
    }
}
