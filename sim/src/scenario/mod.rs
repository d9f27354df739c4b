//! The file format: TOML, strict, times in integer milliseconds. `docs/simulation.md` shows it by an example.

pub(crate) mod check;
pub(crate) mod service;
pub(crate) mod session;
mod write;

pub(crate) use write::inline;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use toml::Spanned;

use crate::rulebook::Decision;
use crate::scenario::service::{Change, Hosts, Reviewer, Service};
use crate::transcript::Pattern;

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
#[derive(Clone, Debug, Deserialize)]
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
    /// A step that finds nothing to act on, or whose event never comes, is left out instead of failing the run.
    #[serde(default)]
    pub(crate) loose: bool,
    /// Why it may be played on no real children.
    pub(crate) fake_only: Option<String>,
    /// How many milliseconds late things may come on real children.
    pub(crate) real_tol: Option<u64>,
    #[serde(default)]
    pub(crate) service: Service,
    /// Where it can be played: `L1` and `L2` have clients that read, `L2` has a link. Empty is everywhere.
    #[serde(default)]
    pub(crate) tiers: Vec<Spanned<String>>,
    #[serde(default)]
    pub(crate) link: Link,
    /// The first words of commands, and what a rule says of them.
    #[serde(default)]
    pub(crate) rules: BTreeMap<String, Decision>,
    /// Answers every question; absent leaves them to the steps.
    pub(crate) reviewer: Option<Reviewer>,
    #[serde(default)]
    pub(crate) program: BTreeMap<String, Program>,
    pub(crate) when: Vec<Spanned<When>>,
    pub(crate) expect: Expect,
}

/// What lies between clients and the service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Link {
    /// Milliseconds that everything takes, each way.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) delay: u64,
}

/// How a client goes away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    /// It drops this call; its connection stays.
    #[default]
    Drop,
    /// It closes its connection.
    Leave,
    /// It will send nothing more, and goes on listening.
    HalfClose,
    /// The link breaks.
    Cut,
    /// Nothing comes or goes any more, and nobody says so.
    Silent,
}

/// A program: how its start goes, and what it does then.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Program {
    /// How long the spawner takes.
    #[serde(default)]
    pub(crate) spawn: u64,
    /// The spawner fails like this instead.
    pub(crate) spawn_error: Option<SpawnFailure>,
    /// How the start of a second attempt goes, if otherwise.
    pub(crate) second: Option<Second>,
    /// A true program and its arguments, in place of acts; for real children only.
    #[serde(default)]
    pub(crate) real: Vec<String>,
    /// What it does, whatever holds it.
    #[serde(default)]
    pub(crate) acts: Vec<Spanned<Act>>,
    /// What it does under a sandbox; goes with `unsandboxed`, in place of `acts`.
    #[serde(default)]
    pub(crate) sandboxed: Vec<Spanned<Act>>,
    /// What it does without one.
    #[serde(default)]
    pub(crate) unsandboxed: Vec<Spanned<Act>>,
}

/// The start of a second attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Second {
    #[serde(default)]
    pub(crate) spawn: u64,
    pub(crate) spawn_error: Option<SpawnFailure>,
}

impl Program {
    /// How long the spawner takes, and how it fails.
    pub(crate) fn start(&self, second: bool) -> (u64, Option<SpawnFailure>) {
        match self.second.filter(|_| second) {
            Some(second) => (second.spawn, second.spawn_error),
            None => (self.spawn, self.spawn_error),
        }
    }

    pub(crate) fn acts(&self, sandboxed: bool) -> &[Spanned<Act>] {
        match (&self.acts[..], sandboxed) {
            ([], true) => &self.sandboxed,
            ([], false) => &self.unsandboxed,
            (acts, _) => acts,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SpawnFailure {
    ProgramMissing,
    ProgramDenied,
    CwdMissing,
    Exhausted,
    SandboxUnavailable,
}

/// One thing that a program does. Exactly one field besides `at` and `late`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Act {
    /// Milliseconds after the spawn.
    pub(crate) at: u64,
    /// Of an end: how much later than it happened the session hears of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) late: u64,
    pub(crate) out: Option<String>,
    /// Output that is no text.
    pub(crate) out_b64: Option<Base64>,
    pub(crate) err: Option<String>,
    pub(crate) err_b64: Option<Base64>,
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
    /// Connects to `host:port` through the proxy.
    pub(crate) connect: Option<String>,
}

/// Bytes, in a file as base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base64(pub(crate) Bytes);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = BASE64_STANDARD.decode(&text);
        bytes.map(|bytes| Self(bytes.into())).map_err(|error| de::Error::custom(format!("{text:?}: {error}")))
    }
}

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(&self.0))
    }
}

