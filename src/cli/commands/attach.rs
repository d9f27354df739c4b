//! x
use crate::cli::args::Global;
use crate::cli::failure::Failure;
/// Attach
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}
pub(crate) async fn run(_: &Global, _: Args) -> Result<u8, Failure> {
    Ok(0)
}
