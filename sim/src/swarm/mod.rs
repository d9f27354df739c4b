//! Random scenarios: a seed says everything about one.
//!
//! Each draws first which faults exist in it at all, then how often they strike, then callers and programs. Faults end before
//! the scenario does, so that what must come in the end can be asked for.

mod campaign;
mod menu;
mod programs;
mod random;
mod session;
mod shrink;
mod steps;
mod times;

use std::collections::BTreeMap;

pub use campaign::{Campaign, Failure};
pub use shrink::{regression, shrink};

use toml::Spanned;

use self::menu::{Fault, Menu};
use self::programs::Programs;
use self::random::{Random, Stream};
use self::steps::Steps;
use self::times::Times;
use crate::scenario::{Expect, Order, Program, Scenario};

/// The scenario of a seed.
pub fn generate(seed: u64) -> Scenario {
    let menu = Menu::draw(&mut Random::new(seed, Stream::Menu));
    let mut random = Random::new(seed, Stream::Workload);
    let mut times = Times::new(seed);
    let mut service = session::service(&menu, &mut random);
    let reviewer = session::reviewer(&mut service, &mut random);
    let window = service.early_window.unwrap_or(150);
    let mut programs = Programs { menu: &menu, random: Random::new(seed, Stream::Programs), window };
    let crowd = menu.rate(Fault::Prune) > 0;
    let kinds = random.between(1, 3);
    let program: BTreeMap<String, Program> = (0..kinds)
        .map(|kind| {
            let name = match random.below(16) {
                0 => format!("rm -f x{kind}"),
                1 => format!("p{kind} run && p0 run"),
                _ => format!("p{kind} run"),
            };
            let lives = random.chance(if crowd { 90 } else { 20 });
            (name, programs.program(&mut times, lives))
        })
        .collect();
    let rules = session::rules(program.keys(), &mut random);
    let names: Vec<&String> = program.keys().collect();
    let starts = if crowd { random.between(3, 12) } else { random.between(2, 5) };
    let commands: Vec<&String> = (0..starts).filter_map(|_| random.pick(&names)).collect();
    let when = Steps::new(&menu, random, times, reviewer.is_some()).about(&commands);
    Scenario {
        tiers: Vec::new(),
        link: crate::scenario::Link::default(),
        format: Spanned::new(0..0, 1),
        title: format!("random, of seed {seed}"),
        tags: Vec::new(),
        run_to: None,
        loose: true,
        fake_only: None,
        real_tol: None,
        service,
        rules,
        reviewer,
        program,
        when,
        expect: Expect { order: Order::Subsequence, ..Expect::default() },
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_seed_gives_a_file_that_can_be_read_and_is_played_alike() {
        for seed in 0..300 {
            let scenario = generate(seed);
            let text = scenario.to_string();
            let read =
                Scenario::parse(Path::new("seed"), &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(read.to_string(), text);
            let lines = |of: &Scenario| crate::play(of, crate::Tier::Core).lines;
            assert_eq!(lines(&read), lines(&scenario), "{text}");
        }
    }
}
