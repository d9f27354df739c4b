//! `sim import FEED [-o FILE.toml]`

use std::io::Write;
use std::path::PathBuf;

use sim::import;

use super::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What `uexec --json events --after 0` printed
    feed: PathBuf,
    /// What the scenario shows [default: the name of the file]
    #[arg(long)]
    title: Option<String>,
    /// Where the scenario goes; without it, it is printed
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(out: &mut impl Write, args: &Args) -> Result<bool, Failure> {
    let name = args.feed.display();
    let feed = std::fs::read_to_string(&args.feed)
        .map_err(|source| Failure::File { path: args.feed.clone(), source })?;
    let title = args.title.clone().unwrap_or_else(|| format!("imported from {name}"));
    let imported = match import(&feed, &title) {
        Ok(imported) => imported,
        Err(error) => {
            writeln!(out, "{name}:{error}")?;
            return Ok(false);
        }
    };
    let Some(path) = &args.output else {
        write!(out, "{}", imported.scenario)?;
        for difference in &imported.differences {
            writeln!(out, "# ! {}", difference.replace('\n', "\n# "))?;
        }
        return Ok(imported.differences.is_empty());
    };
    std::fs::write(path, imported.scenario.to_string())
        .map_err(|source| Failure::File { path: path.clone(), source })?;
    for difference in &imported.differences {
        writeln!(out, "  ! {difference}")?;
    }
    let steps = imported.scenario.steps();
    let same = if imported.differences.is_empty() { ", and the model comes to the same" } else { "" };
    writeln!(out, "{}: {steps} steps{same}", path.display())?;
    Ok(imported.differences.is_empty())
}
