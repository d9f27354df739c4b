//! The product's spawner, told to start what a scenario says: `scriptchild` with a program's acts, or a true program. What
//! each child says is noted on its way.

use std::collections::BTreeMap;
use std::future::Future;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::{Instant, sleep};
use unified_exec::core::command::PROCESS_VARIABLE;
use unified_exec::core::output::Stream;
use unified_exec::core::process::ExitStatus;
use unified_exec::core::spawn::{SpawnError, SpawnPlan};
use unified_exec::host::ports::{BoxFuture, Control, Exit, Exited, Output, Spawned, Spawner};
use unified_exec::spawn::LocalSpawner;

use toml::Spanned;

use crate::acts::Deed;
use crate::model::spawn_error;
use crate::scenario::{Act, Program, Scenario, SpawnFailure};
use crate::scriptchild;
use crate::stage::Spawns;

/// An act list that is longer is handed over as a file: the system bounds each argument at 128 KiB.
const ARGUMENT_BYTES_MAX: usize = 100_000;
/// How much later than its acts say a child may still be at work.
const SLACK: Duration = Duration::from_millis(300);

/// What one child said and how it ended, as it was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Take {
    pub(crate) process: String,
    /// Whether a sandbox held it.
    pub(crate) confined: bool,
    /// The command line that it was started for.
    pub(crate) command: String,
    /// Since the spawner returned.
    pub(crate) output: Vec<(Duration, Stream, Bytes)>,
    pub(crate) exit: Option<(Duration, ExitStatus)>,
    /// How long the spawner took.
    pub(crate) spawn: Duration,
    /// How much longer that was than the scenario says.
    pub(crate) late: Duration,
}

impl Take {
    /// How much later than `acts` say, at worst, it was started, first said something, and ended.
    pub(crate) fn lag(&self, acts: &[Spanned<Act>]) -> Duration {
        let at = |wanted: fn(Deed<'_>) -> bool| {
            let act = acts.iter().map(Spanned::get_ref).find(|act| act.deed().is_ok_and(wanted));
            act.map(|act| Duration::from_millis(act.at))
        };
        let said = self.output.first().map(|(came, ..)| *came);
        let ended = self.exit.map(|(came, _)| came);
        let pairs = [
            (said, at(|deed| matches!(deed, Deed::Say(..)))),
            (ended, at(|deed| matches!(deed, Deed::End(_)))),
        ];
        let lags = pairs.into_iter().filter_map(|(came, at)| Some(came?.saturating_sub(at?)));
        lags.fold(self.late, Duration::max)
    }
}

/// One child.
#[derive(Debug)]
struct Started {
    take: Mutex<Take>,
    since: Instant,
    /// No act is later.
    busy_until: Instant,
    exited: AtomicBool,
    gone: AtomicBool,
}

#[derive(Debug)]
struct Shared {
    inner: LocalSpawner,
    programs: BTreeMap<String, Program>,
    /// The program that is `scriptchild`.
    exe: PathBuf,
    folder: PathBuf,
    state: Mutex<State>,
    least: Duration,
}

#[derive(Debug, Default)]
struct State {
    started: Vec<(Arc<Started>, Weak<dyn Control>)>,
    starts: BTreeMap<String, usize>,
    /// Which process a listener of a proxy is for, by its descriptor.
    listeners: BTreeMap<i32, String>,
}

