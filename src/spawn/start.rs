//! Starts one child, on a thread that may block: `posix_spawn` holds its caller until the program runs. Everything
//! that can fail for want of descriptors is opened before there is a child.
//!
//! Three ways lead to a command: at once; through the launcher, which puts limits or a confinement on itself and then
//! becomes the command (`outside`); or through bwrap and the launcher, into namespaces of its own (`inside`).

use std::ffi::CString;
use std::future::Future;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::sync::oneshot;
use tracing::trace_span;

use super::cgroup::{Cgroup, Home};
use super::control::LocalControl;
use super::program::{self, SCRIPT_SHELL, Verdict, c_string};
use super::pty::Terminal;
use super::reap::{self, Leader, Start};
use super::sandbox::{Decision, probe};
use super::tree::{self, REAPED, Tree};
use super::unix::{self, Connect, Launch, Signals};
use super::{Shared, inside, limits, outside, pipe, place, pty};
use crate::core::command::EnvVar;
use crate::core::spawn::{Enforced, SpawnError, SpawnPlan, Stdio};
use crate::host::ports::{Exit, Exited, Output, Spawned, Stdin, TRACE_TARGET};

/// What a child is connected to.
pub(super) struct Connection {
    pub(super) child: ChildSide,
    pub(super) output: Box<dyn Output>,
    pub(super) stdin: Option<Box<dyn Stdin>>,
    pub(super) terminal: Option<Terminal>,
}

pub(super) enum ChildSide {
    Terminal(CString),
    Pipes([OwnedFd; 3]),
}

impl ChildSide {
    pub(super) fn connect(&self) -> Connect<'_> {
        match self {
            Self::Terminal(name) => Connect::Terminal(name),
            Self::Pipes(ends) => Connect::Descriptors([ends[0].as_fd(), ends[1].as_fd(), ends[2].as_fd()]),
        }
    }
}

pub(super) fn connect(stdio: Stdio) -> Result<Connection, SpawnError> {
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
            if let Some(tree) = tree {
                place::place(shared, &tree);
            }
        }
        Err(error) => drop(answer.send(Err(error))),
    }
}

/// The tree is one that is still to be placed; a namespace is none.
fn try_start(shared: &Arc<Shared>, plan: &SpawnPlan) -> Result<(Option<Arc<Tree>>, Spawned), SpawnError> {
    probe_if_needed(shared, plan);
    let connection = connect(plan.stdio)?;
    let terminal = match &connection.child {
        ChildSide::Terminal(name) => Some(name.as_c_str()),
        ChildSide::Pipes(_) => None,
    };
    let decision = {
        let _within = plan.sandbox.as_ref().map(|_| trace_span!(target: TRACE_TARGET, "sandbox").entered());
        shared.sandbox.decide(plan.sandbox.as_ref(), &plan.cwd, terminal)?
    };
    let _within = trace_span!(target: TRACE_TARGET, "spawn").entered();
    let controllers = shared.home.as_ref().map(Home::controllers).unwrap_or_default();
    let (confinement, mechanisms) = match decision {
        Decision::Inside(namespaces) => {
            let limits = limits::plan(&plan.limits, controllers, namespaces.user_namespace)?;
            let spawned = inside::start(shared, plan, namespaces, limits, Some(connection))?;
            return Ok((None, spawned));
        }
        Decision::Outside(confinement) => {
            let mechanisms = confinement.mechanisms.clone();
            (Some(confinement), mechanisms)
        }
        Decision::Free => (None, Vec::new()),
    };
    let limits = limits::plan(&plan.limits, controllers, false)?;
    let enforced = Enforced { mechanisms, limits: limits.enforced.clone() };
    let cwd = program::enter(&plan.cwd)?;
    let (pid, cgroup) = if confinement.is_some() || !limits.enforced.is_empty() {
        outside::launch(shared, plan, &cwd, &connection.child, &limits, confinement)?
    } else {
        (launch_at_once(plan, &cwd, &connection.child)?, None)
    };
    // The child's ends are its own now; while they are open here, no pipe would ever end.
    drop(connection.child);
    let asked = plan.argv.first().map_or("", String::as_str);
    let leader = Leader::watch(pid).map_err(|error| {
        reap::undo(pid);
        program::system_io("watch", asked, &error)
    })?;
    if limits.enforced.is_empty() {
        give_back_limit(pid, shared.open_files_max);
    }
    let tree = Arc::new(Tree::new(Arc::new(leader), tree::marks(&plan.env)));
    if let Some(cgroup) = cgroup {
        tree.set_cgroup(cgroup);
    }
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
    Ok((Some(tree), spawned))
}

/// The first child that is to be confined waits until it is known what works here.
fn probe_if_needed(shared: &Arc<Shared>, plan: &SpawnPlan) {
    if plan.sandbox.as_ref().is_some_and(|profile| !profile.restricts_nothing()) {
        probe::find_out(shared);
    }
}

/// The program as it is found from here, without anything in between.
fn launch_at_once(plan: &SpawnPlan, cwd: &OwnedFd, child: &ChildSide) -> Result<Pid, SpawnError> {
    let asked = plan.argv.first().map_or("", String::as_str);
    let file = program::find(asked, &plan.env, cwd.as_fd())?;
    let argv = plan.argv.iter().map(|arg| c_string(arg.as_bytes())).collect::<Result<Vec<_>, _>>()?;
    let env = plan.env.iter().map(variable).collect::<Result<Vec<_>, _>>()?;
    launch(asked, &file, argv, &env, cwd, child)
}

/// Strings for the launcher.
pub(super) fn strings(
    strings: impl Iterator<Item = Result<CString, SpawnError>>,
) -> Result<Vec<Vec<u8>>, SpawnError> {
    strings.map(|string| string.map(CString::into_bytes)).collect()
}

pub(super) fn variable(var: &EnvVar) -> Result<CString, SpawnError> {
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
        let connect = child.connect();
        let start = Start::begin();
        let (cwd, passed, signals) = (cwd.as_fd(), &[][..], Signals::Open);
        let pid = unix::spawn(&Launch { program, argv, env, cwd, connect, passed, signals })?;
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
    let mut exited = tree.leader.reap(&shared.clock).await;
    exited.out_of_memory = tree.cgroup().is_some_and(Cgroup::has_run_out_of_memory);
    // Nobody may want to know any more.
    let _ = tell.send(exited);
    shared.watch.note(&tree, REAPED);
    reap::reap_orphans();
}

/// Resolves when the reaper has reported.
#[derive(Debug)]
pub(super) struct LocalExit {
    pub(super) told: oneshot::Receiver<Exited>,
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
