//! `uexec logs`: what a process wrote.

use crate::cli::args::Global;
use crate::cli::connect::Client;
use crate::cli::failure::Failure;
use crate::cli::output::{self, Sink};
use crate::cli::session::SessionArg;
use crate::cli::{exit, json};
use crate::grpc::pb;
use crate::grpc::pb::attach_response::Item;

/// Most that one answer may hold, by the contract.
const READ_BYTES: u32 = 1_048_576;

/// Print what a process wrote, stdout and stderr each to its own
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Also works on processes that ended lately. Bytes that are no longer retained (the middle of a long output) are told on
stderr.")]
pub(crate) struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// Go on until the process ends
    #[arg(short = 'f', long)]
    follow: bool,
    /// Begin at this byte of the output
    #[arg(long, value_name = "OFFSET", default_value_t = 0)]
    from: u64,
    /// The attempt [default: the latest]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    attempt: u32,
    /// With --follow: stall the process rather than lose a byte
    #[arg(long, requires = "follow")]
    block: bool,
    /// The process
    #[arg(value_name = "ID")]
    process: u32,
}

/// Prints.
pub(crate) async fn run(global: &Global, args: Args) -> Result<u8, Failure> {
    let mut client = global.connect().await?;
    let session = args.session.resolve(&mut client).await?;
    let mut sink = Sink::new(global.json);
    if args.follow {
        follow(&mut client, session, &args, &mut sink).await?;
    } else {
        read(&mut client, session, &args, &mut sink).await?;
    }
    Ok(exit::OK)
}

async fn read(client: &mut Client, session_id: String, args: &Args, sink: &mut Sink) -> Result<(), Failure> {
    let mut cursor = pb::Cursor { attempt: args.attempt, offset: args.from };
    loop {
        let request = pb::ReadOutputRequest {
            session_id: session_id.clone(),
            process_id: args.process,
            cursor: Some(cursor),
            max_bytes: READ_BYTES,
            ..Default::default()
        };
        let answer = client.exec.read_output(request).await?.into_inner();
        let mut gaps = answer.gaps.iter().peekable();
        for chunk in &answer.chunks {
            while let Some(gap) = gaps.next_if(|gap| gap.start < chunk.offset) {
                sink.gap(gap).await?;
            }
            sink.output(chunk).await?;
        }
        for gap in gaps {
            sink.gap(gap).await?;
        }
        match answer.next {
            Some(next) if next.offset < answer.end && next.offset > cursor.offset => cursor = next,
            _ => return Ok(()),
        }
    }
}

async fn follow(
    client: &mut Client,
    session_id: String,
    args: &Args,
    sink: &mut Sink,
) -> Result<(), Failure> {
    let request = pb::AttachRequest {
        session_id,
        process_id: args.process,
        cursor: Some(pb::Cursor { attempt: args.attempt, offset: args.from }),
        flow: if args.block { pb::Flow::Block } else { pb::Flow::DropWithGap }.into(),
        ..Default::default()
    };
    let mut items = client.exec.attach(request).await?.into_inner();
    let mut end = None;
    while let Some(answer) = items.message().await? {
        match answer.item {
            Some(Item::Output(frame)) => sink.output(&frame).await?,
            Some(Item::Gap(gap)) => sink.gap(&gap).await?,
            Some(Item::Exited(exited)) => {
                sink.item("exited", json::value("Exited", &exited)?).await?;
                end = exited.exit;
            }
            Some(Item::Closed(closed)) => sink.item("closed", json::value("Closed", &closed)?).await?,
            Some(Item::Draining(_)) => output::note("the server shuts down"),
            _ => {}
        }
    }
    // Its last output may come after the news of its end.
    if let Some(end) = end.filter(|_| !sink.is_json()) {
        output::note(&format!("process {} has {}", args.process, exit::words(&end)));
    }
    Ok(())
}
