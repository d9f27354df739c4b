//! The record that a server keeps, as an operator has it: whole, changed, cut off, and in the way of another server.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::Signal;

use crate::harness::{Done, Place, Running, Server, eventually};

fn log(place: &Place) -> PathBuf {
    place.runtime_dir().join("audit/audit-00000001.jsonl")
}

/// The record of a server that ran a few commands and was told to end.
fn recorded() -> Place {
    let server = Server::start();
    for line in ["echo one", "exit 3", "echo three"] {
        server.uexec(&["exec", "--", line]);
    }
    let Server { place, running, .. } = server;
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, 0);
    place
}

fn verified(place: &Place) -> Done {
    place.uexec(&["audit", "verify"])
}

#[test]
fn what_ran_is_recorded_and_nothing_of_what_it_read_or_wrote() {
    let server = Server::start();
    let session = server.uexec(&["sessions", "create"]).ok().trim().to_owned();
    let id = server.detached(&["--tty", "-S", &session, "-e", "TOKEN=kept-out-of-it", "--", "sh"]);
    server.uexec(&["write", "-S", &session, &id, "x=hunter; echo ${x}22"]).ok();
    server.uexec(&["sessions", "close", "-S", &session]).ok();
    let Server { place, running, .. } = server;
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, 0);
    let text = fs::read_to_string(log(&place)).expect("a log");
    for kind in ["attempt_started", "process_started", "stdin_written", "process_exited"] {
        assert!(text.contains(&format!(r#""kind":"{kind}""#)), "{kind}: {text}");
    }
    for secret in ["hunter", "kept-out-of-it"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    assert_eq!(fs::metadata(log(&place)).expect("there").permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_whole_record_says_where_it_ends() {
    let place = recorded();
    let report = place.uexec(&["audit", "verify", "--json"]).json();
    assert_eq!((&report["whole"], &report["lost_records"]), (&true.into(), &0.into()));
    assert_eq!(report["seq"], report["records"]);
    let told = fs::read_to_string(place.runtime_dir().join("audit/head.json")).expect("a head");
    assert!(told.contains(report["hash"].as_str().expect("a hash")), "{told}");
    assert!(verified(&place).ok().contains("whole"));
}

#[test]
fn damage_is_named_with_file_and_line() {
    let place = recorded();
    let text = fs::read_to_string(log(&place)).expect("a log");
    let lines: Vec<&str> = text.lines().collect();
    let without = |taken: usize| {
        lines.iter().enumerate().filter(|(at, _)| *at != taken).map(|(_, line)| format!("{line}\n")).collect()
    };
    let mut swapped = lines.clone();
    swapped.swap(1, 2);
    let cases: [(String, usize, &str); 4] = [
        (text.replacen(r#""kind":"process_started""#, r#""kind":"process_stopped""#, 1), 0, "edited"),
        (without(1), 2, "missing"),
        (swapped.iter().map(|line| format!("{line}\n")).collect(), 2, "reordered"),
        (without(lines.len() - 1), lines.len(), "truncated"),
    ];
    for (changed, line, damage) in cases {
        fs::write(log(&place), changed).expect("written");
        let told = place.uexec(&["audit", "verify", "--json"]);
        assert_eq!((told.code, &told.json()["damage"]), (1, &damage.into()), "{told:?}");
        if line > 0 {
            assert_eq!(told.json()["line"], line, "{told:?}");
        }
        let words = verified(&place);
        let place = format!("{}:{}", log(&place).display(), told.json()["line"]);
        assert!(
            words.code == 1 && words.stderr.contains(&place) && words.stderr.contains(damage),
            "{words:?}"
        );
    }
}

#[test]
fn where_there_is_no_record_the_answer_is_no() {
    let place = Place::new();
    let none = verified(&place);
    assert!(none.code == 1 && none.stderr.contains("hint: "), "{none:?}");
}

#[test]
fn a_server_that_is_killed_goes_on_with_its_record() {
    let server = Server::start();
    server.uexec(&["exec", "--", "true"]);
    eventually("it is recorded", || {
        fs::read_to_string(log(&server.place)).is_ok_and(|text| text.contains("process_exited"))
    });
    let Server { place, running, .. } = server;
    running.signal(Signal::KILL);
    running.end();
    let before = place.uexec(&["audit", "verify", "--json"]).json();
    let mut command = place.command(&["serve", "--allow-full-access", "--log", "warn"]);
    let mut running = Running::start(command.stdout(Stdio::piped()));
    assert!(running.line().starts_with("listening on"));
    place.uexec(&["exec", "--", "true"]).ok();
    running.signal(Signal::TERM);
    running.end();
    let after = place.uexec(&["audit", "verify", "--json"]).json();
    assert!(after["whole"] == true && after["seq"].as_u64() > before["seq"].as_u64(), "{before} {after}");
}

#[test]
fn two_servers_do_not_write_one_record() {
    let first = Server::start();
    let second = Place::new();
    let config = second.path().join("uexec.toml");
    let shared = first.place.runtime_dir().join("audit");
    fs::write(&config, format!("[audit]\ndirectory = {:?}\n", shared.display().to_string()))
        .expect("written");
    let refused = second.uexec(&["serve", "--config", config.to_str().expect("UTF-8")]);
    assert!(refused.code == 125, "{refused:?}");
    assert!(
        refused.stderr.contains("another server") && refused.stderr.contains("audit.directory"),
        "{refused:?}"
    );
}
