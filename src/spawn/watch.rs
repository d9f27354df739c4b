//! The agents behind all children of one spawner: they notice when a tree is gone, and reach the members that no
//! cgroup holds. Called by `start`, `control` and the exit tasks.
//!
//! Nothing here polls. A tree can only be gone once its leader is reaped; from then on
//! - a tree with a cgroup is watched by one shared inotify descriptor on its `cgroup.events`;
//! - any other is looked at again whenever SIGCHLD has come: this process is a subreaper, so the last member of a
//!   tree always dies as its child.
//!
//! Walks through the process table are shared: whatever is asked for while one is under way is served by the next,
//! which runs off the runtime's threads. So closing a thousand terminals costs a few walks and not a thousand.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::fs::inotify;
use tokio::net::unix::pipe;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::AbortHandle;

use super::cgroup::Cgroup;
use super::reap;
use super::table::Table;
use super::tree::{Tree, send_to};
use crate::core::signal::Signal;

/// Room for a few hundred events at once; each is 16 bytes, for files are watched and not directories.
const EVENT_BUFFER_BYTES: usize = 4096;
/// Bytes of an event before its name.
const EVENT_HEADER_BYTES: usize = 16;
/// Walks of one kill before it sends what it has found to its death and lets a later exit trigger the rest: enough
/// for any chain of forks that is no attack on the machine.
const KILL_WALKS_MAX: usize = 32;

#[derive(Debug)]
enum Watched {
    Tree(Arc<Tree>),
    /// What a server that is gone has left.
    Leftover(Cgroup),
}

impl Watched {
    fn cgroup(&self) -> Option<&Cgroup> {
        match self {
            Self::Tree(tree) => tree.cgroup(),
            Self::Leftover(cgroup) => Some(cgroup),
        }
    }

    fn emptied(&self) {
        // The last of them may have just become a zombie of ours.
        reap::reap_orphans();
        match self {
            Self::Tree(tree) => tree.set_gone(),
            Self::Leftover(cgroup) => {
                if let Err(error) = cgroup.remove() {
                    tracing::warn!(%error, "an abandoned cgroup cannot be removed");
                }
            }
        }
    }
}

/// A signal for the members of a tree that could not be reached at once.
#[derive(Debug)]
struct Request {
    tree: Arc<Tree>,
    signal: Signal,
    /// Who has it already. Not whoever is in the cgroup by the time of the walk: it may have come in meanwhile.
    reached: BTreeSet<u32>,
}

#[derive(Debug, Default)]
struct State {
    /// By inotify's number of the watch.
    watched: BTreeMap<i32, Watched>,
    /// Trees that are looked at when a child has ended.
    looked_at: Vec<Arc<Tree>>,
    requests: Vec<Request>,
    look_due: bool,
    walking: bool,
}

/// The agents behind all children of one spawner.
#[derive(Debug)]
pub(super) struct Watch {
    runtime: Handle,
    inotify: Option<Arc<pipe::Receiver>>,
    state: Mutex<State>,
    agents: Mutex<Vec<AbortHandle>>,
}

impl Drop for Watch {
    /// Requests are left over only if the runtime has gone before their walk: then the kills are made here, so that a
    /// service that shuts down in a hurry leaves nothing either.
    fn drop(&mut self) {
        self.agents.get_mut().unwrap_or_else(PoisonError::into_inner).iter().for_each(AbortHandle::abort);
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let kills = state.requests.iter().filter(|request| request.signal == Signal::KILL);
        if kills.clone().next().is_some() {
            kill_members(kills.map(|request| &request.tree));
        }
    }
}

