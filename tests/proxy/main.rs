//! The proxy of sandboxed children against real clients and real origins.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod addresses;
mod bounds;
mod held;
mod http;
mod programs;
mod socks;
mod support;
mod tunnels;
