//! A spawner, a workspace, and commands run in it to their end.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use unified_exec::core::command::EnvVar;
use unified_exec::core::policy::{Files, Network, Profile};
use unified_exec::core::process::ExitStatus;
use unified_exec::core::spawn::{Enforced, SpawnError, SpawnPlan, Stdio};
use unified_exec::host::clock::Clock;
use unified_exec::host::ports::{Spawned, Spawner};
use unified_exec::spawn::{LocalSpawner, Options};

use crate::run::{Running, plan, soon};

/// Names the launcher where it is not where cargo has put it.
pub(crate) const LAUNCHER_VARIABLE: &str = "UEXEC_TEST_LAUNCHER";

/// Prints the numbers of the descriptors that are open.
pub(crate) const OPEN_DESCRIPTORS: &str = "import os\n\
    def is_open(fd):\n\
    \x20   try: os.fstat(fd); return True\n\
    \x20   except OSError: return False\n\
    print([fd for fd in range(1024) if is_open(fd)])";

pub(crate) fn launcher() -> PathBuf {
    std::env::var_os(LAUNCHER_VARIABLE).map_or_else(|| env!("CARGO_BIN_EXE_uexec").into(), PathBuf::from)
}

pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|about| std::os::unix::fs::MetadataExt::uid(&about) == 0)
}

/// How a command ended, and all it wrote.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) text: String,
}

impl Ended {
    #[track_caller]
    pub(crate) fn succeeded(self) -> String {
        assert_eq!(self.status, ExitStatus::Code(0), "{}", self.text);
        self.text
    }

    /// It failed, and says so in one of these words.
    #[track_caller]
    pub(crate) fn denied(self, words: &[&str]) -> String {
        assert_ne!(self.status, ExitStatus::Code(0), "it was not denied: {}", self.text);
        assert!(words.iter().any(|word| self.text.contains(word)), "{:?}: {}", self.status, self.text);
        self.text
    }
}

/// A spawner and two directories: one to work in, and one beside it.
#[derive(Debug)]
pub(crate) struct Bench {
    runtime: tokio::runtime::Runtime,
    pub(crate) spawner: Arc<dyn Spawner>,
    home: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        // Not below /tmp, which a sandbox hides.
        Self::within(Path::new("/var/tmp"), options)
    }

    pub(crate) fn within(directory: &Path, options: Options) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(4)
            .enable_all()
            .build()
            .unwrap();
        let options = Options { launcher: options.launcher.or_else(|| Some(launcher())), ..options };
        let spawner = runtime.block_on(async { LocalSpawner::start(Clock::start(), options).unwrap() });
        let home = tempfile::Builder::new().prefix("sandbox-").tempdir_in(directory).unwrap();
        for name in ["ws", "beside"] {
            std::fs::create_dir(home.path().join(name)).unwrap();
        }
        Self { runtime, spawner: Arc::new(spawner), home }
    }

    /// The one writable root.
    pub(crate) fn ws(&self) -> PathBuf {
        self.path("ws")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Work in the workspace without a network, `.git` protected.
    pub(crate) fn workspace(&self) -> Profile {
        self.workspace_protecting(&[".git"])
    }

    pub(crate) fn workspace_protecting(&self, protected: &[&str]) -> Profile {
        Profile {
            files: Files::WorkspaceWrite {
                writable_roots: vec![self.ws().display().to_string()],
                protected: protected.iter().map(|name| (*name).to_owned()).collect(),
            },
            network: Network::Off,
            deny_read: Vec::new(),
        }
    }

    pub(crate) fn plan(&self, profile: &Profile, argv: &[&str], stdio: Stdio) -> SpawnPlan {
        let mut plan = plan(argv, stdio);
        plan.cwd = self.ws().display().to_string();
        Arc::make_mut(&mut plan.env).push(EnvVar::new("HOME", self.path("beside").display().to_string()));
        Arc::make_mut(&mut plan.env).push(EnvVar::new("LC_ALL", "C"));
        plan.sandbox = Some(profile.clone());
        plan
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub(crate) async fn start(&self, plan: SpawnPlan) -> Result<Spawned, SpawnError> {
        soon("a start", self.spawner.spawn(plan)).await
    }

    /// Runs a plan to its end.
    pub(crate) fn try_run(&self, plan: SpawnPlan) -> Result<(Ended, Enforced), SpawnError> {
        self.block_on(async {
            let spawned = self.start(plan).await?;
            let enforced = spawned.enforced.clone();
            let running = Running::new(spawned);
            let seen = running.ended().await;
            soon("the tree", running.control().tree_gone()).await;
            Ok((Ended { status: seen.exited.unwrap().status, text: seen.text() }, enforced))
        })
    }

    /// Runs a line of the shell on pipes to its end.
    #[track_caller]
    pub(crate) fn sh(&self, profile: &Profile, line: &str) -> Ended {
        self.run(profile, &["bash", "-c", line])
    }

    #[track_caller]
    pub(crate) fn python(&self, profile: &Profile, code: &str) -> Ended {
        self.run(profile, &["/usr/bin/python3", "-c", code])
    }

    #[track_caller]
    pub(crate) fn run(&self, profile: &Profile, argv: &[&str]) -> Ended {
        let plan = self.plan(profile, argv, Stdio::Pipes { stdin: false });
        match self.try_run(plan) {
            Ok((ended, _)) => ended,
            Err(error) => panic!("{argv:?} was not started: {error}"),
        }
    }
}
