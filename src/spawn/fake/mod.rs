//! A spawner whose children play scripts, for tests of the host and for simulation: no process, no thread, no system call;
//! time is tokio's, so a test that pauses it decides every moment. It keeps the same contract as the real ones, and
//! `tests/conformance` holds it to that.
//!
//! A program is known by its name, the first word of a plan's `argv`. What no script is known for is not found.

mod child;
mod handles;
mod script;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::core::signal::{Scope, Signal};
use crate::core::spawn::{SpawnError, SpawnPlan};
use crate::host::clock::Clock;
use crate::host::ports::{BoxFuture, Spawned, Spawner};

pub use script::{Act, Fork, Script, Step};

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
}

#[derive(Debug)]
struct State {
    scripts: BTreeMap<String, Script>,
    plans: Vec<SpawnPlan>,
    done: Vec<Done>,
    next_pid: u32,
}

impl Shared {
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
            plans: Vec::new(),
            done: Vec::new(),
            next_pid: FIRST_PID.saturating_sub(1),
        };
        Self { shared: Arc::new(Shared { clock, state: Mutex::new(state) }) }
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
        let script = {
            let mut state = shared.state();
            state.plans.push(plan.clone());
            state.scripts.get(&program).cloned()
        };
        Box::pin(async move {
            let script = script.ok_or_else(|| SpawnError::ProgramMissing { program: program.clone() })?;
            if !script.starts_after.is_zero() {
                tokio::time::sleep(script.starts_after).await;
            }
            if let Some(error) = script.fails {
                return Err(error);
            }
            if plan.sandbox.as_ref().is_some_and(|profile| !profile.restricts_nothing()) {
                return Err(SpawnError::SandboxUnavailable { reason: "a fake has none".to_owned() });
            }
            Ok(child::start(&shared, &program, &plan, script.steps))
        })
    }
}
