//! `sim bench`: scenarios a second on one core, by tier.

use std::io::Write;
use std::time::Duration;

use sim::{Scenario, Tier, generate, play, violations};

use super::Failure;
use super::watch::{Stopwatch, duration};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this tier
    #[arg(long)]
    tier: Option<Tier>,
    /// How long to measure each
    #[arg(long, default_value = "2s", value_parser = duration)]
    budget: Duration,
    /// How many different scenarios are played, over and over
    #[arg(long, default_value_t = 2_000)]
    scenarios: u64,
}

pub(crate) fn run(out: &mut impl Write, args: &Args) -> Result<bool, Failure> {
    if cfg!(debug_assertions) {
        writeln!(out, "note: built with debug assertions; speed is measured with --release")?;
    }
    let watch = Stopwatch::start();
    let scenarios: Vec<Scenario> = (0..args.scenarios).map(generate).collect();
    writeln!(out, "{:<10} {:>14} {:>10} {:>14}", "", "scenarios/s", "events", "events/s")?;
    row(out, "generate", args.scenarios, 0, watch.seconds())?;
    let tiers = Tier::ALL.into_iter().filter(|tier| args.tier.is_none_or(|only| only == *tier));
    for tier in tiers {
        let watch = Stopwatch::start();
        let (mut played, mut events) = (0, 0);
        'measured: loop {
            for scenario in &scenarios {
                events += play(scenario, tier).lines.len() as u64;
                played += 1;
                if played % 16 == 0 && watch.elapsed() >= args.budget {
                    break 'measured;
                }
            }
        }
        row(out, tier.name(), played, events, watch.seconds())?;
    }
    let runs: Vec<_> = scenarios.iter().map(|scenario| play(scenario, Tier::Core)).collect();
    let watch = Stopwatch::start();
    let found: usize =
        scenarios.iter().zip(&runs).map(|(scenario, run)| violations(scenario, run).len()).sum();
    row(out, "properties", args.scenarios, 0, watch.seconds())?;
    Ok(found == 0)
}

fn row(out: &mut impl Write, what: &str, played: u64, events: u64, seconds: f64) -> Result<(), Failure> {
    let (played, events) = (played as f64, events as f64);
    let each = events / played.max(1.0);
    writeln!(out, "{what:<10} {:>14.0} {each:>10.1} {:>14.0}", played / seconds, events / seconds)?;
    Ok(())
}
