//! `sim record SCENARIO` and `sim record -- PROGRAM [ARGUMENT..]`

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use sim::Scenario;
use sim::conform::record;

use super::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A scenario with true programs (`real = [..]`)
    #[arg(required_unless_present = "argv", conflicts_with = "argv")]
    scenario: Option<PathBuf>,
    /// Start the program on a terminal
    #[arg(long, requires = "argv")]
    tty: bool,
    /// A program and its arguments, which is waited for
    #[arg(last = true)]
    argv: Vec<String>,
    /// Where the recording goes; its public transcript goes beside it, as `.transcript`
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(out: &mut impl Write, args: &Args) -> Result<bool, Failure> {
    let scenario = match &args.scenario {
        Some(file) => Scenario::load(file).map_err(|error| Failure::Usage(error.to_string()))?,
        None => Scenario::of_program(&args.argv, args.tty),
    };
    let recording = match record(&scenario) {
        Ok(recording) => recording,
        Err(problems) => {
            for problem in problems {
                writeln!(out, "  ! {problem}")?;
            }
            return Ok(false);
        }
    };
    let Some(file) = &args.output else {
        write!(out, "{}", recording.scenario)?;
        return Ok(true);
    };
    let transcript = file.with_extension("transcript");
    for (path, text) in [(file, recording.scenario.to_string()), (&transcript, recording.transcript)] {
        fs::write(path, text).map_err(|source| Failure::File { path: path.clone(), source })?;
    }
    writeln!(out, "{}: {} ms, and the fake comes to the same", file.display(), recording.took)?;
    Ok(true)
}
