//! `sim explain COMMAND [OPTION..]`

use std::io::Write;

use sim::explain;

use super::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A command, then what differs from the defaults: --policy P, --strict-review, --sandbox S, --network N,
    /// --deny-read [PATH], --owner-network, --rule "WORDS=allow|prompt|forbidden", --escalate, --tty, --stdin
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

pub(crate) fn run(out: &mut impl Write, args: &Args) -> Result<bool, Failure> {
    let page = explain(&args.words).map_err(|error| Failure::Usage(error.to_string()))?;
    out.write_all(page.as_bytes())?;
    Ok(true)
}
