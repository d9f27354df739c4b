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

use super::control::LocalControl;
use super::program::{self, SCRIPT_SHELL, Verdict, c_string};
use super::pty::Terminal;
use super::reap::{self, Leader, Start};
use super::tree::{self, REAPED, Tree};
use super::unix::{self, Connect, Launch};
use super::{Shared, pipe, place, pty};
use crate::core::command::EnvVar;
use crate::core::spawn::{Enforced, SpawnError, SpawnPlan, Stdio};
use crate::host::ports::{Exit, Exited, Output, Spawned, Stdin};

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

/// Starts what `plan` says, answers, and then places the child. If nobody takes the answer, it is dropped, which
/// kills the child.
pub(super) fn start(
    shared: &Arc<Shared>,
    plan: &SpawnPlan,
    answer: oneshot::Sender<Result<Spawned, SpawnError>>,
) {
    match try_start(shared, plan) {
        Ok((tree, spawned)) => {
            drop(answer.send(Ok(spawned)));
            place::place(shared, &tree);
        }
        Err(error) => drop(answer.send(Err(error))),
    }
}

fn try_start(shared: &Arc<Shared>, plan: &SpawnPlan) -> Result<(Arc<Tree>, Spawned), SpawnError> {
    let enforced = enforce(plan)?;
    let cwd = program::enter(&plan.cwd)?;
    let asked = plan.argv.first().map_or("", String::as_str);
    let file = program::find(asked, &plan.env, cwd.as_fd())?;
    let argv = plan.argv.iter().map(|arg| c_string(arg.as_bytes())).collect::<Result<Vec<_>, _>>()?;
    let env = plan.env.iter().map(variable).collect::<Result<Vec<_>, _>>()?;
    let connection = connect(plan.stdio)?;

    let launched = launch(asked, &file, argv, &env, &cwd, &connection.child);
    // The child's ends are its own now; while they are open here, no pipe would ever end.
    drop(connection.child);
    let pid = launched?;
    let leader = Leader::watch(pid).map_err(|error| {
        reap::undo(pid);
        program::system_io("watch", asked, &error)
    })?;
    give_back_limit(pid, shared.open_files_max);
    let tree = Arc::new(Tree::new(Arc::new(leader), tree::marks(&plan.env)));
    let (tell, told) = oneshot::channel();
    shared.watch.runtime().spawn(attend(Arc::clone(shared), Arc::clone(&tree), tell));
    let control = LocalControl::new(Arc::clone(&tree), connection.terminal, Arc::clone(&shared.watch));
    let spawned = Spawned {
        pid: Some(tree.leader.pid()),
        enforced,
        control: Arc::new(control),
        stdin: connection.stdin,
        output: connection.output,
        exit: Box::new(LocalExit { told }),
        proxy: None,
    };
    Ok((tree, spawned))
}

/// There is no sandbox yet, so only a profile that restricts nothing can be honoured.
fn enforce(plan: &SpawnPlan) -> Result<Enforced, SpawnError> {
    match &plan.sandbox {
        None => Ok(Enforced::default()),
        Some(profile) if profile.restricts_nothing() => Ok(Enforced::default()),
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

/// The server needs many descriptors; a child gets the limit that the server was started with, for programs that
/// close every possible descriptor, or use select.
fn give_back_limit(pid: Pid, open_files_max: Option<Rlimit>) {
    if let Some(limit) = open_files_max
        && let Err(errno) = prlimit(Some(pid), Resource::Nofile, limit)
    {
        tracing::debug!(%errno, "a child keeps the server's limit of open files");
    }
}

/// Lives as long as the child: reports its end, then has its tree watched.
async fn attend(shared: Arc<Shared>, tree: Arc<Tree>, tell: oneshot::Sender<Exited>) {
    let exited = tree.leader.reap(&shared.clock).await;
    // Nobody may want to know any more.
    let _ = tell.send(exited);
    shared.watch.note(&tree, REAPED);
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
