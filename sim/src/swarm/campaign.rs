//! Many random scenarios, one after the other, each held against every property.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::generate;
use crate::properties::{Facts, Sometimes, Violation, violations_of};
use crate::run::Run;
use crate::scenario::Scenario;
use crate::tier::{Tier, play};

/// A scenario that does not have a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The scenario.
    pub seed: u64,
    /// The property.
    pub violation: Violation,
}

/// What many runs came to.
#[derive(Clone, Debug)]
pub struct Campaign {
    tier: Tier,
    canary: bool,
    /// How many scenarios were played.
    pub played: u64,
    /// Lines of all their transcripts.
    pub events: u64,
    /// Virtual milliseconds of all of them.
    pub virtual_ms: u64,
    /// The rare paths that were taken.
    pub sometimes: Sometimes,
    /// The first failure of each property.
    pub failures: Vec<Failure>,
}

impl Campaign {
    /// A campaign that has not begun. `canary` adds a property that does not hold, to see that red is seen.
    pub fn new(tier: Tier, canary: bool) -> Self {
        let (sometimes, failures) = (Sometimes::default(), Vec::new());
        Self { tier, canary, played: 0, events: 0, virtual_ms: 0, sometimes, failures }
    }

    /// Plays the scenario of a seed.
    pub fn play(&mut self, seed: u64) {
        let scenario = generate(seed);
        self.played += 1;
        let found = match self.run(&scenario) {
            Ok(run) => {
                let facts = Facts::of(&scenario, &run);
                self.events += run.lines.len() as u64;
                self.virtual_ms += run.took;
                self.sometimes.take(seed, &facts);
                self.judge(&facts)
            }
            Err(panic) => vec![panic],
        };
        for violation in found {
            if !self.failures.iter().any(|failure| failure.violation.property == violation.property) {
                self.failures.push(Failure { seed, violation });
            }
        }
    }

    /// What a scenario comes to, unless the service panics.
    fn run(&self, scenario: &Scenario) -> Result<Run, Violation> {
        catch_unwind(AssertUnwindSafe(|| play(scenario, self.tier)))
            .map_err(|panic| Violation { property: "no_panic", what: words(panic.as_ref()) })
    }

    /// What a run does not have.
    fn judge(&self, facts: &Facts<'_>) -> Vec<Violation> {
        let mut found = violations_of(facts);
        found.extend(self.canary.then(|| canary(facts.run)).flatten());
        found
    }

    /// Whether a scenario fails `property`.
    pub fn fails(&self, scenario: &Scenario, property: &str) -> bool {
        let fails = |found: Vec<Violation>| found.iter().any(|violation| violation.property == property);
        match self.run(scenario) {
            Ok(run) => fails(self.judge(&Facts::of(scenario, &run))),
            Err(panic) => fails(vec![panic]),
        }
    }

    /// Adds what another campaign came to.
    pub fn add(&mut self, other: Self) {
        self.played += other.played;
        self.events += other.events;
        self.virtual_ms += other.virtual_ms;
        self.sometimes.add(&other.sometimes);
        for failure in other.failures {
            let known = |known: &Failure| known.violation.property == failure.violation.property;
            if !self.failures.iter().any(known) {
                self.failures.push(failure);
            }
        }
    }
}

/// Fails every run in which a process ends with code 2.
fn canary(run: &Run) -> Option<Violation> {
    let ended =
        run.lines.iter().find(|line| line.kind == "process_exited" && line.get("code") == Some("2"))?;
    let what = format!("the canary: {}", ended.to_string().trim_start());
    Some(Violation { property: "canary", what })
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without words".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_seeds_have_every_property() {
        let mut campaign = Campaign::new(Tier::Core, false);
        (0..2_000).for_each(|seed| campaign.play(seed));
        assert_eq!(campaign.failures, []);
        assert_eq!(campaign.played, 2_000);
        let events = campaign.events / campaign.played;
        assert!((30..60).contains(&events), "a scenario has about 40 events, not {events}");
    }

    #[test]
    fn the_canary_turns_red() {
        let mut campaign = Campaign::new(Tier::Core, true);
        (0..500).for_each(|seed| campaign.play(seed));
        assert!(campaign.failures.iter().any(|failure| failure.violation.property == "canary"));
    }
}
