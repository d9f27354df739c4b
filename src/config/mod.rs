//! What an operator can set: one TOML file, one concept a module, everything with a default.
//!
//! ```text
//!   defaults ◄── file (load) ◄── environment and flags (cli)
//! ```
//!
//! Unknown keys are refused, and every complaint names file, line and key. A value that loads is within its bounds:
//! the types of [`bounded`] see to that. Knows the vocabulary of the core; refuses to know sockets, sessions and
//! gRPC. `docs/configuration.md` shows all of it in one example, which a test loads.

mod audit;
mod bounded;
mod environment;
mod limits;
mod listen;
mod load;
mod logging;
mod reviewer;
mod rights;
mod rules;
mod server;
mod session;
mod shell;
mod telemetry;

use serde::{Deserialize, Serialize};

pub use audit::Audit;
pub use environment::{Environment, Inherit};
pub use limits::{Limits, WhenFull};
pub use listen::{Listen, Tls};
pub use load::{ConfigError, Place};
pub use logging::{Format, Logging};
pub use reviewer::{Address as ReviewerAddress, Reviewer};
pub use rights::{Approval, Grant, Granular, Network, Profile, Rights};
pub use rules::Rules;
pub use server::Server;
pub use session::Session;
pub use shell::detect as detect_shell;
pub use telemetry::{OtlpProtocol, Telemetry};

/// Everything that can be set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where the service listens.
    pub listen: Listen,
    /// How the service itself runs.
    pub server: Server,
    /// What a session gets that asks for nothing.
    pub session: Session,
    /// What sessions may do.
    pub rights: Rights,
    /// Where the rules for commands and connections are.
    pub rules: Rules,
    /// The record.
    pub audit: Audit,
    /// Who sees questions before people do; absent is nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reviewer: Option<Reviewer>,
    /// Which variables children get.
    pub environment: Environment,
    /// Bounds.
    pub limits: Limits,
    /// What is logged, and how.
    pub logging: Logging,
    /// Traces and metrics.
    pub telemetry: Telemetry,
}

impl Config {
    /// The configuration as a file would have it.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string_pretty(self)
    }
}
