//! Signals that end things, on every platform as far as it has them.

use std::io;

/// A signal that somebody sent us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-\.
    Quit,
    /// The system, or the end of our terminal.
    Terminate,
}

/// Listens.
#[cfg(unix)]
#[derive(Debug)]
pub(super) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    quit: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// Takes these signals from the system, which would otherwise end us.
    pub(super) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next one. Cancel-safe.
    pub(super) async fn next(&mut self) -> Heard {
        tokio::select! {
            Some(()) = self.interrupt.recv() => Heard::Interrupt,
            Some(()) = self.quit.recv() => Heard::Quit,
            Some(()) = self.terminate.recv() => Heard::Terminate,
            Some(()) = self.hangup.recv() => Heard::Terminate,
            else => std::future::pending().await,
        }
    }
}

/// Listens.
#[cfg(not(unix))]
#[derive(Debug)]
pub(super) struct Signals;

#[cfg(not(unix))]
impl Signals {
    /// Nothing to prepare.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Heard {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Heard::Interrupt,
            Err(_) => std::future::pending().await,
        }
    }
}
