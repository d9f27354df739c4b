//! The contract of a spawner, as one list of cases. Each runs over every spawner that can show it.
#![cfg(feature = "test-util")]

mod run;
mod smoke;
