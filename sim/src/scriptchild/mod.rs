//! `scriptchild`: a real process that plays an act list in real time, behind a pipe or a terminal. It walks through the
//! list with the same interpreter as the model ([`crate::acts`]); what differs is the [`Body`]: here the kernel does it.
//!
//! ```text
//!  acts (TOML) ──► Script ──► Process   writes, exits, forks, ignores, connects
//!                    ▲            └──► descendants: this program again, as `holder`, `daemon` or `tail`
//!                    └── input, as far as the acts read it
//! ```
//! A terminal is set so that bytes pass as they are: nothing is echoed, and only ^C means anything. Nothing lives
//! longer than ten minutes, so that nothing is left if whoever started it is killed.

mod descendant;
mod process;

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;
use unified_exec::core::signal::Signal;

use crate::acts::{self, Deed, Script};
use crate::scenario::Act;

pub use descendant::{Kind, Life, live};

/// How anything ends that is still there by then.
const LIFE_MAX: Duration = Duration::from_secs(600);
/// What it exits with if it cannot do what it is told; the reason is on stderr.
pub const EXIT_BROKEN: u8 = 125;

/// An act list that cannot be played by a real process.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file of acts cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("acts, line {line}: {problem}")]
    Invalid {
        /// The line, from 1.
        line: usize,
        /// What, naming the field.
        problem: String,
    },
    /// The system refused something that the acts need.
    #[error("cannot {what}: {source}")]
    System {
        /// What.
        what: &'static str,
        /// The system's words.
        source: std::io::Error,
    },
}

impl ScriptError {
    fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// An act list as it is handed over: `acts = [ … ]`, with the acts of a scenario file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Acts {
    acts: Vec<Spanned<Act>>,
}

/// Reads and checks an act list.
fn parse(text: &str) -> Result<Vec<Spanned<Act>>, ScriptError> {
    let invalid = |at: usize, problem: String| {
        let line = 1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count();
        ScriptError::Invalid { line, problem }
    };
    let Acts { acts } = toml::from_str(text)
        .map_err(|error| invalid(error.span().map_or(0, |span| span.start), error.message().to_owned()))?;
    acts::check(&acts).map_err(|(at, problem)| invalid(at, problem))?;
    for act in &acts {
        real(act.get_ref()).map_err(|problem| invalid(act.span().start, problem))?;
    }
    Ok(acts)
}

/// Whether a real process can do this; `Err` says why not.
pub(crate) fn real(act: &Act) -> Result<(), String> {
    match act.deed()? {
        Deed::Ignore(signal) if !can_ignore(signal) => {
            Err(format!("`ignore`: no real process ignores {}; that is for the fake", signal.name()))
        }
        _ if act.late > 0 => {
            Err("`late`: the kernel tells of an end when it likes; that is for the fake".into())
        }
        _ => Ok(()),
    }
}

/// Whether a process can go on in spite of a signal.
const fn can_ignore(signal: Signal) -> bool {
    !matches!(signal, Signal::KILL | Signal::STOP | Signal::ILL | Signal::FPE | Signal::SEGV)
}

/// Plays `script`, an act list or `@FILE` with one, until the process is over. Returns only if it cannot be played.
pub fn run(script: &str) -> Result<std::convert::Infallible, ScriptError> {
    let text = match script.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(Path::new(path))
            .map_err(|source| ScriptError::Read { path: path.to_owned(), source })?,
        None => script.to_owned(),
    };
    let acts = parse(&text)?;
    process::play(Script::new(&acts))
}

/// An act list, as [`run`] takes it.
pub(crate) fn text<'a>(acts: impl IntoIterator<Item = &'a Act>) -> Result<String, std::fmt::Error> {
    let mut text = String::from("acts = [\n");
    for act in acts {
        text.push_str("  ");
        text.push_str(&crate::scenario::inline(act)?);
        text.push_str(",\n");
    }
    text.push_str("]\n");
    Ok(text)
}
