//! Signals, sizes and the end of a child in its namespaces. What can be reached safely by number is signalled from here;
//! for the rest the launcher is asked, to whom the whole namespace is one call away.

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::runtime::Handle;

use super::namespace::Namespace;
use crate::core::command::TerminalSize;
use crate::core::signal::{Scope, Signal};
use crate::core::spawn::Descendant;
use crate::host::ports::{BoxFuture, Control, ControlError};
use crate::spawn::launcher::message::Order;
use crate::spawn::pty::Terminal;
use crate::spawn::reap::refused;
use crate::spawn::table::{self, Entry};
use crate::spawn::tree::{LISTED_MAX, send_to};

/// How long the launcher has to kill everybody and to say how the command ended, before it is killed itself.
const LAUNCHER_PATIENCE: Duration = Duration::from_secs(2);

/// Acts on one child. Dropping it kills everything inside.
#[derive(Debug)]
pub(super) struct InsideControl {
    namespace: Arc<Namespace>,
    terminal: Option<Terminal>,
    runtime: Handle,
}

impl InsideControl {
    pub(super) const fn new(namespace: Arc<Namespace>, terminal: Option<Terminal>, runtime: Handle) -> Self {
        Self { namespace, terminal, runtime }
    }

    fn signal_group(&self, signal: Signal) -> Result<(), ControlError> {
        match self.namespace.command.signal_group(signal) {
            Some(answer) => answer,
            // Its number may be another's out here, and is still its own inside.
            None => self.namespace.order(Order::SignalGroup(signal.number())).map_err(refused),
        }
    }

    fn signal_foreground(&self, signal: Signal) -> Result<(), ControlError> {
        let command = self.namespace.command.pid();
        match self.terminal.as_ref().and_then(Terminal::foreground) {
            None => self.signal_group(signal),
            Some(group) if group == command => self.signal_group(signal),
            Some(foreground) => {
                let namespace = Arc::clone(&self.namespace);
                self.runtime.spawn_blocking(move || {
                    for entry in members(&namespace) {
                        if entry.alive && entry.group == foreground && entry.session == command {
                            send_to(&entry, signal);
                        }
                    }
                });
                Ok(())
            }
        }
    }

    fn signal_all(&self, signal: Signal) -> Result<(), ControlError> {
        if signal == Signal::KILL {
            self.kill_tree();
            return Ok(());
        }
        self.namespace.order(Order::SignalAll(signal.number())).map_err(|error| match error {
            // The launcher has ended, and with it everybody; word of that is on the way.
            Errno::PIPE | Errno::CONNRESET => ControlError::Gone,
            _ => refused(error),
        })
    }
}

/// Everybody inside but the launcher. May miss whoever is being forked; whoever must not be missed is reached through
/// the launcher.
fn members(namespace: &Namespace) -> Vec<Entry> {
    if namespace.is_gone() {
        return Vec::new();
    }
    let mut found = table::children_of(namespace.init.pid());
    let mut at = 0;
    while let Some(pid) = found.get(at) {
        let below = table::children_of(*pid);
        found.extend(below);
        at += 1;
    }
    found.into_iter().filter_map(Entry::read).collect()
}

impl Control for InsideControl {
    fn signal(&self, signal: Signal, scope: Scope) -> Result<(), ControlError> {
        if self.namespace.is_gone() {
            return Err(ControlError::Gone);
        }
        match scope {
            Scope::Process => self.namespace.command.signal(signal),
            Scope::Group => self.signal_group(signal),
            Scope::Foreground => self.signal_foreground(signal),
            Scope::Tree => {
                self.signal_all(signal)?;
                if matches!(signal, Signal::TERM | Signal::HUP) {
                    // A stopped process hears nothing until it is continued; all may be gone by now.
                    self.signal_all(Signal::CONT).or_else(|error| match error {
                        ControlError::Gone => Ok(()),
                        error => Err(error),
                    })?;
                }
                Ok(())
            }
        }
    }

    fn kill_tree(&self) {
        if self.namespace.is_gone() {
            return;
        }
        // In vain if it is ending, or if so many orders wait that it cannot be at work.
        let is_asked = self.namespace.order(Order::Kill).is_ok();
        if !is_asked {
            let _ = self.namespace.init.signal(Signal::KILL);
        }
        if self.namespace.condemn() {
            let namespace = Arc::clone(&self.namespace);
            self.runtime.spawn(async move {
                let mut gone = namespace.gone();
                let gone = gone.wait_for(|gone| *gone);
                if tokio::time::timeout(LAUNCHER_PATIENCE, gone).await.is_err() {
                    let _ = namespace.init.signal(Signal::KILL);
                }
            });
        }
    }

    fn resize(&self, size: TerminalSize) -> Result<(), ControlError> {
        let Some(terminal) = &self.terminal else { return Err(ControlError::NoTerminal) };
        if self.namespace.command.is_reaped() {
            return Err(ControlError::Gone);
        }
        terminal.resize(size).map_err(|reason| ControlError::Refused { reason })
    }

    fn foreground(&self) -> Option<u32> {
        self.terminal.as_ref().and_then(Terminal::foreground)
    }

    fn tree_gone(&self) -> BoxFuture<()> {
        let namespace = Arc::clone(&self.namespace);
        Box::pin(async move {
            // It cannot fail: the sender is in `namespace`.
            let _ = namespace.gone().wait_for(|gone| *gone).await;
        })
    }

    fn descendants(&self) -> BoxFuture<Vec<Descendant>> {
        let namespace = Arc::clone(&self.namespace);
        let listed = self.runtime.spawn_blocking(move || {
            let command = namespace.command.pid();
            let command_lives = !namespace.command.is_reaped();
            let others = members(&namespace)
                .into_iter()
                .filter(|entry| entry.alive && !(command_lives && entry.pid == command));
            others.take(LISTED_MAX).map(|entry| Descendant { pid: entry.pid, name: entry.name }).collect()
        });
        Box::pin(async move { listed.await.unwrap_or_default() })
    }
}

impl Drop for InsideControl {
    fn drop(&mut self) {
        self.kill_tree();
    }
}
