//! `sim run FILE|FOLDER..`

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use sim::{Scenario, Tier, judge, play_all};

use super::junit::Junit;
use super::{Failure, scenario_files, stem};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenario files, and folders of them
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// How much of the product runs
    #[arg(long, default_value_t = Tier::Core)]
    tier: Tier,
    /// Play each by the schedulers of so many seeds; what differs between them is a race
    #[arg(long, default_value_t = 1, value_name = "N")]
    scheduler_seeds: u64,
    /// Only scenarios with this tag; given more than once, with any of them
    #[arg(long, value_name = "TAG")]
    filter: Vec<String>,
    /// Also write what came of it as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

pub(crate) fn run(out: &mut impl Write, args: &Args) -> Result<bool, Failure> {
    let files = scenario_files(&args.files)?;
    let mut junit = Junit::new(args.tier.name());
    let (mut played, mut events, mut millis) = (0, 0, 0);
    let mut failed = Vec::new();
    writeln!(out, "{:<6} {:>6} {:>10}  scenario", "", "events", "virtual ms")?;
    for file in &files {
        let scenario = match Scenario::load(file) {
            Ok(scenario) => scenario,
            Err(error) => {
                played += 1;
                failed.push(stem(file));
                junit.unusable(file, &error.to_string());
                writeln!(out, "{:<6} {:>6} {:>10}  {error}", "ERROR", "", "")?;
                continue;
            }
        };
        if !scenario.plays_on(args.tier) {
            continue;
        }
        if !args.filter.is_empty() && !scenario.tags.iter().any(|tag| args.filter.contains(tag)) {
            continue;
        }
        let (run, race) = play_all(&scenario, args.tier, args.scheduler_seeds);
        let mut verdict = judge(&scenario, &run);
        verdict.failures.extend(race.iter().map(ToString::to_string));
        let word = if verdict.passed() { "ok" } else { "FAIL" };
        let (name, title) = (stem(file), &scenario.title);
        writeln!(out, "{word:<6} {:>6} {:>10}  {name}: {title}", run.lines.len(), run.took)?;
        (played, events, millis) = (played + 1, events + run.lines.len(), millis + run.took);
        let mut details = String::new();
        if !verdict.passed() {
            failed.push(name);
            for failure in &verdict.failures {
                let _ = writeln!(details, "  ! {failure}");
            }
            let _ = write!(details, "{}", verdict.comparison);
            let seeds = match &race {
                Some(race) => format!(" --scheduler-seeds {}", race.seed + 1),
                None => String::new(),
            };
            let (tier, file) = (args.tier, file.display());
            let _ = writeln!(details, "  reproduce: cargo run -p sim -- run --tier {tier}{seeds} {file}");
            out.write_all(details.as_bytes())?;
        }
        junit.played(file, title, run.took, &details);
    }
    if let Some(path) = &args.junit {
        junit.write(path)?;
    }
    if played == 0 {
        return Err(Failure::Usage(match &args.filter[..] {
            [] => "there are no scenarios in what was named".into(),
            tags => format!("no scenario has the tag {}", tags.join(" or ")),
        }));
    }
    writeln!(out, "{:<6} {events:>6} {millis:>10}  in all, on {}", "", args.tier)?;
    if !failed.is_empty() {
        writeln!(out, "failed: {}", failed.join(", "))?;
    }
    writeln!(out, "{played} scenarios, {} passed, {} failed", played - failed.len(), failed.len())?;
    Ok(failed.is_empty())
}
