//! `uexec resize`: the size of a process's terminal.

use crate::cli::args::Global;
use crate::cli::failure::Failure;
use crate::cli::session::SessionArg;
use crate::cli::{exit, json, terminal};
use crate::grpc::pb;

/// Set the size of a process's terminal
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// Lines [default: ours]
    #[arg(long, requires = "cols", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    rows: Option<u32>,
    /// Columns [default: ours]
    #[arg(long, requires = "rows", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    cols: Option<u32>,
    /// The process
    #[arg(value_name = "ID")]
    process: u32,
}

/// Resizes.
pub(crate) async fn run(global: &Global, args: Args) -> Result<u8, Failure> {
    let size = match (args.rows, args.cols) {
        (Some(rows), Some(cols)) => pb::TerminalSize { rows, cols },
        _ => terminal::size().ok_or_else(|| {
            Failure::usage("we have no terminal to take the size of").hint("give --rows and --cols")
        })?,
    };
    let mut client = global.connect().await?;
    let session_id = args.session.resolve(&mut client).await?;
    let request = pb::ResizeTerminalRequest {
        session_id,
        process_id: args.process,
        size: Some(size),
        ..Default::default()
    };
    let answer = client.exec.resize_terminal(request).await?.into_inner();
    if global.json {
        json::print(&json::value("ResizeTerminalResponse", &answer)?)?;
    }
    Ok(exit::OK)
}
