//! The first process of a namespace. It starts the command, reaps whoever is handed to it, tells the server how the
//! command ended, and stays while anybody else lives; its own end is the end of all. It also carries out what the
//! server cannot do by numbers that are only known inside.
//!
//! Nobody inside can stop it, look into it or speak for it: signals do not reach the first process of a namespace, it
//! is not dumpable, and it is under the same filter as the command. If the server goes, everything inside ends.

use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, getpid, kill_process_group, set_dumpable_behavior, wait,
    waitpid,
};
use rustix::stdio::dup2_stderr;

use super::message::{Order, Report};
use super::task::{Place, Task};
use super::{channel, command, tell};
use crate::core::spawn::SpawnError;
use crate::spawn::program::{system, system_io};
use crate::spawn::unix;

/// What errors call what is done here.
const NAMESPACE: &str = "the namespace";

/// Runs the command of `task`; answers how to exit once nobody is left.
pub(super) fn run(task: &Task, status: &OwnedFd, stdio: Vec<OwnedFd>) -> Result<i32, SpawnError> {
    let step = |errno: Errno| system("set up", NAMESPACE, errno);
    let Place::Inside { cwd, proxy_port, .. } = &task.place else { return Err(step(Errno::INVAL)) };
    if getpid() != Pid::INIT {
        return Err(step(Errno::PERM));
    }
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(step)?;
    announce(status, *proxy_port)?;
    if task.hold {
        hold(status).map_err(step)?;
    }
    command::confine(task)?;
    let ended = unix::child_signals().map_err(step)?;
    let (gate, held) = pipe_with(PipeFlags::CLOEXEC).map_err(step)?;
    let Some(leader) = unix::fork().map_err(|errno| system("start", NAMESPACE, errno))? else {
        drop(gate);
        tell(status, &Report::Command);
        let error = match command::connect(&stdio).and_then(|()| command::enter(cwd)) {
            Ok(()) => command::become_command(task),
            Err(error) => error,
        };
        // The gate closes only afterwards, so the server hears of the failure alone.
        tell(status, &Report::Failed(error));
        let _ = rustix::io::write(&held, b"x");
        return Ok(super::EXIT_BROKEN);
    };
    drop((held, stdio));
    // From here on nothing can go wrong that anybody would want to read.
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(step)?;
    dup2_stderr(&null).map_err(step)?;
    if rustix::io::read(&gate, &mut [0; 1]) != Ok(0) {
        let _ = waitpid(Some(leader), WaitOptions::empty());
        return Ok(super::EXIT_BROKEN);
    }
    drop(gate);
    tell(status, &Report::Runs);
    Ok(Init { status, ended, leader, leads: Leads::Runs }.serve())
}

/// Waits for the server's word.
pub(super) fn hold(status: &OwnedFd) -> Result<(), Errno> {
    match channel::receive(status.as_fd(), RecvFlags::empty())? {
        Some(received) if Order::decode(&received.bytes)? == Order::Go => Ok(()),
        Some(_) => Err(Errno::BADMSG),
        None => Err(Errno::PIPE),
    }
}

/// Says that the namespace is there. The proxy's socket belongs to the namespace in which it was made, wherever it is
/// held, so the server can accept on it.
fn announce(status: &OwnedFd, proxy_port: Option<u16>) -> Result<(), SpawnError> {
    let listener = match proxy_port {
        None => None,
        Some(port) => Some(
            TcpListener::bind((Ipv4Addr::LOCALHOST, port))
                .map_err(|error| system_io("set up", "the loopback", &error))?,
        ),
    };
    let passed = listener.as_ref().map(AsFd::as_fd);
    channel::send(status.as_fd(), &Report::Inside.encode(), passed, SendFlags::empty())
        .map_err(|errno| system("set up", NAMESPACE, errno))
}

/// Where the command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leads {
    Runs,
    /// Ended, told, and a zombie until the server has taken note.
    Told,
    Reaped,
}

struct Init<'a> {
    status: &'a OwnedFd,
    /// Readable when a child has ended.
    ended: OwnedFd,
    leader: Pid,
    leads: Leads,
}

impl Init<'_> {
    fn serve(mut self) -> i32 {
        loop {
            if self.reap() == Some(Errno::CHILD) {
                return 0;
            }
            let mut ready = [
                PollFd::new(&self.ended, PollFlags::IN),
                PollFd::from_borrowed_fd(self.status.as_fd(), PollFlags::IN),
            ];
            match poll(&mut ready, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return super::EXIT_BROKEN,
            }
            let (child, order) = (ready[0].revents(), ready[1].revents());
            if !child.is_empty() {
                // What it says is less than what a look tells, so it is only emptied.
                let _ = rustix::io::read(&self.ended, &mut [0; 128]);
            }
            if !order.is_empty() && !self.obey() {
                return 0;
            }
        }
    }

    /// Reaps whoever has ended. The command's own end is told first, and it is reaped only when the server knows:
    /// until then its number cannot become another's.
    fn reap(&mut self) -> Option<Errno> {
        if self.leads == Leads::Runs
            && let Ok(Some((status, usage))) = unix::peek_at(self.leader)
        {
            self.leads = Leads::Told;
            tell(self.status, &Report::Ended { status, usage });
        }
        match self.leads {
            // Orphans wait for the moment that takes, for `wait` would take the command as well.
            Leads::Told => None,
            Leads::Runs => {
                self.reap_orphans();
                None
            }
            Leads::Reaped => loop {
                match wait(WaitOptions::NOHANG) {
                    Ok(Some(_)) => {}
                    Ok(None) => return None,
                    Err(errno) => return Some(errno),
                }
            },
        }
    }

    /// Reaps those that are in front of the command in the kernel's list; whoever is behind it when it ends waits.
    fn reap_orphans(&self) {
        while let Some(pid) = unix::ended_child() {
            let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
            if raw == Some(self.leader) || waitpid(raw, WaitOptions::NOHANG).is_err() {
                return;
            }
        }
    }

    /// Carries out one order; false if everything is to end.
    fn obey(&mut self) -> bool {
        let received = match channel::receive(self.status.as_fd(), RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN) => return true,
            Ok(Some(received)) => received,
            Ok(None) | Err(_) => return false,
        };
        match Order::decode(&received.bytes) {
            Ok(Order::Reap) => {
                let _ = waitpid(Some(self.leader), WaitOptions::empty());
                self.leads = Leads::Reaped;
            }
            Ok(Order::SignalGroup(number)) => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    let _ = kill_process_group(self.leader, signal);
                }
            }
            Ok(Order::SignalAll(number)) => unix::signal_others(number),
            Ok(Order::Kill) => {
                self.end();
                return false;
            }
            Ok(Order::Go) | Err(_) => {}
        }
        true
    }

    /// Kills everybody, and tells of the command if that is new.
    fn end(&mut self) {
        unix::signal_others(Signal::KILL.as_raw());
        while self.leads == Leads::Runs {
            match unix::peek_at(self.leader) {
                Ok(None) => drop(poll(&mut [PollFd::new(&self.ended, PollFlags::IN)], None)),
                Ok(Some((status, usage))) => {
                    self.leads = Leads::Told;
                    tell(self.status, &Report::Ended { status, usage });
                }
                Err(_) => return,
            }
            let _ = rustix::io::read(&self.ended, &mut [0; 128]);
        }
    }
}