impl Watch {
    /// Starts the agents. They end when the last child and the spawner have let go.
    pub(super) fn start() -> io::Result<Arc<Self>> {
        let mut ended = signal(SignalKind::child())?;
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let inotify =
            inotify::init(flags).map_err(io::Error::from).and_then(pipe::Receiver::from_owned_fd_unchecked);
        if let Err(error) = &inotify {
            tracing::warn!(%error, "no inotify; trees are looked at whenever a child has ended");
        }
        let watch = Arc::new(Self {
            runtime: Handle::current(),
            inotify: inotify.ok().map(Arc::new),
            state: Mutex::default(),
            agents: Mutex::default(),
        });
        let weak = Arc::downgrade(&watch);
        let mut agents = vec![tokio::spawn(async move {
            while ended.recv().await.is_some() {
                reap::reap_orphans();
                match weak.upgrade() {
                    Some(watch) => watch.look(),
                    None => return,
                }
            }
        })];
        if let Some(inotify) = &watch.inotify {
            agents.push(tokio::spawn(hear_events(Arc::clone(inotify), Arc::downgrade(&watch))));
        }
        *watch.agents.lock().unwrap_or_else(PoisonError::into_inner) =
            agents.iter().map(tokio::task::JoinHandle::abort_handle).collect();
        Ok(watch)
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `step` has happened to `tree`. After both it may be gone, and is watched.
    pub(super) fn note(self: &Arc<Self>, tree: &Arc<Tree>, step: u8) {
        if tree.is_last(step) {
            self.may_be_gone(Arc::clone(tree));
        }
    }

    fn may_be_gone(self: &Arc<Self>, tree: Arc<Tree>) {
        match tree.cgroup() {
            Some(cgroup) if matches!(cgroup.is_populated(), Ok(false)) => tree.set_gone(),
            Some(cgroup) => {
                if tree.is_condemned() {
                    // The first kill may have failed for want of descriptors; the leader has freed some.
                    cgroup.kill();
                }
                self.watch(Watched::Tree(tree));
            }
            None => {
                self.state().looked_at.push(tree);
                self.look();
            }
        }
    }

    /// Removes the cgroup that a server which is gone has left, once it is empty.
    pub(super) fn leftover(self: &Arc<Self>, cgroup: Cgroup) {
        self.watch(Watched::Leftover(cgroup));
    }

    fn watch(self: &Arc<Self>, watched: Watched) {
        let Some(cgroup) = watched.cgroup() else { return };
        let added = match &self.inotify {
            Some(inotify) => inotify::add_watch(&**inotify, cgroup.events(), inotify::WatchFlags::MODIFY),
            None => Err(rustix::io::Errno::NOSYS),
        };
        match (added, watched) {
            (Ok(number), watched) => {
                self.state().watched.insert(number, watched);
                // The last process may have gone before the watch was there.
                self.check(number);
            }
            (Err(_), Watched::Tree(tree)) => {
                self.state().looked_at.push(tree);
                self.look();
            }
            (Err(_), gone @ Watched::Leftover(_)) => gone.emptied(),
        }
    }

    /// Looks at the cgroup behind the watch `number`.
    fn check(&self, number: i32) {
        let mut state = self.state();
        let Some(watched) = state.watched.get(&number) else { return };
        if watched.cgroup().is_some_and(|cgroup| matches!(cgroup.is_populated(), Ok(false))) {
            let watched = state.watched.remove(&number);
            drop(state);
            if let Some(inotify) = &self.inotify {
                let _ = inotify::remove_watch(&**inotify, number);
            }
            if let Some(watched) = watched {
                watched.emptied();
            }
        }
    }

    fn check_all(&self) {
        let numbers: Vec<i32> = self.state().watched.keys().copied().collect();
        for number in numbers {
            self.check(number);
        }
    }

    /// Looks again at the trees that no inotify watches. A child has ended, or a leader has just been reaped.
    pub(super) fn look(self: &Arc<Self>) {
        let mut state = self.state();
        if !state.looked_at.is_empty() {
            state.look_due = true;
            self.walk(state);
        }
    }

    /// Sends `signal` to the members of `tree` other than those `reached` already.
    pub(super) fn signal_rest(self: &Arc<Self>, tree: Arc<Tree>, signal: Signal, reached: BTreeSet<u32>) {
        let mut state = self.state();
        state.requests.push(Request { tree, signal, reached });
        self.walk(state);
    }

    fn walk(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if !state.walking {
            state.walking = true;
            drop(state);
            let this = Arc::clone(self);
            self.runtime.spawn_blocking(move || this.walk_until_done());
        }
    }

    fn walk_until_done(&self) {
        loop {
            let (requests, looked_at) = {
                let mut state = self.state();
                let requests = std::mem::take(&mut state.requests);
                let due = std::mem::take(&mut state.look_due);
                if requests.is_empty() && !due {
                    state.walking = false;
                    return;
                }
                (requests, if due { state.looked_at.clone() } else { Vec::new() })
            };
            let (kills, signals): (Vec<_>, Vec<_>) =
                requests.into_iter().partition(|request| request.signal == Signal::KILL);
            if !signals.is_empty() {
                signal_members(&signals);
            }
            if !kills.is_empty() {
                kill_members(kills.iter().map(|request| &request.tree));
            }
            if !looked_at.is_empty() {
                self.look_at(&looked_at);
            }
        }
    }

    /// Tells the trees that have gone. Whoever lives on in one that was killed is killed in turn; its death brings
    /// the next look.
    fn look_at(&self, trees: &[Arc<Tree>]) {
        // A process that forks and ends during a walk may be missed by it, hardly by two.
        let seen = without_life(trees.iter());
        let gone = without_life(seen.iter());
        self.state().looked_at.retain(|tree| !gone.iter().any(|other| Arc::ptr_eq(tree, other)));
        gone.iter().for_each(|tree| tree.set_gone());
        let survivors = trees.iter().filter(|tree| tree.is_condemned() && !tree.is_gone());
        if survivors.clone().next().is_some() {
            kill_members(survivors);
        }
    }
}

/// Those of `trees` in which one walk finds no life; none if there can be no walk.
fn without_life<'a>(trees: impl Iterator<Item = &'a Arc<Tree>>) -> Vec<Arc<Tree>> {
    let mut trees = trees.peekable();
    if trees.peek().is_none() {
        return Vec::new();
    }
    let table = if reap::may_have_orphans() {
        let Ok(table) = Table::read() else { return Vec::new() };
        Some(table)
    } else {
        None
    };
    let leaders = reap::leaders();
    trees.filter(|tree| !tree.has_life(table.as_ref(), &leaders)).cloned().collect()
}

