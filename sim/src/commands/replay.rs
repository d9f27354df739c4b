//! `sim replay FILE|SEED`

use std::io::Write;

use sim::{Tier, play_seeded, violations};

use super::Failure;
use super::source::Source;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A scenario file, or the seed of a random scenario
    what: Source,
    /// How much of the product runs
    #[arg(long, default_value_t = Tier::Core)]
    tier: Tier,
    /// Play by the scheduler of this seed
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    scheduler: u64,
    /// Print the scenario itself first, as a file
    #[arg(long)]
    scenario: bool,
}

pub(crate) fn run(out: &mut impl Write, args: &Args) -> Result<bool, Failure> {
    match args.what.scenario() {
        Ok(scenario) => {
            if args.scenario {
                writeln!(out, "{scenario}")?;
            }
            let run = play_seeded(&scenario, args.tier, args.scheduler);
            for line in &run.lines {
                writeln!(out, "{line}")?;
            }
            let found = violations(&scenario, &run);
            for violation in &found {
                writeln!(out, "  ! {}: {}", violation.property, violation.what)?;
            }
            Ok(found.is_empty())
        }
        Err(error) => {
            writeln!(out, "{error}")?;
            Ok(false)
        }
    }
}
