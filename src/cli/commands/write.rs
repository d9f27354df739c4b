//! `uexec write`: input for a process, and what it answers.

use std::time::Duration;

use tokio::io::AsyncReadExt as _;

use crate::cli::args::{Global, duration, milliseconds};
use crate::cli::failure::Failure;
use crate::cli::output::{self, Sink};
use crate::cli::session::SessionArg;
use crate::cli::{exit, json};
use crate::grpc::pb;
use crate::grpc::pb::write_stdin_request::Content;
use crate::grpc::pb::write_stdin_response::Item;

/// Most that one write may carry, by the contract.
const INPUT_BYTES_MAX: usize = 2_097_152;

/// Write to a process, and print what it answers
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
  uexec write 1234 '6*7'      a line: a line break is added
  uexec write -n 1234 ':wq'   as it is
  uexec write 1234 - <file    our stdin, as it is
  uexec write 1234            nothing: only waits for output

What is printed is what the process wrote since the last answer. A Ctrl-C for a terminal is -n with $'\\x03'.

Exit codes: 0 all input was delivered; 1 it was not.")]
pub(crate) struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// Add no line break
    #[arg(short = 'n', long)]
    no_newline: bool,
    /// End its input afterwards
    #[arg(long)]
    eof: bool,
    /// How long to wait for the answer [default: 250ms, or 5s without input]
    #[arg(long = "yield", value_name = "TIME", value_parser = duration)]
    yield_time: Option<Duration>,
    /// The process
    #[arg(value_name = "ID")]
    process: u32,
    /// The input; - is our stdin
    #[arg(allow_hyphen_values = true)]
    text: Option<String>,
}

impl Args {
    async fn content(&self) -> Result<Option<Content>, Failure> {
        match self.text.as_deref() {
            None => Ok(None),
            Some("-") => Ok(Some(Content::Input(stdin().await?.into()))),
            Some(text) if self.no_newline => Ok(Some(Content::Text(text.to_owned()))),
            Some(text) => Ok(Some(Content::Text(format!("{text}\n")))),
        }
    }
}

async fn stdin() -> Result<Vec<u8>, Failure> {
    let mut input = Vec::new();
    tokio::io::stdin().take(INPUT_BYTES_MAX as u64 + 1).read_to_end(&mut input).await?;
    if input.len() > INPUT_BYTES_MAX {
        return Err(
            Failure::usage("more than 2 MiB of input").hint("`uexec attach ID <FILE` streams any amount")
        );
    }
    Ok(input)
}

/// Writes.
pub(crate) async fn run(global: &Global, args: Args) -> Result<u8, Failure> {
    let content = args.content().await?;
    let length = match &content {
        Some(Content::Input(input)) => input.len() as u64,
        Some(Content::Text(text)) => text.len() as u64,
        None => 0,
    };
    let mut client = global.connect().await?;
    let session_id = args.session.resolve(&mut client).await?;
    let request = pb::WriteStdinRequest {
        session_id,
        process_id: args.process,
        content,
        eof: args.eof,
        yield_time_ms: args.yield_time.map(milliseconds),
        flow: pb::Flow::Block.into(),
        ..Default::default()
    };
    let mut sink = Sink::new(global.json);
    let mut items = client.exec.write_stdin(request).await?.into_inner();
    while let Some(answer) = items.message().await? {
        match answer.item {
            Some(Item::Output(frame)) => sink.output(&frame).await?,
            Some(Item::Gap(gap)) => sink.gap(&gap).await?,
            Some(Item::ApprovalPending(asked)) => sink.asked(&asked).await?,
            Some(Item::Result(result)) => {
                sink.item("result", json::value("ExecResult", &result)?).await?;
                if let Some(end) = result.exit.as_ref().filter(|_| !global.json) {
                    output::note(&format!("process {} has {}", args.process, exit::words(end)));
                }
                return Ok(told_delivery(length, &result));
            }
            Some(Item::Draining(_) | Item::Keepalive(_)) | None => {}
        }
    }
    Err(Failure::new("the server ended the stream without a result"))
}

/// Input that did not arrive, because the process ended or the write was interrupted, is a no.
fn told_delivery(length: u64, result: &pb::ExecResult) -> u8 {
    let delivered =
        result.stdin_end.zip(result.stdin_start).map_or(0, |(end, start)| end.saturating_sub(start));
    if delivered >= length {
        return exit::OK;
    }
    output::note(&format!("{delivered} of {length} bytes of input were delivered"));
    exit::NO
}
