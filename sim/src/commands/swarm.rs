//! `sim swarm --budget 40s|--count N [--seed N] [--tier L]`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sim::{Campaign, Failure, Tier, generate, play, regression, shrink};

use super::Failure as Failed;
use super::watch::{Stopwatch, duration};

/// A campaign of fewer scenarios than that need not have been on every rare path.
const ENOUGH: u64 = 100_000;
/// How many scenarios are played between two looks at the watch.
const BATCH: u64 = 64;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long to play: 40s, 10m, 2h
    #[arg(long, value_parser = duration, conflicts_with = "count")]
    budget: Option<Duration>,
    /// How many scenarios to play
    #[arg(long, default_value_t = 10_000)]
    count: u64,
    /// The first seed; the others follow it
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How much of the product runs
    #[arg(long, default_value_t = Tier::Core)]
    tier: Tier,
    /// Threads that play
    #[arg(long, default_value_t = 1)]
    jobs: u64,
    /// Stop at the first failure
    #[arg(long)]
    first: bool,
    /// Where shrunk failures are written
    #[arg(long, default_value = "sim/scenarios/regress")]
    out: PathBuf,
    /// Write no files
    #[arg(long)]
    dry: bool,
    /// Add a property that does not hold, to see that red is seen
    #[arg(long)]
    canary: bool,
    /// Print how often each rare path was taken
    #[arg(long)]
    paths: bool,
}

pub(crate) fn run(out: &mut impl Write, args: &Args) -> Result<bool, Failed> {
    let watch = Stopwatch::start();
    let campaign = play_all(args, &watch);
    let seconds = watch.seconds();
    let rate = campaign.played as f64 / seconds.max(0.001);
    writeln!(
        out,
        "{}: {} scenarios in {seconds:.2} s ({rate:.0}/s), {:.1} events each, {:.1} virtual days",
        args.tier,
        campaign.played,
        campaign.events as f64 / campaign.played.max(1) as f64,
        campaign.virtual_ms as f64 / 86_400_000.0,
    )?;
    if args.paths {
        write!(out, "{}", campaign.sometimes)?;
    }
    for failure in &campaign.failures {
        report(out, args, &campaign, failure)?;
    }
    let never = campaign.sometimes.never();
    let judged = campaign.played >= ENOUGH;
    if !never.is_empty() {
        let word = if judged { "FAIL" } else { "note" };
        writeln!(out, "{word}: no run took these paths: {}", never.join(", "))?;
    }
    Ok(campaign.failures.is_empty() && (never.is_empty() || !judged))
}

/// Seeds are dealt out by turns, so that the same seeds are played whatever the number of threads.
fn play_all(args: &Args, watch: &Stopwatch) -> Campaign {
    let (jobs, over) = (args.jobs.max(1), AtomicBool::new(false));
    let work = |job: u64| {
        let mut campaign = Campaign::new(args.tier, args.canary);
        let mut turn = job;
        loop {
            let done = match args.budget {
                Some(budget) => campaign.played.is_multiple_of(BATCH) && watch.elapsed() >= budget,
                None => turn >= args.count,
            };
            if done || over.load(Ordering::Relaxed) {
                return campaign;
            }
            campaign.play(args.seed.wrapping_add(turn));
            if args.first && !campaign.failures.is_empty() {
                over.store(true, Ordering::Relaxed);
            }
            turn += jobs;
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..jobs).map(|job| scope.spawn(move || work(job))).collect();
        let mut campaign = work(0);
        for other in others {
            match other.join() {
                Ok(played) => campaign.add(played),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        campaign
    })
}

fn report(out: &mut impl Write, args: &Args, campaign: &Campaign, failure: &Failure) -> Result<(), Failed> {
    let property = failure.violation.property;
    writeln!(out, "FAIL {property}: {}", failure.violation.what)?;
    writeln!(out, "  reproduce: cargo run -p sim -- replay {} --tier {}", failure.seed, args.tier)?;
    if args.dry {
        return Ok(());
    }
    let small = shrink(&generate(failure.seed), |scenario| campaign.fails(scenario, property));
    let path = write_regression(&args.out, &small, args.tier, property, &failure.violation.what)?;
    writeln!(out, "  shrunk to {} steps: {}", small.steps(), path.display())?;
    Ok(())
}

/// Writes a shrunk failure as a file of its own.
pub(crate) fn write_regression(
    folder: &Path,
    small: &sim::Scenario,
    tier: Tier,
    property: &str,
    what: &str,
) -> Result<PathBuf, Failed> {
    let run = (property != "no_panic").then(|| play(small, tier));
    let (name, text) = regression(small, property, what, run.as_ref());
    let path = folder.join(name);
    let unwritable = |source| Failed::File { path: path.clone(), source };
    std::fs::create_dir_all(folder).map_err(unwritable)?;
    std::fs::write(&path, text).map_err(unwritable)?;
    Ok(path)
}
