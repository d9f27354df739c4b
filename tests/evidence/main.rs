//! Outputs of real tools, denied and merely failing, and what evidence they are; and what holds for any output.
//!
//! Each line of `corpus/*.jsonl` is one run: `docs/evidence.md` says how they were made.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod any;
mod corpus;
