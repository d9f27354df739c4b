//! The contract of a spawner (`host::ports`), as one list of cases over every spawner, and what the real ones owe the
//! operating system.
#![cfg(feature = "test-util")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a case fails by panicking, in its helpers too")]

mod contract;
mod descriptors;
mod errors;
mod fake;
mod inherited;
mod load;
mod run;
mod subject;
mod terminal;
mod tree;
