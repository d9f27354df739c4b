//! Adapters that start children: [`LocalSpawner`] on this machine, on terminals and pipes; `fake` from a script.
//!
//! ```text
//!  spawn(plan) ──► start ── program (cwd, PATH, interpreter)          on a thread that may block
//!                    ├──── pty | pipe (the server's ends, driven by readiness)
//!                    ├──── sandbox, limits (what holds the child, or why nothing can)
//!                    ├──── unix (posix_spawn, no copy of the server)
//!                    ├──── outside | inside ──► launcher (this program again, on its way to the command)
//!                    └──── place (into a cgroup of its own, where the system lets us; after the answer)
//!  Spawned { control, stdin, output, exit }
//!                └─ control ── tree ── table         whom a signal reaches
//!                                └──── watch         who notices that the tree is gone
//!                                        exit ── reap
//! ```
//!
//! A child is *running* until the kernel says it has ended, *ended* until the reaper has reaped it, then *reaped*; its
//! tree may live on, and is *gone* when the last descendant has gone. No thread belongs to a child.
//!
//! Refuses to know: who asked, what was approved, what output means, what a process id of a session is.

mod cgroup;
mod control;
#[cfg(feature = "test-util")]
pub mod fake;
mod inside;
pub mod launcher;
mod limits;
mod outside;
mod pipe;
mod place;
mod program;
mod pty;
mod reap;
mod sandbox;
mod start;
mod table;
mod tree;
mod unix;
mod watch;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rustix::process::{Resource, Rlimit, getpid, getrlimit, set_child_subreaper, setrlimit};

use tokio::sync::oneshot;

use crate::core::spawn::{LimitMechanism, SpawnError, SpawnPlan};
use crate::host::clock::Clock;
use crate::host::ports::{Backend, BoxFuture, Spawned, Spawner};

use cgroup::Home;
pub use sandbox::Layers;
use sandbox::{Sandbox, find_launcher, probe};
use watch::Watch;

/// How the descendants of a child are told from everybody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Trees {
    /// By cgroups where this process may make them, else by the process table.
    #[default]
    Cgroups,
    /// By the process table, whatever the system offers.
    ProcessTable,
}

/// What a [`LocalSpawner`] can be told.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// How the descendants of a child are told.
    pub trees: Trees,
    /// Which layers a sandbox may use.
    pub sandbox: Layers,
    /// Existing directories of the service itself, absolute: no command in a sandbox can see what is in them.
    pub hidden: Vec<PathBuf>,
    /// Absolute paths, there or not, that no command in a sandbox with writable roots can write: they decide about
    /// rights.
    pub guarded: Vec<PathBuf>,
    /// The program that calls [`launcher::run_if_asked`] first in its `main`; without it this very program, if it is
    /// `uexec`. Nothing can be confined or limited without one.
    pub launcher: Option<PathBuf>,
}

/// Starts children on this machine.
#[derive(Clone)]
pub struct LocalSpawner {
    shared: Arc<Shared>,
}

/// What all children of one spawner share.
#[derive(Debug)]
struct Shared {
    clock: Clock,
    home: Option<Home>,
    watch: Arc<Watch>,
    sandbox: Sandbox,
    /// The limit that children get back.
    open_files_max: Option<Rlimit>,
}

impl LocalSpawner {
    /// Starts the reaper, on the runtime that this is called on. Makes this process a subreaper, raises its limit of
    /// open files, and ends what a service that was killed has left in its cgroups.
    pub fn start(clock: Clock, options: Options) -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        let watch = Watch::start()?;
        let home = match options.trees {
            Trees::ProcessTable => None,
            Trees::Cgroups => Home::open()
                .inspect_err(
                    |error| tracing::info!(%error, "no cgroups; descendants are told by the process table"),
                )
                .ok(),
        };
        for leftover in home.iter().flat_map(Home::kill_leftovers) {
            watch.leftover(leftover);
        }
        let sandbox = Sandbox {
            layers: options.sandbox,
            hidden: options.hidden,
            guarded: options.guarded,
            launcher: find_launcher(options.launcher.as_deref()),
            probed: OnceLock::new(),
        };
        let open_files_max = raise_open_files();
        let shared = Arc::new(Shared { clock, home, watch, sandbox, open_files_max });
        if shared.sandbox.layers != Layers::None && shared.sandbox.launcher.is_ok() {
            // Whoever needs the answer before it is there waits for it.
            let probing = Arc::clone(&shared);
            shared.watch.runtime().spawn_blocking(move || probe::find_out(&probing));
        }
        Ok(Self { shared })
    }

    /// How descendants are really told here.
    pub fn trees(&self) -> Trees {
        if self.shared.home.is_some() { Trees::Cgroups } else { Trees::ProcessTable }
    }
}

impl fmt::Debug for LocalSpawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSpawner").field("trees", &self.trees()).finish_non_exhaustive()
    }
}

impl Spawner for LocalSpawner {
    fn uses_cgroups(&self) -> bool {
        self.trees() == Trees::Cgroups
    }

    fn backends(&self) -> BoxFuture<Vec<Backend>> {
        let shared = Arc::clone(&self.shared);
        let found = self.shared.watch.runtime().spawn_blocking(move || {
            probe::find_out(&shared);
            shared.sandbox.backends()
        });
        Box::pin(async move { found.await.unwrap_or_default() })
    }

    fn limit_mechanisms(&self) -> Vec<(&'static str, Option<LimitMechanism>)> {
        let controllers = self.shared.home.as_ref().map(Home::controllers).unwrap_or_default();
        limits::mechanisms(controllers, self.shared.sandbox.launcher.is_ok())
    }

    fn spawn(&self, plan: SpawnPlan) -> BoxFuture<Result<Spawned, SpawnError>> {
        let shared = Arc::clone(&self.shared);
        let program = plan.argv.first().cloned().unwrap_or_default();
        // If the future is dropped midway, so is what the thread answers, and dropping that kills and reaps.
        let (answer, answered) = oneshot::channel();
        let span = tracing::Span::current();
        let start = move || span.in_scope(|| start::start(&shared, &plan, answer));
        self.shared.watch.runtime().spawn_blocking(start);
        Box::pin(async move {
            answered.await.unwrap_or_else(|_| {
                let reason = "the service is shutting down".to_owned();
                Err(SpawnError::System { action: "start", path: program, reason })
            })
        })
    }
}

/// A thousand terminals need more descriptors than the usual soft limit. The first call remembers what the process
/// was started with; that is what children get.
fn raise_open_files() -> Option<Rlimit> {
    static ORIGINAL: OnceLock<Rlimit> = OnceLock::new();
    let original = ORIGINAL.get_or_init(|| getrlimit(Resource::Nofile));
    let raised = Rlimit { current: original.maximum, maximum: original.maximum };
    if *original == raised {
        return None;
    }
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => Some(*original),
        Err(errno) => {
            tracing::warn!(%errno, "the limit of open files cannot be raised");
            None
        }
    }
}
