//! Every kind of line, the keys that it may have, and their values: a pattern beyond that matches nothing, however a run
//! goes. `src/tell.rs` says these words; a test holds them against all that the scenarios bring forth.

use crate::transcript::Pattern;

/// What stands behind a key.
#[derive(Clone, Copy, Debug)]
enum Values {
    Number,
    Bool,
    /// `from..to`
    Range,
    Free,
    OneOf(&'static [&'static str]),
}

/// Whom a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// The call that started the process.
    Process,
    /// The call that is answered.
    Call,
    /// The session: nobody.
    Session,
}

type Keys = &'static [(&'static str, Values)];

const ENDS: &[&str] = &[
    "exited",
    "yielded",
    "interrupted",
    "one_shot_interrupted",
    "delivered",
    "met",
    "ended",
    "timed_out",
    "lost",
    "done",
];
const ERRORS: &[&str] = &[
    "failed",
    "starting",
    "unknown",
    "gone",
    "invalid",
    "forbidden",
    "declined",
    "turn_aborted",
    "expired",
    "review_failed",
    "stale",
    "too_many_questions",
    "spawn",
    "table_full",
    "ids_taken",
    "request_reused",
    "not_interactive",
    "closing",
    "cancelled",
    "no_stdin",
    "stdin_ended",
    "offset_gap",
    "queue_full",
    "not_started",
    "new_terminal",
    "review_too_large",
    "review_nul",
    "not_open",
    "deciding",
    "not_allowed",
    "rule",
    "rule_empty",
    "reviewer_missing",
    "revision_changed",
    "cwd_held",
    "session_gone",
];
const CAUSES: &[&str] =
    &["rule", "rule_prompt", "danger", "escalation", "owner_network", "unsandboxed", "deny_read"];
const REASONS: &[&str] = &[
    "exited",
    "signalled",
    "out_of_memory",
    "one_shot_timeout",
    "hard_timeout",
    "no_output_timeout",
    "after_disconnect",
    "cleaned",
    "terminated",
    "pruned",
    "session_closed",
    "server_shutdown",
    "interrupted",
    "disconnected",
];
const STATES: &[&str] = &[
    "open",
    "approved",
    "approved_for_session",
    "approved_with_rule",
    "declined",
    "turn_aborted",
    "review_failed",
    "expired",
    "withdrawn",
];
const SPAWN_ERRORS: &[&str] =
    &["program_missing", "program_denied", "cwd_missing", "exhausted", "sandbox_unavailable", "other"];
const CONFIDENCES: &[&str] = &["likely", "checked", "certain"];
const SUBJECTS: &[&str] = &["command", "retry", "input", "connection"];

const EXIT: Keys = &[("code", Values::Number), ("reason", Values::OneOf(REASONS))];
const EVIDENCE: Keys = &[("evidence", Values::OneOf(CONFIDENCES)), ("early", Values::Bool)];

/// Of a kind: whom it is about, and its keys, in groups.
fn of(kind: &str) -> Option<(About, Vec<Keys>)> {
    use Values::{Bool, Free, Number, OneOf, Range};
    const N: Keys = &[("n", Number)];
    Some(match kind {
        "answer" => (
            About::Call,
            vec![
                &[
                    ("end", OneOf(ENDS)),
                    ("error", OneOf(ERRORS)),
                    ("cause", OneOf(CAUSES)),
                    ("spawn", OneOf(SPAWN_ERRORS)),
                    ("process", OneOf(&["live", "none"])),
                    ("from", Number),
                    ("to", Number),
                    ("closed", Bool),
                    ("stdin", Range),
                    ("paused", Number),
                    ("output_end", Number),
                    ("committed", Number),
                    ("expected", Number),
                    ("waits", Number),
                    ("alive", Number),
                    ("one_shots", Number),
                    ("withdrawn", Number),
                    ("ended", Number),
                    ("survivors", Number),
                    ("held_until", Free),
                    ("revision", Number),
                    ("revoked", Bool),
                    ("state", OneOf(STATES)),
                    ("by", Free),
                ],
                N,
                EXIT,
                EVIDENCE,
            ],
        ),
        "connection" => (
            About::Process,
            vec![&[
                ("to", Free),
                ("answer", OneOf(&["allowed", "denied", "nobody_asked", "not_approved", "too_many", "gone"])),
            ]],
        ),
        "approval_requested" => (
            About::Process,
            vec![
                N,
                &[
                    ("kind", OneOf(SUBJECTS)),
                    ("permissions", OneOf(&["default", "escalated", "additional"])),
                    ("strict", Bool),
                    ("rule", Bool),
                ],
            ],
        ),
        "approval_decided" => {
            (About::Process, vec![N, &[("kind", OneOf(SUBJECTS)), ("state", OneOf(STATES)), ("by", Free)]])
        }
        "start_refused" => (
            About::Process,
            vec![&[("error", OneOf(ERRORS)), ("cause", OneOf(CAUSES)), ("spawn", OneOf(SPAWN_ERRORS))]],
        ),
        "attempt_started" => (
            About::Process,
            vec![N, &[("under", OneOf(&["unrestricted", "external", "bypassed", "profile"]))]],
        ),
        "attempt_denied" => (About::Process, vec![N, EXIT, EVIDENCE]),
        "spawn_failed" => (About::Process, vec![N, &[("error", OneOf(SPAWN_ERRORS))]]),
        "process_started" => (About::Process, vec![&[("one_shot", Bool)]]),
        "output" => (About::Process, vec![N, &[("from", Number), ("to", Number)]]),
        "output_events_ended" => (About::Process, vec![]),
        "stdin_written" => (About::Process, vec![&[("from", Number), ("to", Number), ("eof", Bool)]]),
        "process_exited" => (About::Process, vec![EXIT, EVIDENCE]),
        "outputs_closed" => (About::Process, vec![N, &[("end", Number)]]),
        "process_removed" => (About::Process, vec![&[("pruned", Bool)]]),
        "interrupted" => (About::Session, vec![&[("turn", Free), ("waits", Number), ("withdrawn", Number)]]),
        "cleaned" => (About::Session, vec![&[("ended", Number), ("survivors", Number)]]),
        "policy_changed" => (About::Session, vec![&[("revision", Number), ("fields", Free)]]),
        _ => return None,
    })
}

