//! `uexec serve`: where it listens, what it refuses, how it ends.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use rustix::process::Signal;

use crate::harness::{Place, Running, Server, eventually, lives};

#[test]
fn it_says_where_it_is_and_is_there() {
    let server = Server::start_with(&["--listen", "127.0.0.1:0"]);
    let place =
        |line: usize, start: &str| server.listening[line].trim().strip_prefix(start).expect(start).to_owned();
    let socket = place(0, "listening on ");
    let address = place(2, "listening on ");
    let token = place(3, "token in ");
    for file in [&token, socket.trim_start_matches("unix://")] {
        let mode = std::fs::metadata(file).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{file}");
    }
    let elsewhere = Place::new();
    assert_eq!(elsewhere.uexec(&["--server", &socket, "exec", "--", "echo a"]).ok(), "a\n");
    assert_eq!(
        elsewhere.uexec(&["--server", &address, "--token-file", &token, "exec", "--", "echo b"]).ok(),
        "b\n"
    );
    let refused = elsewhere.uexec(&["--server", &address, "exec", "--", "echo c"]);
    assert!(refused.code == 125 && refused.stderr.contains("--token-file"), "{refused:?}");
    // In the same place, the token is found.
    assert_eq!(server.uexec(&["--server", &address, "exec", "--", "echo d"]).ok(), "d\n");
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).expect("changed");
    let exposed = elsewhere.uexec(&["--server", &address, "--token-file", &token, "ps"]);
    assert!(exposed.code == 2 && exposed.stderr.contains("0644"), "{exposed:?}");
}

