//! The part of the service that decides, and never acts.
//!
//! ```text
//!   Call  ──┐                    ┌──► Effect   (Spawn, Write, Signal, Watch, Reply, Publish, …)
//!   Event ──┼──► session::Session┤
//!   time  ──┘                    └──► next_deadline()
//! ```
//!
//! A session::Session takes what callers ask  and what happened in the world
//! , each with the time it happened, and answers with effects as data. The same
//! inputs give the same effects, to the byte: maps are ordered, identifiers come from a seeded generator that is
//! passed in, and every tie is settled (`docs/determinism.md`).
//!
//! **Invariants.** Nothing in here knows an async runtime, a clock, the environment, a file system, a random
//! source, or gRPC. Output bytes never pass through a session: it hears offsets. `tests/architecture.rs` and the
//! feature-less build keep this true.

pub mod approval;
pub mod command;
pub mod ids;
pub mod limits;
pub mod orchestrate;
pub mod output;
pub mod policy;
pub mod process;
pub mod session;

pub mod signal;
pub mod spawn;
pub mod time;
