//! Signals that end things, on every platform as far as it has them.

use std::io;
#[cfg(unix)]
use std::task::Poll;

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
pub(super) struct Signals(Vec<(tokio::signal::unix::Signal, Heard)>);

#[cfg(unix)]
impl Signals {
    /// Takes these signals from the system, which would otherwise end us.
    pub(super) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut kinds = vec![
            (SignalKind::interrupt(), Heard::Interrupt),
            (SignalKind::quit(), Heard::Quit),
            (SignalKind::terminate(), Heard::Terminate),
        ];
        if !ignores_hangup() {
            kinds.push((SignalKind::hangup(), Heard::Terminate));
        }
        kinds.into_iter().map(|(kind, heard)| Ok((signal(kind)?, heard))).collect::<io::Result<_>>().map(Self)
    }

    /// The next one. Cancel-safe.
    pub(super) async fn next(&mut self) -> Heard {
        std::future::poll_fn(|cx| {
            let arrived = self.0.iter_mut().find_map(|(signal, heard)| match signal.poll_recv(cx) {
                Poll::Ready(Some(())) => Some(*heard),
                _ => None,
            });
            arrived.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Whether whoever started us wants us to outlive the terminal, as nohup(1) does.
#[cfg(unix)]
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // SIGHUP is number 1, so its bit is the lowest.
    mask.is_some_and(|mask| mask & 1 != 0)
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
