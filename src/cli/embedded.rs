//! A server inside this process, for one command: the same services over the same protocol, and nobody else comes in.

use std::sync::Arc;

use super::compose::{self, Purpose};
use super::connect::Client;
use super::failure::Failure;
use crate::config::{Config, Environment, Grant, Inherit};
use crate::grpc::auth::{Caller, Role, own_owner};
use crate::grpc::server::Edge;
use crate::host::ports::Spawner;

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
        let (this, client, _) = Self::of(&config)?;
        Ok((this, client))
    }

    /// Starts one of this configuration, with what starts its commands.
    pub(super) fn of(config: &Config) -> Result<(Self, Client, Arc<dyn Spawner>), Failure> {
        let (edge, spawner) = compose::with_spawner(config, Purpose::Own)?;
        let caller = Caller { owner: own_owner(), role: Role::Agent };
        let client = Client::within(edge.channel(caller));
        Ok((Self(edge), client, spawner))
    }

    /// Ends it, with everything that runs.
    pub(super) async fn end(self) {
        self.0.shutdown().await;
    }
}
