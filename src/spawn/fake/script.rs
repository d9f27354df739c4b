//! What a fake child does, as data.

use std::collections::BTreeSet;
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
    pub(super) confined: bool,
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

    /// Any sandbox holds it: what one would refuse it is in the script.
    #[must_use]
    pub const fn confined(mut self) -> Self {
        self.confined = true;
        self
    }

    /// Whether it asks for connections.
    pub(super) fn connects(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.act, Act::Connect { .. }))
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
    /// Ends otherwise than at once and with everything.
    End(End),
    /// Closes its own outputs and lives on. A terminal stays open all the same, as the server holds it.
    CloseOutputs,
    /// Plays these steps whenever the signal comes; none ignores it. KILL cannot be caught.
    OnSignal(Signal, Vec<Step>),
    /// Does nothing more, and takes no signal but KILL.
    Hang,
    /// From now on not even KILL ends it, as a process that is stuck in the kernel.
    Stick,
    /// Copies its input to its output until the input ends.
    Echo,
    /// Copies its input to its output from now on, while it goes on.
    Mirror,
    /// Reads so many bytes of its input as they come, while it goes on.
    Take(u64),
    /// Closes its input: nothing more can be written to it.
    CloseInput,
    /// Asks for a connection through the proxy, while it goes on. See [`FakeProxy`](super::FakeProxy).
    Connect {
        /// Where to: a name or an address.
        host: String,
        /// Its port.
        port: u16,
    },
    /// Waits for a line of input, or its end.
    ReadLine,
    /// Starts a descendant.
    Fork(Fork),
}

/// An end with something after it.
#[derive(Clone, Debug)]
pub struct End {
    /// How it ends.
    pub status: ExitStatus,
    /// How much later than it happens the reaper tells of it.
    pub late: Duration,
    /// Output that is still on its way, and keeps the outputs open until it has come. The first counts from the end.
    pub on_the_way: Vec<Step>,
}

/// A descendant of a fake child. It ignores what its parent ignores when it is started.
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
    /// Signals that do not end it.
    pub ignores: BTreeSet<Signal>,
}

impl Fork {
    /// A descendant in the group that lives until it is killed and holds nothing.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            lives: None,
            holds_outputs: false,
            left_group: false,
            unkillable: false,
            ignores: BTreeSet::new(),
        }
    }
}
