//! The runner itself: it passes what is right, fails what is wrong, and says where a file is wrong.

use std::fs;
use std::path::{Path, PathBuf};

use sim::{Scenario, Tier, explain, judge, play};

const SMALL: &str = r#"
format = 1
title  = "small"
[program."p"]
acts = [{ at = 20, out = "hi" }, { at = 30, exit = 0 }]
[[when]]
at = 0
op = "exec"
call = "a"
cmd = "p"
[expect]
order  = "subsequence"
events = [{ t = 20, e = "a output to=2" }, { t = 30, e = "a answer end=exited" }]
never  = ["a spawn_failed"]
quiet  = [{ from = "a output", to = "a answer", no = "a process_exited" }]
at_end = { live = 0, children = 0, waiting = 0 }
"#;

fn scenarios() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    files.into_iter().filter_map(|file| fs::read_to_string(&file).ok().map(|text| (file, text))).collect()
}

/// What is wrong with `text`: why it cannot be used, or what came otherwise than expected.
fn verdict(text: &str) -> Result<(), String> {
    let scenario = Scenario::parse(Path::new("file.toml"), text).map_err(|error| error.to_string())?;
    let verdict = judge(&scenario, &play(&scenario, Tier::Core));
    if verdict.passed() {
        Ok(())
    } else {
        Err(format!("{}\n{}", verdict.failures.join("\n"), verdict.comparison))
    }
}

/// Asserts that `text` with `from` replaced by `to` is refused with all of `words`.
fn refuses(text: &str, from: &str, to: &str, words: &[&str]) {
    assert!(text.contains(from), "{from}");
    let problem = verdict(&text.replacen(from, to, 1)).expect_err(to);
    for word in words {
        assert!(problem.contains(word), "{to:?} gave {problem:?}, which lacks {word:?}");
    }
}

#[test]
fn every_scenario_passes() {
    let scenarios = scenarios();
    assert!(scenarios.len() >= 12);
    for (file, text) in scenarios {
        assert_eq!(verdict(&text), Ok(()), "{}", file.display());
    }
}

#[test]
fn the_example_of_the_docs_passes() {
    let docs = include_str!("../../docs/simulation.md");
    let example = docs.split_once("```toml\n").and_then(|(_, rest)| rest.split_once("```")).unwrap().0;
    assert_eq!(verdict(example), Ok(()));
}

#[test]
fn every_scenario_notices_an_event_that_is_late_missing_or_new() {
    for (file, text) in scenarios() {
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("  { t = ")).collect();
        assert!(!rows.is_empty(), "{}", file.display());
        for row in &rows {
            let late = row.replacen("t = ", "t = 9", 1);
            assert!(verdict(&text.replacen(row, &late, 1)).is_err(), "{}: {late}", file.display());
            let twice = format!("{row}\n{row}");
            assert!(verdict(&text.replacen(row, &twice, 1)).is_err(), "{}: {twice}", file.display());
            let exact = !text.contains("subsequence");
            assert!(!exact || verdict(&text.replacen(row, "", 1)).is_err(), "{}: no {row}", file.display());
        }
    }
}

#[test]
fn every_kind_of_expectation_can_fail() {
    assert_eq!(verdict(SMALL), Ok(()));
    refuses(SMALL, "{ t = 20", "{ t = 21", &["missing: 21  a output to=2"]);
    refuses(SMALL, "to=2", "to=3", &["missing"]);
    refuses(SMALL, "\"subsequence\"", "\"exact\"", &["lines differ", "+       0  a attempt_started n=1"]);
    refuses(SMALL, "a spawn_failed", "* output", &["never \"* output\", but:      20  a output"]);
    refuses(
        SMALL,
        "from = \"a output\", to = \"a answer\"",
        "from = \"a attempt_started\", to = \"a outputs_closed\"",
        &["quiet from \"a attempt_started\" to \"a outputs_closed\", but:      30  a process_exited"],
    );
    let counted = SMALL.replacen("[expect]\n", "[expect]\nspawns = 1\nquestions = 0\n", 1);
    assert_eq!(verdict(&counted), Ok(()));
    refuses(&counted, "spawns = 1", "spawns = 2", &["spawns = 1, expected 2"]);
    refuses(&counted, "questions = 0", "questions = 1", &["questions = 0, expected 1"]);
    refuses(SMALL, "at_end = {", "at_end = { questions = 1,", &["at_end: questions = 0, expected 1"]);
    refuses(SMALL, "live = 0", "live = 1", &["at_end: live = 0, expected 1"]);
    refuses(SMALL, "children = 0", "children = 2", &["at_end: children = 0, expected 2"]);
    refuses(SMALL, "waiting = 0", "waiting = 1", &["at_end: waiting = 0, expected 1"]);
    refuses(SMALL, "at = 0\n", "on = \"b output\"\n", &["step 1: b output never came"]);
}

