//! Unary reads: a range of output, and waits for something about a process.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tonic::Status;

use crate::core::ids::ProcessId;
use crate::core::limits::FRAME_BYTES_MAX;
use crate::core::output::{Gap, Segment};
use crate::core::session::{Condition, ConditionEnd, WaitFor, WaitResult, WatchOutcome};
use crate::grpc::shared::Shared;
use crate::grpc::{convert, pb, status};
use crate::host::log::OutputLog;
use crate::host::pattern::{self, Pattern};
use crate::host::{Opened, SessionHandle};

/// Bytes of one read when the caller names none.
const READ_BYTES_DEFAULT: u64 = 65_536;
/// Bytes of one read at most.
const READ_BYTES_MAX: u64 = 1_048_576;
/// Longest wait of a read.
const READ_WAIT_MAX: Duration = Duration::from_secs(300);
/// Wait when the caller names none.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);
/// Longest wait.
const WAIT_MAX: Duration = Duration::from_secs(3_600);
/// Longest literal of the wire.
const LITERAL_BYTES_MAX: usize = 4_096;
/// Longest expression of the wire.
const REGEX_BYTES_MAX: usize = 1_024;
/// Longest silence that can be waited for.
const QUIET_MS_MAX: u32 = 300_000;
/// Bytes of a match that are told.
const MATCH_BYTES_MAX: u64 = 4_096;

/// Opens the attempt at a place of its log.
async fn open_at(
    shared: &Shared,
    session: &SessionHandle,
    process: ProcessId,
    cursor: Option<pb::Cursor>,
) -> Result<(Opened, u64), Status> {
    let cursor = cursor.unwrap_or_default();
    let opened = shared.open(session, process, cursor.attempt).await?;
    let end = opened.log.end();
    if cursor.offset > end {
        return Err(status::cursor_out_of_range(opened.attempt, cursor.offset, end));
    }
    Ok((opened, cursor.offset))
}

/// Reads a range of output, after a wait for its first byte.
pub(in crate::grpc) async fn read_output(
    shared: &Shared,
    session: &SessionHandle,
    wire: pb::ReadOutputRequest,
) -> Result<pb::ReadOutputResponse, Status> {
    let process = convert::process_id(wire.process_id)?;
    let turn = convert::turn(&wire.turn_id)?;
    let (opened, from) = open_at(shared, session, process, wire.cursor).await?;
    let mut interrupted = false;
    if let Some(wait) = convert::optional_millis(wire.wait_ms)
        && opened.log.end() == from
        && !opened.log.is_closed()
    {
        let _permit = shared.stream()?;
        let timeout = Some(wait.min(READ_WAIT_MAX));
        let wait = WaitFor { turn, process, condition: Condition::Output, from: Some(from), timeout };
        let waited = session.wait(wait).await;
        let waited = waited.map_err(|error| shared.place(session).call(error, status::Place::target))?;
        interrupted = waited.end == ConditionEnd::Interrupted;
    }
    // First the state: what it says of the end holds for the bytes that are read after it.
    let view = session.process(process).await;
    let view = view.map_err(|error| shared.place(session).call(error, status::Place::target))?;
    let max_bytes = match u64::from(wire.max_bytes) {
        0 => READ_BYTES_DEFAULT,
        asked => asked.min(READ_BYTES_MAX),
    };
    let mut answer = pb::ReadOutputResponse { interrupted, ..Default::default() };
    let next = read_range(&opened, from, max_bytes, &mut answer);
    answer.next = Some(convert::cursor(opened.attempt, next));
    answer.state = convert::state(&view).into();
    answer.exit = view.exit.as_ref().map(|exit| convert::exit(shared.host.clock(), exit));
    answer.end = opened.log.end();
    Ok(answer)
}

fn read_range(opened: &Opened, from: u64, max_bytes: u64, answer: &mut pb::ReadOutputResponse) -> u64 {
    let (mut next, mut left) = (from, max_bytes);
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(FRAME_BYTES_MAX);
        let slice = opened.log.slice(next, most);
        if let Some(gap) = slice.gap {
            next = gap.to;
            answer.gaps.push(convert::gap(opened.attempt, gap));
        }
        let Some(piece) = slice.piece else { break };
        next = piece.end();
        left = left.saturating_sub(piece.data.len() as u64);
        answer.chunks.push(convert::output(opened.attempt, piece));
    }
    next
}

/// Waits for something about a process.
pub(in crate::grpc) async fn wait(
    shared: &Shared,
    session: &SessionHandle,
    wire: pb::WaitRequest,
) -> Result<pb::WaitResponse, Status> {
    let _permit = shared.stream()?;
    let process = convert::process_id(wire.process_id)?;
    let turn = convert::turn(&wire.turn_id)?;
    let (condition, pattern) = condition(wire.condition)?;
    let timeout = wire.timeout_ms.map_or(WAIT_DEFAULT, convert::millis).min(WAIT_MAX);
    let (opened, from) = match pattern {
        Some(_) => open_at(shared, session, process, wire.cursor).await?,
        None => (shared.open(session, process, 0).await?, 0),
    };
    // Waits are about the latest attempt; an earlier one is closed, and a look says all there is to say.
    let latest = opened.view.attempts.last().is_none_or(|latest| latest.number == opened.attempt);
    let started = shared.host.clock().now();
    let result = match pattern {
        Some(pattern) if timeout.is_zero() || !latest => look(&opened, from, &pattern).await,
        _ => {
            let wait = WaitFor { turn, process, condition, from: Some(from), timeout: Some(timeout) };
            let result = session.wait(wait).await;
            result.map_err(|error| shared.place(session).call(error, status::Place::target))?
        }
    };
    let waited = shared.host.clock().now().since(started);
    let view = session.process(process).await;
    let mut answer = answer(&opened, from, &result);
    answer.exit = result.exit.as_ref().map(|exit| convert::exit(shared.host.clock(), exit));
    answer.waited_ms = convert::to_millis(waited);
    // Forgotten while it was waited for: what is known of its end stands in the result.
    answer.state = view.map_or(pb::ProcessState::Closed, |view| convert::state(&view)).into();
    Ok(answer)
}

