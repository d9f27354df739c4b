//! A spawner whose children play scripts, for tests of the host and for simulation: no process, no thread, no system call;
//! time is tokio's, so a test that pauses it decides every moment. It keeps the same contract as the real ones, and
//! `tests/conformance` holds it to that.
//!
//! A program is known by its name, the first word of a plan's `argv`, or cast for each start anew. What no script is known
//! for is not found.

mod child;
mod handles;
mod proxy;
mod script;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use crate::core::command::PROCESS_VARIABLE;
use crate::core::signal::{Scope, Signal};
use crate::core::spawn::{SpawnError, SpawnPlan};
use crate::host::clock::Clock;
use crate::host::ports::{BoxFuture, Spawned, Spawner};

use proxy::Askers;
pub use proxy::{Connected, FakeProxy};
pub use script::{Act, End, Fork, Script, Step};

/// The first process id that is given out; not a number that tests use for anything else.
const FIRST_PID: u32 = 70_001;

/// Something that was done to the children, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// A child was started.
    Started {
        /// Its id.
        pid: u32,
        /// The program.
        program: String,
    },
    /// A signal was sent.
    Signalled {
        /// To whom.
        pid: u32,
        /// Which.
        signal: Signal,
        /// How far.
        scope: Scope,
    },
    /// The tree was killed, by the last handle going away too.
    Killed {
        /// Whose tree.
        pid: u32,
    },
    /// A child was reaped.
    Reaped {
        /// Its id.
        pid: u32,
    },
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) clock: Clock,
    state: Mutex<State>,
    askers: Askers,
    /// Waits of children for a moment of their scripts.
    timed: AtomicUsize,
}

/// Finds the script of a start: by its plan, and by how many starts of the same process came before.
pub type Casting = dyn Fn(&SpawnPlan, usize) -> Option<Script> + Send + Sync;

/// What is remembered of a child.
#[derive(Debug)]
pub(super) struct Record {
    /// Its process, as its environment names it.
    process: String,
    said: Option<Mutex<Vec<u8>>>,
    /// It and its descendants.
    alive: AtomicUsize,
}

impl Record {
    pub(super) fn say(&self, bytes: &[u8]) {
        if let Some(said) = &self.said {
            said.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        }
    }

    pub(super) fn lives(&self, count: usize) {
        self.alive.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn dies(&self, count: usize) {
        self.alive.fetch_sub(count, Ordering::Relaxed);
    }
}

/// A wait that counts while it is there.
#[derive(Debug)]
pub(super) struct Timed<'a>(&'a Shared);

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        self.0.timed.fetch_sub(1, Ordering::Relaxed);
    }
}

struct State {
    scripts: BTreeMap<String, Script>,
    casting: Option<Arc<Casting>>,
    /// Of every start, in order.
    records: Vec<Arc<Record>>,
    recording: bool,
    plans: Vec<SpawnPlan>,
    done: Vec<Done>,
    next_pid: u32,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("records", &self.records).finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn timed(&self) -> Timed<'_> {
        self.timed.fetch_add(1, Ordering::Relaxed);
        Timed(self)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, done: Done) {
        self.state().done.push(done);
    }

    pub(super) fn next_pid(&self) -> u32 {
        let mut state = self.state();
        state.next_pid += 1;
        state.next_pid
    }
}

/// Starts children that play scripts.
#[derive(Clone)]
pub struct FakeSpawner {
    shared: Arc<Shared>,
}

impl FakeSpawner {
    /// A spawner that knows no program yet.
    pub fn new(clock: Clock) -> Self {
        let state = State {
            scripts: BTreeMap::new(),
            casting: None,
            records: Vec::new(),
            recording: false,
            plans: Vec::new(),
            done: Vec::new(),
            next_pid: FIRST_PID.saturating_sub(1),
        };
        let (state, askers, timed) = (Mutex::new(state), Askers::default(), AtomicUsize::new(0));
        Self { shared: Arc::new(Shared { clock, state, askers, timed }) }
    }

