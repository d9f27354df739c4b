//! What is said over HTTP, by hand.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::*;

const LOOPBACK: (&str, unified_exec::core::policy::NetworkDecision) = ("127.0.0.1/32", Allow);
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive, X-Private\r\nX-Private: 1\r\n\
                     X-Public: 2\r\n\r\nhello";

#[tokio::test]
async fn connect_opens_a_tunnel_to_what_rules_allow() {
    let port = echo().await;
    let proxy = Running::with_rules(&[LOOPBACK, ("origin.test", Allow)]);
    for host in ["127.0.0.1", "origin.test", "ORIGIN.test.", "[::ffff:127.0.0.1]"] {
        let mut tunnel = proxy.tunnel(&format!("{host}:{port}")).await.unwrap();
        assert!(echoes(&mut tunnel, "hello").await, "{host}");
    }
}

#[tokio::test]
async fn what_the_client_sends_right_behind_its_request_is_not_lost() {
    let port = echo().await;
    let proxy = Running::with_rules(&[LOOPBACK]);
    let mut client = proxy.connect().await;
    let request = format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\nearly words, ");
    client.write_all(request.as_bytes()).await.unwrap();
    assert!(head(&mut client).await.starts_with("HTTP/1.1 200 "));
    client.write_all(b"late words").await.unwrap();
    client.shutdown().await.unwrap();
    let mut back = String::new();
    client.read_to_string(&mut back).await.unwrap();
    assert_eq!(back, "early words, late words");
}

#[tokio::test]
async fn a_refusal_names_host_and_port_and_reason() {
    let proxy = Running::with_rules(&[("evil.test", Deny)]);
    let refused = proxy.tunnel("evil.test:443").await.unwrap_err();
    assert!(refused.starts_with("HTTP/1.1 403 Forbidden by the sandbox's network rules\r\n"), "{refused}");
    assert!(refused.contains("text/plain"), "{refused}");
    assert!(refused.ends_with("connections to evil.test:443 do not pass: a rule refuses it\n"), "{refused}");

    let unknown = proxy.tunnel("unknown.test:443").await.unwrap_err();
    assert!(unknown.ends_with("unknown.test:443 do not pass: nobody may be asked\n"), "{unknown}");

    let plain = proxy.say(b"GET http://evil.test/ HTTP/1.1\r\nConnection: close\r\n\r\n").await;
    assert!(plain.starts_with("HTTP/1.1 403 "), "{plain}");
    assert!(plain.contains("evil.test:80"), "{plain}");
}

#[tokio::test]
async fn a_request_for_a_whole_address_is_passed_on_without_what_concerns_neighbours() {
    let (port, mut seen) = web(HELLO).await;
    let proxy = Running::with_rules(&[LOOPBACK, ("origin.test", Allow)]);
    let request = format!(
        "POST http://Origin.test:{port}/path?query=1 HTTP/1.1\r\nHost: another.test\r\nContent-Length: 4\r\n\
         Connection: close, X-Secret\r\nX-Secret: s\r\nX-Kept: k\r\nProxy-Authorization: Basic abc\r\n\
         Proxy-Connection: keep-alive\r\nKeep-Alive: 5\r\nTE: trailers\r\nUpgrade: h2c\r\n\r\nbody"
    );
    let answer = proxy.say(request.as_bytes()).await;
    let request = seen.recv().await.unwrap();
    assert!(request.starts_with("POST /path?query=1 HTTP/1.1\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\nbody"), "{request}");
    let lower = request.to_ascii_lowercase();
    assert!(lower.contains(&format!("host: origin.test:{port}\r\n")), "the host that was judged: {request}");
    assert!(lower.contains("x-kept: k\r\n") && lower.contains("via: 1.1 uexec\r\n"), "{request}");
    for gone in ["another.test", "x-secret", "proxy-", "keep-alive", "te:", "upgrade"] {
        assert!(!lower.contains(gone), "{gone} in {request}");
    }
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhello"), "{answer}");
    assert!(answer.contains("X-Public: 2") && !answer.contains("X-Private"), "{answer}");
}

#[tokio::test]
async fn each_request_of_one_connection_passes_the_gate_by_itself() {
    let (port, _seen) = web(HELLO).await;
    let gate = RuleGate::never(rules(&[LOOPBACK, ("good.test", Allow), ("evil.test", Deny)]));
    let proxy = Running::start(gate.clone(), Scripted::to(&["127.0.0.1"]));
    let mut client = proxy.connect().await;
    for (host, status) in [("good.test", "200"), ("evil.test", "403"), ("good.test", "200")] {
        let request = format!("GET http://{host}:{port}/ HTTP/1.1\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let head = head(&mut client).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {head}");
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let mut body: Vec<u8> = vec![0; length.unwrap()];
        client.read_exact(&mut body).await.unwrap();
    }
    assert_eq!(gate.asked().len(), 3);
}

