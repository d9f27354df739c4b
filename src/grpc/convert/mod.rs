//! Between the wire and the core, both ways. What comes in is checked here, and a field that cannot be is named as the
//! wire names it; what goes out only changes its shape.

mod approval;
mod call;
mod command;
mod config;
mod event;
mod output;
mod page;
mod process;
mod rights;

use std::time::Duration;

use prost::Message;
use prost_types::Timestamp;
use sha2::{Digest as _, Sha256};

pub(super) use approval::{
    WORDS_BYTES_MAX, approval, digest, expiry, grant, rule_words, state_to_wire, verdict_to_wire,
};
pub(super) use call::{exec, input_bytes, one_shot, write};
pub(super) use command::{LOCAL, environment, terminal_size};
pub(super) use config::{Field, check_labels, config_to_wire, known, mask, settings, widening};
pub(super) use event::event;
use output::model_text;
pub(super) use output::{cursor, flow, frame_bytes, gap, output, stream_options};
pub(super) use page::page;
pub(super) use process::{
    Held, attempt_denied, attempt_started, ended, exec_result, exit, exit_reason, process, size, state,
    survivors,
};
pub(super) use rights::{network_to_wire, policy_to_wire, profile_to_wire};

use crate::core::ids::{Fingerprint, ProcessId, RequestId, TurnId};
use crate::core::session::Idempotency;
use crate::core::time::Instant;
use crate::host::clock::Clock;

/// Longest id that a caller may send.
const ID_BYTES_MAX: usize = 128;
/// Interval of keepalives when the caller names none; below the idle timeouts of common proxies.
pub(super) const KEEPALIVE_DEFAULT: Duration = Duration::from_secs(25);
/// Shortest interval of keepalives.
const KEEPALIVE_MIN: Duration = Duration::from_secs(1);
/// Longest interval of keepalives.
const KEEPALIVE_MAX: Duration = Duration::from_secs(300);

/// A field of a request that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InvalidField {
    /// Its path, by its names on the wire.
    pub(super) field: String,
    /// What is wrong, and the way out.
    pub(super) problem: String,
}

/// What comes of a field.
pub(super) type Valid<T> = Result<T, InvalidField>;

pub(super) fn invalid<T>(field: impl Into<String>, problem: impl Into<String>) -> Valid<T> {
    Err(InvalidField { field: field.into(), problem: problem.into() })
}

/// Text that is short enough for an id.
pub(super) fn id<'a>(field: &str, text: &'a str) -> Valid<&'a str> {
    bounded(field, text, ID_BYTES_MAX)
}

/// Text of at most `bytes_max`.
pub(super) fn bounded<'a>(field: &str, text: &'a str, bytes_max: usize) -> Valid<&'a str> {
    if text.len() <= bytes_max {
        Ok(text)
    } else {
        invalid(field, format!("has {} bytes; at most {bytes_max} are allowed", text.len()))
    }
}

/// An id that must be given.
pub(super) fn required_id<'a>(field: &str, text: &'a str) -> Valid<&'a str> {
    if text.is_empty() { invalid(field, "is required") } else { id(field, text) }
}

/// The id of a session, as it was given.
pub(super) fn session_id(text: &str) -> Valid<&str> {
    required_id("session_id", text)
}

/// The id of a process, in its range.
pub(super) fn process_id(number: u32) -> Valid<ProcessId> {
    match ProcessId::new(number) {
        Some(process) => Ok(process),
        None if number == 0 => invalid("process_id", "is required"),
        None => invalid(
            "process_id",
            format!("{number} is outside {}..={}: no process has it", ProcessId::MIN, ProcessId::MAX),
        ),
    }
}

/// The turn of a call.
pub(super) fn turn(text: &str) -> Valid<TurnId> {
    id("turn_id", text).map(TurnId::new)
}

/// A call's name, with a digest of what it asks. `request` must have its own `request_id` taken out.
pub(super) fn idempotency<M: Message>(rpc: &str, request_id: &str, request: &M) -> Valid<Idempotency> {
    if request_id.is_empty() {
        return Ok(None);
    }
    id("request_id", request_id)?;
    let mut digest = Sha256::new();
    digest.update(rpc.as_bytes());
    digest.update([0]);
    digest.update(request.encode_to_vec());
    Ok(Some((RequestId::new(request_id), Fingerprint(digest.finalize().into()))))
}

/// A bound that zero leaves out.
pub(super) fn optional_millis(millis: u32) -> Option<Duration> {
    (millis != 0).then(|| Duration::from_millis(u64::from(millis)))
}

/// A time in milliseconds.
pub(super) fn millis(millis: u32) -> Duration {
    Duration::from_millis(u64::from(millis))
}

/// The interval of keepalives that the caller wants, within its bounds.
pub(super) fn keepalive(millis: u32) -> Duration {
    optional_millis(millis).map_or(KEEPALIVE_DEFAULT, |asked| asked.clamp(KEEPALIVE_MIN, KEEPALIVE_MAX))
}

/// The same point in time as people read it.
pub(super) fn timestamp(clock: Clock, at: Instant) -> Timestamp {
    clock.to_wall(at).into()
}

/// Milliseconds, rounded down.
pub(super) fn to_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds in the 32 bits of the wire; what does not fit there is as good as for ever.
pub(super) fn to_millis_u32(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

/// A count in the 32 bits of the wire.
pub(super) fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
