//! The swarm's commands: what holds exits with 0, what does not with 1, and is written as a file that replays.

use std::fs;
use std::process::{Command, Output};

#[expect(clippy::disallowed_methods, reason = "the commands and their exit codes are the point")]
fn sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sim")).args(args).output().expect("it runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_campaign_of_the_first_seeds_is_green() {
    let out = sim(&["swarm", "--count", "300", "--jobs", "2"]);
    assert!(out.status.success(), "{}", text(&out));
    assert!(text(&out).starts_with("L0: 300 scenarios in "), "{}", text(&out));
}

#[test]
fn the_canary_is_red_is_shrunk_and_is_reproduced_by_its_line() {
    let folder = std::env::temp_dir().join(format!("sim-canary-{}", std::process::id()));
    let out = sim(&["swarm", "--count", "300", "--canary", "--out", folder.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out));
    let printed = text(&out);
    assert!(printed.contains("FAIL canary:"), "{printed}");
    let seed = printed.split("-- replay ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!(text(&sim(&["replay", seed, "--tier", "L0"])).contains("process_exited code=2"), "{printed}");
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    fs::remove_dir_all(&folder).unwrap_or_default();
    assert_eq!(files.len(), 1);
    assert!(files[0].file_name().unwrap().to_str().unwrap().starts_with("canary-"), "{files:?}");
}

#[test]
fn two_processes_play_the_same_seeds_to_the_same_bytes() {
    let out = sim(&["meta", "--count", "100"]);
    assert!(out.status.success(), "{}", text(&out));
    assert_eq!(text(&out), "L0: 100 seeds in two processes, no byte differs\n");
}

#[test]
fn there_is_nothing_to_shrink_in_what_holds() {
    let out = sim(&["shrink", "1"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("does not fail any property"));
}
