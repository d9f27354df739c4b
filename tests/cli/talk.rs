//! Talking to processes that live on: ps, logs, write, wait, interrupt, kill, clean.

use std::process::Stdio;

use crate::harness::{Running, Server, eventually, lives};

#[test]
fn a_python_repl_is_asked_and_answers() {
    let server = Server::start();
    let id = server.detached(&["--tty", "--", "python3", "-q"]);
    assert_eq!(server.uexec(&["wait", &id, "--text", ">>> ", "--timeout", "30s"]).ok(), ">>> \n");
    let answer = server.uexec(&["write", &id, "6*7"]);
    assert!(answer.ok().contains("42\r\n"), "{answer:?}");
    let listed = server.uexec(&["ps"]);
    assert!(listed.ok().contains(&id) && listed.text().contains("python3 -q"), "{listed:?}");
    let logs = server.uexec(&["logs", &id]);
    assert!(logs.ok().contains("6*7") && logs.text().contains("42"), "{logs:?}");

    server.uexec(&["write", "-n", &id, "import time; time.sleep(60)\n"]).ok();
    server.uexec(&["kill", "-s", "INT", "--scope", "foreground", &id]).ok();
    assert_eq!(
        server.uexec(&["wait", &id, "--regex", "Keyboard.nterrupt", "--timeout", "10s"]).ok(),
        "KeyboardInterrupt\n"
    );

    let ended = server.uexec(&["write", &id, "exit(5)", "--yield", "10s"]);
    assert!(ended.stderr.contains("has exited with code 5"), "{ended:?}");
    let gone = server.uexec(&["write", &id, "6*7"]);
    assert_eq!(gone.code, 125, "{gone:?}");
    assert!(gone.stderr.starts_with("error: ") && gone.stderr.contains("hint: "), "{gone:?}");
    assert!(server.uexec(&["ps", "--all"]).ok().contains("exited with code 5"));
    assert!(server.uexec(&["logs", &id]).ok().contains("42"));
}

#[test]
fn pipes_take_input_until_its_end() {
    let server = Server::start();
    let id = server.detached(&["--shell", "--", "cat; echo over; exit 3"]);
    assert_eq!(server.uexec(&["wait", &id, "--closed", "--timeout", "30s"]).ok(), "exited with code 3\n");

    let mut command =
        server.place.command(&["exec", "-S", &only_session(&server), "-i", "--", "cat; echo over; exit 3"]);
    let running = Running::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    eventually("cat runs", || server.uexec(&["ps"]).text().contains("exit 3"));
    let id = live_process(&server, "exit 3");
    assert_eq!(server.uexec(&["write", &id, "hello", "--eof", "--yield", "10s"]).ok(), "hello\nover\n");
    let done = running.end();
    assert_eq!((done.code, done.text()), (3, "hello\nover\n"));
}

fn only_session(server: &Server) -> String {
    server.uexec(&["sessions", "--json"]).json()["sessions"][0]["session_id"]
        .as_str()
        .expect("a session")
        .to_owned()
}

fn live_process(server: &Server, words: &str) -> String {
    let listed = server.uexec(&["ps"]);
    let line = listed.ok().lines().find(|line| line.contains(words)).expect("listed");
    line.split_whitespace().next().expect("an id").to_owned()
}

#[test]
fn logs_follow_to_the_end_and_from_an_offset() {
    let server = Server::start();
    let id = server.detached(&["--", "echo one; sleep 1; echo two; echo err >&2; exit 3"]);
    let done = server.uexec(&["logs", "--follow", &id]);
    assert_eq!(done.ok(), "one\ntwo\n");
    assert!(done.stderr.starts_with("err\n") && done.stderr.contains("exited with code 3"), "{done:?}");
    assert_eq!(server.uexec(&["logs", "--from", "4", &id]).ok(), "two\n");
    let lines = server.uexec(&["logs", "--json", &id]).lines();
    assert!(lines[0]["output"]["text"].as_str().is_some_and(|text| text.starts_with("one\n")), "{lines:?}");
    let beyond = server.uexec(&["logs", "--from", "4000", &id]);
    assert_eq!(beyond.code, 125, "{beyond:?}");
}

