//! `uexec completions`: a script for a shell.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::args::Cli;
use crate::cli::failure::Failure;
use crate::cli::{exit, output};

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "bash: eval \"$(uexec completions bash)\"; fish: uexec completions fish | source"
)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Prints it.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "uexec", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(exit::OK)
}
