//! `sim lint FILE|FOLDER..`

use std::io::Write;
use std::path::PathBuf;

use sim::lint;

use super::{Failure, scenario_files};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenario files, and folders of them
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

pub(crate) fn run(out: &mut impl Write, args: &Args) -> Result<bool, Failure> {
    let mut files = Vec::new();
    for path in scenario_files(&args.files)? {
        match std::fs::read_to_string(&path) {
            Ok(text) => files.push((path, text)),
            Err(source) => return Err(Failure::File { path, source }),
        }
    }
    let findings = lint(&files);
    for finding in &findings {
        writeln!(out, "{finding}")?;
    }
    writeln!(out, "{} scenarios, {} findings", files.len(), findings.len())?;
    Ok(findings.is_empty())
}