async fn look(opened: &Opened, from: u64, pattern: &Pattern) -> WaitResult {
    let end = match pattern::find_to_gap(&opened.log, from, pattern, true).await {
        Some(WatchOutcome::Found { from, to }) => ConditionEnd::Met(Some((from, to))),
        Some(WatchOutcome::Lost { from, to }) => ConditionEnd::Lost { from, to },
        Some(WatchOutcome::Ended { .. }) => ConditionEnd::Ended,
        None => ConditionEnd::TimedOut,
    };
    WaitResult { end, exit: opened.view.exit, attempt: opened.attempt, output_end: opened.log.end() }
}

fn answer(opened: &Opened, from: u64, result: &WaitResult) -> pb::WaitResponse {
    // An end may be that of an attempt that came after the wait began.
    let cursor = |offset| Some(convert::cursor(result.attempt, offset));
    let of = |outcome: pb::WaitOutcome, next: u64| pb::WaitResponse {
        outcome: outcome.into(),
        next: cursor(next),
        ..Default::default()
    };
    match result.end {
        ConditionEnd::Met(Some((start, end))) if start < end => pb::WaitResponse {
            match_start: cursor(start),
            match_end: cursor(end),
            match_data: bytes_of(&opened.log, start, end.min(start + MATCH_BYTES_MAX)),
            ..of(pb::WaitOutcome::Matched, end)
        },
        ConditionEnd::Met(Some((_, end))) => of(pb::WaitOutcome::Matched, end),
        ConditionEnd::Met(None) => of(pb::WaitOutcome::Matched, result.output_end),
        ConditionEnd::Ended => of(pb::WaitOutcome::Exited, result.output_end),
        ConditionEnd::Lost { from, to } => pb::WaitResponse {
            gap: Some(convert::gap(opened.attempt, Gap { from, to })),
            ..of(pb::WaitOutcome::Gap, to)
        },
        // How far the search had come is not known; a match cannot have begun before its start.
        ConditionEnd::TimedOut => of(pb::WaitOutcome::Timeout, from),
        ConditionEnd::Interrupted => of(pb::WaitOutcome::Interrupted, from),
    }
}

fn bytes_of(log: &OutputLog, from: u64, to: u64) -> Bytes {
    let mut bytes = BytesMut::new();
    for segment in log.snapshot(from, to) {
        match segment {
            Segment::Bytes(part) => bytes.extend_from_slice(&part),
            Segment::Gap(_) => {}
        }
    }
    bytes.freeze()
}

/// The condition, and the pattern that it looks for if it is one about output.
fn condition(wire: Option<pb::wait_request::Condition>) -> Result<(Condition, Option<Pattern>), Status> {
    use pb::wait_request::Condition as Wire;
    let is_true = |field: &str, value: bool| {
        if value { Ok(()) } else { convert::invalid(field, "is false; leave it out, or set it to true") }
    };
    match wire {
        None => Ok(convert::invalid("condition", "is required; set one of its fields")?),
        Some(Wire::Exit(value)) => {
            is_true("exit", value)?;
            Ok((Condition::Exit, None))
        }
        Some(Wire::Closed(value)) => {
            is_true("closed", value)?;
            Ok((Condition::Closed, None))
        }
        Some(Wire::Literal(bytes)) => literal("literal", bytes),
        Some(Wire::Text(text)) => literal("text", Bytes::from(text)),
        Some(Wire::Regex(text)) => {
            within("regex", text.len(), REGEX_BYTES_MAX)?;
            let pattern = Pattern::regex(&text).map_err(|error| status::invalid_pattern("regex", &error))?;
            Ok((Condition::Regex(text), Some(pattern)))
        }
        Some(Wire::QuietMs(millis)) if (1..=QUIET_MS_MAX).contains(&millis) => {
            Ok((Condition::Quiet(convert::millis(millis)), None))
        }
        Some(Wire::QuietMs(millis)) => {
            Ok(convert::invalid("quiet_ms", format!("{millis} is outside 1..={QUIET_MS_MAX}"))?)
        }
    }
}

fn literal(field: &str, bytes: Bytes) -> Result<(Condition, Option<Pattern>), Status> {
    within(field, bytes.len(), LITERAL_BYTES_MAX)?;
    let pattern = Pattern::literal(&bytes).map_err(|error| status::invalid_pattern(field, &error))?;
    Ok((Condition::Literal(bytes), Some(pattern)))
}

fn within(field: &str, bytes: usize, bytes_max: usize) -> convert::Valid<()> {
    match bytes {
        0 => convert::invalid(field, "is empty"),
        bytes if bytes > bytes_max => {
            convert::invalid(field, format!("has {bytes} bytes; at most {bytes_max} are allowed"))
        }
        _ => Ok(()),
    }
}
