//! A child and all that descend from it: who belongs to it, and how all of them are reached.
//!
//! Where the child has a cgroup, the kernel keeps the list. Everywhere a second list is kept in mind, from the process
//! table, for those that left the cgroup and for systems without: this process is a subreaper, so every descendant stays below
//! it, and each process below it belongs to the leader it descends from; an orphan, which the kernel has handed to us,
//! says by its session, its process group or the marks in its environment whose it is. Who has given up all three
//! *and* its parents is out of reach, which only a cgroup could prevent.
//!
//! A number of a process is never trusted over time: whoever signals one takes a descriptor first, and checks the
//! membership again before it sends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::watch;

use super::cgroup::Cgroup;
use super::reap::{self, Leader};
use super::table::{self, Entry, Table};
use crate::core::command::{EnvVar, PROCESS_VARIABLE, SESSION_VARIABLE};
use crate::core::signal::Signal;
use crate::core::spawn::Descendant;

/// Descendants that are listed at most: enough to see what is going on, whatever a fork bomb does.
pub(super) const LISTED_MAX: usize = 256;

/// A child and all that descend from it.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) leader: Arc<Leader>,
    /// Set once the child is in it.
    cgroup: OnceLock<Cgroup>,
    marks: Vec<Vec<u8>>,
    /// Killed: whoever is found later, for it was forked while the walk was under way, is killed as well.
    condemned: AtomicBool,
    /// Which of [`PLACED`] and [`REAPED`] have happened. Before both have, nobody can tell that nothing is left.
    steps: AtomicU8,
    gone: watch::Sender<bool>,
}

/// The child is in its cgroup, with whatever it had forked, or will never be.
pub(super) const PLACED: u8 = 1;
/// The leader has been reaped.
pub(super) const REAPED: u8 = 2;

/// What the environment of every descendant says, unless it was given another one.
pub(super) fn marks(env: &[EnvVar]) -> Vec<Vec<u8>> {
    let mark = |name: &str| {
        let var = env.iter().find(|var| var.name == name)?;
        Some([name.as_bytes(), b"=", &var.value].concat())
    };
    match (mark(SESSION_VARIABLE), mark(PROCESS_VARIABLE)) {
        (Some(session), Some(process)) => vec![session, process],
        // One of them alone does not tell one child of a session from another.
        _ => Vec::new(),
    }
}

impl Tree {
    pub(super) fn new(leader: Arc<Leader>, marks: Vec<Vec<u8>>) -> Self {
        Self {
            leader,
            cgroup: OnceLock::new(),
            marks,
            condemned: AtomicBool::new(false),
            steps: AtomicU8::new(0),
            gone: watch::Sender::new(false),
        }
    }

    /// The cgroup, once the child is in it.
    pub(super) fn cgroup(&self) -> Option<&Cgroup> {
        self.cgroup.get()
    }

    /// The child is in `cgroup` now. If it was to be killed meanwhile, it is.
    pub(super) fn set_cgroup(&self, cgroup: Cgroup) {
        let cgroup = self.cgroup.get_or_init(|| cgroup);
        if self.is_condemned() {
            cgroup.kill();
        }
    }

    pub(super) fn marks(&self) -> &[Vec<u8>] {
        &self.marks
    }

    /// Notes a step; true for the one that makes both.
    pub(super) fn is_last(&self, step: u8) -> bool {
        let before = self.steps.fetch_or(step, Ordering::AcqRel);
        before != PLACED | REAPED && before | step == PLACED | REAPED
    }

    pub(super) fn is_gone(&self) -> bool {
        *self.gone.borrow()
    }

    /// Changes to true once, when nothing is left.
    pub(super) fn gone(&self) -> watch::Receiver<bool> {
        self.gone.subscribe()
    }

    /// Nothing is left: tells whoever waits, and removes the cgroup.
    pub(super) fn set_gone(&self) {
        if let Some(cgroup) = self.cgroup()
            && let Err(error) = cgroup.remove()
        {
            tracing::warn!(%error, "an empty cgroup cannot be removed");
        }
        self.gone.send_replace(true);
    }

    /// Kills what can be reached without a walk through the process table.
    pub(super) fn kill_at_once(&self) {
        self.condemned.store(true, Ordering::SeqCst);
        if let Some(cgroup) = self.cgroup() {
            cgroup.kill();
        }
        let _ = self.leader.signal_group(Signal::KILL);
    }

    pub(super) fn is_condemned(&self) -> bool {
        self.condemned.load(Ordering::SeqCst)
    }

