//! `uexec doctor`, which needs no server.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::harness::{Done, Place};

fn finding(done: &Done, name: &str) -> Value {
    let report = done.json();
    let findings = report["findings"].as_array().expect("a list");
    findings.iter().find(|one| one["name"] == name).cloned().expect(name)
}

#[test]
fn it_tells_what_can_be_enforced_and_has_tried_it() {
    let place = Place::new();
    let done = place.uexec(&["doctor", "--json"]);
    assert_eq!(done.code, 0, "this machine has what the tests need: {done:?}");
    for name in
        ["configuration", "runtime", "rules", "kernel", "user", "shells", "seccomp", "cgroups", "limits"]
    {
        assert!(
            finding(&done, name)["detail"].as_str().is_some_and(|says| !says.is_empty()),
            "{name}: {done:?}"
        );
    }
    assert_eq!(finding(&done, "bubblewrap")["state"], "ok");
    let tried = finding(&done, "default");
    let says = tried["detail"].as_str().expect("words");
    assert!(says.contains("workspace-write") && says.contains("bubblewrap seccomp"), "{says}");
    assert!(!place.runtime_dir().exists(), "nothing was made");
    let text = place.uexec(&["doctor"]);
    assert!(text.ok().contains("ok  bubblewrap ") && !text.text().contains("!!"), "{text:?}");
}

#[test]
fn what_keeps_a_server_from_starting_is_named_with_the_way_out() {
    let place = Place::new();
    let file = |name: &str, text: &str| {
        let path = place.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let wrong = file("wrong.toml", "[limits]\npoll_max_ms = 3\n");
    let done = place.uexec(&["doctor", "--config", &wrong, "--json"]);
    let found = finding(&done, "configuration");
    assert!(done.code == 1 && found["state"] == "broken", "{done:?}");
    assert!(found["detail"].as_str().is_some_and(|says| says.contains("wrong.toml:2:")), "{found}");
    assert_eq!(done.json()["ok"], false);

    let rules = file("rules.toml", "[[prefix]]\npattern = 3\n");
    let rules = file("rules-config.toml", &format!("[rules]\nsystem = [\"{rules}\"]\n"));
    let done = place.uexec(&["doctor", "--config", &rules]);
    assert!(done.code == 1 && done.text().contains("!!  rules"), "{done:?}");
    assert!(done.text().contains("rules.toml:2"), "{done:?}");

    let shell = file("shell.toml", "[session]\nshell = \"/no/such/shell\"\n");
    let done = place.uexec(&["doctor", "--config", &shell]);
    assert!(
        done.code == 1 && done.text().contains("!!  default") && done.text().contains("hint: "),
        "{done:?}"
    );

    fs::create_dir(place.runtime_dir()).expect("made");
    fs::set_permissions(place.runtime_dir(), fs::Permissions::from_mode(0o755)).expect("changed");
    let done = place.uexec(&["doctor"]);
    assert!(
        done.code == 1 && done.text().contains("!!  runtime") && done.text().contains("0755"),
        "{done:?}"
    );
}
