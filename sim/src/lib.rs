//! Plays scenario files against unified-exec, in virtual time.
//!
//! ```text
//!  FILE ──► scenario ──► tier ──► transcript ──► judge ──► verdict
//! ```
//! A [`Tier`] says how much of the product runs. Events are the session's public feed and its answers, never the insides of
//! what stands in for the system. The same file gives the same transcript, to the byte.

mod acts;
mod call;
mod cast;
pub mod conform;
mod explain;
mod host_tier;
mod import;
mod judge;
mod lint;
mod model;
mod properties;
mod race;
mod real;
mod rulebook;
mod run;
mod scenario;
pub mod scriptchild;
mod stage;
mod swarm;
mod tell;
mod tier;
mod timeline;
mod transcript;
mod wall;
mod wire;

pub use cast::{CastError, cast};
pub use explain::{ExplainError, explain};
pub use import::{ImportError, Imported, import};
pub use judge::{Verdict, judge};
pub use lint::{Finding, lint};
pub use properties::{Sometimes, Violation, properties, violations};
pub use race::{Race, play_all};
pub use run::{Missed, Run, Step, Why};
pub use scenario::{LoadError, Scenario};
pub use swarm::{Campaign, Failure, generate, regression, shrink};
pub use tier::{Tier, play, play_seeded};
pub use timeline::timeline;
pub use transcript::{Line, Pattern, PatternError, Word};
