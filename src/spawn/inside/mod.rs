//! Children in namespaces of their own: started through bwrap and the launcher, which stays inside as the first process.
//! Called by `start`, on a thread that may block.
//!
//! ```text
//!  bwrap          our child; ends when everything inside has ended
//!    └─ launcher  tells us what happens inside, and does there what we ask for
//!         └─ command … and all that descend from it; none can leave
//! ```
//!
//! The kernel itself keeps this tree together, so it needs no cgroup and no walk through the process table to be
//! ended: the end of the launcher is the end of all. The words that are exchanged are in `launcher::message`.

mod control;
mod namespace;

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::oneshot;

use super::cgroup::Cgroup;
use super::launcher::channel::{self, Received};
use super::launcher::message::{Order, Report};
use super::launcher::task::{Place, Task, memory_file};
use super::launcher::{BWRAP_ARGUMENTS_FD, PROGRAM_FD, WORD};
use super::program::{self, c_string, system, system_io};
use super::reap::{self, Leader, Start};
use super::sandbox::Namespaces;
use super::start::{ChildSide, Connection, LocalExit, connect, strings, variable};
use super::table::Entry;
use super::unix::{self, Connect, Launch, Signals};
use super::{Shared, limits};
use crate::core::spawn::{Enforced, SpawnError, SpawnPlan};
use crate::host::ports::Spawned;

use control::InsideControl;
use namespace::{Namespace, Parts};

/// How long each step of setting up a namespace may take before the start is given up: a hundred times what it takes
/// on a loaded machine; only a file system that hangs needs longer.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// What of bwrap's complaints goes into an error.
const COMPLAINT_BYTES_MAX: u64 = 2048;
const NULL: &str = "/dev/null";
/// What errors call what is set up here.
const SANDBOX: &str = "the sandbox";

/// What was heard from inside before the command ran.
#[derive(Debug, Default)]
struct Arrived {
    init: Option<Leader>,
    command: Option<Leader>,
    proxy: Option<OwnedFd>,
    cgroup: Option<Cgroup>,
}

/// Starts what `plan` says in `namespaces`.
pub(super) fn start(
    shared: &Arc<Shared>,
    plan: &SpawnPlan,
    namespaces: Namespaces,
    limits: limits::Plan,
    connection: Option<Connection>,
) -> Result<Spawned, SpawnError> {
    let connection = connection.map_or_else(|| connect(plan.stdio), Ok)?;
    let step = |errno: Errno| system("set up", SANDBOX, errno);
    let (status, launchers_status) = channel::pair().map_err(step)?;
    let (complaints, bwraps_complaints) = pipe_with(PipeFlags::CLOEXEC).map_err(step)?;
    let task = task(shared, plan, &namespaces, &limits, &connection.child)?;
    let stdio = stdio(connection.child)?;

    let pid = {
        let passed = Passed {
            status: launchers_status.as_fd(),
            task: task.into_file().map_err(step)?,
            arguments: memory_file(c"arguments", &namespaces.arguments).map_err(step)?,
            stdio: &stdio,
        };
        run_bwrap(shared, &namespaces, &passed, bwraps_complaints.as_fd())?
    };
    // Its own now; while they are open here, nothing would ever end.
    drop((launchers_status, bwraps_complaints, stdio));
    let outer = Leader::watch(pid).map_err(|error| {
        reap::undo(pid);
        system_io("watch", SANDBOX, &error)
    })?;
    let arrived = match arrive(shared, &outer, &status, &limits) {
        Ok(arrived) => arrived,
        Err(failure) => {
            drop(status);
            // Whoever is inside hears the end of `status` and ends; bwrap itself is ended here.
            reap::undo(pid);
            outer.set_reaped();
            return Err(failure.explain(complaints));
        }
    };
    let (Some(init), Some(command)) = (arrived.init, arrived.command) else {
        reap::undo(pid);
        outer.set_reaped();
        return Err(step(Errno::PROTO));
    };
    let parts = Parts { outer, init, command, status, cgroup: arrived.cgroup };
    let namespace = Namespace::new(parts, namespaces.placeholders).map_err(|error| {
        reap::undo(pid);
        system_io("watch", SANDBOX, &error)
    })?;
    let namespace = Arc::new(namespace);
    let (tell, told) = oneshot::channel();
    let runtime = shared.watch.runtime();
    runtime.spawn(namespace::attend(Arc::clone(shared), Arc::clone(&namespace), tell));
    Ok(Spawned {
        pid: Some(namespace.command.pid()),
        enforced: Enforced { mechanisms: namespaces.confinement.mechanisms, limits: limits.enforced },
        control: Arc::new(InsideControl::new(namespace, connection.terminal, runtime.clone())),
        stdin: connection.stdin,
        output: connection.output,
        exit: Box::new(LocalExit { told }),
        proxy: arrived.proxy.map(Into::into),
    })
}

