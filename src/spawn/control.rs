//! The handle that signals, sizes and ends a child of this machine. Every method returns at once: what needs a walk
//! through the process table is handed to `watch`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::pty::Terminal;
use super::tree::Tree;
use super::watch::Watch;
use crate::core::command::TerminalSize;
use crate::core::signal::{Scope, Signal};
use crate::core::spawn::Descendant;
use crate::host::ports::{BoxFuture, Control, ControlError};

/// Acts on one child. Dropping it kills the tree.
#[derive(Debug)]
pub(super) struct LocalControl {
    tree: Arc<Tree>,
    terminal: Option<Terminal>,
    watch: Arc<Watch>,
}

impl LocalControl {
    pub(super) const fn new(tree: Arc<Tree>, terminal: Option<Terminal>, watch: Arc<Watch>) -> Self {
        Self { tree, terminal, watch }
    }

    fn signal_group(&self, signal: Signal) -> Result<(), ControlError> {
        let leader = self.tree.leader.pid();
        match self.tree.leader.signal_group(signal) {
            Some(answer) => answer,
            // The number of the group is only as good as its members, so they are signalled one by one.
            None => self.signal_each(signal, move |group, _| group == leader),
        }
    }

    fn signal_foreground(&self, signal: Signal) -> Result<(), ControlError> {
        let leader = self.tree.leader.pid();
        match self.terminal.as_ref().and_then(Terminal::foreground) {
            None => self.signal_group(signal),
            Some(group) if group == leader => self.signal_group(signal),
            Some(foreground) => {
                self.signal_each(signal, move |group, session| group == foreground && session == leader)
            }
        }
    }

    /// Signals the members whose group and session `wanted` likes. Without a cgroup that needs a walk, which is made
    /// elsewhere; the answer is then what is known of the whole tree.
    fn signal_each(
        &self,
        signal: Signal,
        wanted: impl Fn(u32, u32) -> bool + Send + 'static,
    ) -> Result<(), ControlError> {
        let tree = Arc::clone(&self.tree);
        let send =
            move || tree.signal_each(signal, |entry| entry.alive && wanted(entry.group, entry.session));
        if self.tree.cgroup().is_some() {
            return if send() { Ok(()) } else { Err(ControlError::Gone) };
        }
        self.watch.runtime().spawn_blocking(send);
        Ok(())
    }

    fn signal_tree(&self, signal: Signal) {
        let reached = if signal == Signal::KILL {
            self.tree.kill_at_once();
            BTreeSet::new()
        } else {
            self.tree.signal_at_once(signal)
        };
        self.watch.signal_rest(Arc::clone(&self.tree), signal, reached);
    }
}

impl Control for LocalControl {
    fn signal(&self, signal: Signal, scope: Scope) -> Result<(), ControlError> {
        if self.tree.is_gone() {
            return Err(ControlError::Gone);
        }
        match scope {
            Scope::Process => self.tree.leader.signal(signal),
            Scope::Group => self.signal_group(signal),
            Scope::Foreground => self.signal_foreground(signal),
            Scope::Tree => {
                self.signal_tree(signal);
                if matches!(signal, Signal::TERM | Signal::HUP) {
                    // A stopped process hears nothing until it is continued.
                    self.signal_tree(Signal::CONT);
                }
                Ok(())
            }
        }
    }

    fn kill_tree(&self) {
        if !self.tree.is_gone() {
            self.signal_tree(Signal::KILL);
        }
    }

    fn resize(&self, size: TerminalSize) -> Result<(), ControlError> {
        let Some(terminal) = &self.terminal else { return Err(ControlError::NoTerminal) };
        if self.tree.leader.is_reaped() {
            return Err(ControlError::Gone);
        }
        terminal.resize(size).map_err(|reason| ControlError::Refused { reason })
    }

    fn foreground(&self) -> Option<u32> {
        self.terminal.as_ref().and_then(Terminal::foreground)
    }

    fn tree_gone(&self) -> BoxFuture<()> {
        let tree = Arc::clone(&self.tree);
        Box::pin(async move {
            // It cannot fail: the sender is in `tree`.
            let _ = tree.gone().wait_for(|gone| *gone).await;
        })
    }

    fn descendants(&self) -> BoxFuture<Vec<Descendant>> {
        if self.tree.is_gone() {
            return Box::pin(std::future::ready(Vec::new()));
        }
        let tree = Arc::clone(&self.tree);
        let listed = self.watch.runtime().spawn_blocking(move || tree.descendants());
        Box::pin(async move { listed.await.unwrap_or_default() })
    }
}

impl Drop for LocalControl {
    fn drop(&mut self) {
        self.kill_tree();
    }
}
