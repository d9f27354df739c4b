//! unified-exec: an execution service for agent backends.
//!
//! It starts commands, keeps them alive as terminals across turns, lets callers write to them, and ends them. A pure
//! [`core`] decides, a tokio [`host`] performs, adapters under [`spawn`] touch the operating system, a gRPC edge
//! translates, and `sim/` drives core and host through timing scenarios.

#[cfg(feature = "audit")]
pub mod audit;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
pub mod config;
pub mod core;
#[cfg(feature = "grpc")]
pub mod grpc;
#[cfg(feature = "host")]
pub mod host;
#[cfg(feature = "proxy")]
pub mod proxy;
#[cfg(feature = "rules")]
pub mod rules;
#[cfg(feature = "spawn")]
pub mod spawn;
#[cfg(feature = "telemetry")]
pub mod telemetry;
