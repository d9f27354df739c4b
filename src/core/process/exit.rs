//! How a process ended, and why.

use std::time::Duration;

use crate::core::limits::TIMEOUT_EXIT_CODE;
use crate::core::signal::Signal;
use crate::core::spawn::ResourceUsage;
use crate::core::time::Instant;

/// What the kernel says of an ended child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// It ended by itself with this code, 0..=255.
    Code(i32),
    /// A signal ended it.
    Signal {
        /// The signal's number.
        number: i32,
        /// Whether a core was dumped.
        core_dumped: bool,
    },
}

impl ExitStatus {
    /// The code as a shell would report it: 128 + n for a death by signal n.
    pub const fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal { number, .. } => 128 + number,
        }
    }

    /// The signal's name, such as `SIGKILL`, if a signal that has a name ended the process.
    pub fn signal_name(self) -> Option<String> {
        match self {
            Self::Code(_) => None,
            Self::Signal { number, .. } => Signal::from_number(number).map(|signal| signal.to_string()),
        }
    }
}

/// Why a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// By itself.
    Exited,
    /// By a signal that the service did not send to end it.
    Signalled,
    /// A timeout of the service.
    Timeout(TimeoutKind),
    /// `CleanBackgroundTerminals`.
    Cleaned,
    /// `TerminateProcess`.
    Terminated,
    /// The kernel, for lack of memory.
    OutOfMemory,
    /// It made room for another process.
    Pruned,
    /// `CloseSession`.
    SessionClosed,
    /// The service shut down.
    ServerShutdown,
    /// A one-shot whose turn was interrupted.
    Interrupted,
    /// A one-shot whose caller went away.
    Disconnected,
}

/// Which timeout ended a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutKind {
    /// The lifetime of a one-shot.
    OneShot,
    /// The caller's bound on the whole life.
    Hard,
    /// The caller's bound on silence.
    NoOutput,
    /// The caller's bound on life without a client.
    AfterDisconnect,
}

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// What the kernel says.
    pub status: ExitStatus,
    /// Why.
    pub reason: EndReason,
    /// When the reaper saw it.
    pub at: Instant,
    /// From the spawn to the exit.
    pub lifetime: Duration,
    /// What it used, if the kernel told.
    pub usage: Option<ResourceUsage>,
}

impl Exit {
    /// Whether it came within `window` of the spawn; the bound itself is early, and only the reaper's time counts.
    pub fn is_early(&self, window: Duration) -> bool {
        self.lifetime <= window
    }

    /// The code that a shell, or timeout(1), would report.
    pub const fn shell_code(&self) -> i32 {
        match self.reason {
            EndReason::Timeout(TimeoutKind::OneShot) => TIMEOUT_EXIT_CODE,
            _ => self.status.shell_code(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_by_signal_is_never_code_zero() {
        let killed = ExitStatus::Signal { number: 9, core_dumped: false };
        assert_eq!(killed.shell_code(), 137);
        assert_eq!(killed.signal_name().as_deref(), Some("SIGKILL"));
        assert_eq!(ExitStatus::Code(143).signal_name(), None, "a program may itself exit with 143");
    }
}
