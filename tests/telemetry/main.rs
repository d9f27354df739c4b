//! What the running binary tells of itself: spans and measurements as a collector receives them, the page that Prometheus
//! reads, and that no secret is in any of it.
#![expect(clippy::panic, clippy::unwrap_used, reason = "that is how a test fails")]

mod collector;
mod documented;
mod logs;
mod metrics;
mod secrets;
mod server;
mod traces;