fn task(
    shared: &Shared,
    plan: &SpawnPlan,
    namespaces: &Namespaces,
    limits: &limits::Plan,
    child: &ChildSide,
) -> Result<Task, SpawnError> {
    // Opened only to say at once what is wrong with it; the command enters it by its name, for the directory that is
    // seen from here is not the one inside.
    drop(program::enter(&plan.cwd)?);
    Ok(Task {
        place: Place::Inside {
            cwd: plan.cwd.as_bytes().to_vec(),
            terminal: matches!(child, ChildSide::Terminal(_)),
            proxy_port: namespaces.proxy_port,
        },
        hold: limits.needs_cgroup(),
        argv: strings(plan.argv.iter().map(|arg| c_string(arg.as_bytes())))?,
        env: strings(plan.env.iter().map(variable))?,
        limits: limits.with_open_files(shared.open_files_max),
        filter: Some(namespaces.confinement.filter),
        rules: namespaces.confinement.rules.clone(),
    })
}

/// The command's descriptors, for the launcher to put in place. Opening a terminal here makes it nobody's controlling
/// terminal.
fn stdio(child: ChildSide) -> Result<Vec<OwnedFd>, SpawnError> {
    match child {
        ChildSide::Pipes(ends) => Ok(ends.into()),
        ChildSide::Terminal(name) => {
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            let terminal = open(name.as_c_str(), flags, Mode::empty())
                .map_err(|errno| system("open", name.to_string_lossy(), errno))?;
            Ok(vec![terminal])
        }
    }
}

struct Passed<'a> {
    status: BorrowedFd<'a>,
    task: OwnedFd,
    arguments: OwnedFd,
    stdio: &'a [OwnedFd],
}

