//! The file format: TOML, strict, times in integer milliseconds. `sim/README.md` shows it by an example.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;
/// A scenario that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("{}:{line}: {problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What, naming the field.
        problem: String,
    },
}

/// One scenario.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub(crate) format: Spanned<u32>,
    /// What it shows, in one sentence.
    pub title: String,
    /// For picking some of many.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Goes on until then; absent stops as soon as nothing is going on.
    pub(crate) run_to: Option<u64>,
    #[serde(default)]
    pub(crate) service: Service,
    #[serde(default)]
    pub(crate) program: BTreeMap<String, Program>,
    pub(crate) when: Vec<Spanned<When>>,
    pub(crate) expect: Expect,
}

/// What differs from the service's defaults.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Service {
    pub(crate) early_window: Option<u64>,
    pub(crate) processes_max: Option<usize>,
    pub(crate) reject_when_full: Option<bool>,
    pub(crate) poll_yield_max: Option<u64>,
}

/// A program: how its start goes, and what it does then.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Program {
    /// How long the spawner takes.
    #[serde(default)]
    pub(crate) spawn: u64,
    /// The spawner fails like this instead.
    pub(crate) spawn_error: Option<SpawnFailure>,
    #[serde(default)]
    pub(crate) acts: Vec<Spanned<Act>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SpawnFailure {
    ProgramMissing,
    ProgramDenied,
    CwdMissing,
}

/// One thing that a program does. Exactly one field besides `at` and `late`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Act {
    /// Milliseconds after the spawn.
    pub(crate) at: u64,
    /// Of an end: how much later than it happened the session hears of it.
    #[serde(default)]
    pub(crate) late: u64,
    pub(crate) out: Option<String>,
    pub(crate) err: Option<String>,
    pub(crate) exit: Option<i32>,
    /// Dies of this signal.
    pub(crate) signal: Option<String>,
    /// Ignores this signal from now on; `KILL` models a process stuck in the kernel.
    pub(crate) ignore: Option<String>,
    /// Closes its outputs.
    pub(crate) eof: Option<bool>,
    /// Does nothing more, and ignores everything but KILL.
    pub(crate) hang: Option<bool>,
    /// Forks a child in its group that keeps the outputs open for so long; 0 is for ever.
    pub(crate) fork_holder: Option<u64>,
    /// Double-forks a child that leaves the group and holds nothing, for so long; 0 is for ever.
    pub(crate) daemon: Option<u64>,
    /// Reads so many bytes of its input, when they come.
    pub(crate) read_stdin: Option<u64>,
    /// Reads all its input from now on and says it again.
    pub(crate) echo: Option<bool>,
    /// Closes its input.
    pub(crate) close_stdin: Option<bool>,
}

/// Something that a caller does.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct When {
    pub(crate) at: Option<u64>,
    pub(crate) on: Option<String>,
    pub(crate) delay: Option<u64>,
    pub(crate) op: Op,
    pub(crate) call: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) turn: Option<String>,
    pub(crate) request: Option<String>,
    pub(crate) cmd: Option<String>,
    #[serde(rename = "yield")]
    pub(crate) yield_ms: Option<u64>,
    pub(crate) mode: Option<Mode>,
    pub(crate) timeout: Option<u64>,
    pub(crate) hard_timeout: Option<u64>,
    pub(crate) no_output_timeout: Option<u64>,
    pub(crate) after_disconnect: Option<u64>,
    pub(crate) tty: Option<bool>,
    pub(crate) stdin: Option<bool>,
    pub(crate) kill_descendants_on_exit: Option<bool>,
    pub(crate) input: Option<String>,
    /// Makes the input so many times as long.
    pub(crate) times: Option<usize>,
    pub(crate) offset: Option<u64>,
    pub(crate) eof: Option<bool>,
    pub(crate) frame: Option<bool>,
    pub(crate) until: Option<Until>,
    pub(crate) signal: Option<String>,
    pub(crate) scope: Option<Scope>,
    pub(crate) lease: Option<String>,
    pub(crate) duration: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    Interactive,
    Follow,
    OneShot,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Until {
    Exit,
    Closed,
    Output,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    Process,
    Group,
    Foreground,
    Tree,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Op {
    Exec,
    Write,
    Poll,
    Wait,
    Attach,
    Interrupt,
    Clean,
    Close,
    Terminate,
    Signal,
    Hold,
    Disconnect,
}

/// What must come of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    #[serde(default)]
    pub(crate) order: Order,
    #[serde(default)]
    pub(crate) events: Vec<Spanned<Expected>>,
    #[serde(default)]
    pub(crate) never: Vec<Spanned<String>>,
    #[serde(default)]
    pub(crate) quiet: Vec<Spanned<Quiet>>,
    #[serde(default)]
    pub(crate) at_end: AtEnd,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// These lines and no others, in this order.
    #[default]
    Exact,
    /// These lines in this order, with any others between.
    Subsequence,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    pub(crate) t: Option<u64>,
    pub(crate) e: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quiet {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) no: String,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AtEnd {
    /// Live processes of the session.
    #[serde(default)]
    pub(crate) live: usize,
    /// Processes of the system, descendants included.
    #[serde(default)]
    pub(crate) children: usize,
    /// Calls without an answer whose client is there.
    #[serde(default)]
    pub(crate) waiting: usize,
}

impl Scenario {
    /// Reads and checks a file.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text)
    }

    /// Checks `text`, which is called `path` in errors.
    pub fn parse(path: &Path, text: &str) -> Result<Self, LoadError> {
        let invalid = |at: usize, problem: String| {
            let line = 1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count();
            LoadError::Invalid { path: path.to_owned(), line, problem }
        };
        let scenario: Self = toml::from_str(text).map_err(|error| {
            invalid(error.span().map_or(0, |span| span.start), error.message().to_owned())
        })?;
        scenario.check().map_err(|(at, problem)| invalid(at, problem))?;
        Ok(scenario)
    }
}
