//! `uexec exec`, without a server and with one.

use std::process::Stdio;

use rustix::process::Signal;
use tokio::time::Instant;

use crate::harness::{Place, Running, Server, eventually, lives};

#[test]
fn the_acceptance_line_needs_nothing() {
    let done = Place::new().uexec(&["exec", "--", "echo hello; exit 3"]);
    assert_eq!((done.code, done.text(), done.stderr.as_str()), (3, "hello\n", ""));
}

#[test]
fn streams_stay_apart_and_bytes_are_bytes() {
    let place = Place::new();
    let done = place.uexec(&["exec", "--", "printf 'a\\0\\377b'; printf err >&2"]);
    assert_eq!((done.code, done.stdout.as_slice(), done.stderr.as_str()), (0, &b"a\0\xffb"[..], "err"));
    let done = place.uexec(&["exec", "--", "seq 1 200000"]);
    let expected: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    assert!(done.stdout == expected.as_bytes(), "{} bytes of {}", done.stdout.len(), expected.len());
    let done = place.uexec(&["exec", "--tty", "--", "tty; seq 1 200000 | tail -1; stty size"]);
    assert!(done.ok().starts_with("/dev/pts/") && done.text().ends_with("200000\r\n24 80\r\n"), "{done:?}");
}

#[test]
fn ends_become_codes() {
    let place = Place::new();
    for (args, code) in [
        (&["--", "kill -9 $$"][..], 137),
        (&["--", "kill -TERM $$"], 143),
        // No shell, which may still read its profile files by then and then has last words of its own.
        (&["--timeout", "300ms", "--", "sleep", "60"], 124),
        (&["--no-output-timeout", "300ms", "--", "sleep", "60"], 124),
        (&["--", "/no/such/program", "x"], 127),
        (&["--", "/etc/passwd", "x"], 126),
        (&["--cwd", "/no/such/directory", "--", "true"], 125),
        (&["--nope", "--", "true"], 125),
        (&[], 125),
        (&["--sandbox", "nonsense", "--", "true"], 125),
        (&["--sandbox", "read-only", "--", "true"], 0),
        (&["--network", "on", "--", "true"], 125),
        (&["--deny-read", "x", "--", "true"], 125),
        (&["--sandbox", "read-only", "--session", "x", "--", "true"], 125),
    ] {
        let done = place.uexec(&[&["exec"], args].concat());
        assert_eq!(done.code, code, "{args:?} {done:?}");
        let explained = code == 0
            || code > 127
            || done.stderr.starts_with("error: ")
            || done.stderr.starts_with("uexec: ");
        assert!(explained, "{args:?} {done:?}");
    }
}

#[test]
fn words_are_a_line_or_an_argv() {
    let place = Place::new();
    assert_eq!(place.uexec(&["exec", "--", "echo a   b; echo $0"]).ok().lines().next(), Some("a b"));
    assert_eq!(
        place.uexec(&["exec", "--", "printf", "%s|", "a  b", "$HOME", "--json"]).ok(),
        "a  b|$HOME|--json|"
    );
    assert_eq!(place.uexec(&["exec", "--shell=sh", "--", "echo", "a", "&&", "echo", "b"]).ok(), "a\nb\n");
    assert_eq!(
        place.uexec(&["exec", "--argv", "--", "pwd"]).ok().trim(),
        place.path().to_str().expect("UTF-8")
    );
}

#[test]
fn the_command_has_our_environment_and_directory() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("below")).expect("made");
    let mut command =
        place.command(&["exec", "-C", "below", "-e", "B=two words", "--", "echo $A/$B; pwd; echo $MY_TOKEN"]);
    let done = crate::harness::finish(command.env("A", "one").env("MY_TOKEN", "t"), b"");
    let below = place.path().join("below");
    assert_eq!(done.ok(), format!("one/two words\n{}\nt\n", below.display()));
}

#[test]
fn stdin_goes_in_when_asked() {
    let place = Place::new();
    let input: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let done = place.uexec_with_input(&["exec", "-i", "--", "cat"], &input);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stdout == input, "{} bytes came back of {}", done.stdout.len(), input.len());
    assert_eq!(place.uexec_with_input(&["exec", "--", "cat"], b"unasked").ok(), "");
    assert_eq!(place.uexec_with_input(&["exec", "-i", "--", "head -c 3"], &input).stdout, &input[..3]);
    let done = place.uexec_with_input(&["exec", "-it", "--", "cat"], b"line\n");
    assert_eq!(done.ok(), "line\r\nline\r\n");
}

#[test]
fn what_was_left_in_the_background_ends_with_it() {
    let place = Place::new();
    let begun = Instant::now();
    let done = place.uexec(&["exec", "--", "sleep 300 & echo $!; setsid sleep 301 & echo $!"]);
    let pids: Vec<&str> = done.ok().lines().collect();
    assert_eq!(pids.len(), 2);
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    for pid in pids {
        eventually("the background process is gone", || !lives(pid));
    }
}

