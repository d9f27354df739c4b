//! What clients see: every method of the contract over a real connection, a real host and real children.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, failing is the point")]

mod approvals;
mod asking;
mod attach;
mod attempts;
mod capabilities;
mod exec;
mod idempotency;
mod input;
mod input_review;
mod interact;
mod lists;
mod oversight;
mod profiles;
mod read;
mod refusals;
mod reviewer;
mod sessions;
mod streams;
mod support;
mod wait;
mod watch;
mod watch_approvals;
