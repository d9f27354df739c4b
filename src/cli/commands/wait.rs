//! `uexec wait`: until a process ends, says something, or falls silent.

use std::time::Duration;

use tokio::time::Instant;

use crate::cli::args::{Global, duration, milliseconds};
use crate::cli::failure::Failure;
use crate::cli::session::SessionArg;
use crate::cli::{exit, json, output};
use crate::grpc::pb;
use crate::grpc::pb::wait_request::Condition;

/// Longest that one call may wait, by the contract; a longer wait is several.
const CALL_MAX: Duration = Duration::from_secs(3_600);

/// Wait until a process ends, writes something, or falls silent
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Text and regular expressions are looked for from the first byte of the output on, or from --from; the match is printed.

Exit codes: 0 it came; 1 the process ended without it; 124 the time is over.")]
pub(crate) struct Args {
    #[command(flatten)]
    session: SessionArg,
    #[command(flatten)]
    what: What,
    /// Wait no longer than this
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// Look from this byte of the output on
    #[arg(long, value_name = "OFFSET", default_value_t = 0)]
    from: u64,
    /// The process
    #[arg(value_name = "ID")]
    process: u32,
}

/// What to wait for.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct What {
    /// Until it has ended; this is the default
    #[arg(long)]
    exit: bool,
    /// Until all its outputs have ended
    #[arg(long)]
    closed: bool,
    /// Until it has written this text
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Until it has written something that matches
    #[arg(long, value_name = "REGEX")]
    regex: Option<String>,
    /// Until it has written nothing for so long
    #[arg(long, value_name = "TIME", value_parser = duration)]
    quiet: Option<Duration>,
}

impl What {
    fn condition(&self) -> Condition {
        match self {
            Self { text: Some(text), .. } => Condition::Text(text.clone()),
            Self { regex: Some(regex), .. } => Condition::Regex(regex.clone()),
            Self { quiet: Some(quiet), .. } => Condition::QuietMs(milliseconds(*quiet)),
            Self { closed: true, .. } => Condition::Closed(true),
            _ => Condition::Exit(true),
        }
    }
}

/// Waits.
pub(crate) async fn run(global: &Global, args: Args) -> Result<u8, Failure> {
    let mut client = global.connect().await?;
    let session = args.session.resolve(&mut client).await?;
    let deadline = args.timeout.map(|timeout| Instant::now() + timeout);
    let mut cursor = pb::Cursor { attempt: 0, offset: args.from };
    let answer = loop {
        let left = deadline.map_or(CALL_MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        let request = pb::WaitRequest {
            session_id: session.clone(),
            process_id: args.process,
            cursor: Some(cursor),
            condition: Some(args.what.condition()),
            timeout_ms: Some(if left.is_zero() { 0 } else { milliseconds(left.min(CALL_MAX)) }),
            ..Default::default()
        };
        let answer = client.exec.wait(request).await?.into_inner();
        match (answer.outcome(), &answer.gap) {
            (pb::WaitOutcome::Gap, Some(gap)) => {
                output::note(&format!(
                    "bytes {} to {} are no longer retained and not searched",
                    gap.start, gap.end
                ));
                cursor = pb::Cursor { attempt: gap.attempt, offset: gap.end };
            }
            (pb::WaitOutcome::Timeout, _) if deadline.is_none_or(|deadline| deadline > Instant::now()) => {
                cursor = answer.next.unwrap_or(cursor);
            }
            _ => break answer,
        }
    };
    told(global, &answer)
}

fn told(global: &Global, answer: &pb::WaitResponse) -> Result<u8, Failure> {
    if global.json {
        json::print(&json::value("WaitResponse", answer)?)?;
    }
    let (code, problem) = match answer.outcome() {
        pb::WaitOutcome::Matched => {
            if !global.json {
                output::print(&matched(answer))?;
            }
            (exit::OK, None)
        }
        pb::WaitOutcome::Timeout => (exit::TIMEOUT, Some("the time is over".to_owned())),
        pb::WaitOutcome::Exited => {
            let how = answer.exit.as_ref().map_or_else(String::new, exit::words);
            (exit::NO, Some(format!("the process {how} without it")))
        }
        _ => (exit::NO, Some("the wait was interrupted".to_owned())),
    };
    if let Some(problem) = problem.filter(|_| !global.json) {
        output::note(&problem);
    }
    Ok(code)
}

/// The match, or how it ended; silence has nothing to show.
fn matched(answer: &pb::WaitResponse) -> String {
    if !answer.match_data.is_empty() {
        return format!("{}\n", String::from_utf8_lossy(&answer.match_data));
    }
    answer.exit.as_ref().map_or_else(String::new, |end| format!("{}\n", exit::words(end)))
}
