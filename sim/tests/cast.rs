//! `sim cast`: the terminal of a scenario as an asciicast.

use std::path::Path;

use serde_json::Value;
use sim::{Scenario, cast};

const SCENARIO: &str = r#"
format = 1
title  = "a bar is drawn in two halves of a character"

[service]
policy = "on_request"
sandbox = "workspace_write"
network = "off"

[program."draw"]
acts = [
  { at = 100, out_b64 = "4pY=" },
  { at = 250, out_b64 = "iA==" },
  { at = 300, out = "\u001b[2J" },
  { at = 400, exit = 3 },
]

[[when]]
at = 0
op = "exec"
call = "a"
cmd = "draw"
tty = true

[expect]
order = "subsequence"
"#;

fn scenario(text: &str) -> Scenario {
    Scenario::parse(Path::new("x.toml"), text).expect("it is a scenario")
}

#[test]
fn output_comes_at_its_moment_whole_characters_and_the_code_last() {
    let cast = cast(&scenario(SCENARIO), None).unwrap();
    let lines: Vec<Value> = cast.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["version"], &lines[0]["term"]["cols"]), (&3.into(), &80.into()));
    let events: Vec<String> = lines[1..].iter().map(Value::to_string).collect();
    assert_eq!(events, [r#"[0.25,"o","█"]"#, "[0.05,\"o\",\"\\u001b[2J\"]", r#"[0.1,"x","3"]"#]);
}

#[test]
fn a_call_without_a_terminal_is_refused_with_those_that_have_one() {
    let terminal = scenario(SCENARIO);
    let refusal = cast(&terminal, Some("b")).unwrap_err().to_string();
    assert!(refusal.contains("call \"b\"") && refusal.ends_with("these do: a"), "{refusal}");
    let pipes = scenario(&SCENARIO.replace("tty = true", "tty = false"));
    assert!(cast(&pipes, None).unwrap_err().to_string().contains("tty = true"));
}
