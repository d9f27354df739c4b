//! Starts and writes.

use bytes::Bytes;
use tonic::Status;

use super::command::{Asked, Connection, Wanted, command};
use super::{Valid, idempotency, invalid, millis, optional_millis, process_id, terminal_size, turn};
use crate::core::command::TerminalSize;
use crate::core::ids::TurnId;
use crate::core::limits::INPUT_BYTES_MAX;
use crate::core::session::{Exec, Idempotency, Mode, Timeouts, Write, WriteAnswer};
use crate::grpc::pb;

/// A start whose process may outlive its call.
pub(in crate::grpc) fn exec(mut wire: pb::ExecCommandRequest) -> Result<Exec, Status> {
    let request_id = std::mem::take(&mut wire.request_id);
    let request = idempotency("ExecCommand", &request_id, &wire)?;
    let connection = Connection {
        terminal: terminal(wire.tty, wire.terminal_size)?,
        stdin: wire.stdin,
        full_terminal: wire.full_terminal,
    };
    let mode = if wire.follow {
        Mode::Follow
    } else {
        Mode::Interactive { yield_time: wire.yield_time_ms.map(millis) }
    };
    let asked = command(wire.command, connection)?;
    let timeouts = Timeouts {
        hard: optional_millis(wire.hard_timeout_ms),
        no_output: optional_millis(wire.no_output_timeout_ms),
        after_disconnect: optional_millis(wire.after_disconnect_timeout_ms),
        retention: wire.retention_ms.map(millis),
    };
    Ok(start(turn(&wire.turn_id)?, request, asked, mode, timeouts))
}

fn start(turn: TurnId, request: Idempotency, asked: Asked, mode: Mode, timeouts: Timeouts) -> Exec {
    let Asked { command, wanted, limits, kill_descendants_on_exit } = asked;
    let Wanted { permissions, justification, proposed_rule } = wanted;
    Exec {
        turn,
        request,
        command,
        permissions,
        justification,
        proposed_rule,
        limits,
        mode,
        timeouts,
        kill_descendants_on_exit,
    }
}

fn terminal(tty: bool, size: Option<pb::TerminalSize>) -> Valid<Option<TerminalSize>> {
    match (tty, size) {
        (true, Some(size)) => terminal_size("terminal_size", size).map(Some),
        (true, None) => Ok(Some(TerminalSize::default())),
        (false, None) => Ok(None),
        (false, Some(_)) => invalid("terminal_size", "has no meaning without `tty`"),
    }
}

/// A start whose process ends with its call.
pub(in crate::grpc) fn one_shot(mut wire: pb::ExecToCompletionRequest) -> Result<Exec, Status> {
    let request_id = std::mem::take(&mut wire.request_id);
    let request = idempotency("ExecToCompletion", &request_id, &wire)?;
    if wire.timeout_ms == Some(0) {
        return Ok(invalid("timeout_ms", "is 0; a command needs at least 1 ms, absent is 10000")?);
    }
    let mode = Mode::OneShot { timeout: wire.timeout_ms.map(millis) };
    let asked = command(wire.command, Connection::default())?;
    let timeouts = Timeouts::default();
    Ok(start(turn(&wire.turn_id)?, request, asked, mode, timeouts))
}

/// Input that is collected after, or a poll.
pub(in crate::grpc) fn write(mut wire: pb::WriteStdinRequest) -> Result<Write, Status> {
    use pb::write_stdin_request::Content;
    let request_id = std::mem::take(&mut wire.request_id);
    let request = idempotency("WriteStdin", &request_id, &wire)?;
    let input = match wire.content {
        None => Bytes::new(),
        Some(Content::Input(input)) => input_bytes("input", input)?,
        Some(Content::Text(text)) => input_bytes("text", Bytes::from(text))?,
    };
    Ok(Write {
        turn: turn(&wire.turn_id)?,
        request,
        process: process_id(wire.process_id)?,
        input,
        offset: wire.offset,
        eof: wire.eof,
        answer: WriteAnswer::Collect { yield_time: wire.yield_time_ms.map(millis) },
    })
}

/// Input of a size that is taken in one piece.
pub(in crate::grpc) fn input_bytes(field: &str, input: Bytes) -> Valid<Bytes> {
    if input.len() <= INPUT_BYTES_MAX {
        Ok(input)
    } else {
        invalid(field, format!("has {} bytes; at most {INPUT_BYTES_MAX} are taken at once", input.len()))
    }
}
