//! What is said over SOCKS5, by hand.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::support::*;

const NOT_ALLOWED: u8 = 2;

async fn say(proxy: &Running, request: &[u8]) -> Vec<u8> {
    let mut client = proxy.connect().await;
    client.write_all(request).await.unwrap();
    client.shutdown().await.unwrap();
    let mut answer = Vec::new();
    timeout(SOON, client.read_to_end(&mut answer)).await.unwrap().unwrap();
    answer
}

#[tokio::test]
async fn names_and_addresses_of_both_kinds_are_reached() {
    let four = echo().await;
    let six = echo_at("[::1]:0").await;
    let proxy = Running::with_rules(&[("127.0.0.1", Allow), ("::1", Allow), ("origin.test", Allow)]);
    for (host, port) in [
        ("127.0.0.1", four),
        ("::1", six),
        ("::ffff:127.0.0.1", four),
        ("origin.test", four),
        ("Origin.TEST.", four),
    ] {
        let mut tunnel = proxy.socks(host, port).await.unwrap();
        assert!(echoes(&mut tunnel, "hello").await, "{host}");
    }
}

#[tokio::test]
async fn refused_connections_are_not_allowed_by_the_ruleset() {
    let proxy = Running::with_rules(&[("evil.test", Deny), ("8.8.8.8", Deny), ("inside.test", Allow)]);
    for host in ["evil.test", "8.8.8.8", "unknown.test", "10.0.0.1", "::1", "inside.test", "127.1", "0x7f.1"]
    {
        assert_eq!(proxy.socks(host, 443).await.err(), Some(NOT_ALLOWED), "{host}");
    }
}

#[tokio::test]
async fn failures_of_the_network_have_codes_of_their_own() {
    let proxy = Running::start(
        RuleGate::never(rules(&[("127.0.0.1", Allow), ("*.test", Allow)])),
        Scripted::new(|_, _| Err(std::io::Error::other("no such name"))),
    );
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert_eq!(proxy.socks("127.0.0.1", closed).await.err(), Some(5), "connection refused");
    assert_eq!(proxy.socks("nowhere.test", 80).await.err(), Some(4), "host unreachable");
}

#[tokio::test]
async fn only_connect_without_authentication_is_spoken() {
    let proxy = Running::with_rules(&[("127.0.0.1", Allow)]);
    assert_eq!(say(&proxy, &[5, 1, 2]).await, [5, 0xff], "a password only");
    assert_eq!(say(&proxy, &[5, 0]).await, [5, 0xff], "nothing at all");
    let mut asked = socks_request("127.0.0.1", 80);
    for command in [2, 3, 0x77] {
        asked[4] = command;
        assert_eq!(say(&proxy, &asked).await[2..4], [5, 7], "command {command}");
    }
    assert_eq!(say(&proxy, &[5, 1, 0, 5, 1, 0, 9, 0, 0]).await[2..4], [5, 8], "an unknown kind of address");
    assert_eq!(say(&proxy, &socks_request("127.0.0.1", 0)).await[2..4], [5, 1], "no port");
    assert_eq!(
        say(&proxy, &[5, 1, 0, 4, 1, 0, 1]).await[2..4],
        [5, 1],
        "another version behind the greeting"
    );
}

#[tokio::test]
async fn a_client_that_stops_in_the_middle_is_let_go() {
    let proxy = Running::with_rules(&[("127.0.0.1", Allow)]);
    let whole = socks_request("origin.test", 80);
    for length in 1..whole.len() {
        let answer = say(&proxy, &whole[..length]).await;
        assert!(answer.len() <= 2, "{length}: {answer:?}");
    }
}

#[tokio::test]
async fn words_sent_ahead_of_the_reply_are_not_lost() {
    let port = echo().await;
    let proxy = Running::with_rules(&[("127.0.0.1", Allow)]);
    let mut client = proxy.connect().await;
    client.write_all(&[socks_request("127.0.0.1", port), b"early".to_vec()].concat()).await.unwrap();
    let mut answer = [0; 17];
    timeout(SOON, client.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer[2..4], [5, 0]);
    assert_eq!(&answer[12..], b"early");
}
