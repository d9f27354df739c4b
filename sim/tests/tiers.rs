//! The tiers that run the product's tasks: every scenario is the same there, by whatever scheduler.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sim::{Scenario, Tier, judge, play, play_all};

/// Tiers whose tasks a scheduler orders.
const TIERS: [Tier; 2] = [Tier::Host, Tier::Wire];
const SEEDS: u64 = 3;

fn scenarios() -> Vec<(PathBuf, Scenario)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let folders = [folder.clone(), folder.join("wire")];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.is_file());
    files.sort();
    files.into_iter().map(|file| (file.clone(), Scenario::load(&file).unwrap())).collect()
}

fn parse(text: &str) -> Scenario {
    Scenario::parse(Path::new("file.toml"), text).unwrap()
}

#[test]
fn every_scenario_passes_by_every_scheduler() {
    for (file, scenario) in scenarios() {
        for tier in TIERS.into_iter().filter(|tier| scenario.plays_on(*tier)) {
            let (run, race) = play_all(&scenario, tier, SEEDS);
            let verdict = judge(&scenario, &run);
            let file = file.display();
            assert!(race.is_none(), "{tier} {file}: {}", race.unwrap());
            assert!(verdict.passed(), "{tier} {file}: {:?}\n{}", verdict.failures, verdict.comparison);
        }
    }
}

const TWO_AT_ONCE: &str = r#"
format = 1
title  = "two programs end at one instant"
[program."p"]
acts = [{ at = 20, out = "hi" }, { at = 20, exit = 0 }]
[[when]]
at = 0
op = "exec"
call = "a"
cmd = "p"
[[when]]
at = 0
op = "exec"
call = "b"
cmd = "p"
[expect]
events = [
  { t = 0,  e = "* attempt_started" },
  { t = 0,  e = "* process_started" },
  { t = 0,  e = "a attempt_started" },
  { t = 0,  e = "b process_started" },
  { t = 20, e = "b answer end=exited" },
  { t = 20, e = "b process_exited" },
  { t = 20, e = "b outputs_closed" },
  { t = 20, e = "b output" },
  { t = 20, e = "a output" },
  { t = 20, e = "a answer end=exited" },
  { t = 20, e = "a outputs_closed" },
  { t = 20, e = "a process_exited" },
]
quiet = [{ from = "a attempt_started", to = "a answer", no = "a output" }]
"#;

/// Tasks make the order inside a millisecond, so that it says nothing; every line must be there all the same.
#[test]
fn order_inside_a_millisecond_is_not_judged_and_everything_else_is() {
    let passes = |text: &str, tier| {
        let scenario = parse(text);
        judge(&scenario, &play(&scenario, tier)).passed()
    };
    assert!(!passes(TWO_AT_ONCE, Tier::Core), "L0 has an order");
    for tier in TIERS {
        assert!(passes(TWO_AT_ONCE, tier), "{tier}");
        for (right, wrong) in [
            ("{ t = 20, e = \"a output\" },", ""),
            ("{ t = 20, e = \"a output\" },", "{ t = 19, e = \"a output\" },"),
            ("{ t = 20, e = \"a output\" },", "{ t = 20, e = \"a output from=1\" },"),
            (
                "no = \"a output\"",
                "no = \"* output\" }, { from = \"a attempt_started\", to = \"a never\", no = \"* output\"",
            ),
        ] {
            let text = TWO_AT_ONCE.replacen(right, wrong, 1);
            assert_ne!(text, TWO_AT_ONCE);
            assert!(
                !Scenario::parse(Path::new("file.toml"), &text)
                    .is_ok_and(|scenario| { judge(&scenario, &play(&scenario, tier)).passed() }),
                "{tier} {wrong:?}"
            );
        }
        let subsequence = TWO_AT_ONCE.replacen("[expect]", "[expect]\norder = \"subsequence\"", 1);
        assert!(passes(&subsequence, tier), "{tier}");
        assert!(!passes(
            &subsequence.replacen("{ t = 20, e = \"b output\" }", "{ t = 0, e = \"b output\" }", 1),
            tier
        ));
    }
}

/// The same seed in two processes gives the same bytes, whatever else differs between processes.
#[test]
fn two_processes_print_the_same_bytes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    for tier in TIERS {
        for name in ["large_write", "denial_at_150", "two_connections_to_one_place_are_one_question"] {
            let print = || {
                #[expect(clippy::disallowed_methods, reason = "the program itself is under test")]
                let mut command = Command::new(env!("CARGO_BIN_EXE_sim"));
                let file = folder.join(format!("{name}.toml"));
                command.args(["replay", "--tier", tier.name(), "--scheduler", "7"]).arg(file);
                command.output().unwrap().stdout
            };
            let first = print();
            assert!(!first.is_empty());
            assert_eq!(first, print(), "{tier} {name}");
        }
    }
}

/// A file that names a tier which cannot play it, or needs one that it does not name, says so with its line and field.
#[test]
fn what_a_tier_cannot_play_is_refused() {
    let stalls = "[[when]]\nat = 1\nop = \"stall\"\ncall = \"a\"\n[expect]";
    let silent = "[[when]]\nat = 1\nop = \"disconnect\"\ncall = \"a\"\nhow = \"silent\"\n[expect]";
    let title = "title  = \"two programs end at one instant\"";
    let with = |tiers: &str| TWO_AT_ONCE.replacen(title, &format!("{title}\ntiers = [{tiers}]"), 1);
    for (text, right, wrong, words) in [
        (TWO_AT_ONCE.to_owned(), "[expect]", stalls, "file.toml:16: Stall: L0 has no clients"),
        (TWO_AT_ONCE.to_owned(), "[expect]", silent, "file.toml:16: `how`: without a link nobody is silent"),
        (TWO_AT_ONCE.to_owned(), "[expect]", "[link]\ndelay = 1\n[expect]", "`[link]`: only L2 has one"),
        (with("\"L9\""), "[expect]", "[expect]", "file.toml:4: `tiers`: there is no tier \"L9\""),
        (TWO_AT_ONCE.to_owned(), "[expect]", "[link]\nloss = 1\n[expect]", "unknown field `loss`"),
    ] {
        let text = text.replacen(right, wrong, 1);
        let error = Scenario::parse(Path::new("file.toml"), &text).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let right = with("\"L2\"").replacen("[expect]", silent, 1);
    assert!(!parse(&right).plays_on(Tier::Host));
}
