//! What clients see: every method of the contract over a real connection, a real host and real children.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, failing is the point")]

mod attach;
mod exec;
mod idempotency;
mod input;
mod interact;
mod lists;
mod read;
mod refusals;
mod sessions;
mod streams;
mod support;
mod wait;
mod watch;
