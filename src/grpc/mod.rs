//! The gRPC edge: it translates between the wire and the host, and decides nothing.

mod approval_service;
pub mod auth;
pub mod codec;
mod connection;
mod convert;
mod door;
mod environment_service;
mod exec;
mod exec_service;
mod guard;
mod health;
pub mod listen;
mod place;
pub mod reviewer;
pub mod server;
mod services;
mod session_service;
mod shared;
mod status;
mod stream;
pub mod tls;
mod trace;

pub use trace::{RpcTelemetry, code_name, untraced};

/// Messages and services of `unified_exec.v1`, generated from `proto/`.
pub mod pb {
    #![expect(
        clippy::all,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        reason = "generated"
    )]
    tonic::include_proto!("unified_exec.v1");

    /// The descriptors of all messages, for reflection.
    pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/unified_exec.binpb"));
}
