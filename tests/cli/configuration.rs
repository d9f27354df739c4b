//! Configuration files, as the binary and the documentation have them; completions.

use std::collections::BTreeSet;
use std::path::Path;

use unified_exec::config::Config;

use crate::harness::Place;

const DOCUMENTED: &str = include_str!("../../docs/configuration.md");

fn keys(table: &toml::Table, prefix: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (key, value) in table {
        let name = format!("{prefix}{key}");
        if let toml::Value::Table(below) = value {
            all.extend(keys(below, &format!("{name}.")));
        }
        all.insert(name);
    }
    all
}

#[test]
fn the_documented_example_is_right_and_complete() {
    for example in DOCUMENTED.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        Config::parse(Path::new("docs/configuration.md"), example).expect("valid");
    }
    let example =
        DOCUMENTED.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let config = Config::parse(Path::new("docs/configuration.md"), example).expect("valid");
    let written: toml::Table = toml::from_str(example).expect("TOML");
    let known: toml::Table = toml::from_str(&config.to_toml().expect("shown")).expect("TOML");
    assert_eq!(keys(&written, ""), keys(&known, ""));
}

#[test]
fn the_documented_defaults_are_the_defaults() {
    let example =
        DOCUMENTED.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let mut config = Config::parse(Path::new("docs/configuration.md"), example).expect("valid");
    let default = Config::default();
    config.listen = default.listen.clone();
    (config.rights.agent, config.reviewer) = (None, None);
    (config.rules.system, config.rules.user) = (None, None);
    config.environment.set.clear();
    config.audit.directory = None;
    (config.telemetry.otlp_endpoint, config.telemetry.prometheus) = (None, None);
    (config.session.cwd, config.session.shell) = (None, None);
    assert_eq!(config, default);
}

#[test]
fn complaints_name_file_line_and_key() {
    let place = Place::new();
    for (text, words) in [
        ("[limits]\npoll_max_ms = 3\n", "bad.toml:2:15: limits.poll_max_ms: 3 is outside 5000..=300000"),
        ("[limits]\n\npoll = 3\n", "bad.toml:3:1: limits.poll: unknown field"),
        ("[server]\nworker_threads = \"two\"\n", "bad.toml:2:18: server.worker_threads: invalid type"),
        ("nonsense\n", "bad.toml:1:"),
    ] {
        std::fs::write(place.path().join("bad.toml"), text).expect("written");
        for command in [
            &["config", "check", "bad.toml"][..],
            &["serve", "--config", "bad.toml"],
            &["config", "show", "--config", "bad.toml"],
        ] {
            let done = place.uexec(command);
            assert!(done.code == 2 && done.stderr.contains(words), "{command:?} {done:?}");
        }
    }
    let missing = place.uexec(&["config", "check", "none.toml"]);
    assert!(missing.code == 2 && missing.stderr.contains("none.toml: No such file"), "{missing:?}");
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let place = Place::new();
    std::fs::write(
        place.path().join("file.toml"),
        "[listen]\ntcp = \"127.0.0.1:1\"\n[logging]\nfilter = \"debug\"\n",
    )
    .expect("written");
    let show = |args: &[&str], env: &[(&str, &str)]| {
        let mut command =
            place.command(&[&["config", "show", "--json", "--config", "file.toml"], args].concat());
        crate::harness::finish(command.envs(env.iter().copied()), b"").json()
    };
    assert_eq!(show(&[], &[])["listen"]["tcp"], "127.0.0.1:1");
    assert_eq!(show(&[], &[("UEXEC_LISTEN", "127.0.0.1:2")])["listen"]["tcp"], "127.0.0.1:2");
    let shown = show(&["--listen", "127.0.0.1:3", "--allow-full-access"], &[("UEXEC_LISTEN", "127.0.0.1:2")]);
    assert_eq!(shown["listen"]["tcp"], "127.0.0.1:3");
    assert_eq!(shown["rights"]["default"]["profile"], "full_access");
    assert_eq!(shown["logging"]["filter"], "debug");
    let shown = place.uexec(&["config", "show"]);
    std::fs::write(place.path().join("shown.toml"), shown.ok()).expect("written");
    assert_eq!(place.uexec(&["config", "check", "shown.toml"]).ok(), "");
}

#[test]
fn completions_are_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.uexec(&["completions", shell]);
        assert!(script.ok().contains("capabilities") && script.text().contains("detach-keys"), "{shell}");
    }
    assert_eq!(place.uexec(&["completions", "cmd"]).code, 2);
}

#[test]
fn help_is_help_and_not_an_error() {
    let place = Place::new();
    for args in [&["--help"][..], &["exec", "--help"], &["--version"], &["attach", "-h"]] {
        assert!(!place.uexec(args).ok().is_empty());
    }
}
