//! The last steps of every command: confinement, terminal, limits, and the program, looked up with the command's own
//! eyes. Called by the launcher, in the process that becomes the command.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Rlimit, chdir, ioctl_tiocsctty, setrlimit, setsid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::task::{Task, c_strings};
use crate::core::command::EnvVar;
use crate::core::spawn::SpawnError;
use crate::spawn::program::{self, SCRIPT_SHELL, Verdict, exhausted, system, words};
use crate::spawn::sandbox::{landlock, privilege, seccomp};
use crate::spawn::unix;

/// What errors call the confinement.
const CONFINEMENT: &str = "the sandbox";

/// Puts this process, and so all that it starts, under the rules and the filter of the task.
pub(super) fn confine(task: &Task) -> Result<(), SpawnError> {
    let refused = |reason: String| SpawnError::SandboxUnavailable { reason };
    // bwrap has done that for its own.
    if task.filter.is_some_and(|filter| !filter.namespace) {
        privilege::give_up().map_err(refused)?;
    }
    if let Some(rules) = &task.rules {
        landlock::restrict(rules).map_err(refused)?;
    }
    if let Some(filter) = task.filter {
        seccomp::install(filter).map_err(refused)?;
    }
    Ok(())
}

/// Enters a session of its own, with `stdio` as terminal or pipes.
pub(super) fn connect(stdio: &[OwnedFd]) -> Result<(), SpawnError> {
    let step = |errno: Errno| system("set up", CONFINEMENT, errno);
    setsid().map_err(step)?;
    if let [terminal] = stdio {
        ioctl_tiocsctty(terminal).map_err(step)?;
    }
    let last = stdio.len().saturating_sub(1);
    let of = |at: usize| stdio.get(at.min(last)).ok_or(Errno::BADF);
    of(0).and_then(dup2_stdin).map_err(step)?;
    of(1).and_then(dup2_stdout).map_err(step)?;
    of(2).and_then(dup2_stderr).map_err(step)
}

/// Enters the working directory.
pub(super) fn enter(cwd: &[u8]) -> Result<(), SpawnError> {
    let path = || String::from_utf8_lossy(cwd).into_owned();
    chdir(cwd).map_err(|errno| match errno {
        Errno::NOENT => SpawnError::CwdMissing { path: path() },
        errno => {
            exhausted(errno).unwrap_or_else(|| SpawnError::CwdDenied { path: path(), reason: words(errno) })
        }
    })
}

/// Becomes the command. Answers only if that fails.
pub(super) fn become_command(task: &Task) -> SpawnError {
    match try_become(task) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

fn try_become(task: &Task) -> Result<std::convert::Infallible, SpawnError> {
    unix::reset_signals();
    let invalid = |errno: Errno| system("pass", "an argument", errno);
    let (mut argv, env) = (c_strings(&task.argv).map_err(invalid)?, c_strings(&task.env).map_err(invalid)?);
    let asked = task.argv.first().map(|name| String::from_utf8_lossy(name).into_owned()).unwrap_or_default();
    let here = openat(CWD, ".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| system("open", ".", errno))?;
    let file = program::find(&asked, &search_path(&task.env), here.as_fd())?;
    // Last, for a limit on descriptors or memory may not leave room for anything else.
    for limit in &task.limits {
        let bounds = Rlimit { current: limit.soft, maximum: limit.hard };
        setrlimit(limit.kind.resource(), bounds).map_err(|errno| system("confine", "a limit", errno))?;
    }
    let errno = unix::execute(&file, &argv, &env);
    if errno == Errno::TOOBIG {
        return Err(program::too_large(&asked, &argv, &env));
    }
    match program::explain(errno, &asked, &file, here.as_fd()) {
        Verdict::Failed(error) => Err(error),
        Verdict::RunByShell => {
            let shell = program::c_string(SCRIPT_SHELL.as_bytes())?;
            argv.splice(..argv.len().min(1), [shell.clone(), file]);
            match unix::execute(&shell, &argv, &env) {
                Errno::TOOBIG => Err(program::too_large(&asked, &argv, &env)),
                errno => Err(system("execute", SCRIPT_SHELL, errno)),
            }
        }
    }
}

/// The one variable that a search needs.
fn search_path(env: &[Vec<u8>]) -> Vec<EnvVar> {
    let path = env.iter().find_map(|variable| variable.strip_prefix(b"PATH="));
    path.map(|value| EnvVar { name: "PATH".into(), value: value.to_vec().into() }).into_iter().collect()
}
