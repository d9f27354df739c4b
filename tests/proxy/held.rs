//! Connections whose question is open.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

use crate::support::*;

/// The loopback is named, so that a question about a name decides on everything.
fn asking() -> (Running, UnboundedReceiver<Held>) {
    let (gate, held) = RuleGate::asking(rules(&[("127.0.0.1", Allow)]));
    (Running::start(gate, Scripted::to(&["127.0.0.1"])), held)
}

async fn next(held: &mut UnboundedReceiver<Held>) -> Held {
    timeout(SOON, held.recv()).await.unwrap().unwrap()
}

fn connect_request(port: u16) -> Vec<u8> {
    format!("CONNECT origin.test:{port} HTTP/1.1\r\n\r\n").into_bytes()
}

fn plain_request(port: u16) -> Vec<u8> {
    format!("POST http://origin.test:{port}/ HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody").into_bytes()
}

/// A body in more pieces than HTTP's server reads by itself.
fn request_in_pieces() -> Vec<u8> {
    let pieces = "4\r\nbody\r\n".repeat(3);
    format!("POST http://origin.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{pieces}0\r\n\r\n")
        .into_bytes()
}

async fn is_silent(client: &mut TcpStream) -> bool {
    timeout(Duration::from_millis(100), client.read_u8()).await.is_err()
}

#[tokio::test]
async fn a_connection_is_held_without_a_word_and_goes_through_when_allowed() {
    let port = echo().await;
    let (proxy, mut held) = asking();
    let mut http = proxy.connect().await;
    http.write_all(&connect_request(port)).await.unwrap();
    let question = next(&mut held).await;
    assert_eq!((question.host.as_str(), question.port), ("origin.test", port));
    assert!(is_silent(&mut http).await);
    question.answer.send(true).unwrap();
    assert!(head(&mut http).await.starts_with("HTTP/1.1 200 "));
    assert!(echoes(&mut http, "hello").await);

    let mut socks = proxy.connect().await;
    socks.write_all(&socks_request("origin.test", port)).await.unwrap();
    let question = next(&mut held).await;
    let mut method = [0; 2];
    socks.read_exact(&mut method).await.unwrap();
    socks.write_all(b"ahead").await.unwrap();
    assert!(is_silent(&mut socks).await);
    question.answer.send(true).unwrap();
    let mut reply = [0; 15];
    timeout(SOON, socks.read_exact(&mut reply)).await.unwrap().unwrap();
    assert_eq!((reply[1], &reply[10..]), (0, &b"ahead"[..]));
}

#[tokio::test]
async fn a_request_with_a_body_is_held_and_passed_on_whole() {
    let (port, mut seen) = web("HTTP/1.1 204 No Content\r\n\r\n").await;
    let (proxy, mut held) = asking();
    let mut client = proxy.connect().await;
    client.write_all(&plain_request(port)).await.unwrap();
    let question = next(&mut held).await;
    assert!(is_silent(&mut client).await);
    question.answer.send(true).unwrap();
    assert!(head(&mut client).await.starts_with("HTTP/1.1 204 "));
    assert!(seen.recv().await.unwrap().ends_with("body"));
}

#[tokio::test]
async fn a_held_body_beyond_what_is_read_ahead_is_passed_on_whole() {
    let (port, mut seen) = web("HTTP/1.1 204 No Content\r\n\r\n").await;
    let (proxy, mut held) = asking();
    let mut client = proxy.connect().await;
    let body = "0123456789abcdef".repeat(64 * 1024);
    let request =
        format!("PUT http://origin.test:{port}/ HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len());
    client.write_all(request.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = client.into_split();
    let sent = body.clone();
    tokio::spawn(async move {
        writer.write_all(sent.as_bytes()).await.unwrap();
        std::future::pending::<()>().await
    });
    next(&mut held).await.answer.send(true).unwrap();
    let mut answer = [0; 12];
    timeout(SOON, reader.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 204");
    assert!(seen.recv().await.unwrap().ends_with(&body));
}

#[tokio::test]
async fn a_no_is_told_in_each_protocol() {
    let (proxy, mut held) = asking();
    let answers = tokio::spawn(async move {
        for _ in 0..2 {
            next(&mut held).await.answer.send(false).unwrap();
        }
    });
    let refused = proxy.tunnel("origin.test:443").await.unwrap_err();
    assert!(refused.starts_with("HTTP/1.1 403 ") && refused.contains("somebody said no"), "{refused}");
    assert_eq!(proxy.socks("origin.test", 443).await.err(), Some(2));
    answers.await.unwrap();
}

#[tokio::test]
async fn a_client_that_goes_away_withdraws_its_question() {
    let (proxy, mut held) = asking();
    let requests =
        [connect_request(443), plain_request(80), request_in_pieces(), socks_request("origin.test", 443)];
    for request in requests {
        let mut client = proxy.connect().await;
        client.write_all(&request).await.unwrap();
        let mut question = next(&mut held).await;
        drop(client);
        timeout(SOON, question.answer.closed()).await.unwrap_or_else(|_| panic!("{request:?} is still open"));
    }
}

#[tokio::test]
async fn the_end_of_the_proxy_withdraws_questions_and_ends_tunnels() {
    let port = echo().await;
    let (proxy, mut held) = asking();
    let mut tunnel = proxy.socks("127.0.0.1", port).await.unwrap();
    assert!(echoes(&mut tunnel, "hello").await);
    let mut waiting = proxy.connect().await;
    waiting.write_all(&connect_request(port)).await.unwrap();
    let mut question = next(&mut held).await;
    let address = proxy.address;
    proxy.end();
    timeout(SOON, question.answer.closed()).await.unwrap();
    for client in [&mut tunnel, &mut waiting] {
        let ended = timeout(SOON, client.read_u8()).await.unwrap();
        assert!(ended.is_err(), "{ended:?}");
    }
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn questions_do_not_hold_up_other_connections() {
    let port = echo().await;
    let (proxy, mut held) = asking();
    let mut waiting = Vec::new();
    for _ in 0..20 {
        let mut client = proxy.connect().await;
        client.write_all(&connect_request(port)).await.unwrap();
        waiting.push((client, next(&mut held).await));
    }
    let mut tunnel = proxy.socks("127.0.0.1", port).await.unwrap();
    assert!(echoes(&mut tunnel, "hello").await);
}
