//! A server with the default rights: what is asked, answered, tried and recorded, as an agent's terminal and a
//! reviewer's have it.

use std::fs;
use std::process::Stdio;
use std::sync::OnceLock;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Done, Place, Running, eventually};

/// A server that gives nothing away, and a session on it.
struct Reviewed {
    place: Place,
    running: Running,
    session: String,
}

impl Reviewed {
    fn start() -> Self {
        let place = Place::new();
        let mut command = place.command(&["serve", "--log", "warn"]);
        let mut running = Running::start(command.stdout(Stdio::piped()));
        assert!(running.line().starts_with("listening on unix://"));
        running.line();
        let created = place.uexec(&["sessions", "create", "--json"]).json();
        let session = created["session_id"].as_str().expect("an id").to_owned();
        Self { place, running, session }
    }

    fn uexec(&self, args: &[&str]) -> Done {
        self.place.uexec(args)
    }

    fn open_question(&self) -> Option<Value> {
        let listed = self.uexec(&["approvals", "list", "--json"]).json();
        listed["approvals"].as_array().and_then(|open| open.first().cloned())
    }

    /// Runs a command that leads to a question, and answers it; with the question as it was asked.
    fn asked(&self, args: &[&str], answer: &[&str]) -> (Done, Value) {
        let all = [&["exec", "--session", self.session.as_str()], args].concat();
        std::thread::scope(|scope| {
            let run = scope.spawn(|| self.uexec(&all));
            let question = OnceLock::new();
            eventually("a question", || {
                self.open_question().is_some_and(|asked| question.set(asked).is_ok())
            });
            let question = question.into_inner().expect("asked");
            let id = question["approval_id"].as_str().expect("an id");
            let mut words = vec!["approvals", answer[0], id];
            words.extend(&answer[1..]);
            self.uexec(&words).ok();
            (run.join().expect("ran"), question)
        })
    }
}

#[test]
fn a_command_that_asks_to_leave_its_sandbox_waits_for_a_reviewer() {
    let server = Reviewed::start();
    let escalated = ["--escalate", "--justification", "needs /etc", "--", "echo out"];
    let (done, question) = server.asked(&escalated, &["approve"]);
    assert_eq!(done.ok(), "out\n");
    assert_eq!(question["justification"], "needs /etc");

    let (done, _) = server.asked(&escalated, &["decline", "--text", "not today"]);
    assert!(done.code == 125 && done.stdout.is_empty() && done.stderr.contains("not today"), "{done:?}");

    let (done, _) = server.asked(&escalated, &["approve", "--for-session"]);
    assert_eq!(done.ok(), "out\n");
    let again = server.uexec(&[&["exec", "--session", &server.session], &escalated[..]].concat());
    assert_eq!(again.ok(), "out\n", "nobody is asked again");
    let grants = server.uexec(&["approvals", "grants", &server.session, "--json"]).json();
    let grant = grants["grants"][0]["grant_id"].as_str().expect("a grant").to_owned();
    server.uexec(&["approvals", "revoke", &server.session, &grant]).ok();
    let (done, _) = server.asked(&escalated, &["decline"]);
    assert_eq!(done.code, 125, "the grant is gone: {done:?}");
}

#[test]
fn an_agents_own_socket_cannot_answer() {
    let server = Reviewed::start();
    let session = server.session.as_str();
    std::thread::scope(|scope| {
        let run =
            scope.spawn(|| server.uexec(&["exec", "--session", session, "--escalate", "--", "echo out"]));
        eventually("a question", || server.open_question().is_some());
        let agent = format!("unix://{}", server.place.runtime_dir().join("agent.sock").display());
        let refused = server.uexec(&["--server", &agent, "approvals", "approve", "apr_"]);
        assert!(refused.code == 125 && refused.stderr.contains("reviewer"), "{refused:?}");
        assert!(server.open_question().is_some(), "the question stays open");
        server.uexec(&["approvals", "decline", "apr_"]).ok();
        assert_eq!(run.join().expect("ran").code, 125);
    });
}

#[test]
fn attempts_show_what_held_them_and_what_points_to_a_denial() {
    let server = Reviewed::start();
    let session = server.session.as_str();
    let line = "touch /var/uexec-cli-test-denied";
    let denied = server.uexec(&["exec", "--session", session, "--detach", "--", line]);
    let process = denied.ok().trim().to_owned();
    let attempt = || {
        let listed = server.uexec(&["ps", "--all", "--attempts", "--json", "--session", session]).json();
        let known = listed["processes"].as_array().cloned().unwrap_or_default();
        let ours = known.into_iter().find(|one| one["process_id"].to_string() == process);
        ours.map_or(Value::Null, |one| one["attempts"][0].clone())
    };
    // What is denied early is asked about, which nobody answers here; late, it only says so.
    eventually("evidence of the denial", || attempt()["evidence"].is_object());
    let table = server.uexec(&["ps", "--all", "--attempts", "--session", session]);
    assert!(table.ok().contains("bubblewrap") && table.ok().contains("denied"), "{table:?}");
    assert!(!std::path::Path::new("/var/uexec-cli-test-denied").exists());
}

#[test]
fn the_record_is_whole_until_somebody_changes_it() {
    let server = Reviewed::start();
    let (done, _) = server.asked(&["--escalate", "--", "echo out"], &["decline", "--text", "no"]);
    assert_eq!(done.code, 125);
    server.running.signal(Signal::TERM);
    let Reviewed { place, running, .. } = server;
    assert_eq!(running.end().code, 0);

    let report = place.uexec(&["audit", "verify", "--json"]).json();
    assert!(report["records"].as_u64().is_some_and(|records| records >= 3), "{report}");
    let file = place.runtime_dir().join("audit/audit-00000001.jsonl");
    let text = fs::read_to_string(&file).expect("a log");
    for kind in ["approval_requested", "approval_decided", "start_refused"] {
        assert!(text.contains(&format!(r#""kind":"{kind}""#)), "{kind}: {text}");
    }
    fs::write(&file, text.replace(r#""text":"no""#, r#""text":"yes""#)).expect("written");
    let broken = place.uexec(&["audit", "verify"]);
    assert!(broken.code == 1 && broken.stderr.contains("was changed"), "{broken:?}");
}

#[test]
fn doctor_tells_what_can_be_enforced() {
    let place = Place::new();
    let done = place.uexec(&["doctor"]);
    let text = String::from_utf8_lossy(&done.stdout).into_owned() + &done.stderr;
    for word in ["bubblewrap", "seccomp", "cgroups", "rules"] {
        assert!(text.contains(word), "{word}: {done:?}");
    }
    assert_eq!(done.code, 0, "this machine has what the tests need: {done:?}");
}
