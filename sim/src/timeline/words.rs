//! The transcript's names in words that a newcomer understands.

use crate::scenario::{Mode, Op, When};
use crate::timeline::axis::time;
use crate::transcript::Line;

/// What is shown of a program's output.
const OUTPUT_LETTERS: usize = 30;

/// What a step is called.
pub(crate) const fn op(op: Op) -> &'static str {
    match op {
        Op::Exec => "exec",
        Op::Write => "write",
        Op::Poll => "poll",
        Op::Wait => "wait",
        Op::Attach => "attach",
        Op::Interrupt => "Interrupt",
        Op::Clean => "Clean",
        Op::Close => "CloseSession",
        Op::Terminate => "terminate",
        Op::Signal => "signal",
        Op::Hold => "HoldDeadlines",
        Op::Disconnect => "disconnect",
        Op::Stall => "stall",
        Op::Resume => "resume",
        Op::Drain => "drain",
        Op::Decide => "decide",
        Op::Revoke => "revoke",
        Op::Update => "UpdateSession",
        Op::OwnerNetwork => "owner's network",
    }
}

/// What a step is about.
pub(crate) fn detail(when: &When) -> String {
    let mut words = Vec::new();
    words.extend(when.cmd.clone());
    match (when.op, when.mode) {
        (Op::Exec, Some(Mode::OneShot)) => words.push("one-shot".into()),
        (Op::Exec, Some(Mode::Follow)) => words.push("follow".into()),
        _ => {}
    }
    if when.tty == Some(true) {
        words.push("tty".into());
    }
    if when.escalate == Some(true) {
        words.push("escalated".into());
    }
    match (&when.input, when.times) {
        (Some(input), None) => words.push(format!("{:?}", shortened(input))),
        (Some(input), Some(times)) => words.push(format!("{} bytes", input.len() * times)),
        _ => {}
    }
    words.extend(when.signal.clone());
    words.extend(when.turn.as_ref().filter(|_| when.op == Op::Interrupt).map(|turn| format!("turn {turn}")));
    words.extend(when.yield_ms.map(|millis| format!("yield {}", time(millis))));
    words.extend(when.timeout.map(|millis| format!("timeout {}", time(millis))));
    words.extend(when.duration.map(|millis| format!("for {}", time(millis))));
    words.join(", ")
}

/// What a program says, as far as there is room.
pub(crate) fn shortened(text: &str) -> String {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let shown: String = first.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
    let kept: String = shown.chars().take(OUTPUT_LETTERS).collect();
    if kept.len() < text.trim_end().len() { format!("{kept}…") } else { kept }
}

/// What a question asks, from its kind.
pub(crate) fn question(kind: &str) -> &'static str {
    match kind {
        "command" => "may it run?",
        "retry" => "again, unsandboxed?",
        "input" => "may it be written?",
        "connection" => "may it connect?",
        _ => "",
    }
}

/// What holds an attempt.
pub(crate) fn confinement(under: &str) -> &'static str {
    match under {
        "profile" => "in the sandbox",
        "bypassed" => "without the sandbox",
        "external" => "sandboxed by others",
        _ => "no sandbox",
    }
}

/// How a question ended.
pub(crate) fn decided(line: &Line) -> String {
    let state = line.get("state").unwrap_or_default().replace('_', " ");
    match line.get("by") {
        Some(by) => format!("{state} by {by}"),
        None => state,
    }
}

/// How a program ended.
pub(crate) fn exit(line: &Line) -> String {
    let code = line.get("code").unwrap_or_default();
    match line.get("reason").unwrap_or_default() {
        "exited" => format!("exit {code}"),
        "signalled" => format!("died of a signal ({code})"),
        "cleaned" => format!("ended by Clean ({code})"),
        "terminated" => format!("ended by terminate ({code})"),
        "session_closed" => format!("ended by CloseSession ({code})"),
        reason => format!("{} ({code})", reason.replace('_', " ")),
    }
}

/// What a call comes to.
pub(crate) fn answer(line: &Line) -> String {
    let mut words = vec![match (line.get("error"), line.get("end")) {
        (Some("spawn"), _) => {
            format!("refused: {}", line.get("spawn").unwrap_or_default().replace('_', " "))
        }
        (Some("gone"), _) => format!("refused: gone, {}", exit(line)),
        (Some(error), _) => {
            let cause = line.get("cause").map(|cause| format!(" ({})", cause.replace('_', " ")));
            format!("refused: {}{}", error.replace('_', " "), cause.unwrap_or_default())
        }
        (None, Some("exited")) => exit(line),
        (None, Some("yielded")) => "still running".into(),
        (None, Some("interrupted")) if line.get("process") == Some("live") => {
            "interrupted, still running".into()
        }
        (None, Some(end)) => end.replace('_', " "),
        (None, None) => {
            let said = line.keys.iter().filter(|(key, value)| {
                !(value == "0" && matches!(*key, "one_shots" | "withdrawn" | "survivors"))
            });
            said.map(|(key, value)| told(key, value)).collect::<Vec<_>>().join(", ")
        }
    }];
    if let (Some(evidence), Some("exited")) = (line.get("evidence"), line.get("end")) {
        words.push(format!("denial {evidence}"));
    }
    let written = line.get("stdin").and_then(|range| range.split_once(".."));
    words.extend(written.map(|(from, to)| match from == to {
        true => "nothing written".to_owned(),
        false => format!("input {from} to {to}"),
    }));
    words.join(", ")
}

fn told(key: &str, value: &str) -> String {
    match key {
        "waits" if value == "1" => "1 wait ends".into(),
        "waits" => format!("{value} waits end"),
        "alive" if value == "1" => "1 lives on".into(),
        "alive" => format!("{value} live on"),
        "one_shots" if value == "1" => "1 one-shot ends".into(),
        "one_shots" => format!("{value} one-shots end"),
        "withdrawn" if value == "1" => "1 question withdrawn".into(),
        "withdrawn" => format!("{value} questions withdrawn"),
        "ended" => format!("{value} ended"),
        "survivors" if value == "1" => "1 survives".into(),
        "survivors" => format!("{value} survive"),
        "held_until" => format!("until {}", value.parse().map_or_else(|_| value.to_owned(), time)),
        _ => format!("{} {value}", key.replace('_', " ")),
    }
}
