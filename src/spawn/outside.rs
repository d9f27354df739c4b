//! Children that pass through the launcher without namespaces: it puts limits, or a confinement, on itself and becomes the
//! command, so that the child is the same process all along. Called by `start`.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::Pid;

use super::cgroup::Cgroup;
use super::launcher::message::{Order, Report};
use super::launcher::task::{Place, Task};
use super::launcher::{PROGRAM_FD, WORD, channel};
use super::program::{c_string, system};
use super::reap::{self, Start};
use super::sandbox::Confinement;
use super::start::{ChildSide, strings, variable};
use super::unix::{self, Launch, Signals};
use super::{Shared, limits};
use crate::core::spawn::{SpawnError, SpawnPlan};

/// What errors call it.
const LAUNCHER: &str = "the launcher";

/// Runs the launcher, and answers once the command runs.
pub(super) fn launch(
    shared: &Shared,
    plan: &SpawnPlan,
    cwd: &OwnedFd,
    child: &ChildSide,
    limits: &limits::Plan,
    confinement: Option<Confinement>,
) -> Result<(Pid, Option<Cgroup>), SpawnError> {
    let step = |errno: Errno| system("start", LAUNCHER, errno);
    let launcher = shared.sandbox.launcher.as_ref().map_err(|reason| no_launcher(limits, reason))?;
    let (filter, rules) = match confinement {
        Some(Confinement { filter, rules, .. }) => (Some(filter), rules),
        None => (None, None),
    };
    let task = Task {
        place: Place::Outside,
        hold: limits.needs_cgroup(),
        argv: strings(plan.argv.iter().map(|arg| c_string(arg.as_bytes())))?,
        env: strings(plan.env.iter().map(variable))?,
        limits: limits.with_open_files(shared.open_files_max),
        filter,
        rules,
    };
    let (status, launchers_status) = channel::pair().map_err(step)?;
    let task = task.into_file().map_err(step)?;
    let argv: Vec<CString> =
        ["uexec", WORD].iter().map(|word| c_string(word.as_bytes())).collect::<Result<_, _>>()?;
    let begun = Start::begin();
    let pid = unix::spawn(&Launch {
        program: &c_string(format!("/proc/self/fd/{PROGRAM_FD}").as_bytes())?,
        argv: &argv,
        env: &[],
        cwd: cwd.as_fd(),
        connect: child.connect(),
        passed: &[launchers_status.as_fd(), task.as_fd(), launcher.as_fd()],
        signals: Signals::Blocked,
    })
    .map_err(step)?;
    begun.made(pid);
    drop(launchers_status);
    match arrive(shared, pid, &status, limits) {
        Ok(cgroup) => Ok((pid, cgroup)),
        Err(error) => {
            reap::undo(pid);
            Err(error)
        }
    }
}

/// Without a launcher nothing can be limited.
fn no_launcher(limits: &limits::Plan, reason: &str) -> SpawnError {
    match limits.enforced.first() {
        Some(limit) => SpawnError::LimitUnenforceable { limit: limit.name, reason: reason.to_owned() },
        None => SpawnError::SandboxUnavailable { reason: reason.to_owned() },
    }
}

/// Listens until the launcher has become the command: then its end of the socket is closed.
fn arrive(
    shared: &Shared,
    pid: Pid,
    status: &OwnedFd,
    limits: &limits::Plan,
) -> Result<Option<Cgroup>, SpawnError> {
    let step = |errno: Errno| system("start", LAUNCHER, errno);
    let mut cgroup = None;
    if limits.needs_cgroup() {
        cgroup = Some(limits.confine(shared, &[pid.as_raw_nonzero().get().unsigned_abs()])?);
        channel::send(status.as_fd(), &Order::Go.encode(), None, SendFlags::empty()).map_err(step)?;
    }
    let mut is_launcher = false;
    let failed = loop {
        match channel::receive(status.as_fd(), RecvFlags::empty()) {
            Ok(None) if is_launcher => return Ok(cgroup),
            Ok(None) => break step(Errno::PROTO),
            Ok(Some(received)) => match Report::decode(&received.bytes) {
                Ok(Report::Command) => is_launcher = true,
                Ok(Report::Failed(error)) => break error,
                _ => break step(Errno::PROTO),
            },
            Err(errno) => break step(errno),
        }
    };
    if let Some(cgroup) = cgroup {
        cgroup.kill();
        let _ = cgroup.remove();
    }
    Err(failed)
}