#[test]
fn what_is_wrong_in_a_file_is_named_with_its_line_and_field() {
    let cases = [
        ("cmd = \"p\"", "cmdd = \"p\"", "file.toml:10: unknown field `cmdd`"),
        ("at = 20, out", "at = 20, uot", "file.toml:5: unknown field `uot`"),
        ("at = 20, out = \"hi\"", "at = 20", "file.toml:5: act of program \"p\": needs exactly one of out"),
        ("at = 30, exit", "at = 10, exit", "file.toml:5: act of program \"p\": `at`: 10 comes after 20"),
        ("out = \"hi\"", "ignore = \"TRM\"", "`ignore`: no signal is called \"TRM\""),
        ("format = 1", "format = 2", "file.toml:2: `format`"),
        ("op = \"exec\"", "op = \"exce\"", "file.toml:8: unknown variant `exce`"),
        ("cmd = \"p\"", "cmd = \"q\"", "file.toml:6: `cmd`: no [program.\"q\"]"),
        ("cmd = \"p\"", "cmd = \"p\"\nto = \"a\"", "file.toml:6: Exec takes no `to`"),
        ("call = \"a\"\n", "", "file.toml:6: Exec needs `call`"),
        ("at = 0\n", "", "file.toml:6: needs either `at` or `on`"),
        ("at = 0\n", "at = \"0\"\n", "file.toml:7: invalid type: string \"0\""),
        ("a output to=2", "a outptu to=2", "file.toml:13: `expect.events`: no event is called \"outptu\""),
        ("a spawn_failed", "a", "file.toml:14: `expect.never`: a pattern is"),
        ("live = 0", "lives = 0", "file.toml:16: unknown field `lives`"),
        ("title  =", "service = { policy = \"nevr\" }\ntitle  =", "file.toml:3: unknown variant `nevr`"),
        ("title  =", "rules = { ls = \"alow\" }\ntitle  =", "file.toml:3: unknown variant `alow`"),
        ("acts =", "sandboxed = [{ at = 0, eof = true }]\nacts =", "`acts` goes without `sandboxed`"),
        ("out = \"hi\"", "connect = \"host\"", "`connect`: \"host\" is not `host:port`"),
        (
            "[expect]",
            "[[when]]\nat = 1\nop = \"decide\"\nverdict = \"approve\"\n[expect]",
            "either `to` or `question`",
        ),
        ("cmd = \"p\"", "cmd = \"p\"\nescalate = true\nadditional = {}", "a command asks for one of them"),
    ];
    for (from, to, words) in cases {
        refuses(SMALL, from, to, &[words]);
    }
}

/// The lines of a walk that begin with one of `names`.
fn walk(args: &[&str], names: &[&str]) -> Vec<String> {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let page = explain(&args).expect("it can be explained");
    let lines = page.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn explain_names_the_gate_that_stops_and_the_row_of_the_table() {
    let row = |args: &[&str]| walk(args, &["row"]).concat();
    let never = ["npm install", "--policy", "never", "--deny-read"];
    assert_eq!(
        walk(&never, &["requirement", "G", "row"]),
        [
            "requirement skip: nobody is asked",
            "G1 tool passes",
            "G2 policy STOPS: the policy wants no retries",
            "row Never: surface"
        ]
    );
    let with = |policy, more: &[&str]| row(&[&["npm install", "--policy", policy], more].concat());
    assert_eq!(with("on_request", &[]), "row OnRequest: surface");
    assert_eq!(
        with("unless_trusted", &[]),
        "row UnlessTrusted, first attempt approved: retry unsandboxed, silently"
    );
    assert_eq!(
        with("granular", &[]),
        "row Granular, sandbox_approval on, first attempt not approved: ask, then retry unsandboxed"
    );
    let surfaced = "row any, with deny-read or owner network policy: surface";
    assert_eq!(with("unless_trusted", &["--deny-read", "/x"]), surfaced);
    assert_eq!(with("unless_trusted", &["--owner-network"]), surfaced);
    assert!(with("granular", &["--strict-review"]).ends_with("fresh review, then retry"));
    assert_eq!(with("unless_trusted", &["--rule", "npm=allow"]), "row no sandbox, so no denial path");
    assert!(with("never", &["--sandbox", "external"]).ends_with("so no denial path"));
    let dangerous = walk(&["ls && rm -rf x", "--policy", "never"], &["requirement", "row"]).concat();
    assert!(dangerous.starts_with("requirement forbidden (danger)") && !dangerous.contains("row"));
}

#[test]
fn explain_names_the_option_that_it_does_not_understand() {
    let problem = |args: &[&str]| {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        explain(&args).expect_err("it cannot be explained").to_string()
    };
    assert!(problem(&["ls", "--policy", "nevr"]).starts_with("--policy: unknown variant `nevr`"));
    assert!(problem(&["ls", "--deny-raed"]).starts_with("--deny-raed: unknown field"));
    assert!(problem(&["ls", "--rule", "ls"]).starts_with("--rule: needs words"));
    assert!(problem(&[]).contains("needs a command") && problem(&["--tty"]).contains("needs a command"));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "two runs in two processes, and the exit codes, are the point")]
fn two_processes_print_the_same_bytes_and_exit_by_the_verdict() {
    let sim =
        |args: &[&str]| std::process::Command::new(env!("CARGO_BIN_EXE_sim")).args(args).output().unwrap();
    for (file, _) in scenarios() {
        let file = file.to_str().unwrap();
        let (one, two) = (sim(&["replay", file]), sim(&["replay", file]));
        assert!(one.status.success() && !one.stdout.is_empty(), "{file}");
        assert_eq!(one.stdout, two.stdout, "{file}");
        assert!(sim(&["run", file]).status.success(), "{file}");
    }
    let wrong = std::env::temp_dir().join(format!("sim-{}.toml", std::process::id()));
    fs::write(&wrong, SMALL.replacen("{ t = 20", "{ t = 21", 1)).unwrap();
    let out = sim(&["run", wrong.to_str().unwrap()]);
    fs::remove_file(&wrong).unwrap();
    assert_eq!(out.status.code(), Some(1));
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("FAIL") && text.contains("0 passed, 1 failed"), "{text}");
    assert_eq!(sim(&["run"]).status.code(), Some(2));
    assert_eq!(sim(&["run", "/nowhere.toml"]).status.code(), Some(1));
}
