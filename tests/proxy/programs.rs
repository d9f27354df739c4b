//! Real programs that are told of a proxy as children are: by their environment.

#![expect(clippy::disallowed_methods, reason = "the client's own programs, which no sandbox holds")]

use std::process::Stdio;

use tokio::process::Command;
use tokio::time::timeout;

use crate::support::*;

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

struct Ran {
    ok: bool,
    stdout: String,
    stderr: String,
}

async fn run(proxy: &Running, program: &str, args: &[&str]) -> Ran {
    let http = format!("http://{}", proxy.address);
    let output = Command::new(program)
        .args(args)
        .envs([("http_proxy", &http), ("https_proxy", &http)])
        .env("ALL_PROXY", format!("socks5h://{}", proxy.address))
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(SOON, output).await.unwrap().unwrap_or_else(|error| panic!("{program}: {error}"));
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ran { ok: output.status.success(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[tokio::test]
async fn curl_reaches_what_is_allowed_through_each_protocol() {
    let (port, _seen) = web(HELLO).await;
    let proxy = Running::with_rules(&[("127.0.0.1", Allow), ("origin.test", Allow)]);
    let url = format!("http://origin.test:{port}/");
    let socks = format!("socks5h://{}", proxy.address);
    for args in [&["-sS"][..], &["-sS", "--proxytunnel"], &["-sS", "-x", &socks], &["-sS", "-d", "body"]] {
        let ran = run(&proxy, "curl", &[args, &[&url]].concat()).await;
        assert_eq!((ran.ok, ran.stdout.as_str()), (true, "hello"), "{args:?}: {}", ran.stderr);
    }
}

#[tokio::test]
async fn curl_sees_a_refusal_for_what_it_is() {
    let proxy = Running::with_rules(&[("origin.test", Deny)]);
    let plain = run(&proxy, "curl", &["-sS", "-i", "http://origin.test/"]).await;
    assert!(plain.stdout.contains("403 Forbidden by the sandbox's network rules"), "{}", plain.stdout);
    assert!(plain.stdout.contains("origin.test:80"), "{}", plain.stdout);
    let tunnel = run(&proxy, "curl", &["-sS", "https://origin.test/"]).await;
    assert!(!tunnel.ok && tunnel.stderr.contains("403"), "{}", tunnel.stderr);
    let socks = format!("socks5h://{}", proxy.address);
    let ran = run(&proxy, "curl", &["-sS", "-x", &socks, "http://origin.test/"]).await;
    assert!(!ran.ok && ran.stderr.contains("(2)"), "{}", ran.stderr);
}

#[tokio::test]
async fn pythons_own_client_works_and_shows_the_reason() {
    let (port, _seen) = web(HELLO).await;
    let proxy = Running::with_rules(&[("127.0.0.1", Allow), ("origin.test", Allow), ("evil.test", Deny)]);
    let fetch = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=15).read().decode())";
    let ran = run(&proxy, "python3", &["-c", fetch, &format!("http://origin.test:{port}/")]).await;
    assert_eq!((ran.ok, ran.stdout.trim()), (true, "hello"), "{}", ran.stderr);
    let ran = run(&proxy, "python3", &["-c", fetch, "https://evil.test/"]).await;
    assert!(!ran.ok && ran.stderr.contains("403 Forbidden by the sandbox's network rules"), "{}", ran.stderr);
}
