//! What we log, to stderr.

use tracing_subscriber::EnvFilter;

use super::failure::Failure;
use crate::config::{Format, Logging};

/// Starts to log. The second time it does nothing, since there is only one stderr.
pub(super) fn start(logging: &Logging) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&logging.filter).map_err(|error| {
        Failure::usage(format!("{:?} is no log filter: {error}", logging.filter))
            .hint("give a level (error, warn, info, debug, trace), or target=level pairs with commas between")
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match logging.format {
        Format::Text => lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
        Format::Json => lines.json().flatten_event(true).try_init(),
    };
    started.ok();
    Ok(())
}
