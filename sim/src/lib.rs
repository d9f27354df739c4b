//! Plays scenario files against unified-exec, in virtual time.
//!
//! ```text
//!  FILE ──► scenario ──► tier ──► transcript ──► judge ──► verdict
//! ```
//! A [`Tier`] says how much of the product runs. Events are the session's public feed and its answers, never the insides of
//! what stands in for the system. The same file gives the same transcript, to the byte.

mod call;
mod explain;
mod judge;
mod model;
mod rulebook;
mod run;
mod scenario;
mod tell;
mod tier;
mod transcript;

pub use explain::{ExplainError, explain};
pub use judge::{Verdict, judge};
pub use run::{Run, Step};
pub use scenario::{LoadError, Scenario};
pub use tier::{Tier, play};
pub use transcript::{Line, Pattern, PatternError, Word};
