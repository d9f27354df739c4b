//! Each lint fires where it should, with file, line and field, and nowhere in the scenarios that are there.

use std::fs;
use std::path::{Path, PathBuf};

use sim::lint;

const GOOD: &str = r#"format = 1
title  = "a good one says hi"
tags   = ["good"]
[rules]
"say" = "allow"
[program."say hi"]
acts = [
  { at = 20, out = "hi" },
  { at = 30, exit = 0 },
]
[[when]]
at = 0
op = "exec"
call = "a"
cmd = "say hi"
yield = 1000
[[when]]
on = "a output"
op = "interrupt"
turn = "other"
call = "i"
[expect]
order = "subsequence"
events = [
  { t = 20, e = "i answer waits=0" },
  { t = 30, e = "a answer end=exited" },
]
never = ["a spawn_failed"]
quiet = [{ from = "a output", to = "a answer", no = "a process_exited" }]
"#;

fn findings(files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<(PathBuf, String)> =
        files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
    lint(&files).iter().map(ToString::to_string).collect()
}

/// Asserts that with `from` replaced by `to`, this is found and nothing else.
fn finds(from: &str, to: &str, expected: &str) {
    assert!(GOOD.contains(from), "{from}");
    let found = findings(&[("good_one.toml", &GOOD.replacen(from, to, 1))]);
    assert!(found.len() == 1 && found[0].starts_with(expected), "{to:?}: {found:#?}, expected {expected}");
}

#[test]
fn nothing_is_wrong_with_a_good_one() {
    assert_eq!(findings(&[("good_one.toml", GOOD)]), Vec::<String>::new());
}

#[test]
fn nothing_is_wrong_with_the_scenarios() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.is_file());
    let files: Vec<(PathBuf, String)> =
        files.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect();
    assert!(files.len() >= 140);
    let found: Vec<String> = lint(&files).iter().map(ToString::to_string).collect();
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_file_that_cannot_be_used_is_a_finding() {
    finds("order =", "odrer =", "good_one.toml:23: unknown field `odrer`");
    finds("title ", "titel ", "good_one.toml:2: unknown field `titel`");
}

#[test]
fn titles_tags_and_names() {
    finds("\"a good one says hi\"", "\"\"", "good_one.toml:2: `title`: is empty");
    let long = format!("\"a good one {}\"", "x".repeat(130));
    finds("\"a good one says hi\"", &long, "good_one.toml:2: `title`: is longer than 130 letters");
    finds("says hi\"", "says hi.\"", "good_one.toml:2: `title`: ends with a full stop");
    finds("a good one", "another", "good_one.toml:2: `file`: \"good_one\" and the title \"another says hi\"");
    finds("tags   = [\"good\"]\n", "", "good_one.toml:1: `tags`: there are none");
    finds("[\"good\"]", "[\"So Good\"]", "good_one.toml:3: `tags`: \"So Good\": tags are lower case");
    finds("[\"good\"]", "[\"good\", \"good\"]", "good_one.toml:3: `tags`: \"good\" stands there twice");
    let found = findings(&[("GoodOne.toml", GOOD)]);
    assert_eq!(found, ["GoodOne.toml:1: `file`: \"GoodOne\": names are lower case, words joined by `_`"]);
    assert_eq!(findings(&[("sim/scenarios/regress/once-1f2e.toml", GOOD)]), Vec::<String>::new());
    let found = findings(&[("good.toml", GOOD), ("good_one.toml", &GOOD.replacen("a good", "A good", 1))]);
    assert_eq!(found, ["good_one.toml:2: `title`: good.toml has the same; say what is different"]);
}

#[test]
fn what_nothing_uses() {
    finds(
        "[[when]]",
        "[program.\"idle\"]\nacts = []\n[[when]]",
        "good_one.toml:11: `program.\"idle\"`: no step runs it",
    );
    finds(
        "\"say\" =",
        "\"tell\" =",
        "good_one.toml:5: `rules.\"tell\"`: no command of this file begins with it",
    );
    finds("i answer", "- answer", "good_one.toml:17: `when.call`: nothing is expected of \"i\"");
}

