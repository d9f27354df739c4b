//! The record of what was asked, answered, started, denied and refused: lines of JSON that are only ever added, each with
//! the hash of the one before it. Answers the host's port [`Audit`](crate::host::ports::Audit).
//!
//! ```text
//!  record (never waits) ──► queue (bounded; what does not fit is counted, and told as a gap) ──► one task ──► files
//! ```
//!
//! Holds no output, no input and no values of variables: of input, how much it was (a hash of a short secret would tell
//! it).
//!
//! Refuses to know: who is allowed what, and how events come about.

mod chain;
mod log;
mod record;
#[cfg(test)]
mod tests;
mod verify;

pub use log::{AuditLog, OpenError, Options};
pub use verify::{Break, Report, verify};
