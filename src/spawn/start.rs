//! Starts one child, on a thread that may block: `posix_spawn` holds its caller until the program runs. Everything
//! that can fail for want of descriptors is opened before there is a child.

use std::ffi::CString;
use std::future::Future;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::sync::oneshot;

use super::cgroup::Cgroup;
use super::control::LocalControl;
use super::program::{self, SCRIPT_SHELL, Verdict, c_string};
use super::pty::Terminal;
use super::reap::{self, Leader, Start};
use super::table::{self, Entry};
use super::tree::{self, Tree};
use super::unix::{self, Connect, Launch};
use super::{Shared, pipe, pty};
use crate::core::command::EnvVar;
use crate::core::spawn::{Enforced, SpawnError, SpawnPlan, Stdio};
use crate::host::ports::{Exit, Exited, Output, Spawned, Stdin};

/// How often what a child forked before it was in its cgroup is looked for: each round finds what the round before
/// could not see yet, and a child that outruns this many is caught by the walk of a kill.
const PLACE_ROUNDS_MAX: usize = 8;

/// What a child is connected to.
struct Connection {
    child: ChildSide,
    output: Box<dyn Output>,
    stdin: Option<Box<dyn Stdin>>,
    terminal: Option<Terminal>,
}

enum ChildSide {
    Terminal(CString),
    Pipes([OwnedFd; 3]),
}

fn connect(stdio: Stdio) -> Result<Connection, SpawnError> {
    match stdio {
        Stdio::Terminal(size) => {
            let pair = pty::open_pair(size)?;
            Ok(Connection {
                child: ChildSide::Terminal(pair.name),
                output: Box::new(pair.output),
                stdin: Some(Box::new(pair.stdin)),
                terminal: Some(pair.terminal),
            })
        }
        Stdio::Pipes { stdin } => {
            let pipes = pipe::open_pipes(stdin)?;
            Ok(Connection {
                child: ChildSide::Pipes(pipes.child),
                output: Box::new(pipes.output),
                stdin: pipes.stdin.map(|stdin| Box::new(stdin) as Box<dyn Stdin>),
                terminal: None,
            })
        }
    }
}

/// Starts what `plan` says.
pub(super) fn start(shared: &Arc<Shared>, plan: &SpawnPlan) -> Result<Spawned, SpawnError> {
    let enforced = enforce(plan)?;
    let cwd = program::enter(&plan.cwd)?;
    let asked = plan.argv.first().map_or("", String::as_str);
    let file = program::find(asked, &plan.env, cwd.as_fd())?;
    let argv = plan.argv.iter().map(|arg| c_string(arg.as_bytes())).collect::<Result<Vec<_>, _>>()?;
    let env = plan.env.iter().map(variable).collect::<Result<Vec<_>, _>>()?;
    let connection = connect(plan.stdio)?;
    let place = shared.create_cgroup();

    let launched = launch(asked, &file, argv, &env, &cwd, &connection.child);
    // The child's ends are its own now; while they are open here, no pipe would ever end.
    drop(connection.child);
    let pid = match launched {
        Ok(pid) => pid,
        Err(error) => {
            discard(place);
            return Err(error);
        }
    };
    let leader = match Leader::watch(pid) {
        Ok(leader) => Arc::new(leader),
        Err(error) => {
            if let Some(cgroup) = &place {
                let _ = cgroup.add(pid.as_raw_nonzero().get().unsigned_abs());
                cgroup.kill();
            }
            reap::undo(pid);
            discard(place);
            return Err(program::system_io("watch", asked, &error));
        }
    };
    give_back_limit(pid, shared.open_files_max);
    let marks = tree::marks(&plan.env);
    let place = place.and_then(|cgroup| settle(cgroup, leader.pid(), &marks));
    let tree = Arc::new(Tree::new(leader, place, marks));
    let (tell, told) = oneshot::channel();
    shared.watch.runtime().spawn(attend(Arc::clone(shared), Arc::clone(&tree), tell));
    Ok(Spawned {
        pid: Some(tree.leader.pid()),
        enforced,
        control: Arc::new(LocalControl::new(tree, connection.terminal, Arc::clone(&shared.watch))),
        stdin: connection.stdin,
        output: connection.output,
        exit: Box::new(LocalExit { told }),
    })
}

/// There is no sandbox yet, so only a profile that restricts nothing can be honoured.
fn enforce(plan: &SpawnPlan) -> Result<Enforced, SpawnError> {
    match &plan.sandbox {
        None => Ok(Enforced::Nothing),
        Some(profile) if profile.restricts_nothing() => Ok(Enforced::Profile),
        Some(_) => Err(SpawnError::SandboxUnavailable {
            reason: "this release has no sandbox; ask for the profile `full_access` with network `on`"
                .to_owned(),
        }),
    }
}

fn variable(var: &EnvVar) -> Result<CString, SpawnError> {
    c_string(&[var.name.as_bytes(), b"=", &var.value].concat())
}

