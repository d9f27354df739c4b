//! The state machine, held against `behaviour.md`. [`Bench`] is a session on a table: its hands are the verbs of a
//! caller (`exec`, `poll`, `write`, …) and of the world (`spawned`, `exited`, …), its clock moves only by `advance`.

mod again;
mod approvals;
mod asking;
mod bench;
mod callers;
mod clean;
mod connections;
mod exit;
mod grants;
mod held;
mod kill;
mod life;
mod patience;
mod policy;
mod product;
mod promises;
mod random;
mod retry;
mod review;
mod room;
mod second;
mod seen;
mod start;
mod update;
mod waits;
mod world;
mod write;

use bench::{Bench, ms, shell};
