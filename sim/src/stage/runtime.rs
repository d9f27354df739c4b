//! The runtime that a scenario is played on: one thread, virtual time, and a scheduler whose every choice comes from a
//! seed.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::runtime::{Builder, RngSeed, UnhandledPanic};

use crate::run::Run;

/// Polls before the runtime looks at its timers: more than one instant takes, so that everybody who is ready has had a turn
/// before time moves or those who let others go first are asked again.
const POLLS_PER_LOOK: u32 = 4_096;

/// Plays on a runtime of its own. A panic, also of a task, makes the run a broken one.
pub(crate) fn play(seed: u64, scenario: impl Future<Output = Run>) -> Run {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .event_interval(POLLS_PER_LOOK)
        .rng_seed(RngSeed::from_bytes(&seed.to_le_bytes()))
        .unhandled_panic(UnhandledPanic::ShutdownRuntime)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return broken(format!("there is no runtime: {error}")),
    };
    match catch_unwind(AssertUnwindSafe(|| runtime.block_on(scenario))) {
        Ok(run) => run,
        Err(panic) => broken(format!("panic: {}", words(panic.as_ref()))),
    }
}

fn broken(what: String) -> Run {
    Run { broken: vec![what], ..Run::default() }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words")
}
