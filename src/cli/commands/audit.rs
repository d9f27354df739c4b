//! `uexec audit`: the record of a server.

use std::path::PathBuf;

use clap::Subcommand;

use crate::audit::verify;
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
    /// Check that nothing of it was changed, taken out or cut off; needs no server
    Verify {
        /// The directory of the log [default: `audit` in the runtime directory]
        directory: Option<PathBuf>,
    },
}

/// Checks.
pub(crate) fn run(global: &Global, args: Args) -> Result<u8, Failure> {
    let What::Verify { directory } = args.what;
    let directory = directory.unwrap_or_else(|| global.runtime_dir().join("audit"));
    let report = match verify(&directory) {
        Ok(report) => report,
        Err(wrong) => return Err(Failure::new(wrong.to_string()).with_code(exit::NO)),
    };
    if global.json {
        json::print(&serde_json::json!({
            "records": report.records, "files": report.files, "first": report.first, "last": report.last,
        }))?;
    } else {
        let span = match (&report.first, &report.last) {
            (Some(first), Some(last)) => format!(", {first} to {last}"),
            _ => String::new(),
        };
        output::print(&format!("{} records in {} files{span}: whole\n", report.records, report.files))?;
    }
    Ok(exit::OK)
}