#[test]
fn steps_that_never_come() {
    finds(
        "on = \"a output\"",
        "on = \"a output to=7\"",
        "good_one.toml:17: `when.on`: `a output to=7` never comes",
    );
    let ends = "[[when]]\nat = 90000\nop = \"clean\"\n[expect]";
    let text = GOOD.replacen("format = 1", "format = 1\nrun_to = 50", 1);
    let found = findings(&[("good_one.toml", &text.replacen("[expect]", ends, 1))]);
    assert_eq!(found, ["good_one.toml:23: `when.at`: the run is over at 50 ms, before this step"]);
    let found = findings(&[(
        "good_one.toml",
        &text.replacen("on = \"a output\"", "on = \"a output\"\ndelay = 40", 1),
    )]);
    assert_eq!(found, ["good_one.toml:18: `when.delay`: the run is over when it is due, at 50 ms"]);
    // What may find nothing is no mistake in a loose scenario.
    let loose = GOOD.replacen("format = 1", "format = 1\nloose = true", 1);
    assert_eq!(
        findings(&[("good_one.toml", &loose.replacen("a output\"", "a output to=7\"", 1))]),
        Vec::<String>::new()
    );
}

#[test]
fn patterns_that_can_match_nothing() {
    let never = |pattern: &str, expected: &str| {
        let expected = format!("good_one.toml:28: `expect.never`: `{pattern}` can match nothing: {expected}");
        finds("a spawn_failed", pattern, &expected);
    };
    never("b output", "no call is named \"b\"");
    never("i output", "output is about a process, and \"i\" starts none");
    never("- output", "output is about a process: its `who` is the call that started it");
    never("a cleaned", "cleaned is about the session: its `who` is `-`");
    never("a output size=3", "output has no key \"size\"; it has n, from, to");
    never("* answer end=exit", "`end` of answer is one of exited, yielded");
    never("a output to=x", "`to` of output is a number, never \"x\"");
    never("a process_started one_shot=no", "`one_shot` of process_started is true or false, never \"no\"");
    never("a answer stdin=3", "`stdin` of answer is `from..to`, never \"3\"");
    finds(
        "no = \"a process_exited\"",
        "no = \"a process_exited early=1\"",
        "good_one.toml:29: `expect.quiet.no`: `a process_exited early=1` can match nothing: `early`",
    );
}

#[test]
fn expectations_that_say_less_than_they_seem_to() {
    finds(
        "from = \"a output\", to = \"a answer\"",
        "from = \"a answer\", to = \"a output\"",
        "good_one.toml:29: `expect.quiet`: `a output` comes before `a answer`",
    );
    let start = GOOD.find("events = [").unwrap();
    let bare = format!("{}\nat_end = {{ live = 0 }}\n", &GOOD[..start]);
    let found = findings(&[("good_one.toml", &bare)]);
    assert!(found.iter().any(|found| found.contains("`expect`: nothing is expected")), "{found:#?}");
    let all = [
        "a attempt_started",
        "a process_started",
        "a output",
        "- interrupted",
        "i answer",
        "a answer",
        "a process_exited",
        "a outputs_closed",
    ];
    let rows: Vec<String> = all.iter().map(|event| format!("{{ e = \"{event}\" }}")).collect();
    let from = "  { t = 20, e = \"i answer waits=0\" },\n  { t = 30, e = \"a answer end=exited\" },";
    finds(from, &rows.join(", "), "good_one.toml:23: `expect.order`: these are all lines of the run");
}

#[test]
fn times_that_would_be_chance_in_real_time() {
    let real = GOOD.replacen("[\"good\"]", "[\"good\", \"real\"]", 1);
    assert_eq!(findings(&[("good_one.toml", &real)]), Vec::<String>::new());
    let at = |from: &str, to: &str| findings(&[("good_one.toml", &real.replacen(from, to, 1))]);
    for (exit, fine) in [(74, true), (75, false), (150, false), (400, false), (401, true)] {
        let found = at("at = 30, exit", &format!("at = {exit}, exit"));
        assert_eq!(found.is_empty(), fine, "{exit}: {found:#?}");
        assert!(fine || found[0].starts_with("good_one.toml:9: `program.acts`: at "), "{found:#?}");
    }
    for (exit, fine) in [(900, true), (901, false), (1000, false), (1099, false), (1100, true)] {
        let found = at("at = 30, exit", &format!("at = {exit}, exit"));
        assert_eq!(found.is_empty(), fine, "{exit}: {found:#?}");
        assert!(fine || found[0].contains("either side of the yield deadline at 1000"), "{found:#?}");
    }
    // Without the tag, nothing runs in real time.
    let fake = GOOD.replacen("at = 30, exit", "at = 150, exit", 1);
    assert_eq!(findings(&[("good_one.toml", &fake)]), Vec::<String>::new());
}
