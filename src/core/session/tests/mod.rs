//! The state machine, held against `behaviour.md`. [`Bench`] is a session on a table: its hands are the verbs of a
//! caller (`exec`, `poll`, `write`, …) and of the world (`spawned`, `exited`, …), its clock moves only by `advance`.

mod bench;
mod clean;
mod exit;
mod kill;
mod start;
mod write;

use bench::{Bench, ms, shell};
