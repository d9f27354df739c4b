//! Sessions, their events, and what the server says of itself.

use std::process::Stdio;

use crate::harness::{Running, Server};

#[test]
fn a_session_from_its_creation_to_its_end() {
    let server = Server::start();
    let none = server.uexec(&["ps"]);
    assert!(none.code == 2 && none.stderr.contains("there is no session"), "{none:?}");
    let first =
        server.uexec(&["sessions", "create", "--cwd", "/tmp", "--label", "who=me"]).ok().trim().to_owned();
    let listed = server.uexec(&["sessions"]);
    assert!(listed.ok().contains(&first) && listed.text().contains("who=me"), "{listed:?}");
    assert_eq!(server.uexec(&["exec", "-S", &first, "--", "pwd"]).ok(), "/tmp\n");
    let updated = server.uexec(&["sessions", "update", "--cwd", "/", "--json"]).json();
    assert_eq!((&updated["config"]["cwd"], &updated["policy_revision"]), (&"/".into(), &2.into()));
    assert_eq!(server.uexec(&["exec", "-S", &first, "--", "pwd"]).ok(), "/\n");
    assert!(server.uexec(&["sessions", "show"]).ok().contains("full-access"));

    let second =
        server.uexec(&["sessions", "create", "--json"]).json()["session_id"].as_str().expect("id").to_owned();
    let several = server.uexec(&["ps"]);
    assert!(
        several.code == 2 && several.stderr.contains(&first) && several.stderr.contains(&second),
        "{several:?}"
    );
    let mut command = server.place.command(&["ps", "--json"]);
    let named = crate::harness::finish(command.env("UEXEC_SESSION", &second), b"");
    assert_eq!(named.json()["processes"], serde_json::json!([]));
    server.uexec(&["exec", "--detach", "-S", &first, "--", "sleep 300"]).ok();
    let closed = server.uexec(&["sessions", "close", "-S", &first]);
    assert!(closed.ok().contains("session closed"), "{closed:?}");
    server.uexec(&["sessions", "close", "-S", &second]).ok();
    assert_eq!(server.uexec(&["sessions", "--json"]).json()["sessions"], serde_json::json!([]));
}

#[test]
fn events_are_told_in_order_until_the_session_closes() {
    let server = Server::start();
    let session = server.uexec(&["sessions", "create"]).ok().trim().to_owned();
    let mut command = server.place.command(&["events", "--after", "0", "--json"]);
    let running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    server.uexec(&["exec", "-S", &session, "--", "echo hi; exit 3"]);
    server.uexec(&["sessions", "close"]).ok();
    let events = running.end();
    assert_eq!(events.code, 0, "{events:?}");
    let lines = events.lines();
    let position = |kind: &str| lines.iter().position(|line| line["event"].get(kind).is_some()).expect(kind);
    assert!(position("process_started") < position("output"));
    assert!(position("output") < position("process_exited"));
    assert_eq!(lines[position("process_exited")]["event"]["process_exited"]["exit"]["code"], 3);
    let sequences: Vec<u64> =
        lines.iter().map(|line| line["event"]["sequence"].as_u64().expect("a number")).collect();
    assert!(sequences.windows(2).all(|pair| pair[1] == pair[0] + 1), "{sequences:?}");
}

#[test]
fn capabilities_and_sizes() {
    let server = Server::start();
    assert!(server.uexec(&["capabilities"]).ok().contains(env!("CARGO_PKG_VERSION")));
    let capabilities = server.uexec(&["capabilities", "--json"]).json();
    assert_eq!(capabilities["limits"]["yield_min_ms"], 250);
    let id = server.detached(&["--tty", "--", "sh"]);
    server.uexec(&["resize", &id, "--rows", "30", "--cols", "90"]).ok();
    assert!(server.uexec(&["write", &id, "stty size"]).ok().contains("30 90"));
}