#[tokio::test]
async fn a_body_in_pieces_is_passed_on_whole() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let origin = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut all = Vec::new();
        while !all.ends_with(b"0\r\n\r\n") {
            assert_ne!(client.read_buf(&mut all).await.unwrap(), 0);
        }
        let answer =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n";
        client.write_all(answer).await.unwrap();
        String::from_utf8(all).unwrap()
    });
    let proxy = Running::with_rules(&[LOOPBACK]);
    let request = format!(
        "PUT http://127.0.0.1:{port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
         4\r\nfour\r\n5\r\n five\r\n0\r\n\r\n"
    );
    let answer = proxy.say(request.as_bytes()).await;
    let seen = origin.await.unwrap();
    let body: String = seen.split("\r\n\r\n").nth(1).unwrap().into();
    let pieces: String = body.split("\r\n").skip(1).step_by(2).collect();
    assert_eq!(pieces, "four five", "{seen}");
    assert!(answer.contains("one") && answer.contains("two"), "{answer}");
}

#[tokio::test]
async fn what_is_no_proxy_request_is_a_bad_one_with_a_reason() {
    let proxy = Running::with_rules(&[("*", Allow)]);
    for (request, reason) in [
        ("GET / HTTP/1.1\r\nHost: a.test\r\n", "GET http://host/path"),
        ("OPTIONS * HTTP/1.1\r\n", "this is the proxy"),
        ("GET https://a.test/ HTTP/1.1\r\n", "for https:// open a tunnel with CONNECT"),
        ("GET ftp://a.test/ HTTP/1.1\r\n", "for ftp://"),
        ("CONNECT a.test HTTP/1.1\r\n", "no port"),
        ("CONNECT a.test:0 HTTP/1.1\r\n", "no port"),
        ("CONNECT user:password@a.test:443 HTTP/1.1\r\n", "user name"),
        ("GET http://user:password@a.test/ HTTP/1.1\r\n", "user name"),
        ("GET http://a_b..test/ HTTP/1.1\r\n", "between two dots"),
        ("GET http://[fe80::1%25eth0]/ HTTP/1.1\r\n", ""),
    ] {
        let answer = proxy.say(format!("{request}Connection: close\r\n\r\n").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{request}: {answer}");
        assert!(answer.contains(reason), "{request}: {answer}");
        assert!(!answer.contains("password@"), "{answer}");
    }
}

#[tokio::test]
async fn bytes_of_another_protocol_get_a_bad_request_and_the_end() {
    let proxy = Running::with_rules(&[("*", Allow)]);
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"SSH-2.0-client\r\n\r\n",
        b"\x04\x01\x00\x50\x7f\x00\x00\x01user\0",
        b"\0\0\0\0\r\n\r\n",
        b"GET http://a.test/ HTTP/9.9\r\n\r\n",
        b"GET http://a.test/ HTTP/1.1\r\nNo colon\r\n\r\n",
    ] {
        let answer = proxy.say(garbage).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{garbage:?}: {answer}");
    }
}

#[tokio::test]
async fn an_origin_that_fails_is_told_apart_from_a_refusal() {
    let proxy = Running::start(
        RuleGate::never(rules(&[LOOPBACK, ("*.test", Allow)])),
        Scripted::new(|name, _| match name {
            "nowhere.test" => Err(std::io::Error::other("no such name")),
            "empty.test" => Ok(Vec::new()),
            _ => Ok(vec!["127.0.0.1".parse().unwrap()]),
        }),
    );
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for host in ["nowhere.test", "empty.test", "closed.test"] {
        let answer = proxy.tunnel(&format!("{host}:{closed}")).await.unwrap_err();
        assert!(answer.starts_with("HTTP/1.1 502 "), "{host}: {answer}");
    }
    let (port, _seen) = web("this is no HTTP\r\n\r\n").await;
    let request = format!("GET http://a.test:{port}/ HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(proxy.say(request.as_bytes()).await.starts_with("HTTP/1.1 502 "));
    let (port, _seen) =
        web("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n").await;
    let request = format!("GET http://a.test:{port}/ HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(proxy.say(request.as_bytes()).await.starts_with("HTTP/1.1 502 "));
}
