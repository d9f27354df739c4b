//! Real children are held to the fake, and recordings of true programs are replayed on it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test of real processes"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sim::Scenario;
use sim::conform::replay;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sim")).current_dir(root()).args(args).output().unwrap()
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}

fn scenario(name: &str) -> PathBuf {
    fn find(folder: &Path, name: &str) -> Option<PathBuf> {
        std::fs::read_dir(folder).unwrap().find_map(|entry| {
            let path = entry.unwrap().path();
            if path.is_dir() { find(&path, name) } else { path.ends_with(name).then_some(path) }
        })
    }
    find(&root().join("scenarios"), &format!("{name}.toml")).unwrap_or_else(|| panic!("no {name}"))
}

/// Plays `text` as a scenario file.
fn conform_text(text: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("changed.toml");
    std::fs::write(&file, text).unwrap();
    let out = sim(&["conform", "--unfit", file.to_str().unwrap()]);
    (out.status.code(), said(&out))
}

#[test]
fn recordings_of_true_programs_are_replayed_to_the_same_public_transcript() {
    let mut programs = 0;
    for entry in std::fs::read_dir(root().join("recordings")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        programs += 1;
        let recorded = std::fs::read_to_string(path.with_extension("transcript")).unwrap();
        let replayed = replay(&Scenario::load(&path).unwrap());
        assert_eq!(replayed.as_deref(), Ok(recorded.as_str()), "{}", path.display());
    }
    assert!(programs >= 7, "{programs}");
}

#[test]
fn a_recording_that_is_changed_by_a_byte_is_noticed() {
    let path = root().join("recordings/npm.toml");
    let recorded = std::fs::read_to_string(path.with_extension("transcript")).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let changed = text.replacen("out = \"1", "out = \"2", 1);
    assert_ne!(text, changed);
    let replayed = replay(&Scenario::parse(&path, &changed).unwrap()).unwrap();
    assert_ne!(replayed, recorded);
}

#[test]
fn a_true_program_is_recorded_and_the_fake_comes_to_the_same() {
    let out = sim(&["record", "--", "sh", "-c", "printf 'a\\377'; printf b >&2; exit 4"]);
    let text = said(&out);
    assert!(out.status.success(), "{text}");
    for words in ["out_b64 = \"Yf8=\"", "err = \"b\"", "exit = 4"] {
        assert!(text.contains(words), "{text}");
    }
    let out = sim(&["record", "--", "/no/such/program"]);
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    assert!(said(&out).contains("was never started"));
}

#[test]
fn real_children_on_pipes_and_terminals_come_to_what_the_fake_comes_to() {
    let names = [
        "early_denial_unless_trusted",
        "grandchild_holds_pipe",
        "clean_ends_vim_and_its_children",
        "bytes_after_exit",
        "interrupt_vs_clean",
        "one_shot_timeout",
    ];
    let files: Vec<String> = names.iter().map(|name| scenario(name).to_str().unwrap().to_owned()).collect();
    let mut args = vec!["conform"];
    args.extend(files.iter().map(String::as_str));
    let out = sim(&args);
    let text = said(&out);
    assert!(out.status.success(), "{text}");
    for stdio in ["ok      written", "ok      terminal"] {
        assert!(text.contains(stdio), "{text}");
    }
}

#[test]
fn what_is_about_a_millisecond_is_for_the_fake_alone() {
    for name in ["exit_at_150", "denial_at_149", "a_question_expires"] {
        let file = scenario(name);
        let out = sim(&["conform", "--unfit", file.to_str().unwrap()]);
        let text = said(&out);
        assert!(out.status.success() && text.contains("unfit   written"), "{text}");
    }
}

#[test]
fn a_real_child_that_does_otherwise_is_noticed() {
    // A pipe of the kernel does not hold what the fake's holds, to the byte.
    let text = std::fs::read_to_string(scenario("large_write")).unwrap();
    let reason = text.lines().find(|line| line.starts_with("fake_only")).unwrap();
    let (code, said) = conform_text(&text.replace(reason, ""));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("FAIL    written") && said.contains("the fake has"), "{said}");
}

#[test]
fn what_comes_later_than_it_may_is_noticed() {
    let text = std::fs::read_to_string(scenario("yield_and_poll")).unwrap();
    let (code, said) = conform_text(&format!("real_tol = 0\n{text}"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("ms late; `real_tol` is 0"), "{said}");
}

#[test]
fn a_scenario_is_played_on_real_children_and_judged() {
    let file = scenario("early_denial_unless_trusted");
    let out = sim(&["run", "--tier", "L3", file.to_str().unwrap()]);
    assert!(out.status.success(), "{}", said(&out));
    let text = std::fs::read_to_string(&file).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong.toml");
    std::fs::write(&wrong, text.replacen("attempt_denied n=1", "attempt_denied n=2", 1)).unwrap();
    let out = sim(&["run", "--tier", "L3", wrong.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    let vim = root().join("recordings/programs/vim.toml");
    let out = sim(&["run", vim.to_str().unwrap()]);
    assert!(said(&out).contains("is a true one: play it on L3"), "{}", said(&out));
}
