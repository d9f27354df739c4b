//! Approvals that are kept for the session.

use super::Permissions;
use crate::core::ids::{ApprovalId, GrantId};
use crate::core::time::Instant;

/// What a grant counts for; everything must be equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GrantKey {
    /// Starting a command.
    Command {
        /// The environment.
        environment: String,
        /// The program that is executed.
        executable: String,
        /// The command in its canonical form, see [`Assessment::canonical`](crate::core::policy::Assessment).
        canonical: Vec<String>,
        /// The working directory, absolute.
        cwd: String,
        /// Whether it has a terminal.
        tty: bool,
        /// What it asks for.
        permissions: Permissions,
        /// The set of rules it was approved under.
        rules: String,
    },
    /// Connecting to a host and port.
    Connection {
        /// The environment.
        environment: String,
        /// The host as it was asked for, in lower case.
        host: String,
        /// The port.
        port: u16,
    },
}

/// An approval that is kept: what equals its key needs no question. Ends with the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its id.
    pub id: GrantId,
    /// What it counts for.
    pub key: GrantKey,
    /// The question whose answer left it.
    pub approval: ApprovalId,
    /// When it was given.
    pub at: Instant,
    /// Who gave it.
    pub by: String,
    /// How often it has spared a question.
    pub uses: u64,
}
