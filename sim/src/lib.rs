//! Plays scenario files against the core of unified-exec, in virtual time.
//!
//! ```text
//!  FILE ──► scenario ──► world ──► transcript ──► judge ──► verdict
//!                     (core::Session + children that play act lists)
//! ```
//! This is tier L0: the product's own `Session`, and a model of the system below it. The model never decides what
//! the session decides; events are the session's public feed and its answers. The same file gives the same
//! transcript, to the byte.

mod ask;
mod check;
mod child;
mod event;
mod explain;
mod judge;
mod perform;
mod rulebook;
mod scenario;
mod service;
mod steps;
mod tell;
mod world;

pub use event::{Line, Pattern, PatternError};
pub use explain::{ExplainError, explain};
pub use judge::{Verdict, judge};
pub use scenario::{LoadError, Scenario};
pub use world::{Run, play};
