//! The launcher: what this program is between the sandbox and the command. It runs as a hidden first word of `uexec`,
//! before anything else of it, with one thread and no runtime.
//!
//! ```text
//!  server ── posix_spawn ──► bwrap ── exec ──► launcher, pid 1 of its namespace ── fork ──► command
//!     └───── posix_spawn ──► launcher ── exec ──► command                 without namespaces
//! ```
//!
//! `task` is what it is told, `message` what it says and hears, `init` the first process of a namespace, `command` the
//! last steps of every command: its terminal, its limits, and its program as it is found *inside*. Refuses to
//! know: profiles, policies, who asked. A program that embeds the spawner passes [`run_if_asked`] in its `main`.

pub(super) mod channel;
mod codec;
mod command;
mod init;
pub(super) mod message;
pub(super) mod task;

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::SendFlags;

use self::message::Report;
use self::task::{Place, Task};
use super::program::system;
use super::unix::{self, FIRST_PASSED};
use crate::core::spawn::SpawnError;

/// The hidden first word.
pub(super) const WORD: &str = "__launch";
/// How the launcher exits if it cannot even say why.
const EXIT_BROKEN: i32 = 125;

/// What is passed, in order, from [`FIRST_PASSED`] on.
pub(super) const STATUS_FD: i32 = FIRST_PASSED;
const TASK_FD: i32 = FIRST_PASSED + 1;
/// This very program.
pub(super) const PROGRAM_FD: i32 = FIRST_PASSED + 2;
/// Arguments of bwrap, which it has read and closed before the launcher runs.
pub(super) const BWRAP_ARGUMENTS_FD: i32 = FIRST_PASSED + 3;
/// The command's terminal, or its stdin, stdout and stderr.
const STDIO_FD: i32 = FIRST_PASSED + 4;

/// Becomes the launcher, and never returns, if the process was started as one. To be called before anything else in
/// `main`: the launcher must have one thread.
pub fn run_if_asked() {
    let mut words = std::env::args_os();
    if words.nth(1).is_some_and(|word| word == WORD) && words.next().is_none() {
        std::process::exit(run());
    }
}

fn run() -> i32 {
    let Ok(status) = unix::inherited(STATUS_FD) else { return EXIT_BROKEN };
    match launch(&status) {
        Ok(code) => code,
        Err(error) => {
            tell(&status, &Report::Failed(error));
            EXIT_BROKEN
        }
    }
}

fn launch(status: &OwnedFd) -> Result<i32, SpawnError> {
    let start = |errno: Errno| system("start", "the launcher", errno);
    let task = Task::from_file(unix::inherited(TASK_FD).map_err(start)?).map_err(start)?;
    drop(unix::inherited(PROGRAM_FD));
    match &task.place {
        Place::Outside => {
            if task.hold {
                init::hold(status).map_err(start)?;
            }
            command::confine(&task)?;
            tell(status, &Report::Command);
            Err(command::become_command(&task))
        }
        Place::Inside { terminal, .. } => {
            let count = if *terminal { 1 } else { 3 };
            let stdio = (STDIO_FD..STDIO_FD + count).map(unix::inherited).collect::<Result<Vec<_>, _>>();
            init::run(&task, status, stdio.map_err(start)?)
        }
    }
}

/// Says something to the server. If it has gone, nobody needs to know.
fn tell(status: &OwnedFd, report: &Report) {
    let _ = channel::send(status.as_fd(), &report.encode(), None, SendFlags::empty());
}
