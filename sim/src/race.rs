//! Whether what a scenario comes to depends on the scheduler: then two of its tasks race.

use std::fmt;

use crate::run::Run;
use crate::scenario::Scenario;
use crate::tier::{Tier, play_seeded};
use crate::transcript::Line;

/// A scenario that comes to something else with another scheduler.
#[derive(Debug)]
pub struct Race {
    /// The seed of the scheduler that differs from that of seed 0.
    pub seed: u64,
    /// The first lines that differ: what came with seed 0, and with this one.
    first: (Option<Line>, Option<Line>),
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |line: &Option<Line>| match line {
            Some(line) => line.to_string().trim_start().to_owned(),
            None => "nothing more".into(),
        };
        let (zero, other) = (shown(&self.first.0), shown(&self.first.1));
        write!(
            f,
            "a race: with scheduler seed {} comes {other:?} where with seed 0 comes {zero:?}",
            self.seed
        )
    }
}

/// Plays a scenario by the schedulers of so many seeds, from 0; their canonical transcripts must be equal.
pub fn play_all(scenario: &Scenario, tier: Tier, seeds: u64) -> (Run, Option<Race>) {
    let run = play_seeded(scenario, tier, 0);
    let zero = run.canonical();
    let race = (1..seeds).find_map(|seed| {
        let other = play_seeded(scenario, tier, seed).canonical();
        let first = differ(&zero, &other)?;
        Some(Race { seed, first })
    });
    (run, race)
}

fn differ(zero: &[Line], other: &[Line]) -> Option<(Option<Line>, Option<Line>)> {
    let longest = zero.len().max(other.len());
    let at = (0..longest).find(|at| zero.get(*at) != other.get(*at))?;
    Some((zero.get(at).cloned(), other.get(at).cloned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_named() {
        let line = |t| Line::new(t, "a".into(), "answer", vec![]);
        assert!(differ(&[line(1), line(2)], &[line(1), line(2)]).is_none());
        let race = Race { seed: 3, first: differ(&[line(1)], &[line(1), line(2)]).unwrap() };
        assert!(
            race.to_string()
                .contains("seed 3 comes \"2  a answer\" where with seed 0 comes \"nothing more\"")
        );
    }
}
