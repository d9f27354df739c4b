//! Where a scenario is played: how much of the product runs, and by which clock.

use std::fmt;
use std::str::FromStr;

use crate::model;
use crate::run::Run;
use crate::scenario::Scenario;

/// How much of the product runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// L0: the core alone, over a model of the world.
    Core,
}

impl Tier {
    /// Every tier that a scenario can be played on, fastest first.
    pub const ALL: [Self; 1] = [Self::Core];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Core => "L0",
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
        Self::ALL.into_iter().find(|tier| tier.name().eq_ignore_ascii_case(text)).ok_or_else(|| {
            format!("there is no tier {text:?}; there are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// Plays a scenario from its start to its end.
pub fn play(scenario: &Scenario, tier: Tier) -> Run {
    match tier {
        Tier::Core => model::play(scenario),
    }
}