#[test]
fn what_is_not_retained_is_told() {
    let server = Server::start();
    let id = server.detached(&["--", "seq 1 1000000"]);
    server.uexec(&["wait", &id, "--closed", "--timeout", "60s"]).ok();
    let done = server.uexec(&["logs", &id]);
    assert!(done.ok().starts_with("1\n2\n") && done.text().ends_with("\n1000000\n"), "{}", done.stdout.len());
    assert!(done.stderr.contains("no longer retained"), "{}", done.stderr);
    assert!(done.stdout.len() <= 1024 * 1024 + 64 * 1024, "{}", done.stdout.len());
}

#[test]
fn waits_have_three_ends() {
    let server = Server::start();
    let id = server.detached(&["--", "echo here; sleep 1; exit 3"]);
    assert_eq!(server.uexec(&["wait", &id, "--text", "here"]).ok(), "here\n");
    let late = server.uexec(&["wait", &id, "--text", "nowhere", "--timeout", "100ms"]);
    assert_eq!((late.code, late.stderr.as_str()), (124, "uexec: the time is over\n"));
    let never = server.uexec(&["wait", &id, "--text", "nowhere"]);
    assert_eq!(never.code, 1, "{never:?}");
    assert_eq!(server.uexec(&["wait", &id]).ok(), "exited with code 3\n");
    assert_eq!(server.uexec(&["wait", &id, "--json"]).json()["outcome"], "WAIT_OUTCOME_MATCHED");
    let bad = server.uexec(&["wait", &id, "--regex", "("]);
    assert!(bad.code == 125 && bad.stderr.starts_with("error: "), "{bad:?}");
    server.uexec(&["wait", &server.detached(&["--", "sleep 60"]), "--quiet", "200ms"]).ok();
}

#[test]
fn kill_and_clean_leave_nothing() {
    let server = Server::start();
    let id = server.detached(&["--", "echo $$; sleep 300"]);
    let pid = server.uexec(&["wait", &id, "--regex", "[0-9]+\n"]).ok().trim().to_owned();
    let killed = server.uexec(&["kill", &id]);
    assert!(killed.ok().starts_with(&format!("{id} ended by SIGTERM")), "{killed:?}");
    assert!(!lives(&pid));

    let id = server.detached(&["--", "setsid sleep 301 & echo $!; sleep 302"]);
    let pid = server.uexec(&["wait", &id, "--regex", "[0-9]+\n"]).ok().trim().to_owned();
    assert!(lives(&pid));
    // The shell tells of it when it is forked, a moment before it is `sleep`.
    eventually("the descendant", || server.uexec(&["ps", "--descendants"]).ok().contains("└ sleep"));
    let interrupted = server.uexec(&["interrupt"]);
    assert!(interrupted.ok().starts_with("ended 0 waits"), "{interrupted:?}");
    assert!(lives(&pid));
    let cleaned = server.uexec(&["clean", "--json"]).json();
    assert_eq!(cleaned["ended"][0]["process_id"].to_string(), id);
    assert_eq!(cleaned["ended"][0]["exit"]["reason"], "EXIT_REASON_CLEANED");
    assert!(!lives(&pid));
    let nothing = server.uexec(&["clean"]);
    assert_eq!((nothing.ok(), nothing.stderr.as_str()), ("", "uexec: nothing was running\n"));
}

#[test]
fn mistakes_are_explained() {
    let server = Server::start();
    let id = server.detached(&["--", "sleep 300"]);
    for (args, words) in [
        (&["logs", "99999"][..], "uexec ps --all"),
        (&["write", id.as_str(), "x"], "--tty"),
        (&["kill", "-s", "NOPE", id.as_str()], "TERM"),
        (&["resize", id.as_str(), "--rows", "30", "--cols", "90"], "--tty"),
        (&["ps", "-S", "nonsense"], "uexec sessions"),
        (&["--server", "unix:///nowhere.sock", "ps"], "uexec serve"),
        (&["--server", "http://127.0.0.1:1", "ps"], "http://"),
    ] {
        let done = server.uexec(args);
        assert_eq!(done.code, 125, "{args:?} {done:?}");
        assert!(done.stderr.starts_with("error: "), "{args:?} {done:?}");
        assert!(done.stderr.contains("\n  hint: ") && done.stderr.contains(words), "{args:?} {done:?}");
        let json = server.uexec(&[&["--json"], args].concat());
        let error: serde_json::Value = serde_json::from_str(&json.stderr).expect("JSON");
        assert!(error["error"]["message"].is_string(), "{error}");
    }
    assert_eq!(server.uexec(&["ps", "--nope"]).code, 2);
}
