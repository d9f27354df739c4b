//! What a fake child does, as data.

use std::time::Duration;

use bytes::Bytes;

use crate::core::output::Stream;
use crate::core::process::ExitStatus;
use crate::core::signal::Signal;
use crate::core::spawn::SpawnError;

/// What a program does when it is started. It lives until a step ends it or a signal does.
#[derive(Clone, Debug, Default)]
pub struct Script {
    pub(super) starts_after: Duration,
    pub(super) fails: Option<SpawnError>,
    pub(super) steps: Vec<Step>,
}

impl Script {
    /// A program that lives and does nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The start fails.
    pub fn failing(error: SpawnError) -> Self {
        Self { fails: Some(error), ..Self::default() }
    }

    /// The start takes this long.
    #[must_use]
    pub const fn starts_after(mut self, starts_after: Duration) -> Self {
        self.starts_after = starts_after;
        self
    }

    /// The next thing it does, this long after the one before is done.
    #[must_use]
    pub fn then(mut self, after: Duration, act: Act) -> Self {
        self.steps.push(Step { after, act });
        self
    }

    /// The next thing it does, at once.
    #[must_use]
    pub fn at_once(self, act: Act) -> Self {
        self.then(Duration::ZERO, act)
    }

    /// Says `text` on stdout, or on its terminal.
    #[must_use]
    pub fn says(self, after: Duration, text: &str) -> Self {
        self.then(after, Act::Out(Stream::Stdout, Bytes::copy_from_slice(text.as_bytes())))
    }

    /// Ends with `code`.
    #[must_use]
    pub fn exits(self, after: Duration, code: i32) -> Self {
        self.then(after, Act::Exit(ExitStatus::Code(code)))
    }
}

/// Something that a fake child does.
#[derive(Clone, Debug)]
pub struct Step {
    /// How long after the step before is done.
    pub after: Duration,
    /// What.
    pub act: Act,
}

/// What a fake child can do.
#[derive(Clone, Debug)]
pub enum Act {
    /// Writes. Waits while nobody reads, as a full pipe makes it. On a terminal there is one stream.
    Out(Stream, Bytes),
    /// Ends. Its outputs close with it, unless a descendant holds them.
    Exit(ExitStatus),
    /// Closes its own outputs and lives on. A terminal stays open all the same, as the server holds it.
    CloseOutputs,
    /// Plays these steps whenever the signal comes; none ignores it. KILL cannot be caught.
    OnSignal(Signal, Vec<Step>),
    /// Copies its input to its output until the input ends.
    Echo,
    /// Waits for a line of input, or its end.
    ReadLine,
    /// Starts a descendant.
    Fork(Fork),
}

/// A descendant of a fake child.
#[derive(Clone, Debug)]
pub struct Fork {
    /// Its name.
    pub name: String,
    /// How long it lives; absent is until it is killed.
    pub lives: Option<Duration>,
    /// Whether it holds its parent's outputs open.
    pub holds_outputs: bool,
    /// Whether it has left its parent's process group.
    pub left_group: bool,
    /// Whether not even KILL ends it, as a process that hangs in the kernel.
    pub unkillable: bool,
}

impl Fork {
    /// A descendant in the group that lives until it is killed and holds nothing.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), lives: None, holds_outputs: false, left_group: false, unkillable: false }
    }
}