/// Runs bwrap, which shows nothing of the service to what it starts: not its environment, its directory or its
/// descriptors; and which hears no signal but KILL.
fn run_bwrap(
    shared: &Shared,
    namespaces: &Namespaces,
    passed: &Passed<'_>,
    complaints: BorrowedFd<'_>,
) -> Result<rustix::process::Pid, SpawnError> {
    let bwrap = namespaces.bwrap.as_os_str();
    let step = |errno: Errno| system("start", bwrap.to_string_lossy(), errno);
    let launcher = shared
        .sandbox
        .launcher
        .as_ref()
        .map_err(|reason| SpawnError::SandboxUnavailable { reason: reason.clone() })?;
    let null = open(NULL, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(step)?;
    let cwd = program::enter("/")?;
    let program = c_string(bwrap.as_bytes())?;
    let argv = [
        bwrap,
        OsStr::new("--args"),
        OsStr::new(&BWRAP_ARGUMENTS_FD.to_string()),
        OsStr::new("--"),
        OsStr::new(&format!("/proc/self/fd/{PROGRAM_FD}")),
        OsStr::new(WORD),
    ]
    .into_iter()
    .map(|word| c_string(word.as_bytes()))
    .collect::<Result<Vec<CString>, _>>()?;
    let mut all = vec![passed.status, passed.task.as_fd(), launcher.as_fd(), passed.arguments.as_fd()];
    all.extend(passed.stdio.iter().map(AsFd::as_fd));
    let begun = Start::begin();
    let pid = unix::spawn(&Launch {
        program: &program,
        argv: &argv,
        env: &[],
        cwd: cwd.as_fd(),
        connect: Connect::Descriptors([null.as_fd(), null.as_fd(), complaints]),
        passed: &all,
        signals: Signals::Blocked,
    })
    .map_err(step)?;
    begun.made(pid);
    Ok(pid)
}

/// How a reason begins that lies in the setting up itself.
pub(super) const NOT_SET_UP: &str = "it cannot be set up: ";

/// Why there is no command.
enum Failure {
    /// As the launcher says.
    Told(SpawnError),
    /// It has ended without a word: bwrap may have said why.
    Silent,
    /// Nothing has happened for too long.
    Stuck,
}

impl Failure {
    fn explain(self, complaints: OwnedFd) -> SpawnError {
        let reason = match self {
            Self::Told(error) => return error,
            Self::Stuck => format!("setting it up takes longer than {} seconds", START_PATIENCE.as_secs()),
            Self::Silent => {
                let mut text = Vec::new();
                // Ended, so it says no more; but somebody it started may still hold the other end.
                let _ = rustix::io::ioctl_fionbio(&complaints, true);
                let _ = File::from(complaints).take(COMPLAINT_BYTES_MAX).read_to_end(&mut text);
                let text = String::from_utf8_lossy(&text);
                let text = text.trim();
                if text.is_empty() {
                    "it has ended without a word".to_owned()
                } else {
                    text.replace('\n', "; ")
                }
            }
        };
        SpawnError::SandboxUnavailable { reason: format!("{NOT_SET_UP}{reason}") }
    }
}

/// Listens until the command runs.
fn arrive(
    shared: &Shared,
    outer: &Leader,
    status: &OwnedFd,
    limits: &limits::Plan,
) -> Result<Arrived, Failure> {
    let told = |errno: Errno| Failure::Told(system("set up", SANDBOX, errno));
    let mut arrived = Arrived::default();
    loop {
        let Received { bytes, pid, descriptor } = next(status)?;
        match Report::decode(&bytes).map_err(told)? {
            Report::Inside => {
                arrived.proxy = descriptor;
                arrived.init = Some(watch(pid, |parent| parent == outer.pid())?);
                if limits.needs_cgroup() {
                    let members = [outer.pid(), pid.unwrap_or_default()];
                    arrived.cgroup = Some(limits.confine(shared, &members).map_err(Failure::Told)?);
                    channel::send(status.as_fd(), &Order::Go.encode(), None, SendFlags::empty())
                        .map_err(told)?;
                }
            }
            Report::Command => {
                let init = arrived.init.as_ref().map(Leader::pid);
                arrived.command = Some(watch(pid, |parent| Some(parent) == init)?);
            }
            Report::Runs => return Ok(arrived),
            Report::Failed(error) => return Err(Failure::Told(error)),
            Report::Ended { .. } => return Err(Failure::Silent),
        }
    }
}

/// Takes hold of the process that has just spoken, if it is the child of the right one.
fn watch(pid: Option<u32>, is_parent: impl Fn(u32) -> bool) -> Result<Leader, Failure> {
    let gone = || Failure::Told(system("set up", SANDBOX, Errno::SRCH));
    let pid = pid.ok_or_else(gone)?;
    let raw = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).ok_or_else(gone)?;
    let leader = Leader::watch(raw).map_err(|error| Failure::Told(system_io("watch", SANDBOX, &error)))?;
    if Entry::read(pid).is_some_and(|entry| is_parent(entry.parent)) { Ok(leader) } else { Err(gone()) }
}

fn next(status: &OwnedFd) -> Result<Received, Failure> {
    let patience = Timespec::try_from(START_PATIENCE).unwrap_or_default();
    loop {
        match poll(&mut [PollFd::new(status, PollFlags::IN)], Some(&patience)) {
            Ok(0) => return Err(Failure::Stuck),
            Err(Errno::INTR) => continue,
            _ => {}
        }
        return match channel::receive(status.as_fd(), RecvFlags::DONTWAIT) {
            Ok(Some(received)) => Ok(received),
            Err(Errno::AGAIN) => continue,
            Ok(None) | Err(_) => Err(Failure::Silent),
        };
    }
}
