//! The terminal of a scenario as an asciicast (version 3), which `asciinema play` shows: its output at its moments, and a
//! marker where it was asked about, denied, or started again.

use serde_json::{Value, json};
use unified_exec::core::command::TerminalSize;

use crate::scenario::Scenario;
use crate::tier::{Tier, play};
use crate::transcript::Line;

/// A scenario that has no such terminal.
#[derive(Debug, thiserror::Error)]
pub enum CastError {
    /// The call that was asked for starts nothing on a terminal.
    #[error("call {0:?} starts no terminal that says anything; these do: {1}")]
    Call(String, String),
    /// No call does.
    #[error(
        "nothing is said on a terminal in this scenario: give an `exec` step `tty = true`, and its program output"
    )]
    NoTerminal,
    /// It cannot be played where bytes flow.
    #[error("it cannot be played: {0}")]
    Broken(String),
}

/// The terminal that `call` starts, or the first that says something, as an asciicast: a header, then an event to a line.
pub fn cast(scenario: &Scenario, call: Option<&str>) -> Result<String, CastError> {
    let run = play(scenario, Tier::Host);
    if let Some(broken) = run.broken.first() {
        return Err(CastError::Broken(broken.clone()));
    }
    let starts = scenario.when.iter().map(|when| when.get_ref()).filter(|when| when.tty == Some(true));
    let speaks = |name: &&str| run.said.iter().any(|(who, _, bytes)| who == name && !bytes.is_empty());
    let terminals: Vec<&str> = starts.filter_map(|when| when.call.as_deref()).filter(speaks).collect();
    let call = match call {
        Some(call) if terminals.contains(&call) => call,
        Some(call) if !terminals.is_empty() => {
            return Err(CastError::Call(call.to_owned(), terminals.join(", ")));
        }
        _ => terminals.first().copied().ok_or(CastError::NoTerminal)?,
    };
    let TerminalSize { rows, cols } = TerminalSize::default();
    let header = json!({
        "version": 3,
        "term": { "cols": cols, "rows": rows },
        "title": format!("{}: {call}", scenario.title),
    });
    let mut cast = format!("{header}\n");
    let (mut last, mut undecoded) = (0, Vec::new());
    for line in run.lines.iter().filter(|line| line.who == call) {
        let said = |n: usize, from: usize, to: usize| {
            let whole = run.said.iter().find(|(who, attempt, _)| who == call && *attempt == n);
            whole.and_then(|(_, _, bytes)| bytes.get(from..to)).unwrap_or_default()
        };
        let Some((code, data)) = shown(line, said, &mut undecoded) else { continue };
        // Whole milliseconds, as seconds.
        let interval = (line.t - last) as f64 / 1_000.0;
        last = line.t;
        cast.push_str(&format!("{}\n", json!([interval, code, data])));
    }
    Ok(cast)
}

/// What a line is in a cast. A character whose bytes come apart is shown when it is whole.
fn shown<'a>(
    line: &Line,
    said: impl Fn(usize, usize, usize) -> &'a [u8],
    undecoded: &mut Vec<u8>,
) -> Option<(&'static str, Value)> {
    let number = |key: &str| line.get(key).and_then(|value| value.parse::<usize>().ok());
    match line.kind {
        "output" => {
            undecoded.extend_from_slice(said(number("n")?, number("from")?, number("to")?));
            let text = decoded(undecoded);
            (!text.is_empty()).then(|| ("o", text.into()))
        }
        "process_exited" => Some(("x", line.get("code")?.into())),
        "approval_requested" => Some(("m", format!("asked: {}", line.get("kind")?).into())),
        "approval_decided" => Some(("m", line.get("state")?.into())),
        "attempt_denied" => Some(("m", "denied by the sandbox".into())),
        "attempt_started" if number("n") == Some(2) => Some(("m", "runs once more".into())),
        _ => None,
    }
}

/// Takes what is decided of `bytes`: all but a character at the end that more bytes may complete.
fn decoded(bytes: &mut Vec<u8>) -> String {
    let chunk = bytes.utf8_chunks().last();
    let begun = chunk.map_or(0, |chunk| {
        let invalid = chunk.invalid();
        let open = std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
        if open { invalid.len() } else { 0 }
    });
    let rest = bytes.split_off(bytes.len() - begun);
    let whole = std::mem::replace(bytes, rest);
    String::from_utf8_lossy(&whole).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_comes_apart_is_shown_when_it_is_whole() {
        let mut bytes = b"a\xe2\x82".to_vec();
        assert_eq!(decoded(&mut bytes), "a");
        bytes.push(0xac);
        assert_eq!(decoded(&mut bytes), "\u{20ac}");
        let mut broken = b"\xffb\xff".to_vec();
        assert_eq!((decoded(&mut broken), broken.len()), ("\u{fffd}b\u{fffd}".to_owned(), 0));
    }
}