/// Starts the children of a scenario for real.
#[derive(Clone, Debug)]
pub(crate) struct RealSpawner(Arc<Shared>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RealSpawner {
    /// `folder` is where commands run; a scenario goes on for `least` at least.
    pub(crate) fn new(
        inner: LocalSpawner,
        scenario: &Scenario,
        exe: PathBuf,
        folder: PathBuf,
        least: Duration,
    ) -> Self {
        let programs = scenario.program.clone();
        Self(Arc::new(Shared { inner, programs, exe, folder, state: Mutex::default(), least }))
    }

    /// What each child said, in the order in which they were started.
    pub(crate) fn takes(&self) -> Vec<Take> {
        lock(&self.0.state).started.iter().map(|(started, _)| lock(&started.take).clone()).collect()
    }

    /// The process whose connections arrive at this listener.
    pub(crate) fn process_of(&self, listener: &impl AsRawFd) -> String {
        lock(&self.0.state).listeners.get(&listener.as_raw_fd()).cloned().unwrap_or_default()
    }

    /// Children and descendants that the system still has.
    pub(crate) async fn count(&self) -> usize {
        let started: Vec<_> = lock(&self.0.state)
            .started
            .iter()
            .map(|(one, control)| (Arc::clone(one), control.upgrade()))
            .collect();
        let mut count = 0;
        for (one, control) in started {
            if !one.exited.load(Ordering::Relaxed) {
                count += 1;
            }
            if let (false, Some(control)) = (one.gone.load(Ordering::Relaxed), control) {
                count += control.descendants().await.len();
            }
        }
        count
    }
}

impl Shared {
    /// The plan for what is really started, and how long its acts take.
    fn plan(
        &self,
        program: &Program,
        plan: SpawnPlan,
        second: bool,
    ) -> Result<(SpawnPlan, Duration), SpawnError> {
        let mut real = plan.clone();
        let folder = self.folder.display();
        if let (_, Some(failure)) = program.start(second) {
            match failure {
                SpawnFailure::ProgramMissing => real.argv = vec![format!("{folder}/no-such-program")],
                SpawnFailure::ProgramDenied => real.argv = vec![folder.to_string()],
                SpawnFailure::CwdMissing => real.cwd = format!("{folder}/no-such-folder"),
                // These cannot be brought about at will.
                SpawnFailure::Exhausted | SpawnFailure::SandboxUnavailable => {
                    return Err(spawn_error(failure, &plan));
                }
            }
            return Ok((real, Duration::ZERO));
        }
        if !program.real.is_empty() {
            real.argv.clone_from(&program.real);
            return Ok((real, Duration::ZERO));
        }
        let acts = program.acts(plan.sandbox.is_some());
        let text = scriptchild::text(acts.iter().map(|act| act.get_ref()))
            .map_err(|_| self.broken("the acts cannot be written".to_owned()))?;
        let text = if text.len() > ARGUMENT_BYTES_MAX { self.file(&text)? } else { text };
        let exe = self.exe.to_str().ok_or_else(|| self.broken("its path is not UTF-8".to_owned()))?;
        real.argv = vec![exe.to_owned(), "scriptchild".into(), text];
        let last = acts.iter().map(|act| {
            let act = act.get_ref();
            act.at + act.fork_holder.or(act.daemon).unwrap_or(0)
        });
        Ok((real, Duration::from_millis(last.max().unwrap_or(0))))
    }

    fn file(&self, text: &str) -> Result<String, SpawnError> {
        let number = lock(&self.state).started.len();
        let path = self.folder.join(format!("acts-{number}.toml"));
        std::fs::write(&path, text).map_err(|error| self.broken(error.to_string()))?;
        Ok(format!("@{}", path.display()))
    }

    fn broken(&self, reason: String) -> SpawnError {
        SpawnError::System { action: "start", path: self.exe.display().to_string(), reason }
    }
}

impl Spawner for RealSpawner {
    fn spawn(&self, plan: SpawnPlan) -> BoxFuture<Result<Spawned, SpawnError>> {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let process = plan.env.iter().find(|variable| variable.name == PROCESS_VARIABLE);
            let process = process.map(|variable| String::from_utf8_lossy(&variable.value).into_owned());
            let process = process.unwrap_or_default();
            let second = {
                let mut state = lock(&shared.state);
                let starts = state.starts.entry(process.clone()).or_default();
                *starts += 1;
                *starts > 1
            };
            let command = plan.argv.last().cloned().unwrap_or_default();
            let Some(program) = shared.programs.get(&command) else {
                return Err(SpawnError::ProgramMissing { program: command });
            };
            let confined = plan.sandbox.is_some();
            let (takes, _) = program.start(second);
            let (real, busy) = shared.plan(program, plan, second)?;
            let asked = Instant::now();
            sleep(Duration::from_millis(takes)).await;
            let spawned = shared.inner.spawn(real).await?;
            let since = Instant::now();
            let spawn = since.duration_since(asked);
            let late = spawn.saturating_sub(Duration::from_millis(takes));
            let take = Take { process: process.clone(), confined, command, spawn, late, ..Take::default() };
            let started = Arc::new(Started {
                take: Mutex::new(take),
                since,
                busy_until: since + busy + SLACK,
                exited: AtomicBool::new(false),
                gone: AtomicBool::new(false),
            });
            let gone = spawned.control.tree_gone();
            let watched = Arc::clone(&started);
            tokio::spawn(async move {
                gone.await;
                watched.gone.store(true, Ordering::Relaxed);
            });
            {
                let mut state = lock(&shared.state);
                if let Some(listener) = &spawned.proxy {
                    state.listeners.insert(listener.as_raw_fd(), process);
                }
                state.started.push((Arc::clone(&started), Arc::downgrade(&spawned.control)));
            }
            Ok(Spawned {
                output: Box::new(Tap { inner: spawned.output, started: Arc::clone(&started) }),
                exit: Box::new(Watched { inner: spawned.exit, started }),
                ..spawned
            })
        })
    }

    fn uses_cgroups(&self) -> bool {
        self.0.inner.uses_cgroups()
    }
}