#[test]
fn ctrl_c_reaches_the_command_and_a_second_one_ends_it() {
    let place = Place::new();
    let mut command = place.command(&[
        "exec",
        "--",
        "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.1; done",
    ]);
    let mut running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    assert_eq!(running.line(), "ready\n");
    running.signal(Signal::INT);
    let done = running.end();
    assert_eq!((done.code, done.text()), (7, "caught\n"), "{done:?}");

    let stubborn = "trap 'echo no' INT; echo ready $$; while :; do sleep 0.1; done";
    let mut command = place.command(&["exec", "--", stubborn]);
    let mut running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let pid = running.line().trim_start_matches("ready ").to_owned();
    running.signal(Signal::INT);
    assert_eq!(running.line(), "no\n");
    running.signal(Signal::INT);
    assert_eq!(running.end().code, 143);
    assert!(!lives(&pid));
}

#[test]
fn a_reader_that_goes_ends_the_command_as_a_pipe_would() {
    let place = Place::new();
    let mut command = place.command(&["exec", "--", "echo $$; exec yes"]);
    let mut running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let pid = running.line();
    running.close_stdout();
    let done = running.end();
    assert_eq!((done.code, done.stderr.as_str()), (141, ""));
    eventually("yes is gone", || !lives(&pid));
}

#[test]
fn json_is_a_line_for_each_item() {
    let done = Place::new().uexec(&["exec", "--json", "--", "echo hi; printf '\\377' >&2; exit 3"]);
    assert_eq!(done.code, 3);
    let lines = done.lines();
    assert!(lines[0]["started"]["process_id"].is_u64(), "{lines:?}");
    let output = |stream: &str| lines.iter().find(|line| line["output"]["stream"] == stream).expect(stream);
    assert_eq!(output("STREAM_STDOUT")["output"]["text"], "hi\n");
    assert_eq!(output("STREAM_STDERR")["output"]["data"], "/w==");
    assert_eq!(lines.last().expect("result")["result"]["exit"]["code"], 3);
}

#[test]
fn a_running_server_is_used_and_left_clean() {
    let server = Server::start();
    let done = server.uexec(&["exec", "--", "echo $PPID; pwd; exit 4"]);
    assert_eq!(done.code, 4, "{done:?}");
    let lines: Vec<&str> = done.text().lines().collect();
    assert_eq!(lines, [server.running.pid(), server.place.path().display().to_string()]);
    assert_eq!(server.uexec(&["sessions", "--json"]).json()["sessions"], serde_json::json!([]));
    let done = server.uexec_with_input(&["exec", "-i", "--", "wc -c"], &[b'x'; 100_000]);
    assert_eq!(done.ok().trim(), "100000");
}

#[test]
fn an_interrupted_wait_kills_nothing() {
    let server = Server::start();
    let session = server.uexec(&["sessions", "create"]).ok().trim().to_owned();
    let mut command = server.place.command(&["exec", "-S", &session, "--", "echo $$; sleep 300"]);
    let mut running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let pid = running.line();
    assert!(server.uexec(&["interrupt"]).ok().starts_with("ended 1 waits; lives on: "));
    let done = running.end();
    assert!(done.code == 125 && done.stderr.contains("interrupted"), "{done:?}");
    assert!(lives(&pid));
    server.uexec(&["clean"]).ok();
    assert!(!lives(&pid));
}

#[test]
fn what_needs_a_server_says_so() {
    let place = Place::new();
    for args in [
        &["exec", "--detach", "--", "true"][..],
        &["exec", "-S", "x", "--", "true"],
        &["ps"],
        &["logs", "1234"],
    ] {
        let done = place.uexec(args);
        assert_eq!(done.code, 125, "{args:?}");
        assert!(done.stderr.contains("uexec serve"), "{args:?} {done:?}");
    }
}

#[test]
fn a_sandbox_of_its_own_holds_without_a_server_and_nobody_is_asked() {
    let place = Place::new();
    std::fs::write(place.path().join("secret"), "hidden").expect("written");
    let run = |options: &[&str], line: &str| {
        place.uexec(&[&["exec", "--no-login"], options, &["--", line]].concat())
    };
    let inside = run(&["--sandbox", "workspace-write"], "echo in > here; cat here secret");
    assert_eq!(inside.ok(), "in\nhidden");
    let outside = run(&["--sandbox", "workspace-write"], "echo x > /var/uexec-cli-test-outside");
    assert!(
        outside.code != 0 && !std::path::Path::new("/var/uexec-cli-test-outside").exists(),
        "{outside:?}"
    );
    assert!(!outside.stderr.contains("waiting for approval"), "{outside:?}");
    assert_ne!(run(&["--sandbox", "read-only"], "echo x > here").code, 0);
    // A relative path is ours, as the command's directory is.
    let unread = run(&["--sandbox", "workspace-write", "--deny-read", "secret"], "cat secret");
    assert!(unread.code != 0 && unread.stdout.is_empty(), "{unread:?}");
}

#[test]
fn the_network_of_a_sandbox_is_off_unless_it_is_asked_for() {
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let line = format!("exec 3<>/dev/tcp/127.0.0.1/{}", listener.local_addr().expect("bound").port());
    for (network, reaches) in [(None, false), (Some("off"), false), (Some("on"), true)] {
        let mut args = vec!["exec", "--sandbox", "read-only", "--shell=bash", "--no-login"];
        args.extend(network.map(|mode| ["--network", mode]).into_iter().flatten());
        let done = place.uexec(&[&args[..], &["--", &line]].concat());
        assert_eq!(done.code == 0, reaches, "{network:?} {done:?}");
    }
}