/// Why a pattern matches no line that there can be, among calls of which `starts` says whether they are; `None` if it
/// may match one.
pub(crate) fn dead(pattern: &Pattern, starts: impl Fn(&str) -> Option<bool>) -> Option<String> {
    let (who, kind) = (pattern.who(), pattern.kind());
    if !matches!(who, "*" | "-") && starts(who).is_none() {
        return Some(format!("no call is named {who:?}"));
    }
    let (about, groups) = of(kind)?;
    match about {
        About::Session if !matches!(who, "*" | "-") => {
            return Some(format!("{kind} is about the session: its `who` is `-`"));
        }
        About::Process if who == "-" => {
            return Some(format!("{kind} is about a process: its `who` is the call that started it"));
        }
        About::Process if starts(who) == Some(false) => {
            return Some(format!("{kind} is about a process, and {who:?} starts none"));
        }
        _ => {}
    }
    let known: Vec<(&str, Values)> = groups.into_iter().flatten().copied().collect();
    for (key, value) in pattern.keys() {
        let Some((_, values)) = known.iter().find(|(name, _)| *name == key) else {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            return Some(format!("{kind} has no key {key:?}; it has {}", names.join(", ")));
        };
        if !values.has(value) {
            return Some(format!("`{key}` of {kind} is {}, never {value:?}", values.said()));
        }
    }
    None
}

impl Values {
    fn has(self, value: &str) -> bool {
        match self {
            Self::Number => value.parse::<i64>().is_ok(),
            Self::Bool => matches!(value, "true" | "false"),
            Self::Range => value
                .split_once("..")
                .is_some_and(|(from, to)| from.parse::<u64>().is_ok() && to.parse::<u64>().is_ok()),
            Self::Free => !value.is_empty(),
            Self::OneOf(words) => words.contains(&value),
        }
    }

    fn said(self) -> String {
        match self {
            Self::Number => "a number".into(),
            Self::Bool => "true or false".into(),
            Self::Range => "`from..to`".into(),
            Self::Free => "a word".into(),
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{About, dead, of};
    use crate::model;
    use crate::scenario::Scenario;
    use crate::transcript::{KINDS, Pattern};

    #[test]
    fn every_line_of_every_scenario_is_known() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let mut lines = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let Ok(scenario) = Scenario::load(&path) else { continue };
            for line in model::play(&scenario).lines {
                let text = line.to_string();
                let pattern = Pattern::parse(text.trim_start().split_once("  ").unwrap().1).unwrap();
                let starts = of(line.kind).is_some_and(|(about, _)| about == About::Process);
                assert_eq!(dead(&pattern, |_| Some(starts)), None, "{}: {line}", path.display());
                lines += 1;
            }
        }
        assert!(lines > 500, "{lines}");
    }

    #[test]
    fn every_kind_has_its_keys() {
        for kind in KINDS {
            assert!(of(kind).is_some(), "{kind}");
        }
    }
}
