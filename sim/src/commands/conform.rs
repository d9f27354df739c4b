//! `sim conform FILE|FOLDER..`

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use sim::Scenario;
use sim::conform::{Outcome, Stdio, conform};

use super::{Failure, scenario_files};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenario files, and folders of them
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// How many are played at a time: most of their time they wait
    #[arg(long, default_value_t = 6)]
    jobs: usize,
    /// Leave out what takes longer than so many milliseconds on the fake
    #[arg(long, default_value_t = 8_000, value_name = "MS")]
    longest: u64,
    /// Also say of each that cannot be played on real children why not
    #[arg(long)]
    unfit: bool,
}

#[expect(clippy::disallowed_methods, reason = "how long it took, for whoever reads the summary")]
pub(crate) fn run(out: &mut impl Write, args: &Args) -> Result<bool, Failure> {
    let started = std::time::Instant::now();
    let files = scenario_files(&args.files)?;
    let mut scenarios = Vec::new();
    for file in &files {
        let scenario = Scenario::load(file).map_err(|error| Failure::Usage(error.to_string()))?;
        scenarios.extend([Stdio::Written, Stdio::Terminals].map(|stdio| (file, scenario.clone(), stdio)));
    }
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(|| {
                while let Some((at, (_, scenario, stdio))) = take(&next, &scenarios) {
                    let outcome = conform(scenario, *stdio, args.longest);
                    if let Ok(mut outcomes) = outcomes.lock() {
                        outcomes.insert(at, outcome);
                    }
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    // What we have kept the machine too busy for is played again by itself.
    for (at, (_, scenario, stdio)) in scenarios.iter().enumerate() {
        if matches!(outcomes.get(&at), Some(Outcome::Busy(_))) {
            outcomes.insert(at, conform(scenario, *stdio, args.longest));
        }
    }
    let (mut same, mut failed, mut unfit, mut latest) = (0, 0, 0, 0);
    writeln!(out, "{:<7} {:<8} {:>7} {:>7}  scenario", "", "stdio", "late ms", "real ms")?;
    for (at, (file, scenario, stdio)) in scenarios.iter().enumerate() {
        let name = super::stem(file);
        let stdio = stdio.to_string();
        match outcomes.get(&at) {
            Some(Outcome::Conforms { worst, took }) => {
                same += 1;
                latest = latest.max(*worst);
                writeln!(out, "ok      {stdio:<8} {worst:>7} {took:>7}  {name}: {}", scenario.title)?;
            }
            Some(Outcome::Unfit(why)) => {
                unfit += 1;
                if args.unfit {
                    writeln!(out, "unfit   {stdio:<8} {:>7} {:>7}  {name}: {why}", "", "")?;
                }
            }
            Some(Outcome::Differs(differ)) => {
                failed += 1;
                writeln!(out, "FAIL    {stdio:<8} {:>7} {:>7}  {name}: {}", "", "", scenario.title)?;
                for differ in differ {
                    writeln!(out, "  ! {differ}")?;
                }
                writeln!(out, "  reproduce: cargo run -p sim -- conform {}", file.display())?;
            }
            Some(Outcome::Busy(stall)) => {
                failed += 1;
                writeln!(out, "BUSY    {stdio:<8} {:>7} {:>7}  {name}: timers came {stall:?} late", "", "")?;
            }
            None => {
                failed += 1;
                writeln!(
                    out,
                    "FAIL    {stdio:<8} {:>7} {:>7}  {name}: it was not played to its end",
                    "", ""
                )?;
            }
        }
    }
    writeln!(
        out,
        "{} plays: {same} conform, {failed} failed, {unfit} are for the fake alone; at worst {latest} ms late; {} s",
        scenarios.len(),
        started.elapsed().as_secs()
    )?;
    Ok(failed == 0)
}

fn take<'a, T>(next: &AtomicUsize, of: &'a [T]) -> Option<(usize, &'a T)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, of.get(at)?))
}
