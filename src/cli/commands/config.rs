//! `uexec config`: what the server would run with.

use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::serve;
use crate::cli::args::Global;
use crate::cli::failure::Failure;
use crate::cli::{exit, json, output};
use crate::config::{Config, ConfigError};

/// Show or check the configuration
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum What {
    /// Print the configuration that `serve` with the same options would run with
    Show(serve::Args),
    /// Check a configuration file, and say nothing if it is right
    Check {
        /// The file
        #[arg(env = "UEXEC_CONFIG", value_name = "FILE", hide_env_values = true)]
        file: PathBuf,
    },
}

/// Shows or checks.
pub(crate) fn run(global: &Global, args: &Args) -> Result<u8, Failure> {
    match &args.what {
        What::Show(serve) => show(&serve.configuration(global)?, global.json)?,
        What::Check { file } => {
            load(file)?;
            if global.json {
                json::print(&serde_json::json!({ "file": file, "valid": true }))?;
            }
        }
    }
    Ok(exit::OK)
}

fn show(config: &Config, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return json::print(&serde_json::to_value(config)?);
    }
    let text = config.to_toml();
    output::print(&text.map_err(|error| Failure::new(format!("the configuration cannot be shown: {error}")))?)
}

/// Reads a file.
pub(crate) fn load(file: &Path) -> Result<Config, Failure> {
    Config::load(file).map_err(|error| match &error {
        ConfigError::Unreadable { source, .. } => Failure::usage(format!("{error}: {source}")),
        ConfigError::Refused { .. } => {
            Failure::usage(error.to_string()).hint("docs/configuration.md shows every key")
        }
    })
}
