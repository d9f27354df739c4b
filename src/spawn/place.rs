//! Puts a child into a cgroup of its own, right after it was started and while it already runs. Called by `start`, on
//! the same thread, once the caller has its answer: after a quiet moment the kernel takes several milliseconds to
//! move a process (it waits for every processor), which no caller needs to wait for.
//!
//! What the child forks before it is moved stays outside and is moved after it: its descendants are looked up until a look finds none
//! outside. Until then, and for whoever slips through, a kill also walks through the process table (`watch`).

use std::sync::Arc;

use rustix::io::Errno;

use super::Shared;
use super::cgroup::{Cgroup, Home};
use super::reap;
use super::table::{self, Entry};
use super::tree::{PLACED, Tree};

/// Each round finds what the round before could not see yet. A child that outruns this many is caught by the walk of
/// a kill.
const ROUNDS_MAX: usize = 8;

/// Places the child of `tree`, if that is possible here, and in any case says that it has been tried.
pub(super) fn place(shared: &Shared, tree: &Arc<Tree>) {
    if let (Some(home), None) = (&shared.home, tree.cgroup()) {
        try_place(home, tree);
    }
    shared.watch.note(tree, PLACED);
}

fn try_place(home: &Home, tree: &Tree) {
    let leader = tree.leader.pid();
    if tree.leader.is_reaped() && has_left_nobody(tree) {
        return;
    }
    let cgroup = match home.create() {
        Ok(cgroup) => cgroup,
        Err(error) => {
            tracing::warn!(%error, "no cgroup for a child; its tree is told by the process table");
            return;
        }
    };
    match cgroup.add(leader) {
        Ok(()) => {}
        // It has ended already; what it has left is still to be moved.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => {}
        Err(error) => {
            tracing::warn!(%error, "a child cannot be moved into its cgroup");
            if let Err(error) = cgroup.remove() {
                tracing::warn!(%error, "a cgroup that is not used cannot be removed");
            }
            return;
        }
    }
    if tree.leader.is_reaped() && cgroup.holds(leader) {
        // Its number was given to somebody else within these milliseconds, so to speak: it takes a whole round of
        // all numbers. But a stranger in a child's cgroup would die with it.
        let _ = home.take_back(leader);
    }
    gather(&cgroup, tree);
    tree.set_cgroup(cgroup);
}

/// Moves what the child has forked before it was moved itself.
fn gather(cgroup: &Cgroup, tree: &Tree) {
    for _ in 0..ROUNDS_MAX {
        // Whoever forks from now on forks inside. If the system's newest process is the child itself, nobody has
        // forked before either.
        if table::last_pid() == Some(tree.leader.pid()) {
            return;
        }
        let look =
            || -> Vec<u32> { early_forks(tree).into_iter().filter(|pid| !cgroup.holds(*pid)).collect() };
        let outside = look();
        if outside.is_empty() && look().is_empty() {
            return;
        }
        for pid in outside {
            if let Err(error) = cgroup.add(pid) {
                tracing::debug!(pid, %error, "an early fork cannot be moved");
            }
        }
    }
}

/// A look can miss a process whose parent forks it and ends during the look; two do not miss the same one.
fn has_left_nobody(tree: &Tree) -> bool {
    early_forks(tree).is_empty() && early_forks(tree).is_empty()
}

/// The descendants of the child: those that still have their parents, and those that were handed to us.
fn early_forks(tree: &Tree) -> Vec<u32> {
    let leader = tree.leader.pid();
    let mut found = if tree.leader.is_reaped() { Vec::new() } else { table::children_of(leader) };
    let leaders = reap::leaders();
    let orphans = table::children_of(std::process::id()).into_iter().filter(|pid| {
        let of_its_session = |entry: &Entry| entry.session == leader;
        !leaders.contains(pid)
            && Entry::read(*pid).is_some_and(|entry| {
                entry.alive && (of_its_session(&entry) || table::orphan_has_marks(*pid, tree.marks()))
            })
    });
    found.extend(orphans);
    let mut at = 0;
    while let Some(pid) = found.get(at) {
        let below = table::children_of(*pid);
        found.extend(below);
        at += 1;
    }
    found
}
