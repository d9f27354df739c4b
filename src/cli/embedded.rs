//! A server inside this process, for one command: the same services over the same protocol, and nobody else comes in.

use super::compose::{self, Purpose};
use super::connect::Client;
use super::failure::Failure;
use crate::config::{Config, Environment, Grant, Inherit};
use crate::grpc::auth::{Caller, Role, own_owner};
use crate::grpc::server::Edge;

/// The server.
#[derive(Debug)]
pub(super) struct Embedded(Edge);

impl Embedded {
    /// Starts it, with full access and our environment: the person runs their own command.
    pub(super) fn start() -> Result<(Self, Client), Failure> {
        let mut config = Config::default();
        config.rights.default = Grant::unrestricted();
        config.environment =
            Environment { inherit: Inherit::All, default_excludes: false, ..Environment::default() };
        let edge = compose::edge(&config, Purpose::Own)?;
        let caller = Caller { owner: own_owner(), role: Role::Agent };
        let client = Client::within(edge.channel(caller));
        Ok((Self(edge), client))
    }

    /// Ends it, with everything that runs.
    pub(super) async fn end(self) {
        self.0.shutdown().await;
    }
}
