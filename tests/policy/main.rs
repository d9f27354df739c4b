//! The policy table of the orchestrator, row by row, on the real sandbox and with real commands: how often something was
//! spawned, how often somebody was asked, and what came of it. Everything is counted from the event feed.
//!
//! Early rows run with the early window set to 5 s, late ones to 50 ms, so that a loaded machine cannot blur them; that the
//! bound itself is 150 ms is proved on virtual time.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod stage;
mod table;
mod worked;
