//! Where a scenario is played: how much of the product runs, and by which clock.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::run::Run;
use crate::scenario::Scenario;
use crate::{host_tier, model, real, wire};

/// How much of the product runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// L0: the core alone, over a model of the world.
    Core,
    /// L1: the host with its tasks, over children that play the scenario.
    Host,
    /// L2: the same behind the gRPC edge, with clients of the wire.
    Wire,
    /// L3: the same host over real children, by the clock on the wall.
    Real,
}

impl Tier {
    /// Every tier in virtual time, fastest first.
    pub const ALL: [Self; 3] = [Self::Core, Self::Host, Self::Wire];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Core => "L0",
            Self::Host => "L1",
            Self::Wire => "L2",
            Self::Real => "L3",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Tier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter().chain([Self::Real]);
        all.find(|tier| tier.name().eq_ignore_ascii_case(text)).ok_or_else(|| {
            let virtual_time = Self::ALL.map(Self::name).join(", ");
            format!("there is no tier {text:?}; there are {virtual_time} and {}", Self::Real)
        })
    }
}

/// Plays a scenario from its start to its end, by the scheduler of seed 0.
pub fn play(scenario: &Scenario, tier: Tier) -> Run {
    play_seeded(scenario, tier, 0)
}

/// Plays a scenario by a scheduler of this seed, where there is one.
pub fn play_seeded(scenario: &Scenario, tier: Tier, scheduler: u64) -> Run {
    if let (Some(program), true) = (scenario.true_program(), tier != Tier::Real) {
        let broken = vec![format!("program {program:?} is a true one: play it on {}", Tier::Real)];
        return Run { broken, ..Run::default() };
    }
    match tier {
        Tier::Real => real::play(scenario, Duration::ZERO).run,
        Tier::Core => model::play(scenario),
        Tier::Host => host_tier::play(scenario, scheduler),
        Tier::Wire => wire::play(scenario, scheduler),
    }
}
