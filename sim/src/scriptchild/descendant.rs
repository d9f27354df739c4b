//! What a script forks: this very program again, so that nothing is forked without an exec.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::event::Timespec;
use unified_exec::core::signal::Signal;

use super::{LIFE_MAX, ScriptError};

/// What a descendant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Stays in the group and holds the outputs open.
    Holder,
    /// Leaves the group, and becomes a daemon by starting one.
    Leaver,
    /// Has left the group and holds nothing.
    Daemon,
}

/// How a descendant lives.
#[derive(Clone, Debug, clap::Args)]
pub struct Life {
    /// Milliseconds; 0 is until it is killed
    #[arg(long, default_value_t = 0)]
    pub lives: u64,
    /// Signals that it ignores
    #[arg(long, value_parser = signal)]
    pub ignore: Vec<Signal>,
}

fn signal(name: &str) -> Result<Signal, String> {
    crate::scenario::check::parse_signal("ignore", name)
}

/// Starts one, and returns once it ignores what it is to ignore.
pub(super) fn start(kind: Kind, life: &Life) -> Result<Child, ScriptError> {
    let (told, tell) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|errno| ScriptError::system("make a pipe")(errno.into()))?;
    let mut command = again(kind, life).map_err(ScriptError::system("find its own program"))?;
    command.stdin(Stdio::from(tell));
    if kind != Kind::Holder {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    let child = command.spawn().map_err(ScriptError::system("fork"))?;
    // The command holds the other end, without which the read would never end if the child dies at once.
    drop(command);
    let mut word = [0u8; 1];
    match rustix::io::retry_on_intr(|| rustix::io::read(&told, &mut word)) {
        Ok(1) => Ok(child),
        Ok(_) => Err(ScriptError::system("fork")(io::Error::other("the descendant ended at once"))),
        Err(errno) => Err(ScriptError::system("hear of a descendant")(errno.into())),
    }
}

/// This program, to be started as a descendant.
#[expect(clippy::disallowed_methods, reason = "the child of a spawner, which may fork as any program does")]
fn again(kind: Kind, life: &Life) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    let name = match kind {
        Kind::Holder => "holder",
        Kind::Leaver => "leaver",
        Kind::Daemon => "daemon",
    };
    command.args(["scriptchild", "--descendant", name, "--lives", &life.lives.to_string()]);
    for signal in &life.ignore {
        command.args(["--ignore", signal.name()]);
    }
    Ok(command)
}

/// A process that goes on with `acts` when its parent has ended: bytes that were on the way.
#[expect(clippy::disallowed_methods, reason = "the child of a spawner, which may fork as any program does")]
pub(super) fn start_tail(acts: &str) -> Result<(), ScriptError> {
    let exe = std::env::current_exe().map_err(ScriptError::system("find its own program"))?;
    let tail = Command::new(exe).args(["scriptchild", acts]).stdin(Stdio::null()).spawn();
    tail.map(drop).map_err(ScriptError::system("fork"))
}

/// Lives as a descendant. Its stdin is where it says that it is there.
pub fn live(kind: Kind, life: &Life) -> Result<(), ScriptError> {
    for signal in &life.ignore {
        ignore(*signal)?;
    }
    if kind == Kind::Leaver {
        rustix::process::setsid().map_err(|errno| ScriptError::system("leave")(errno.into()))?;
        let mut daemon = again(Kind::Daemon, life).map_err(ScriptError::system("find its own program"))?;
        daemon.stdin(Stdio::inherit()).stdout(Stdio::null()).stderr(Stdio::null());
        return daemon.spawn().map(drop).map_err(ScriptError::system("fork"));
    }
    rustix::io::write(rustix::stdio::stdin(), b"!")
        .map_err(|errno| ScriptError::system("say that it is there")(errno.into()))?;
    rustix::stdio::dup2_stdin(null()?)
        .map_err(|errno| ScriptError::system("let go of stdin")(errno.into()))?;
    let lives = if life.lives == 0 { LIFE_MAX } else { Duration::from_millis(life.lives) };
    sleep(lives);
    Ok(())
}

/// Waits that long, whatever signals come.
#[expect(clippy::disallowed_methods, reason = "a real child lives in real time")]
pub(super) fn sleep(time: Duration) {
    let until = std::time::Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return;
        }
        // An interruption is a reason to look at the clock again.
        rustix::event::poll(&mut [], Some(&timespec(left))).ok();
    }
}

pub(super) fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}

/// Ignores a signal from now on. A handler that does nothing stands for it: what is forked is told by name.
pub(super) fn ignore(signal: Signal) -> Result<(), ScriptError> {
    signal_hook::flag::register(signal.number(), Arc::new(AtomicBool::new(false)))
        .map(drop)
        .map_err(ScriptError::system("ignore a signal"))
}

pub(super) fn null() -> Result<OwnedFd, ScriptError> {
    let file = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null");
    file.map(OwnedFd::from).map_err(ScriptError::system("open /dev/null"))
}