    /// From now on each start plays what `casting` finds for it.
    pub fn cast(&self, casting: Arc<Casting>) -> &Self {
        self.shared.state().casting = Some(casting);
        self
    }

    /// From now on what children say is kept for [`Self::said`].
    pub fn record(&self) -> &Self {
        self.shared.state().recording = true;
        self
    }

    /// What the child of a process said at its `start`th start, from 0; `None` if it was not started or not recorded.
    pub fn said(&self, process: &str, start: usize) -> Option<Vec<u8>> {
        let state = self.shared.state();
        let record = state.records.iter().filter(|record| record.process == process).nth(start)?;
        let said = record.said.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(said.clone())
    }

    /// A proxy for its children, and where it tells what became of their connections.
    pub fn proxy(&self) -> (FakeProxy, mpsc::UnboundedReceiver<Connected>) {
        self.shared.askers.proxy()
    }

    /// Children and descendants that are alive.
    pub fn alive(&self) -> usize {
        self.shared.state().records.iter().map(|record| record.alive.load(Ordering::Relaxed)).sum()
    }

    /// How many of them wait for a moment of their scripts: something will happen by itself.
    pub fn timed(&self) -> usize {
        self.shared.timed.load(Ordering::Relaxed)
    }

    /// From now on `program` plays `script`.
    pub fn program(&self, program: impl Into<String>, script: Script) -> &Self {
        self.shared.state().scripts.insert(program.into(), script);
        self
    }

    /// Every plan so far, also those that failed.
    pub fn plans(&self) -> Vec<SpawnPlan> {
        self.shared.state().plans.clone()
    }

    /// What was done so far.
    pub fn done(&self) -> Vec<Done> {
        self.shared.state().done.clone()
    }

    /// Children that were started and are not reaped.
    pub fn unreaped(&self) -> usize {
        let state = self.shared.state();
        let count = |wanted: fn(&Done) -> bool| state.done.iter().filter(|done| wanted(done)).count();
        count(|done| matches!(done, Done::Started { .. })) - count(|done| matches!(done, Done::Reaped { .. }))
    }
}

impl fmt::Debug for FakeSpawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeSpawner").finish_non_exhaustive()
    }
}

impl Spawner for FakeSpawner {
    fn spawn(&self, plan: SpawnPlan) -> BoxFuture<Result<Spawned, SpawnError>> {
        let shared = Arc::clone(&self.shared);
        let program = plan.argv.first().cloned().unwrap_or_default();
        let (script, record) = {
            let mut state = shared.state();
            state.plans.push(plan.clone());
            let process = plan.env.iter().find(|variable| variable.name == PROCESS_VARIABLE);
            let process = process
                .map_or_else(String::new, |variable| String::from_utf8_lossy(&variable.value).into_owned());
            let before = state.records.iter().filter(|record| record.process == process).count();
            let script = match &state.casting {
                Some(casting) => casting(&plan, before),
                None => state.scripts.get(&program).cloned(),
            };
            let said = state.recording.then(Mutex::default);
            let record = Arc::new(Record { process, said, alive: AtomicUsize::new(0) });
            state.records.push(Arc::clone(&record));
            (script, record)
        };
        Box::pin(async move {
            let script = script.ok_or_else(|| SpawnError::ProgramMissing { program: program.clone() })?;
            if !script.starts_after.is_zero() {
                let _timed = shared.timed();
                tokio::time::sleep(script.starts_after).await;
            }
            if let Some(error) = script.fails {
                return Err(error);
            }
            let held = plan.sandbox.as_ref().is_some_and(|profile| !profile.restricts_nothing());
            if held && !script.confined {
                return Err(SpawnError::SandboxUnavailable { reason: "a fake has none".to_owned() });
            }
            let proxy = match script.connects() {
                true => Some(shared.askers.listen(&record.process)?),
                false => None,
            };
            Ok(child::start(&shared, &program, &plan, script.steps, record, proxy))
        })
    }
}
