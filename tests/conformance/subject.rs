//! The spawners under test, and how a case runs on each.

use std::future::Future;
use std::sync::Arc;

use unified_exec::core::policy::{Files, Network, Profile};
use unified_exec::core::spawn::{SpawnError, SpawnPlan};
use unified_exec::host::clock::Clock;
use unified_exec::host::ports::{Spawned, Spawner};
use unified_exec::spawn::fake::{FakeSpawner, Script};
use unified_exec::spawn::{LocalSpawner, Options, Trees};

use crate::run::{ALONE, Kind, Running, plan, soon};

/// Which spawner, and what its children are connected to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    Fake(Kind),
    Local(Kind, Trees),
    /// In namespaces of its own.
    Sandboxed(Kind),
}

/// One program in two forms: a line of a shell, and a script that does the same.
#[derive(Clone, Debug)]
pub(crate) struct What {
    pub(crate) line: String,
    pub(crate) script: Script,
}

pub(crate) fn what(line: impl Into<String>, script: Script) -> What {
    What { line: line.into(), script }
}

/// A spawner under test.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) kind: Kind,
    pub(crate) spawner: Arc<dyn Spawner>,
    fake: Option<FakeSpawner>,
    sandbox: Option<Profile>,
}

impl Subject {
    fn new(which: Which) -> Self {
        match which {
            Which::Fake(kind) => {
                let fake = FakeSpawner::new(Clock::start());
                Self { kind, spawner: Arc::new(fake.clone()), fake: Some(fake), sandbox: None }
            }
            Which::Local(kind, trees) => {
                let local = LocalSpawner::start(Clock::start(), Options { trees, ..Options::default() })
                    .expect("a spawner");
                assert_eq!(
                    local.trees(),
                    trees,
                    "these machines have a cgroup 2 hierarchy that can be written"
                );
                Self { kind, spawner: Arc::new(local), fake: None, sandbox: None }
            }
            Which::Sandboxed(kind) => {
                let launcher = Some(env!("CARGO_BIN_EXE_uexec").into());
                let options = Options { launcher, ..Options::default() };
                let local = LocalSpawner::start(Clock::start(), options).expect("a spawner");
                let sandbox =
                    Profile { files: Files::ReadOnly, network: Network::Off, deny_read: Vec::new() };
                Self { kind, spawner: Arc::new(local), fake: None, sandbox: Some(sandbox) }
            }
        }
    }

    pub(crate) fn is_fake(&self) -> bool {
        self.fake.is_some()
    }

    /// A plan for `argv`, under the subject's profile.
    pub(crate) fn plan(&self, argv: &[&str]) -> SpawnPlan {
        SpawnPlan { sandbox: self.sandbox.clone(), ..plan(argv, self.kind.stdio()) }
    }

    /// A profile that this spawner cannot enforce.
    pub(crate) fn unenforceable(&self) -> Profile {
        match &self.sandbox {
            // Without a launcher nothing can be.
            None => Profile { network: Network::Off, ..Profile::full_access() },
            Some(_) => Profile { files: Files::External, ..Profile::full_access() },
        }
    }

    /// Starts `what` and hands over its bare handles.
    pub(crate) async fn try_spawn(&self, what: &What) -> Result<Spawned, SpawnError> {
        let plan = match &self.fake {
            Some(fake) => {
                fake.program("script", what.script.clone());
                plan(&["script"], self.kind.stdio())
            }
            None => self.plan(&["sh", "-c", &what.line]),
        };
        soon("a start", self.spawner.spawn(plan)).await
    }

    pub(crate) async fn spawn(&self, what: &What) -> Spawned {
        self.try_spawn(what).await.expect("a child")
    }

    /// Starts `what` and reads it.
    pub(crate) async fn run(&self, what: &What) -> Running {
        Running::new(self.spawn(what).await)
    }
}

/// Plays a case on a runtime of its own, beside others. A fake's time is paused: it passes when nothing else happens.
pub(crate) fn play<F: Future<Output = ()>>(which: Which, case: impl FnOnce(Subject) -> F) {
    runtime(which).block_on(async {
        let _others_may_run = ALONE.read().await;
        case(Subject::new(which)).await;
    });
}

/// Plays a case that counts what the whole process has, while no other runs.
pub(crate) fn play_alone<F: Future<Output = ()>>(which: Which, case: impl FnOnce(Subject) -> F) {
    runtime(which).block_on(async {
        let _nobody_else_runs = ALONE.write().await;
        case(Subject::new(which)).await;
    });
}

fn runtime(which: Which) -> tokio::runtime::Runtime {
    match which {
        Which::Fake(_) => {
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()
        }
        Which::Local(..) | Which::Sandboxed(_) => tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(4)
            .enable_all()
            .build(),
    }
    .expect("a runtime")
}

pub(crate) const FAKE_PIPES: Which = Which::Fake(Kind::Pipes);
pub(crate) const FAKE_TERMINALS: Which = Which::Fake(Kind::Terminal);
pub(crate) const PIPES: Which = Which::Local(Kind::Pipes, Trees::Cgroups);
pub(crate) const PIPES_NO_CGROUP: Which = Which::Local(Kind::Pipes, Trees::ProcessTable);
pub(crate) const TERMINALS: Which = Which::Local(Kind::Terminal, Trees::Cgroups);
pub(crate) const TERMINALS_NO_CGROUP: Which = Which::Local(Kind::Terminal, Trees::ProcessTable);

pub(crate) const SANDBOXED_PIPES: Which = Which::Sandboxed(Kind::Pipes);
pub(crate) const SANDBOXED_TERMINALS: Which = Which::Sandboxed(Kind::Terminal);

/// Makes each case a test over each spawner; `play` or `play_alone` plays it.
macro_rules! over {
    ($play:ident, $($module:ident = $which:ident)* => $cases:tt) => {
        $($crate::subject::over!(@module $play, $module, $which, $cases);)*
    };
    (@module $play:ident, $module:ident, $which:ident, { $($case:ident),* $(,)? }) => {
        mod $module {
            $(#[test] fn $case() { $crate::subject::$play($crate::subject::$which, super::$case); })*
        }
    };
}

/// Each case over the real spawners, on pipes and terminals, with and without cgroups.
macro_rules! over_local {
    ($play:ident, $($case:ident),* $(,)?) => {
        $crate::subject::over! {
            $play,
            pipes_with_cgroups = PIPES
            pipes_without_cgroups = PIPES_NO_CGROUP
            terminals_with_cgroups = TERMINALS
            terminals_without_cgroups = TERMINALS_NO_CGROUP
            => { $($case),* }
        }
    };
}

/// Each case over every spawner.
macro_rules! over_all {
    ($($case:ident),* $(,)?) => {
        $crate::subject::over! {
            play,
            fake_pipes = FAKE_PIPES
            fake_terminals = FAKE_TERMINALS
            sandboxed_pipes = SANDBOXED_PIPES
            sandboxed_terminals = SANDBOXED_TERMINALS
            => { $($case),* }
        }
        $crate::subject::over_local! { play, $($case),* }
    };
}

pub(crate) use {over, over_all, over_local};