/// Runs `file`, or the shell on it if it is a script without a first line that says so.
fn launch(
    asked: &str,
    file: &CString,
    mut argv: Vec<CString>,
    env: &[CString],
    cwd: &OwnedFd,
    child: &ChildSide,
) -> Result<Pid, SpawnError> {
    let spawn = |program: &CString, argv: &[CString]| {
        let connect = match child {
            ChildSide::Terminal(name) => Connect::Terminal(name),
            ChildSide::Pipes(ends) => {
                Connect::Descriptors([ends[0].as_fd(), ends[1].as_fd(), ends[2].as_fd()])
            }
        };
        let start = Start::begin();
        let pid = unix::spawn(&Launch { program, argv, env, cwd: cwd.as_fd(), connect })?;
        start.made(pid);
        Ok::<Pid, Errno>(pid)
    };
    let errno = match spawn(file, &argv) {
        Ok(pid) => return Ok(pid),
        Err(Errno::TOOBIG) => return Err(program::too_large(asked, &argv, env)),
        Err(errno) => errno,
    };
    match program::explain(errno, asked, file, cwd.as_fd()) {
        Verdict::Failed(error) => Err(error),
        Verdict::RunByShell => {
            let shell = c_string(SCRIPT_SHELL.as_bytes())?;
            argv.splice(..argv.len().min(1), [shell.clone(), file.clone()]);
            spawn(&shell, &argv).map_err(|errno| match errno {
                Errno::TOOBIG => program::too_large(asked, &argv, env),
                errno => program::system("execute", SCRIPT_SHELL, errno),
            })
        }
    }
}

fn discard(cgroup: Option<Cgroup>) {
    if let Some(Err(error)) = cgroup.map(|cgroup| cgroup.remove()) {
        tracing::warn!(%error, "the cgroup of a child that did not start cannot be removed");
    }
}

/// The server needs many descriptors; a child gets the limit that the server was started with, for programs that
/// close every possible descriptor, or use select.
fn give_back_limit(pid: Pid, open_files_max: Option<Rlimit>) {
    if let Some(limit) = open_files_max
        && let Err(errno) = prlimit(Some(pid), Resource::Nofile, limit)
    {
        tracing::debug!(%errno, "a child keeps the server's limit of open files");
    }
}

/// Moves a child, and whatever it has forked already, into its cgroup. `None` if the system does not let us; its tree
/// is then told by the process table.
fn settle(cgroup: Cgroup, leader: u32, marks: &[Vec<u8>]) -> Option<Cgroup> {
    if let Err(error) = cgroup.add(leader)
        && Errno::from_io_error(&error) != Some(Errno::SRCH)
    {
        tracing::warn!(%error, "a child cannot be moved into its cgroup");
        discard(Some(cgroup));
        return None;
    }
    for _ in 0..PLACE_ROUNDS_MAX {
        // Whoever forks from now on forks inside. If the system's newest process is the child itself, nobody has
        // forked before either.
        if table::last_pid() == Some(leader) {
            break;
        }
        let outside: Vec<u32> =
            early_forks(leader, marks).into_iter().filter(|pid| !cgroup.holds(*pid)).collect();
        if outside.is_empty() {
            break;
        }
        for pid in outside {
            if let Err(error) = cgroup.add(pid) {
                tracing::debug!(pid, %error, "an early fork cannot be moved");
            }
        }
    }
    Some(cgroup)
}

/// The descendants of `leader`: those that still have their parents, and those that were handed to us.
fn early_forks(leader: u32, marks: &[Vec<u8>]) -> Vec<u32> {
    let mut found = table::children_of(leader);
    let leaders = reap::leaders();
    let orphans = table::children_of(std::process::id()).into_iter().filter(|pid| {
        let of_its_session = || Entry::read(*pid).is_some_and(|entry| entry.session == leader);
        !leaders.contains(pid) && (of_its_session() || table::has_marks(*pid, marks))
    });
    found.extend(orphans);
    let mut at = 0;
    while let Some(pid) = found.get(at) {
        let below = table::children_of(*pid);
        found.extend(below);
        at += 1;
    }
    found
}

/// Lives as long as the child: reports its end, then has its tree watched.
async fn attend(shared: Arc<Shared>, tree: Arc<Tree>, tell: oneshot::Sender<Exited>) {
    let exited = tree.leader.reap(&shared.clock).await;
    // Nobody may want to know any more.
    let _ = tell.send(exited);
    shared.watch.leader_reaped(tree);
    reap::reap_orphans();
}

/// Resolves when the reaper has reported.
#[derive(Debug)]
struct LocalExit {
    told: oneshot::Receiver<Exited>,
}

impl Future for LocalExit {
    type Output = Exited;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Exited> {
        match ready!(Pin::new(&mut self.told).poll(cx)) {
            Ok(exited) => Poll::Ready(exited),
            // The reaper only goes without a word when the runtime goes, and then nobody waits.
            Err(_) => Poll::Pending,
        }
    }
}

impl Exit for LocalExit {}
