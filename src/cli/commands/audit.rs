//! `uexec audit`: the record of a server.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;

use crate::audit::{Broken, Report, verify};
use crate::cli::args::Global;
use crate::cli::failure::Failure;
use crate::cli::{exit, json, output};

/// Check the record of what was asked, answered, started and refused
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Check that nothing of it was changed, taken out, put elsewhere or cut off; needs no server
    Verify {
        /// The directory of the log [default: `audit` in the runtime directory]
        directory: Option<PathBuf>,
    },
}

/// Checks; the answer is no where the record is not whole.
pub(crate) fn run(global: &Global, args: Args) -> Result<u8, Failure> {
    let What::Verify { directory } = args.what;
    let directory = directory.unwrap_or_else(|| global.runtime_dir().join("audit"));
    match verify(&directory) {
        Ok(report) if global.json => json::print(&as_json(&report))?,
        Ok(report) => output::print(&as_text(&report))?,
        Err(Broken::Break { file, line, damage, what }) if global.json => {
            json::print(&json!({
                "whole": false, "file": file, "line": line, "damage": damage.as_str(), "what": what,
            }))?;
            return Ok(exit::NO);
        }
        Err(broken) => return Err(failure(&directory, &broken)),
    }
    Ok(exit::OK)
}

fn as_json(report: &Report) -> serde_json::Value {
    json!({
        "whole": true, "records": report.records, "files": report.files, "first": report.first,
        "last": report.last, "seq": report.sequence, "hash": report.hash, "lost_records": report.lost,
        "unfinished_bytes": report.unfinished,
    })
}

fn as_text(report: &Report) -> String {
    let span = match (&report.first, &report.last) {
        (Some(first), Some(last)) => format!(", {first} to {last}"),
        _ => String::new(),
    };
    let mut text = format!("{} records in {} files{span}: whole\n", report.records, report.files);
    text += &format!("record {} has the hash {}\n", report.sequence, report.hash);
    if report.lost > 0 {
        text += &format!("{} records could not be written, which the record itself tells\n", report.lost);
    }
    if report.unfinished > 0 {
        text += &format!(
            "{} bytes at the end are of a record that is being written, or that a crash has cut short\n",
            report.unfinished
        );
    }
    text
}

fn failure(directory: &Path, broken: &Broken) -> Failure {
    let failure = Failure::new(broken.to_string()).with_code(exit::NO);
    match broken {
        Broken::Nothing { .. } => {
            failure.hint("name the directory: `audit.directory` of the server's configuration")
        }
        Broken::System { source, .. } if source.kind() == std::io::ErrorKind::NotFound => failure.hint(
            format!("no server has kept a record in {}; name the directory of another", directory.display()),
        ),
        Broken::Break { .. } | Broken::System { .. } => failure,
    }
}
