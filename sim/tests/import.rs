//! `sim import`: recorded feeds become scenarios that come to the same, and feeds that cannot be read are said to be so.

use std::path::PathBuf;

use sim::{Tier, import, judge, play};

fn feed(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recordings/feeds").join(name);
    std::fs::read_to_string(path).expect("a recorded feed")
}

/// The lines of a feed without those that `leave_out` names, numbered anew.
fn without(feed: &str, leave_out: &str) -> String {
    let mut kept = String::new();
    let lines = feed.lines().filter(|line| !line.contains(leave_out));
    for (at, line) in lines.enumerate() {
        let mut item: serde_json::Value = serde_json::from_str(line).expect("an item");
        item["event"]["sequence"] = (at + 1).into();
        kept += &format!("{item}\n");
    }
    assert_ne!(kept.lines().count(), feed.lines().count());
    kept
}

#[test]
fn a_feed_of_the_real_service_becomes_a_scenario_that_comes_to_the_same() {
    for name in ["ran_typed_cleaned.jsonl", "denied_approved_declined.jsonl"] {
        let imported = import(&feed(name), name).unwrap();
        assert_eq!(imported.differences, Vec::<String>::new(), "{name}");
        let read = sim::Scenario::parse(std::path::Path::new(name), &imported.scenario.to_string()).unwrap();
        for tier in [Tier::Core, Tier::Host] {
            assert_eq!(judge(&read, &play(&read, tier)).failures, Vec::<String>::new(), "{name} on {tier}");
        }
    }
}

#[test]
fn the_policy_is_the_one_that_explains_the_feed() {
    let scenario = import(&feed("denied_approved_declined.jsonl"), "x").unwrap().scenario.to_string();
    assert!(scenario.contains("policy = \"unless_trusted\""), "{scenario}");
    assert!(scenario.contains("verdict = \"decline\""), "{scenario}");
}

#[test]
fn what_the_service_would_not_do_is_said() {
    let never_denied = without(&feed("denied_approved_declined.jsonl"), "\"attempt_denied\"");
    let imported = import(&never_denied, "x").unwrap();
    assert!(!imported.differences.is_empty());
}

#[test]
fn a_feed_that_cannot_be_read_is_refused_by_line_and_field() {
    let whole = feed("ran_typed_cleaned.jsonl");
    let mut lines: Vec<&str> = whole.lines().collect();
    let refusal = |text: &str| import(text, "x").unwrap_err().to_string();
    assert!(refusal("").contains("there is no event in it"));
    assert!(refusal("nonsense\n").starts_with("1: "));
    assert!(refusal("{\"answer\": 1}\n").contains("1: is no item of a feed"));
    assert!(refusal("{\"event\": {\"sequence\": \"x\"}}\n").starts_with("1: event: "));
    assert!(refusal("{\"event\": {\"sequence\": 1}}\n").contains("1: event.time: is missing"));
    assert!(refusal("{\"feed_gap\": {\"start\": 1, \"end\": 4}}\n").contains("1: events are missing"));
    lines.remove(3);
    assert!(refusal(&lines.join("\n")).contains("4: event.sequence: 5 does not follow 3"));
}
