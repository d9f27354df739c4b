//! Children under the real sandbox: what they cannot do, and what ordinary tools still can. Everything here runs as
//! whoever runs the tests, and, if that is root, once more as an ordinary user.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, in its helpers too")]
#![expect(clippy::disallowed_methods, reason = "a test starts programs and threads as users do")]

mod alone;
mod bench;
mod files;
mod limits;
mod network;
mod processes;
#[expect(dead_code, reason = "shared with the contract's tests, which use all of it")]
#[path = "../conformance/run.rs"]
mod run;
mod terminal;
mod tools;
mod user;
