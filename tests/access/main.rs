//! Who gets in, and what no caller can do to the server: over real sockets, against real services.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, failing is the point")]

mod bounds;
mod drain;
mod roles;
mod secrets;
mod sockets;
mod standard;
mod support;
mod tls;
mod tokens;
