//! `sim run FILE|FOLDER..`

use std::io::Write;
use std::path::{Path, PathBuf};

use sim::{Scenario, Tier, judge, play};

use super::{Failure, scenario_files};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenario files, and folders of them
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// How much of the product runs
    #[arg(long, default_value_t = Tier::Core)]
    tier: Tier,
}

pub(crate) fn run(out: &mut impl Write, args: &Args) -> Result<bool, Failure> {
    let files = scenario_files(&args.files)?;
    let mut failed = 0;
    writeln!(out, "{:<6} {:>6} {:>10}  scenario", "", "events", "virtual ms")?;
    for file in &files {
        let scenario = match Scenario::load(file) {
            Ok(scenario) => scenario,
            Err(error) => {
                failed += 1;
                writeln!(out, "{:<6} {:>6} {:>10}  {error}", "ERROR", "", "")?;
                continue;
            }
        };
        let run = play(&scenario, args.tier);
        let verdict = judge(&scenario, &run);
        let word = if verdict.passed() { "ok" } else { "FAIL" };
        let (name, title) = (stem(file), &scenario.title);
        writeln!(out, "{word:<6} {:>6} {:>10}  {name}: {title}", run.lines.len(), run.took)?;
        if !verdict.passed() {
            failed += 1;
            for failure in &verdict.failures {
                writeln!(out, "  ! {failure}")?;
            }
            write!(out, "{}", verdict.comparison)?;
            writeln!(out, "  reproduce: cargo run -p sim -- run --tier {} {}", args.tier, file.display())?;
        }
    }
    writeln!(out, "{} scenarios, {} passed, {failed} failed", files.len(), files.len() - failed)?;
    Ok(failed == 0)
}

fn stem(file: &Path) -> &str {
    file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
}
