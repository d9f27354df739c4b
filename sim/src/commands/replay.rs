//! `sim replay FILE`

use std::io::Write;
use std::path::PathBuf;

use sim::{Scenario, Tier, play_seeded};

use super::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A scenario file
    file: PathBuf,
    /// How much of the product runs
    #[arg(long, default_value_t = Tier::Core)]
    tier: Tier,
    /// Play by the scheduler of this seed
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    scheduler: u64,
}

pub(crate) fn run(out: &mut impl Write, args: &Args) -> Result<bool, Failure> {
    match Scenario::load(&args.file) {
        Ok(scenario) => {
            for line in play_seeded(&scenario, args.tier, args.scheduler).lines {
                writeln!(out, "{line}")?;
            }
            Ok(true)
        }
        Err(error) => {
            writeln!(out, "{error}")?;
            Ok(false)
        }
    }
}
