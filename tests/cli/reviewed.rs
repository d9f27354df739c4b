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
    /// Ends before its place goes.
    running: Running,
    place: Place,
    session: String,
}

impl Reviewed {
    fn start() -> Self {
        let place = Place::new();
        let mut command = place.command(&["serve", "--log", "warn"]);
        // Rules that are added go to a file of the user.
        command.env("XDG_CONFIG_HOME", place.path().join("config"));
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

    /// Waits for a question; with its id.
    fn waits(&self) -> String {
        let asked = OnceLock::new();
        eventually("a question", || self.open_question().is_some_and(|one| asked.set(one).is_ok()));
        asked.get().and_then(|one| one["approval_id"].as_str()).expect("an id").to_owned()
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
    let process: u64 = denied.ok().trim().parse().expect("an id");
    let attempt = || {
        let listed = server.uexec(&["ps", "--all", "--attempts", "--json", "--session", session]).json();
        let known = listed["processes"].as_array().cloned().unwrap_or_default();
        let ours = known.into_iter().find(|one| one["process_id"] == process);
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
fn who_runs_a_command_is_told_what_it_waits_for_and_who_answers_sees_every_word() {
    let server = Reviewed::start();
    let session = server.session.as_str();
    let hostile = "a\u{1b}[2J\nb\u{202e}";
    let args =
        ["exec", "--session", session, "--escalate", "--justification", hostile, "--", "/bin/echo", hostile];
    std::thread::scope(|scope| {
        let run = scope.spawn(|| server.uexec(&args));
        let id = server.waits();
        let table = server.uexec(&["ps", "--session", session]);
        assert!(table.ok().contains(" asking "), "{table:?}");
        let shown = server.uexec(&["approvals", "show", &id]);
        let listed = server.uexec(&["approvals", "list"]);
        let answered = server.uexec(&["approvals", "approve", &id]);
        for text in [table.ok(), shown.ok(), listed.ok(), answered.ok(), &answered.stderr] {
            assert!(!text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{text:?}");
        }
        let argv = r"/bin/echo $'a\U0000001b[2J\nb\U0000202e'";
        assert!(shown.text().contains(argv) && answered.stderr.contains(argv), "{shown:?} {answered:?}");
        assert!(answered.text().starts_with(&format!("{id}  approved  by ")), "{answered:?}");
        let done = run.join().expect("ran");
        assert_eq!(done.ok(), format!("{hostile}\n"));
        let told = format!("waiting for approval {id}: ");
        let how = format!("(uexec approvals approve {id})");
        assert!(done.stderr.contains(&told) && done.stderr.contains(&how), "{done:?}");
    });
}

#[test]
fn an_answer_counts_once_and_what_is_wrong_with_another_is_said() {
    let server = Reviewed::start();
    let (done, question) = server.asked(&["--escalate", "--", "echo out"], &["approve"]);
    assert_eq!(done.ok(), "out\n");
    let id = question["approval_id"].as_str().expect("an id");
    let twice = server.uexec(&["approvals", "decline", id]);
    assert!(twice.code == 125 && twice.stderr.contains("hint: it is approved already"), "{twice:?}");
    let unknown = server.uexec(&["approvals", "approve", "apr_none"]);
    assert!(unknown.code == 125 && unknown.stderr.contains("approvals list --all"), "{unknown:?}");
    let empty = server.uexec(&["approvals", "approve", ""]);
    assert_eq!(empty.code, 2, "{empty:?}");
    let machine = server.uexec(&["approvals", "decline", id, "--json"]);
    let error: Value = serde_json::from_str(&machine.stderr).expect("one document");
    assert_eq!(error["error"]["reason"], "APPROVAL_NOT_OPEN");
    let all = server.uexec(&["approvals", "list", "--all", "--json"]).json();
    assert_eq!(all["approvals"][0]["state"], "APPROVAL_STATE_APPROVED", "{all}");
    assert_eq!(server.uexec(&["approvals", "list", "--json"]).json()["approvals"], serde_json::json!([]));
}

#[test]
fn a_rule_that_an_answer_adds_spares_the_next_question() {
    let server = Reviewed::start();
    let command = ["--escalate", "--", "/bin/echo", "one", "two"];
    let (done, _) = server.asked(&command, &["approve", "--add-rule", "/bin/echo", "one"]);
    assert_eq!(done.ok(), "one two\n");
    let rules = server.place.path().join("config/unified-exec/rules.toml");
    assert!(fs::read_to_string(&rules).expect("kept").contains("one"));
    let like = ["exec", "--session", &server.session, "--escalate", "--", "/bin/echo", "one", "three"];
    assert_eq!(server.uexec(&like).ok(), "one three\n");
    let (done, _) = server.asked(&["--escalate", "--", "/bin/echo", "other"], &["decline"]);
    assert_eq!(done.code, 125, "the rule is about other words: {done:?}");
}

#[test]
fn an_answer_may_abort_the_turn() {
    let server = Reviewed::start();
    let (done, _) =
        server.asked(&["--escalate", "--", "echo out"], &["decline", "--abort-turn", "--text", "stop"]);
    assert!(done.code == 125 && done.stdout.is_empty() && done.stderr.contains("stop"), "{done:?}");
    let known = server.uexec(&["approvals", "list", "--all", "--json"]).json();
    assert_eq!(known["approvals"][0]["decision"]["verdict"], "VERDICT_ABORT_TURN", "{known}");
}

#[test]
fn questions_and_their_ends_are_watched_and_stand_in_the_feed() {
    let server = Reviewed::start();
    let mut command = server.place.command(&["approvals", "watch", "--json"]);
    let mut watch = Running::start(command.stdout(Stdio::piped()));
    let mut next = || serde_json::from_str::<Value>(&watch.line()).expect("a line");
    assert_eq!(next()["snapshot_done"]["count"], 0);
    let (done, question) =
        server.asked(&["--escalate", "--", "echo out"], &["decline", "--text", "no\u{1b}c"]);
    assert!(done.code == 125 && !done.stderr.contains('\u{1b}'), "{done:?}");
    let id = &question["approval_id"];
    let (asked, answered) = (next(), next());
    assert_eq!((&asked["approval"]["approval_id"], &answered["approval"]["approval_id"]), (id, id));
    assert_eq!(answered["approval"]["state"], "APPROVAL_STATE_DECLINED");

    let mut command = server.place.command(&["events", "--session", &server.session, "--after", "0"]);
    let mut events = Running::start(command.stdout(Stdio::piped()));
    let id = id.as_str().expect("an id");
    for wanted in [
        format!("approval_requested {id} command: "),
        format!("approval_decided {id} declined by "),
        "start_refused ".to_owned(),
    ] {
        let line = events.line();
        assert!(line.contains(&wanted) && !line.contains('\u{1b}'), "{wanted}: {line:?}");
    }
}

#[test]
fn input_for_a_process_with_other_permissions_is_asked_about_and_says_so() {
    let server = Reviewed::start();
    let session = server.session.as_str();
    let (started, _) = server.asked(&["--escalate", "--detach", "--tty", "--", "cat"], &["approve"]);
    let process = started.ok().trim();
    assert!(started.stderr.contains("waiting for approval apr_"), "{started:?}");
    std::thread::scope(|scope| {
        let write = scope.spawn(|| server.uexec(&["write", "--session", session, process, "typed\u{7}"]));
        let id = server.waits();
        let answered = server.uexec(&["approvals", "approve", &id]);
        assert!(
            answered.ok().contains("approved") && answered.stderr.contains(r"typed\u{7}\n"),
            "{answered:?}"
        );
        let done = write.join().expect("written");
        assert!(done.ok().contains("typed"), "{done:?}");
        let how = format!("(uexec approvals approve {id})");
        assert!(done.stderr.contains("waiting for approval") && done.stderr.contains(&how), "{done:?}");
    });
    std::thread::scope(|scope| {
        let write = scope.spawn(|| server.uexec(&["write", "--session", session, process, "no", "--json"]));
        let id = server.waits();
        server.uexec(&["approvals", "decline", &id, "--json"]).ok();
        let done = write.join().expect("answered");
        assert_eq!(
            (done.code, &done.lines()[0]["approval_pending"]["approval_id"]),
            (125, &id.into()),
            "{done:?}"
        );
    });
}

#[test]
fn ctrl_c_withdraws_the_question_of_a_command_that_has_not_started() {
    let server = Reviewed::start();
    let mut command =
        server.place.command(&["exec", "--session", &server.session, "--escalate", "--", "echo out"]);
    let running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let id = server.waits();
    running.signal(Signal::INT);
    let done = running.end();
    assert_eq!((done.code, done.text()), (130, ""), "{done:?}");
    eventually("nothing is open", || server.open_question().is_none());
    let late = server.uexec(&["approvals", "approve", &id]);
    assert!(late.code == 125 && late.stderr.contains("it is withdrawn already"), "{late:?}");
}
