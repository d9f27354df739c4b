//! Tier L3: the product's host over its real spawners and its real sandbox, by the clock on the wall. The callers and what
//! reaches them are those of L1 ([`crate::stage`]); what differs is the spawner, and that time is not ours.

mod proxy;
pub(crate) mod spawner;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use unified_exec::core::command::EnvVar;
use unified_exec::host::clock::Clock;
use unified_exec::host::{Host, Owner, Ports};
use unified_exec::spawn::{LocalSpawner, Options};

use self::proxy::TellingProxy;
use self::spawner::{RealSpawner, Take};
use crate::host_tier::{Clients, follow};
use crate::run::Run;
use crate::scenario::Scenario;
use crate::stage::ports::{Reviews, Rules};
use crate::stage::service;
use crate::stage::{Cast, Director};

/// No scenario goes on for longer than this beyond what it takes on the fake.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);
/// How long the end of all children may take, far beyond the kill ladder.
const SHUTDOWN_MAX: Duration = Duration::from_secs(30);
/// The ticks by which it is told how busy the machine is.
const TICK: Duration = Duration::from_millis(5);

/// A play on real children.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) run: Run,
    /// What each child said, in the order in which they were started.
    pub(crate) takes: Vec<Take>,
    /// How late our own timers came at worst: on a machine that is too busy nothing is shown.
    pub(crate) stall: Duration,
}

/// The program that is `scriptchild` and launcher: this one, or the `sim` beside a test.
fn own_program() -> std::io::Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let is_sim = |path: &Path| path.file_stem().is_some_and(|name| name == "sim");
    if is_sim(&exe) {
        return Ok(exe);
    }
    let beside = exe.ancestors().skip(1).take(2).map(|folder| folder.join("sim")).find(|path| path.is_file());
    beside.ok_or_else(|| std::io::Error::other(format!("there is no `sim` beside {}", exe.display())))
}

/// Where a program is found in every sandbox, which has a temporary folder of its own.
const VISIBLE: &str = "/var/tmp";

/// Where commands find `exe`, and what must outlive them: a clone may stand below the folder that sandboxes hide.
fn within_reach(exe: PathBuf) -> std::io::Result<(PathBuf, Option<TempDir>)> {
    if !exe.starts_with(std::env::temp_dir()) {
        return Ok((exe, None));
    }
    let folder = tempfile::tempdir_in(VISIBLE)?;
    let there = folder.path().join("sim");
    if std::fs::hard_link(&exe, &there).is_err() {
        std::fs::copy(&exe, &there)?;
    }
    Ok((there, Some(folder)))
}

/// Where a host's ids come from. Descendants are told apart by the ids of their session and process, so that hosts which
/// live side by side need other ones.
fn seed() -> u64 {
    static HOSTS: AtomicU64 = AtomicU64::new(0);
    (u64::from(std::process::id()) << 32) | HOSTS.fetch_add(1, Ordering::Relaxed)
}

/// Plays a scenario from its start to its end, and for `least` at least.
pub(crate) fn play(scenario: &Scenario, least: Duration) -> Played {
    let runtime = Builder::new_current_thread().enable_all().build();
    let result = runtime.and_then(|runtime| {
        let folder = tempfile::tempdir()?;
        let place = std::fs::canonicalize(folder.path())?;
        let (exe, _kept) = within_reach(own_program()?)?;
        let played = runtime.block_on(playing(scenario, &place, exe, least));
        runtime.shutdown_timeout(Duration::from_secs(1));
        played
    });
    result.unwrap_or_else(|error| Played {
        run: Run { broken: vec![format!("cannot play on this machine: {error}")], ..Run::default() },
        takes: Vec::new(),
        stall: Duration::ZERO,
    })
}

async fn playing(
    scenario: &Scenario,
    folder: &Path,
    exe: PathBuf,
    least: Duration,
) -> std::io::Result<Played> {
    let clock = Clock::start();
    let (tell, heard) = mpsc::unbounded_channel();
    let options = Options { launcher: Some(exe.clone()), ..Options::default() };
    let local = LocalSpawner::start(clock, options)?;
    let spawner = RealSpawner::new(local, scenario, exe, folder.to_owned(), least);
    let (rules, reviews) = (Arc::new(Rules::new(scenario)), Arc::new(Reviews::new(scenario)));
    let ports = Ports {
        rulebook: Arc::clone(&rules) as _,
        reviewer: Arc::clone(&reviews) as _,
        proxy: Arc::new(TellingProxy::new(spawner.clone(), tell.clone())),
        ..Ports::of(Arc::new(spawner.clone()))
    };
    let inherited: Vec<EnvVar> = ["PATH", "HOME"]
        .into_iter()
        .filter_map(|name| Some(EnvVar::new(name, std::env::var(name).ok()?)))
        .collect();
    let host = Host::new(ports, clock, inherited.clone(), seed());
    // Under a sandbox the first start waits until it is known what can hold it; no start of a scenario is to wait for that.
    host.ports().spawner.backends().await;
    let mut settings = service::settings(scenario);
    settings.defaults.cwd = folder.display().to_string();
    settings.defaults.inherited = inherited;
    let session = host.create(Owner::new("sim"), settings);
    let session = session.ok_or_else(|| std::io::Error::other("the host makes no session"))?;
    let window = scenario.service.limits().early_window;
    let feed = tokio::spawn(follow(session.watch(Some(0)), window, tell.clone()));
    let stall = Arc::new(AtomicU64::new(0));
    let late = tokio::spawn(lateness(Arc::clone(&stall)));
    let cast = Cast { spawner: spawner.clone(), rules, reviews };
    let mut clients = Clients { host: host.clone(), session: session.clone(), tell, calls: BTreeMap::new() };
    let mut director = Director::new(scenario, &cast, heard);
    director.direct(&mut clients).await;
    late.abort();
    let view = session.describe().await;
    let (live, questions) = view.map_or((0, 0), |view| (view.live, view.open_questions));
    let children = spawner.count().await;
    let mut run = director.into_run(live, questions);
    run.children = children;
    run.wall = true;
    let stall = Duration::from_micros(stall.load(Ordering::Relaxed));
    feed.abort();
    drop((clients, session));
    if timeout(SHUTDOWN_MAX, host.shutdown()).await.is_err() {
        run.broken.push(format!("the host does not shut down within {} s", SHUTDOWN_MAX.as_secs()));
    }
    Ok(Played { run, takes: spawner.takes(), stall })
}

/// Notes in microseconds how late a tick came at worst.
async fn lateness(worst: Arc<AtomicU64>) {
    loop {
        let due = Instant::now() + TICK;
        sleep(TICK).await;
        let late = u64::try_from(due.elapsed().as_micros()).unwrap_or(u64::MAX);
        worst.fetch_max(late, Ordering::Relaxed);
    }
}
