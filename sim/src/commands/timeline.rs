//! `sim timeline FILE [-o FILE.svg]`

use std::io::Write;
use std::path::PathBuf;

use sim::{Scenario, timeline};

use super::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A scenario file
    file: PathBuf,
    /// Where the SVG goes; without it, it is printed
    #[arg(short, long)]
    output: Option<PathBuf>,
}

pub(crate) fn run(out: &mut impl Write, args: &Args) -> Result<bool, Failure> {
    let scenario = match Scenario::load(&args.file) {
        Ok(scenario) => scenario,
        Err(error) => {
            writeln!(out, "{error}")?;
            return Ok(false);
        }
    };
    let svg = timeline(&scenario)?;
    match &args.output {
        None => out.write_all(svg.as_bytes())?,
        Some(path) => {
            std::fs::write(path, svg).map_err(|source| Failure::File { path: path.clone(), source })?;
        }
    }
    Ok(true)
}