fn signal_members(requests: &[Request]) {
    let Ok(table) = Table::read() else { return };
    let leaders = reap::leaders();
    for Request { tree, signal, reached } in requests {
        for entry in tree.members(&table, &leaders) {
            if !reached.contains(&entry.pid) {
                send_to(entry, *signal);
            }
        }
    }
}

/// Stops every member before it kills any: a stopped process forks no more, so a program that starts itself anew
/// again and again cannot outrun the walk.
fn kill_members<'a>(trees: impl Iterator<Item = &'a Arc<Tree>> + Clone) {
    let mut found = BTreeSet::new();
    let mut seen = Vec::new();
    for _ in 0..KILL_WALKS_MAX {
        // The common case: a program has ended by itself, and its handles are dropped. Nothing is worth a walk.
        if trees.clone().all(|tree| tree.leader.is_reaped()) && !reap::may_have_orphans() {
            break;
        }
        let Ok(table) = Table::read() else { break };
        let leaders = reap::leaders();
        let before = seen.len();
        for entry in trees.clone().flat_map(|tree| tree.members(&table, &leaders)) {
            if found.insert((entry.pid, entry.started)) {
                send_to(entry, Signal::STOP);
                seen.push(entry.clone());
            }
        }
        if seen.len() == before {
            break;
        }
    }
    for entry in &seen {
        send_to(entry, Signal::KILL);
    }
}

/// Hears of cgroups that changed.
async fn hear_events(inotify: Arc<pipe::Receiver>, watch: Weak<Watch>) {
    let mut buffer = [0; EVENT_BUFFER_BYTES];
    while inotify.readable().await.is_ok() {
        let Ok(read) = inotify.try_read(&mut buffer) else { continue };
        let Some(watch) = watch.upgrade() else { return };
        for number in numbers(&buffer[..read]) {
            if number < 0 { watch.check_all() } else { watch.check(number) }
        }
    }
}

/// The watches that a read from inotify names; -1 if some were lost.
fn numbers(mut events: &[u8]) -> Vec<i32> {
    let mut numbers = Vec::new();
    let word = |bytes: &[u8], at: usize| -> Option<[u8; 4]> { bytes.get(at..at + 4)?.try_into().ok() };
    while let (Some(number), Some(name_length)) = (word(events, 0), word(events, 12)) {
        numbers.push(i32::from_ne_bytes(number));
        let name_length = usize::try_from(u32::from_ne_bytes(name_length)).unwrap_or(0);
        events = events.get(EVENT_HEADER_BYTES + name_length..).unwrap_or_default();
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_with_and_without_names_are_told_apart() {
        let event = |number: i32, name: &[u8]| {
            let mut bytes = Vec::new();
            bytes.extend(number.to_ne_bytes());
            bytes.extend([0; 8]);
            bytes.extend(u32::try_from(name.len()).unwrap().to_ne_bytes());
            bytes.extend(name);
            bytes
        };
        let events = [event(3, b""), event(-1, b""), event(4, b"name\0\0\0\0"), event(5, b"")].concat();
        assert_eq!(numbers(&events), [3, -1, 4, 5]);
    }
}