impl Spawns for RealSpawner {
    fn said(&self, process: &str, start: usize) -> Option<Vec<u8>> {
        let state = lock(&self.0.state);
        let mut takes = state.started.iter().map(|(started, _)| lock(&started.take));
        let take = takes.by_ref().filter(|take| take.process == process).nth(start)?;
        Some(take.output.iter().flat_map(|(_, _, bytes)| bytes.iter().copied()).collect())
    }

    fn alive(&self) -> usize {
        let state = lock(&self.0.state);
        state.started.iter().filter(|(started, _)| !started.gone.load(Ordering::Relaxed)).count()
    }

    fn timed(&self) -> usize {
        let now = Instant::now();
        let state = lock(&self.0.state);
        let at_work = |started: &Started| !started.gone.load(Ordering::Relaxed) && started.busy_until > now;
        state.started.iter().filter(|(started, _)| at_work(started)).count()
    }

    fn idle(&self) -> Duration {
        SLACK
    }

    fn bounds(&self) -> (Duration, Duration) {
        (self.0.least, self.0.least + super::LONGEST)
    }
}

/// Output, noted as it is read.
#[derive(Debug)]
struct Tap {
    inner: Box<dyn Output>,
    started: Arc<Started>,
}

impl Output for Tap {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut BytesMut) -> Poll<Option<Stream>> {
        let before = into.len();
        let read = self.inner.poll_read(cx, into);
        if let Poll::Ready(Some(stream)) = read {
            let bytes = Bytes::copy_from_slice(into.get(before..).unwrap_or_default());
            let at = self.started.since.elapsed();
            lock(&self.started.take).output.push((at, stream, bytes));
        }
        read
    }

    fn leader_reaped(&mut self) {
        self.inner.leader_reaped();
    }
}

/// An exit, noted as it is told.
#[derive(Debug)]
struct Watched {
    inner: Box<dyn Exit>,
    started: Arc<Started>,
}

impl Future for Watched {
    type Output = Exited;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Exited> {
        let polled = Pin::new(&mut self.inner).poll(cx);
        if let Poll::Ready(exited) = &polled {
            self.started.exited.store(true, Ordering::Relaxed);
            lock(&self.started.take).exit = Some((self.started.since.elapsed(), exited.status));
        }
        polled
    }
}

impl Exit for Watched {}
