//! A child in its namespaces, as long as anything of it lives: what we hold of it, and the task that hears how it ends.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::Interest;
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};

use crate::core::process::ExitStatus;
use crate::core::spawn::ResourceUsage;
use crate::host::ports::Exited;
use crate::spawn::Shared;
use crate::spawn::cgroup::Cgroup;
use crate::spawn::launcher::channel;
use crate::spawn::launcher::message::{Order, Report};
use crate::spawn::reap::{self, Leader};
use crate::spawn::sandbox::Placeholders;

/// A child in its namespaces.
#[derive(Debug)]
pub(super) struct Namespace {
    /// bwrap, our own child.
    outer: Leader,
    /// The launcher, first process inside.
    pub(super) init: Leader,
    /// What was asked for, as we see its number.
    pub(super) command: Leader,
    /// What the launcher says, and hears.
    status: pipe::Receiver,
    cgroup: Option<Cgroup>,
    /// What must stay in place while anybody inside lives.
    placeholders: Mutex<Option<Placeholders>>,
    condemned: AtomicBool,
    gone: watch::Sender<bool>,
}

/// What a start has gathered.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) outer: Leader,
    pub(super) init: Leader,
    pub(super) command: Leader,
    pub(super) status: OwnedFd,
    pub(super) cgroup: Option<Cgroup>,
}

impl Namespace {
    pub(super) fn new(parts: Parts, placeholders: Placeholders) -> io::Result<Self> {
        let Parts { outer, init, command, status, cgroup } = parts;
        rustix::io::ioctl_fionbio(&status, true)?;
        Ok(Self {
            outer,
            init,
            command,
            // A socket is as good as a pipe for whoever only waits until it is readable.
            status: pipe::Receiver::from_owned_fd_unchecked(status)?,
            cgroup,
            placeholders: Mutex::new(Some(placeholders)),
            condemned: AtomicBool::new(false),
            gone: watch::Sender::new(false),
        })
    }

    pub(super) fn is_gone(&self) -> bool {
        *self.gone.borrow()
    }

    pub(super) fn gone(&self) -> watch::Receiver<bool> {
        self.gone.subscribe()
    }

    /// Notes that it is to be killed; true the first time.
    pub(super) fn condemn(&self) -> bool {
        !self.condemned.swap(true, Ordering::AcqRel)
    }

    /// Asks the launcher for something. Never waits.
    pub(super) fn order(&self, order: Order) -> Result<(), Errno> {
        channel::send(self.status.as_fd(), &order.encode(), None, SendFlags::DONTWAIT)
    }

    /// The next report; `None` when there will be none.
    async fn report(&self) -> Option<Report> {
        loop {
            self.status.ready(Interest::READABLE).await.ok()?;
            let received = self.status.try_io(|| {
                channel::receive(self.status.as_fd(), RecvFlags::DONTWAIT).map_err(io::Error::from)
            });
            match received {
                Ok(Some(received)) => return Report::decode(&received.bytes).ok(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(None) | Err(_) => return None,
            }
        }
    }

    fn exited(&self, shared: &Shared, status: ExitStatus, usage: Option<ResourceUsage>) -> Exited {
        let out_of_memory = self.cgroup.as_ref().is_some_and(Cgroup::has_run_out_of_memory);
        Exited { status, usage, out_of_memory, at: shared.clock.now() }
    }

    /// Nothing is left inside.
    fn set_gone(&self) {
        if let Some(Err(error)) = self.cgroup.as_ref().map(Cgroup::remove) {
            tracing::warn!(%error, "an empty cgroup cannot be removed");
        }
        drop(self.placeholders.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take());
        self.gone.send_replace(true);
    }
}

/// Lives as long as anything inside: reports the command's end, then the end of all.
pub(super) async fn attend(shared: Arc<Shared>, namespace: Arc<Namespace>, tell: oneshot::Sender<Exited>) {
    let mut tell = Some(tell);
    let mut outer = pin!(namespace.outer.reap(&shared.clock));
    let mut speaks = true;
    let end = loop {
        tokio::select! {
            // What the launcher says of the command is better than what bwrap's end says.
            biased;
            report = namespace.report(), if speaks => match report {
                Some(Report::Ended { status, usage }) => {
                    namespace.command.set_reaped();
                    // If it does not hear, it is ending.
                    let _ = namespace.order(Order::Reap);
                    if let Some(tell) = tell.take() {
                        let _ = tell.send(namespace.exited(&shared, status, Some(usage)));
                    }
                }
                Some(_) => {}
                None => speaks = false,
            },
            end = &mut outer => break end,
        }
    };
    // Usually it has ended before bwrap. If somebody has killed bwrap alone, it ends now.
    let _ = namespace.init.signal(crate::core::signal::Signal::KILL);
    namespace.init.ended().await;
    namespace.init.set_reaped();
    namespace.command.set_reaped();
    if let Some(tell) = tell.take() {
        let _ = tell.send(namespace.exited(&shared, as_seen_from_outside(end.status), end.usage));
    }
    namespace.set_gone();
    reap::reap_orphans();
}

/// bwrap reports a death by signal n as 128 + n, as shells do; the launcher itself never exits so.
fn as_seen_from_outside(status: ExitStatus) -> ExitStatus {
    match status {
        ExitStatus::Code(code) if code > 128 => ExitStatus::Signal { number: code - 128, core_dumped: false },
        other => other,
    }
}
