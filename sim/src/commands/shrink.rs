//! `sim shrink FILE|SEED`

use std::io::Write;
use std::path::PathBuf;

use sim::{Campaign, Tier, play, shrink, violations};

use super::Failure;
use super::source::Source;
use super::swarm::write_regression;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A scenario file that fails a property, or the seed of one
    what: Source,
    /// How much of the product runs
    #[arg(long, default_value_t = Tier::Core)]
    tier: Tier,
    /// The property that it must go on failing; absent is the first one that it fails
    #[arg(long)]
    property: Option<String>,
    /// Where the shrunk scenario is written; absent prints it
    #[arg(long)]
    out: Option<PathBuf>,
}

pub(crate) fn run(out: &mut impl Write, args: &Args) -> Result<bool, Failure> {
    let scenario = match args.what.scenario() {
        Ok(scenario) => scenario,
        Err(error) => {
            writeln!(out, "{error}")?;
            return Ok(false);
        }
    };
    let found = violations(&scenario, &play(&scenario, args.tier));
    let wanted =
        found.iter().find(|found| args.property.as_deref().is_none_or(|property| property == found.property));
    let Some(violation) = wanted else {
        let property = args.property.as_deref().unwrap_or("any property");
        return Err(Failure::Usage(format!(
            "it does not fail {property}, so there is nothing to shrink it by"
        )));
    };
    let campaign = Campaign::new(args.tier, false);
    let small = shrink(&scenario, |scenario| campaign.fails(scenario, violation.property));
    match &args.out {
        Some(folder) => {
            let path = write_regression(folder, &small, args.tier, violation.property, &violation.what)?;
            writeln!(out, "{}", path.display())?;
        }
        None => write!(out, "{small}")?,
    }
    Ok(true)
}