#[test]
fn tls_is_needed_where_others_listen_and_works() {
    let place = Place::new();
    let refused = place.uexec(&["serve", "--listen", "0.0.0.0:0"]);
    assert!(refused.code == 2 && refused.stderr.contains("--tls-cert"), "{refused:?}");
    assert_eq!(place.uexec(&["serve", "--tls-cert", "x"]).code, 2);

    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (cert, key) = (place.path().join("cert.pem"), place.path().join("key.pem"));
    std::fs::write(&cert, certified.cert.pem()).expect("written");
    std::fs::write(&key, certified.signing_key.serialize_pem()).expect("written");
    let (cert, key) = (cert.to_str().expect("UTF-8"), key.to_str().expect("UTF-8"));
    let server = Server::start_with(&["--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key]);
    let address =
        server.listening[2].trim().trim_start_matches("listening on ").replace("127.0.0.1", "localhost");
    assert!(address.starts_with("https://"), "{address}");
    assert_eq!(
        server.uexec(&["--server", &address, "--tls-ca", cert, "exec", "--", "echo tls"]).ok(),
        "tls\n"
    );
    let unknown = server.uexec(&["--server", &address, "ps"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("--tls-ca"), "{unknown:?}");
    let plain = server.uexec(&["--server", &address.replace("https", "http"), "ps"]);
    assert!(plain.code == 125 && plain.stderr.contains("hint: "), "{plain:?}");
}

#[test]
fn a_second_server_in_the_same_place_is_refused_and_a_dead_one_is_not_in_the_way() {
    let server = Server::start();
    let second = server.uexec(&["serve"]);
    assert!(second.code == 125 && second.stderr.contains("already listening"), "{second:?}");
    assert_eq!(server.uexec(&["exec", "--", "echo still"]).ok(), "still\n");
    server.running.signal(Signal::KILL);
    let Server { place, running, .. } = server;
    assert_eq!(running.end().code, 137);
    assert_eq!(place.uexec(&["exec", "--", "echo embedded"]).ok(), "embedded\n");
    let mut command = place.command(&["serve", "--allow-full-access"]);
    let mut third = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    assert!(third.line().starts_with("listening on "));
}

#[test]
fn the_end_takes_every_process_with_it_and_tells_those_who_wait() {
    let server = Server::start();
    let id = server.detached(&["--", "setsid sleep 300 & echo $!; trap '' TERM; while :; do sleep 1; done"]);
    let pid = server.uexec(&["wait", &id, "--regex", "[0-9]+\n"]).ok().trim().to_owned();
    let mut command = server.place.command(&["logs", "-f", &id]);
    let mut follower = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    assert_eq!(follower.line().trim(), pid);
    server.running.signal(Signal::TERM);
    let told = follower.end();
    assert!(told.code == 0 && told.stderr.contains("shuts down"), "{told:?}");
    let Server { place, running, .. } = server;
    assert_eq!(running.end().code, 0);
    eventually("the descendant is gone", || !lives(&pid));
    let left: Vec<_> =
        std::fs::read_dir(place.runtime_dir()).expect("there").filter_map(Result::ok).collect();
    assert!(left.iter().all(|entry| !entry.file_name().to_string_lossy().ends_with(".sock")), "{left:?}");
}

#[test]
fn a_second_signal_does_not_wait_for_the_stubborn_and_still_leaves_nothing() {
    let server = Server::start();
    let id = server.detached(&[
        "--",
        "trap '' TERM; (trap '' TERM; setsid sleep 300 & echo $!); while :; do sleep 1; done",
    ]);
    let pid = server.uexec(&["wait", &id, "--regex", "[0-9]+\n"]).ok().trim().to_owned();
    server.running.signal(Signal::TERM);
    eventually("it drains", || server.uexec(&["ps"]).code != 0);
    server.running.signal(Signal::INT);
    assert_eq!(server.running.end().code, 0);
    eventually("the descendant is gone", || !lives(&pid));
}

#[test]
fn a_server_that_nohup_has_started_outlives_its_terminal() {
    let server = Server::start_from(&["nohup"]);
    server.running.signal(Signal::HUP);
    assert_eq!(server.uexec(&["exec", "--", "echo on"]).ok(), "on\n");
    // Whoever runs the tests may have been started by nohup.
    let server = Server::start_from(&["env", "--default-signal=HUP"]);
    server.running.signal(Signal::HUP);
    assert_eq!(server.running.end().code, 0);
}

#[test]
fn threads_stay_few() {
    let server = Server::start();
    for _ in 0..20 {
        server.detached(&["--tty", "--", "cat"]);
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.running.pid()));
    if let Ok(status) = status {
        let threads = status.lines().find_map(|line| line.strip_prefix("Threads:")).expect("told");
        assert!(threads.trim().parse::<u32>().expect("a number") <= 8, "{threads}");
    }
}

#[test]
fn a_session_that_asks_for_nothing_gets_a_sandbox_and_cannot_name_its_way_out() {
    let place = Place::new();
    let mut command = place.command(&["serve", "--log-format", "json"]);
    let mut running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    running.line();
    let made = place.uexec(&["sessions", "create", "--json"]).json();
    assert_eq!(made["config"]["sandbox"]["kind"], "SANDBOX_KIND_WORKSPACE_WRITE", "{made}");
    let session = made["session_id"].as_str().expect("an id");
    let inside = place.uexec(&["exec", "--session", session, "--", "echo in > here; cat here"]);
    assert_eq!(inside.ok(), "in\n");
    let refused = place.uexec(&["sessions", "create", "--full-access"]);
    assert!(refused.code == 125 && refused.stderr.contains("hint: "), "{refused:?}");
    let refused = place.uexec(&["exec", "--", "true"]);
    for way_out in ["--sandbox workspace-write", "--session", "uexec serve --allow-full-access"] {
        assert!(refused.code == 125 && refused.stderr.contains(way_out), "{refused:?}");
    }
    assert_eq!(place.uexec(&["exec", "--sandbox", "workspace-write", "--", "echo held"]).ok(), "held\n");
    running.signal(Signal::TERM);
    let done = running.end();
    for line in done.stderr.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
}
