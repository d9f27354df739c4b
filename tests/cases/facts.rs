//! What only a service can show: `service_expect`, and what must hold of every answer.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use unified_exec::grpc::pb;

use crate::case::{Case, ServiceExpect};
use crate::client::Session;
use crate::play::Room;
use crate::process::{Process, Returned};

/// Checks one process and what ExecCommand said of it.
pub(crate) async fn check(
    case: &Case,
    room: Room,
    name: &str,
    session: &Session,
    process: &mut Process,
) -> Result<(), String> {
    let wanted = &case.service_expect;
    let returned = process.returned().await?;
    consistent(&returned, process)?;
    denied(wanted, room, session, process, &returned.result).await?;
    if let Some(max) = wanted.max_return_ms
        && returned.after > Duration::from_millis(max)
    {
        return Err(format!("ExecCommand returned after {:?}, wanted at most {max} ms", returned.after));
    }
    retained(wanted, name, session, process).await
}

/// Whether its end was taken for a denial, against what the case says for this room. Without a sandbox nothing ever is;
/// where the case says nothing, or leaves it open, it is told and not judged.
async fn denied(
    wanted: &ServiceExpect,
    room: Room,
    session: &Session,
    process: &Process,
    returned: &pb::ExecResult,
) -> Result<(), String> {
    let wanted = match (room, &wanted.denied) {
        (Room::Open, _) => Some(false),
        (Room::Confined, Some(Value::Bool(wanted))) => Some(*wanted),
        (Room::Confined, Some(Value::Object(rooms))) => rooms.get("sandboxed").and_then(Value::as_bool),
        (Room::Confined, _) => None,
    };
    let mut all: Vec<pb::Evidence> = returned.evidence.iter().cloned().collect();
    // Only so many ended processes are remembered; what was answered at once is known anyhow.
    if let Ok(process) = session.get(process.id).await {
        all.extend(process.attempts.into_iter().filter_map(|attempt| attempt.evidence));
    }
    match (wanted, all.first()) {
        (Some(true), None) => Err("not taken for a denial".into()),
        (Some(false), Some(evidence)) => Err(format!("taken for a denial: {evidence:?}")),
        (None, Some(evidence)) => {
            println!("     {}: {:?}, {:?}", process.id, evidence.cause(), evidence.word);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// What holds of every result, whatever the case.
fn consistent(returned: &Returned, process: &Process) -> Result<(), String> {
    let result = &returned.result;
    let seen = process.seen.borrow();
    match (result.process_id, &result.exit) {
        (Some(id), None) if id == process.id => {}
        (None, Some(exit)) => {
            if seen.exit.as_ref().is_some_and(|(seen, _)| seen != exit) {
                return Err(format!(
                    "ExecCommand and Attach tell different ends: {exit:?} and {:?}",
                    seen.exit
                ));
            }
        }
        (id, exit) => return Err(format!("a result with process_id {id:?} and exit {exit:?}")),
    }
    let (start, next) = (&result.start, &result.next);
    let (Some(start), Some(next)) = (start, next) else {
        return Err(format!("a result without cursors: {start:?}, {next:?}"));
    };
    if start.offset != 0 || next.offset != returned.output.len() as u64 {
        return Err(format!("cursors {start:?}..{next:?} after {} streamed bytes", returned.output.len()));
    }
    if !seen.output.starts_with(&returned.output) {
        return Err("the bytes of ExecCommand are not those of Attach".into());
    }
    if result.text.as_ref().is_none_or(|text| !text.text.contains("Wall time: ")) {
        return Err(format!("no text for a model: {:?}", result.text));
    }
    Ok(())
}

async fn retained(
    wanted: &ServiceExpect,
    name: &str,
    session: &Session,
    process: &Process,
) -> Result<(), String> {
    let log = match log(session, process.id).await {
        // Only so many ended processes are remembered.
        Err(forgotten)
            if forgotten.contains("does not exist in this session")
                && *wanted == ServiceExpect::default() =>
        {
            return Ok(());
        }
        log => log?,
    };
    let kept = log.head_end + (log.end - log.tail_start);
    if kept + log.omitted_bytes != log.end {
        return Err(format!("{kept} kept and {} left out are not {}", log.omitted_bytes, log.end));
    }
    let differs = |what: &str, is: u64, max: u64| Err(format!("{what}: {is}, wanted {max}"));
    if let Some(max) = wanted.retained_max
        && kept > max
    {
        return differs("bytes kept", kept, max);
    }
    if let Some(total) = wanted.total_bytes
        && log.end != total
    {
        return differs("bytes in all", log.end, total);
    }
    if let Some(omitted) = wanted.omitted.get(name)
        && log.omitted_bytes != *omitted
    {
        return differs("bytes left out", log.omitted_bytes, *omitted);
    }
    let (head, tail) =
        (text(session, process.id, 0).await?, text(session, process.id, log.end.saturating_sub(4096)).await?);
    if let Some(start) = &wanted.head_starts
        && !head.starts_with(start)
    {
        return Err(format!("the head does not start with {start:?}"));
    }
    if let Some(end) = &wanted.tail_ends
        && !tail.trim_end().ends_with(end)
    {
        return Err(format!("the tail does not end with {end:?}"));
    }
    if let Some(part) = &wanted.tail_contains
        && !tail.contains(part)
    {
        return Err(format!("the tail does not contain {part:?}"));
    }
    if wanted.omitted_exact {
        gaps(session, process.id, &log).await?;
    }
    Ok(())
}

async fn log(session: &Session, process_id: u32) -> Result<pb::OutputLog, String> {
    let process = session.get(process_id).await.map_err(|status| status.to_string())?;
    process.outputs.last().copied().ok_or_else(|| "the process has no log".into())
}

async fn text(session: &Session, process_id: u32, offset: u64) -> Result<String, String> {
    let read = session.read(process_id, offset).await.map_err(|status| status.to_string())?;
    let bytes: Vec<u8> = read.chunks.iter().flat_map(|chunk| chunk.data.clone()).collect();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads all that is kept, and counts what is told as left out.
async fn gaps(session: &Session, process_id: u32, log: &pb::OutputLog) -> Result<(), String> {
    let (mut kept, mut left_out, mut offset) = (0, 0, 0);
    let mut seams = BTreeMap::new();
    while offset < log.end {
        let read = session.read(process_id, offset).await.map_err(|status| status.to_string())?;
        for chunk in &read.chunks {
            kept += chunk.data.len() as u64;
            seams.insert(chunk.offset, chunk.offset + chunk.data.len() as u64);
        }
        for gap in &read.gaps {
            left_out += gap.end - gap.start;
            seams.insert(gap.start, gap.end);
        }
        let next = read.next.map_or(0, |next| next.offset);
        if next <= offset {
            return Err(format!("ReadOutput stands still at {offset}"));
        }
        offset = next;
    }
    let mut at = 0;
    for (start, end) in seams {
        if start != at {
            return Err(format!("ReadOutput tells nothing of {at}..{start}"));
        }
        at = end;
    }
    if kept + left_out == log.end && left_out == log.omitted_bytes {
        Ok(())
    } else {
        Err(format!("{kept} read, {left_out} told as left out, of {} in all", log.end))
    }
}
