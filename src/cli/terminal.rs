//! The person's own terminal: its size, and the raw mode that hands every key to the program.

use std::io::{self, IsTerminal as _};

use super::failure::Failure;
use crate::grpc::pb;

/// Whether a person can type to us.
pub(super) fn stdin_is_one() -> bool {
    io::stdin().is_terminal()
}

/// The size of our terminal; `None` if we have none.
pub(super) fn size() -> Option<pb::TerminalSize> {
    if !io::stdin().is_terminal() && !io::stdout().is_terminal() {
        return None;
    }
    let (cols, rows) = crossterm::terminal::size().ok()?;
    Some(pb::TerminalSize { rows: u32::from(rows), cols: u32::from(cols) })
}

/// Our terminal in raw mode, until this is dropped: on every way out, a panic included.
#[derive(Debug)]
pub(super) struct RawTerminal(());

impl RawTerminal {
    /// Enters raw mode.
    pub(super) fn enter() -> Result<Self, Failure> {
        crossterm::terminal::enable_raw_mode()
            .map_err(|error| Failure::new(format!("the terminal cannot be put into raw mode: {error}")))?;
        Ok(Self(()))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        if let Err(error) = crossterm::terminal::disable_raw_mode() {
            super::output::note(&format!("the terminal cannot be restored ({error}); `stty sane` does it"));
        }
    }
}

/// Tells when our terminal changes its size.
#[derive(Debug)]
pub(super) struct Resizes {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
}

impl Resizes {
    /// Listens.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::window_change())?,
        })
    }

    /// The next size. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<pb::TerminalSize> {
        #[cfg(unix)]
        loop {
            self.signal.recv().await?;
            if let Some(size) = size() {
                return Some(size);
            }
        }
        #[cfg(not(unix))]
        std::future::pending().await
    }
}