/// Something that a caller does.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct When {
    pub(crate) at: Option<u64>,
    #[serde(default, deserialize_with = "on")]
    pub(crate) on: Option<Pattern>,
    pub(crate) delay: Option<u64>,
    pub(crate) op: Op,
    pub(crate) call: Option<String>,
    pub(crate) how: Option<How>,
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
    /// Asks for no sandbox.
    pub(crate) escalate: Option<bool>,
    /// Asks for this on top of the profile.
    pub(crate) additional: Option<Additional>,
    pub(crate) justification: Option<String>,
    /// The words of a rule that the agent proposes.
    pub(crate) propose: Option<Vec<String>>,
    /// Which question, in the order in which they were asked; the first is 1, and one that never was is unknown.
    pub(crate) question: Option<usize>,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) text: Option<String>,
    /// The words of the rule that comes with the answer.
    pub(crate) rule: Option<Vec<String>>,
    /// Which kept approval, oldest first; the first is 1.
    pub(crate) grant: Option<usize>,
    pub(crate) set: Option<Change>,
    /// Absent takes the owner's rules away.
    pub(crate) owner_network: Option<Hosts>,
}

/// What a command asks for on top of its session's profile.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Additional {
    pub(crate) read: Vec<String>,
    pub(crate) write: Vec<String>,
    pub(crate) deny_read: Vec<String>,
    pub(crate) network: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Approve,
    ApproveForSession,
    ApproveAndAddRule,
    Decline,
    AbortTurn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    Interactive,
    Follow,
    OneShot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Until {
    Exit,
    Closed,
    Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    Process,
    Group,
    Foreground,
    Tree,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Op {
    #[default]
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
    /// The client of a call stops reading.
    Stall,
    /// It reads again.
    Resume,
    /// The service shuts down.
    Drain,
    Decide,
    Revoke,
    Update,
    OwnerNetwork,
}

/// What must come of it.
#[derive(Clone, Debug, Default, Deserialize)]
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
    /// Attempts that were tried, by the feed.
    pub(crate) spawns: Option<usize>,
    /// Questions that were asked, by the feed.
    pub(crate) questions: Option<usize>,
    #[serde(default)]
    pub(crate) at_end: AtEnd,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// These lines and no others, in this order.
    #[default]
    Exact,
    /// These lines in this order, with any others between.
    Subsequence,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    pub(crate) t: Option<u64>,
    pub(crate) e: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quiet {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) no: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
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
    /// Open questions.
    #[serde(default)]
    pub(crate) questions: usize,
}

impl Scenario {
    /// How many steps callers do.
    pub fn steps(&self) -> usize {
        self.when.len()
    }

    /// A program that is a true one, if any is.
    pub(crate) fn true_program(&self) -> Option<&str> {
        self.program.iter().find(|(_, program)| !program.real.is_empty()).map(|(name, _)| name.as_str())
    }

    /// A scenario that starts one true program and waits for its end.
    pub fn of_program(argv: &[String], tty: bool) -> Self {
        let name = argv.join(" ");
        let real = argv.to_vec();
        let exec = When {
            at: Some(0),
            op: Op::Exec,
            call: Some("a".into()),
            cmd: Some(name.clone()),
            mode: Some(Mode::Follow),
            tty: tty.then_some(true),
            ..When::default()
        };
        let mut scenario = Self::new(&format!("{name}, recorded"), vec!["recorded".into()]);
        scenario.program.insert(name, Program { real, ..Program::default() });
        scenario.when.push(Spanned::new(0..0, exec));
        scenario.expect.order = Order::Subsequence;
        scenario
    }

    /// A scenario in which nobody does anything.
    pub(crate) fn new(title: &str, tags: Vec<String>) -> Self {
        Self {
            format: Spanned::new(0..0, 1),
            title: title.to_owned(),
            tags,
            run_to: None,
            loose: false,
            fake_only: None,
            real_tol: None,
            service: Service::default(),
            tiers: Vec::new(),
            link: Link::default(),
            rules: BTreeMap::new(),
            reviewer: None,
            program: BTreeMap::new(),
            when: Vec::new(),
            expect: Expect::default(),
        }
    }

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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The event that a step waits for; its errors name the field.
fn on<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Pattern>, D::Error> {
    let text = String::deserialize(deserializer)?;
    Pattern::parse(&text).map(Some).map_err(|error| de::Error::custom(format!("`on`: {error}")))
}
