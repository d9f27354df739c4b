//! An answer that is bound to what a reviewer has seen, however little of an id they typed.

use std::process::Stdio;
use std::sync::OnceLock;

use crate::harness::{Place, Running, eventually};

#[test]
fn a_pinned_answer_counts_for_that_question_only() {
    let place = Place::new();
    let mut command = place.command(&["serve", "--log", "warn"]);
    let mut server = Running::start(command.stdout(Stdio::piped()));
    assert!(server.line().starts_with("listening on unix://"));
    server.line();
    let session = place.uexec(&["sessions", "create"]).ok().trim().to_owned();
    std::thread::scope(|scope| {
        let run =
            scope.spawn(|| place.uexec(&["exec", "--session", &session, "--escalate", "--", "echo out"]));
        let asked = OnceLock::new();
        eventually("a question", || {
            let listed = place.uexec(&["approvals", "list", "--json"]).json();
            listed["approvals"][0]["approval_id"].as_str().is_some_and(|id| asked.set(id.to_owned()).is_ok())
        });
        let id = asked.get().expect("asked");
        let table = place.uexec(&["approvals", "list"]);
        assert!(table.ok().contains("LEFT"), "{table:?}");

        let shown = place.uexec(&["approvals", "show", id]);
        let digest = shown.ok().lines().find_map(|line| line.strip_prefix("digest ")).expect("told").trim();
        let other = "0".repeat(64);
        let refused = place.uexec(&["approvals", "approve", "apr_", "--digest", &other]);
        assert!(refused.code == 125 && refused.stderr.contains("digest"), "{refused:?}");
        let malformed = place.uexec(&["approvals", "approve", "apr_", "--digest", "abc"]);
        assert!(malformed.code == 2 && malformed.stderr.contains("64 hex digits"), "{malformed:?}");
        assert!(place.uexec(&["approvals", "list"]).ok().contains(id), "it is still open");
        place.uexec(&["approvals", "approve", "apr_", "--digest", digest]).ok();
        assert_eq!(run.join().expect("ran").ok(), "out\n");
    });
}
