//! The reaper: no child of this process stays a zombie, and no exit status goes to the wrong reader.
//!
//! Two kinds of children end here. A **leader** was started by a spawner; its own task hears the end through the
//! readiness of its pidfd, reaps it by its number and reports it once. An **orphan** is a descendant whose parent has
//! gone; the kernel hands it to this process, which is a subreaper. Orphans are found when SIGCHLD says that something
//! has ended.
//!
//! Children belong to the whole process, so the list of known leaders does too, however many spawners there are. Three
//! kinds of strangers look like an orphan and are left alone:
//! - a child that another part of this process started (a test's `Command`): it is in our session, which no descendant
//!   of a spawner's child can be, for each leader starts a session of its own;
//! - a child that a start in progress has just made and not yet registered, or whose failed start glibc is about to
//!   reap itself: it leads its own session, and is left until every start that was in progress then is over;
//! - a known leader: its own task reaps it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;
use tokio::net::unix::pipe;

use super::table::{self, Entry};
use super::unix;
use crate::core::process::ExitStatus;
use crate::core::signal::Signal;
use crate::core::spawn::ResourceUsage;
use crate::host::clock::Clock;
use crate::host::ports::{ControlError, Exited};

static CHILDREN: Mutex<Children> = Mutex::new(Children::new());

#[derive(Debug)]
struct Children {
    leaders: BTreeSet<u32>,
    /// Starts in progress, by ticket.
    starting: BTreeSet<u64>,
    next_ticket: u64,
    /// Ended children that a start in progress may have made: pid and time of start, with the first ticket that was
    /// not yet given when they were seen.
    doubtful: BTreeMap<(u32, u64), u64>,
}

impl Children {
    const fn new() -> Self {
        Self {
            leaders: BTreeSet::new(),
            starting: BTreeSet::new(),
            next_ticket: 0,
            doubtful: BTreeMap::new(),
        }
    }

    /// Reaps every orphan that has ended. Bounded: looks at each child once.
    fn reap_orphans(&mut self) {
        let Some(first) = unix::ended_child() else { return };
        if self.leaders.contains(&first) && self.doubtful.is_empty() {
            // Its task will reap it and then ask again, which finds what it hides.
            return;
        }
        let me = std::process::id();
        let own_session = Entry::read(me).map(|entry| entry.session);
        for pid in table::children_of(me).into_iter().chain([first]) {
            if !self.leaders.contains(&pid) {
                self.reap_if_orphan(pid, own_session);
            }
        }
        self.doubtful.retain(|(pid, started), _| {
            Entry::read(*pid).is_some_and(|entry| entry.started == *started && !entry.alive)
        });
    }

    fn reap_if_orphan(&mut self, pid: u32, own_session: Option<u32>) {
        let Some(entry) = Entry::read(pid) else { return };
        if entry.alive || Some(entry.session) == own_session {
            return;
        }
        if entry.session == pid && !self.starting.is_empty() {
            let key = (pid, entry.started);
            let ticket = *self.doubtful.entry(key).or_insert(self.next_ticket);
            if self.starting.first().is_some_and(|oldest| *oldest < ticket) {
                return;
            }
        }
        if let Some(raw) = raw(pid) {
            // An orphan's status interests nobody.
            let _ = unix::reap(raw);
        }
    }
}

fn children() -> MutexGuard<'static, Children> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn raw(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Reaps the orphans that have ended.
pub(super) fn reap_orphans() {
    children().reap_orphans();
}

/// The leaders that are not reaped yet.
pub(super) fn leaders() -> BTreeSet<u32> {
    children().leaders.clone()
}

/// Whether a child that is no leader lives, or may live. If none does, every tree whose leader has been reaped is
/// empty: whoever descends from it descends from a child of ours that is an orphan.
pub(super) fn may_have_orphans() -> bool {
    if !unix::has_children() {
        return false;
    }
    // An entry may be missed while others leave the list, hardly twice.
    (0..2).any(|_| {
        let listed = table::try_children_of(std::process::id());
        let leaders = leaders();
        listed.map_or(true, |listed| {
            let mut orphans = listed.iter().filter(|pid| !leaders.contains(pid));
            orphans.any(|pid| Entry::read(*pid).is_some_and(|entry| entry.alive))
        })
    })
}

/// A start in progress. While it lives, no child that it may have made is taken for an orphan.
#[derive(Debug)]
pub(super) struct Start {
    ticket: u64,
}

impl Start {
    pub(super) fn begin() -> Self {
        let mut children = children();
        let ticket = children.next_ticket;
        children.next_ticket += 1;
        children.starting.insert(ticket);
        Self { ticket }
    }