    /// Signals what can be reached without a walk, the leader and whoever is in the cgroup, and says who that was.
    pub(super) fn signal_at_once(&self, signal: Signal) -> BTreeSet<u32> {
        let leader = self.leader.pid();
        let _ = self.leader.signal(signal);
        let mut reached = BTreeSet::from([leader]);
        let Some(cgroup) = self.cgroup() else { return reached };
        for pid in cgroup.members() {
            if pid != leader && send(pid, signal, || cgroup.holds(pid)) {
                reached.insert(pid);
            }
        }
        reached
    }

    /// The members, with the leader while it is not reaped, in which the walk `table` found life.
    pub(super) fn members<'a>(&self, table: &'a Table, leaders: &BTreeSet<u32>) -> Vec<&'a Entry> {
        let me = std::process::id();
        let leader = self.leader.pid();
        let reaped = self.leader.is_reaped();
        // Once it is reaped, its number may be another child's; then a session of that number is not ours.
        let number_is_ours = !reaped || !leaders.contains(&leader);
        let stranger = |pid: u32| pid == me || (leaders.contains(&pid) && (reaped || pid != leader));
        let mut found: BTreeMap<u32, &Entry> = BTreeMap::new();
        let mut next: Vec<&Entry> = Vec::new();
        for entry in table.entries() {
            let orphan = entry.parent == me || entry.parent == 1 || table.get(entry.parent).is_none();
            if stranger(entry.pid) || !orphan {
                continue;
            }
            let ours = (!reaped && entry.pid == leader)
                || (number_is_ours
                    && entry.parent == me
                    && (entry.session == leader || entry.group == leader))
                || if entry.parent == me {
                    table::orphan_has_marks(entry.pid, &self.marks)
                } else {
                    table::has_marks(entry.pid, &self.marks)
                };
            if ours {
                next.push(entry);
            }
        }
        while let Some(entry) = next.pop() {
            if found.insert(entry.pid, entry).is_none() {
                let below = table.children(entry.pid).iter().filter(|pid| !stranger(**pid));
                next.extend(below.filter_map(|pid| table.get(*pid)));
            }
        }
        found.into_values().filter(|entry| entry.alive).collect()
    }

    /// Whether anything lives that the walk `table` could see; without a walk there is no orphan at all.
    pub(super) fn has_life(&self, table: Option<&Table>, leaders: &BTreeSet<u32>) -> bool {
        if !self.leader.is_reaped() {
            return true;
        }
        match self.cgroup() {
            // What cannot be read may live.
            Some(cgroup) => cgroup.is_populated().unwrap_or(true),
            None => table.is_some_and(|table| !self.members(table, leaders).is_empty()),
        }
    }

    /// Members that answer `wanted`, for a signal. May walk the process table; not for a runtime thread unless there
    /// is a cgroup.
    pub(super) fn signal_each(&self, signal: Signal, wanted: impl Fn(&Entry) -> bool) -> bool {
        let mut reached = false;
        if let Some(cgroup) = self.cgroup() {
            for pid in cgroup.members() {
                let same = || cgroup.holds(pid) && Entry::read(pid).is_some_and(|entry| wanted(&entry));
                reached |= send(pid, signal, same);
            }
            return reached;
        }
        let Ok(table) = Table::read() else { return false };
        for entry in self.members(&table, &reap::leaders()) {
            if wanted(entry) {
                reached |= send_to(entry, signal);
            }
        }
        reached
    }

    /// The live descendants. May walk the process table; not for a runtime thread.
    pub(super) fn descendants(&self) -> Vec<Descendant> {
        if self.is_gone() {
            return Vec::new();
        }
        let leader = self.leader.pid();
        let leader_lives = !self.leader.is_reaped();
        let entries: Vec<Entry> = match self.cgroup() {
            Some(cgroup) => cgroup.members().into_iter().filter_map(Entry::read).collect(),
            None => match Table::read() {
                Ok(table) => self.members(&table, &reap::leaders()).into_iter().cloned().collect(),
                Err(_) => Vec::new(),
            },
        };
        let listed =
            entries.into_iter().filter(|entry| entry.alive && !(leader_lives && entry.pid == leader));
        listed.take(LISTED_MAX).map(|entry| Descendant { pid: entry.pid, name: entry.name }).collect()
    }
}

/// Sends `signal` to the very process that the table showed.
pub(super) fn send_to(entry: &Entry, signal: Signal) -> bool {
    let started = entry.started;
    send(entry.pid, signal, || Entry::read(entry.pid).is_some_and(|now| now.started == started))
}

fn send(pid: u32, signal: Signal, same: impl FnOnce() -> bool) -> bool {
    let Ok(raw) = reap::raw_signal(signal) else { return false };
    match table::signal_same(pid, raw, same) {
        Ok(()) => true,
        Err(rustix::io::Errno::SRCH) => false,
        Err(errno) => {
            tracing::warn!(pid, %signal, %errno, "a descendant cannot be signalled");
            false
        }
    }
}
