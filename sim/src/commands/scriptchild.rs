//! `sim scriptchild ACTS`

use sim::scriptchild::{self, Kind, Life};

use super::Failure;

/// What L3 starts instead of the programs of a scenario.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// `acts = [ { at = 0, out = "hi" }, … ]` as in a scenario file, or @FILE with that in it
    #[arg(required_unless_present = "descendant", conflicts_with = "descendant")]
    acts: Option<String>,
    /// Live as what a script has forked; stdin is where to say that it is there
    #[arg(long, hide = true)]
    descendant: Option<Kind>,
    #[command(flatten)]
    life: Life,
}

pub(crate) fn run(args: &Args) -> Result<bool, Failure> {
    let failure = |error: scriptchild::ScriptError| Failure::Child(error);
    match (args.descendant, &args.acts) {
        (Some(kind), _) => scriptchild::live(kind, &args.life).map(|()| true).map_err(failure),
        (None, Some(acts)) => match scriptchild::run(acts) {
            Err(error) => Err(failure(error)),
        },
        (None, None) => Ok(true),
    }
}
