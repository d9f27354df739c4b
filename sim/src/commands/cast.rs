//! `sim cast FILE [-o FILE.cast]`

use std::io::Write;
use std::path::PathBuf;

use sim::{Scenario, cast};

use super::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A scenario file
    file: PathBuf,
    /// The call whose terminal is shown [default: the first that says something]
    #[arg(long)]
    call: Option<String>,
    /// Where the asciicast goes; without it, it is printed
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(out: &mut impl Write, args: &Args) -> Result<bool, Failure> {
    let cast = match Scenario::load(&args.file) {
        Ok(scenario) => cast(&scenario, args.call.as_deref()),
        Err(error) => {
            writeln!(out, "{error}")?;
            return Ok(false);
        }
    };
    let cast = match cast {
        Ok(cast) => cast,
        Err(error) => {
            writeln!(out, "{}: {error}", args.file.display())?;
            return Ok(false);
        }
    };
    match &args.output {
        None => out.write_all(cast.as_bytes())?,
        Some(path) => {
            std::fs::write(path, cast).map_err(|source| Failure::File { path: path.clone(), source })?;
        }
    }
    Ok(true)
}
