//! What must hold of every run, whatever its scenario expects: **always**, and **eventually** once faults have stopped.
//! What must happen **sometimes** over a campaign is counted by [`sometimes`].
//!
//! Each property has one place and one name, and reads nothing but the transcript, the ends of the run and the scenario: it
//! holds on every tier, and knows nothing of how the service does it.

mod approval;
mod ends;
mod facts;
mod input;
mod process;
mod results;
mod sometimes;

pub use sometimes::Sometimes;
mod table;

use crate::run::Run;
use crate::scenario::Scenario;
pub(crate) use facts::Facts;

/// A property that a run does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The property.
    pub property: &'static str,
    /// What came instead.
    pub what: String,
}

/// What the tier itself saw that must never happen.
pub(crate) const BROKEN: &str = "broken";

/// What a check found.
pub(crate) type Found = Vec<String>;

type Check = fn(&Facts<'_>, &mut Found);

/// Every property, with its name and what it says.
pub(crate) const ALL: [&[(&str, &str, Check)]; 6] =
    [&approval::ALL, &results::ALL, &process::ALL, &input::ALL, &table::ALL, &ends::ALL];

/// Names of the properties and what they say.
pub fn properties() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALL.into_iter().flatten().map(|(name, says, _)| (*name, *says))
}

/// Every property that `run` does not have.
pub fn violations(scenario: &Scenario, run: &Run) -> Vec<Violation> {
    violations_of(&Facts::of(scenario, run))
}

/// Every property that a run does not have.
pub(crate) fn violations_of(facts: &Facts<'_>) -> Vec<Violation> {
    let run = facts.run;
    let mut violations: Vec<Violation> =
        run.broken.iter().map(|what| Violation { property: BROKEN, what: what.clone() }).collect();
    let mut found = Found::new();
    for (property, _, check) in ALL.into_iter().flatten() {
        check(facts, &mut found);
        violations.extend(found.drain(..).map(|what| Violation { property, what }));
    }
    violations
}