    /// The start made `pid`: from now on it is a leader, whose exit is reported.
    pub(super) fn made(self, pid: Pid) {
        children().leaders.insert(pid.as_raw_nonzero().get().unsigned_abs());
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        let mut children = children();
        children.starting.remove(&self.ticket);
        if !children.doubtful.is_empty() {
            children.reap_orphans();
        }
    }
}

/// A process that is held on to: the one that a spawner started, or one inside its namespaces. Alive, or ended and not
/// yet reaped, or reaped.
#[derive(Debug)]
pub(super) struct Leader {
    pid: Pid,
    /// Readable once it has ended. Signals sent through it cannot reach anybody else.
    pidfd: pipe::Receiver,
    /// Held while it is reaped and while its group is signalled by number: until then the number is taken.
    reaped: Mutex<bool>,
}

impl Leader {
    /// Watches `pid`, which [`Start::made`] has registered. On an error it is the caller's to kill and reap.
    pub(super) fn watch(pid: Pid) -> io::Result<Self> {
        let pidfd = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
        Ok(Self { pid, pidfd: pipe::Receiver::from_owned_fd_unchecked(pidfd)?, reaped: Mutex::new(false) })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    pub(super) fn is_reaped(&self) -> bool {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.reaped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves once it has ended, whoever reaps it.
    pub(super) async fn ended(&self) {
        if !self.is_reaped() {
            let _ = self.pidfd.ready(Interest::READABLE).await;
        }
    }

    /// Somebody else has reaped it, or may do so from now on.
    pub(super) fn set_reaped(&self) {
        *self.lock() = true;
    }

    /// Signals the process itself.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), ControlError> {
        if self.is_reaped() {
            return Err(ControlError::Gone);
        }
        pidfd_send_signal(&self.pidfd, raw_signal(signal)?).map_err(refused)
    }

    /// Signals its process group, if it is not yet reaped, so that the group's number is still its own.
    pub(super) fn signal_group(&self, signal: Signal) -> Option<Result<(), ControlError>> {
        let reaped = self.lock();
        if *reaped {
            return None;
        }
        Some(raw_signal(signal).and_then(|raw| kill_process_group(self.pid, raw).map_err(refused)))
    }

    /// Waits for the end, and reaps it.
    pub(super) async fn reap(&self, clock: &Clock) -> Exited {
        loop {
            let ready = self.pidfd.ready(Interest::READABLE).await;
            let at = clock.now();
            if let Err(error) = ready {
                // The runtime is going down and drops this task; trying again would never let it.
                tracing::debug!(pid = self.pid(), %error, "a child is no longer watched");
                std::future::pending::<()>().await;
            }
            // The answer of `try_io` only clears the readiness when it was false.
            let reaped = self.pidfd.try_io(|| match self.reap_now() {
                Ok(None) => Err(io::ErrorKind::WouldBlock.into()),
                other => Ok(other),
            });
            match reaped {
                Ok(Ok(Some((status, usage)))) => {
                    return Exited { status, usage: Some(usage), out_of_memory: false, at };
                }
                Ok(Err(errno)) => {
                    tracing::error!(pid = self.pid(), %errno, "somebody else has reaped a child; its status is lost");
                    return Exited { status: STATUS_LOST, usage: None, out_of_memory: false, at };
                }
                _ => {}
            }
        }
    }

    fn reap_now(&self) -> Result<Option<(ExitStatus, ResourceUsage)>, Errno> {
        let mut reaped = self.lock();
        let mut children = children();
        let answer = unix::reap(self.pid);
        if !matches!(answer, Ok(None)) {
            *reaped = true;
            children.leaders.remove(&self.pid());
        }
        answer
    }
}

impl Drop for Leader {
    /// Without its task (the runtime is going down) it becomes an orphan like any other.
    fn drop(&mut self) {
        if !self.is_reaped() {
            children().leaders.remove(&self.pid());
        }
    }
}

/// Kills and reaps a child that could not be watched. Blocks for the moment that takes.
pub(super) fn undo(pid: Pid) {
    let _ = kill_process_group(pid, rustix::process::Signal::KILL);
    let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
    children().leaders.remove(&pid.as_raw_nonzero().get().unsigned_abs());
}

/// What is reported of a child whose status somebody else has taken.
const STATUS_LOST: ExitStatus = ExitStatus::Code(255);

pub(super) fn raw_signal(signal: Signal) -> Result<rustix::process::Signal, ControlError> {
    rustix::process::Signal::from_named_raw(signal.number())
        .ok_or_else(|| ControlError::Refused { reason: format!("{signal} is unknown here") })
}

pub(super) fn refused(errno: Errno) -> ControlError {
    match errno {
        Errno::SRCH => ControlError::Gone,
        errno => ControlError::Refused { reason: super::program::words(errno) },
    }
}
