//! Holds the real spawners to the fake, or the fake to them: a scenario that does not rest on moments must come to the same
//! public transcript on both.

mod public;
pub(crate) mod record;
mod robust;

use std::fmt;
use std::time::Duration;

use self::public::Public;
pub use self::record::{Recording, record, replay};
use self::robust::{LATE, fit};
use crate::scenario::{Op, Scenario};
use crate::{real, wall};

/// A play that differs is tried again if our own timers were as late as this: the machine was too busy to show anything.
const STALL_MAX: Duration = Duration::from_millis(LATE / 2);
/// The same where a child was started, spoke or ended so much later than it should: what was tried out is not what came.
const LAG_MAX: Duration = Duration::from_millis(LATE * 3 / 4);
/// How often a play is tried on a machine that is too busy.
const TRIES_MAX: usize = 5;

/// How the children of a scenario are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stdio {
    /// As the scenario says.
    Written,
    /// On terminals, where it says pipes.
    Terminals,
}

impl fmt::Display for Stdio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Written => "written",
            Self::Terminals => "terminal",
        })
    }
}

/// What came of holding a scenario on real children against the fake.
#[derive(Debug)]
pub enum Outcome {
    /// The public transcripts are the same; the latest line was so many milliseconds late.
    Conforms {
        /// In milliseconds.
        worst: u64,
        /// How long the real play took, in milliseconds.
        took: u64,
    },
    /// They are not.
    Differs(Vec<String>),
    /// It cannot be played on real children, and why.
    Unfit(String),
    /// The machine was too busy, time and again.
    Busy(Duration),
}

/// `scenario` with its children on terminals; `None` if they all are.
fn on_terminals(scenario: &Scenario) -> Option<Scenario> {
    let mut scenario = scenario.clone();
    let mut changed = false;
    for when in &mut scenario.when {
        let when = when.get_mut();
        if when.op == Op::Exec && when.tty != Some(true) {
            when.tty = Some(true);
            when.stdin = None;
            changed = true;
        }
    }
    changed.then_some(scenario)
}

/// Plays a scenario on the fake and on real children, and compares; leaves out what takes longer than `longest`
/// milliseconds on the fake.
pub fn conform(scenario: &Scenario, stdio: Stdio, longest: u64) -> Outcome {
    let changed = match stdio {
        Stdio::Written => None,
        Stdio::Terminals => match on_terminals(scenario) {
            Some(changed) => Some(changed),
            None => return Outcome::Unfit("its children are on terminals as it is".into()),
        },
    };
    if scenario.true_program().is_some() {
        if stdio == Stdio::Terminals {
            return Outcome::Unfit("a true program is talked to as its scenario says".into());
        }
        return match record(scenario) {
            Ok(recording) => Outcome::Conforms { worst: 0, took: recording.took },
            Err(differ) => Outcome::Differs(differ),
        };
    }
    let fit = match fit(changed.as_ref().unwrap_or(scenario), longest) {
        Ok(fit) => fit,
        Err(why) => return Outcome::Unfit(why),
    };
    let least = Duration::from_millis(fit.fake.took);
    let mut stall = Duration::ZERO;
    for _ in 0..TRIES_MAX {
        let played = real::play(&fit.scenario, least);
        let lags = played.takes.iter().filter_map(|take| {
            let program = fit.scenario.program.get(&take.command)?;
            Some(take.lag(program.acts(take.confined)))
        });
        stall = lags.filter(|lag| *lag > LAG_MAX).fold(played.stall, Duration::max);
        let came = Public::of(&played.run);
        let mut differ = played.run.problems(&fit.scenario);
        differ.extend(fit.public.differences(&came));
        if differ.is_empty() {
            let tolerance = wall::tolerance(scenario);
            let (worst, early) = fit.public.lateness(&came);
            differ.extend(early);
            if worst > tolerance {
                differ.push(format!("it was {worst} ms late; `real_tol` is {tolerance}"));
            }
            if differ.is_empty() {
                return Outcome::Conforms { worst, took: played.run.took };
            }
        }
        if stall < STALL_MAX {
            return Outcome::Differs(differ);
        }
    }
    Outcome::Busy(stall)
}
