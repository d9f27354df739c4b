//! The record of what was asked, answered, started, denied and refused: lines of JSON that are only ever added, each with
//! the hash of the one before it. Answers the host's port [`Audit`](crate::host::ports::Audit).
//!
//! ```text
//!  record (never waits) ──► queue (bounded; what does not fit is counted, and told as a gap) ──► one task ──► writer
//!
//!  audit-N.jsonl   line ◄── line ◄── line      each names the hash of the one before
//!  head.json       first and last of them      so that what is cut off at either end is missed
//! ```
//!
//! Holds no output, no input and no values of variables: of input, how much it was (a hash of a short secret would tell
//! it).
//!
//! Refuses to know: who is allowed what, and how events come about.

mod chain;
mod head;
mod log;
mod queue;
mod record;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

pub use log::{AuditLog, OpenError, Options};
pub use verify::{Broken, Damage, Report, verify};
