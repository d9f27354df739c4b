//! From what a client asks for to a connection: gate, lookup, judgement of each address, connect.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::resolve::Resolve;
use crate::core::policy::{Egress, Host, NetworkDecision};
use crate::host::ports::{Gate, GateAnswer};

/// How long a name may take to resolve, the wait for a place included.
pub const LOOKUP_MAX: Duration = Duration::from_secs(15);
/// Lookups of one child at once, so that one with slow names does not use up everybody's.
pub const LOOKUPS_PER_CHILD: usize = 4;
/// Addresses of a name that are judged and tried; who has more has as many as anybody needs.
pub const ADDRESSES_MAX: usize = 8;
/// How long one address may take to answer. The first attempts to reach a lost host take 1 s and 3 s.
pub const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Makes the connections of one child.
#[derive(Debug)]
pub(super) struct Dialer {
    gate: Arc<dyn Gate>,
    resolver: Arc<dyn Resolve>,
    lookups: Arc<Semaphore>,
}

/// Where a client wants to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: Host,
    pub(super) port: u16,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    /// The gate refused, or the frozen rules did.
    #[error("{reason}")]
    Refused { reason: String },
    /// The name leads to where nothing may connect to.
    #[error(
        "it resolves to {address}, which the rules refuse or which is not a public address; such an address is reached \
         only where a rule allows it, or its range, by number"
    )]
    Inside { address: IpAddr },
    /// The address is one of the machine that runs the proxy.
    #[error(
        "{address} is an address of the machine that runs the sandbox; such an address is reached only where a rule \
         allows it, or its range, by number"
    )]
    OwnMachine { address: IpAddr },
    /// The name has no address.
    #[error("the name could not be resolved: {0}")]
    Lookup(#[source] io::Error),
    /// The lookup took too long.
    #[error("the name could not be resolved in time")]
    LookupTimeout,
    /// None of the addresses took the connection; of the last one tried.
    #[error("the connection failed: {0}")]
    Connect(#[source] io::Error),
    /// The last address tried did not answer.
    #[error("the connection timed out")]
    ConnectTimeout,
}

impl DialError {
    /// Whether the policy is the reason, and not the network.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Inside { .. } | Self::OwnMachine { .. })
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.host {
            Host::Address(IpAddr::V6(address)) => write!(out, "[{address}]:{}", self.port),
            host => write!(out, "{host}:{}", self.port),
        }
    }
}

impl Dialer {
    pub(super) fn new(gate: Arc<dyn Gate>, resolver: Arc<dyn Resolve>) -> Self {
        Self { gate, resolver, lookups: Arc::new(Semaphore::new(LOOKUPS_PER_CHILD)) }
    }

    /// A connection to `target`. Waits for the gate as long as it takes; dropping this withdraws the question.
    pub(super) async fn dial(&self, target: &Target) -> Result<TcpStream, DialError> {
        let dialed = self.try_dial(target).await;
        match &dialed {
            Ok(_) => tracing::debug!(%target, "a child's connection goes through"),
            Err(error) => tracing::debug!(%target, %error, "a child's connection does not go through"),
        }
        dialed
    }

    async fn try_dial(&self, target: &Target) -> Result<TcpStream, DialError> {
        let egress = self.ask(target).await?;
        let addresses = match &target.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => {
                let addresses = self.resolve(name.clone()).await?;
                self.judge(&egress, &addresses, target.port).await?;
                addresses
            }
        };
        let origin = connect(&addresses, target.port).await?;
        refuse_own_machine(&origin, &egress, target.port)?;
        // Whoever talks through a tunnel has its own idea of what to send at once.
        origin.set_nodelay(true).map_err(DialError::Connect)?;
        Ok(origin)
    }

    async fn ask(&self, target: &Target) -> Result<Arc<Egress>, DialError> {
        match self.gate.open(target.host.clone(), target.port).await {
            GateAnswer::Allowed(egress)
                if egress.decide(&target.host, target.port) == NetworkDecision::Deny =>
            {
                Err(DialError::Refused { reason: "the rules of its sandbox refuse it".to_owned() })
            }
            GateAnswer::Allowed(egress) => Ok(egress),
            GateAnswer::Refused { reason } => Err(DialError::Refused { reason }),
        }
    }

    /// The addresses of a name, each once. Never asked twice for one connection.
    async fn resolve(&self, name: String) -> Result<Vec<IpAddr>, DialError> {
        let (places, resolver) = (Arc::clone(&self.lookups), Arc::clone(&self.resolver));
        // A task, because a lookup keeps its place until it has ended, also when nobody waits for it any more.
        let lookup = tokio::spawn(async move {
            let _place = places.acquire_owned().await.map_err(io::Error::other)?;
            resolver.resolve(name).await
        });
        let found = timeout(LOOKUP_MAX, lookup).await.map_err(|_| DialError::LookupTimeout)?;
        let found = found.map_err(io::Error::other).and_then(|found| found).map_err(DialError::Lookup)?;
        let mut addresses: Vec<IpAddr> = Vec::new();
        for address in found.into_iter().map(|address| address.to_canonical()) {
            if !addresses.contains(&address) && addresses.len() < ADDRESSES_MAX {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return Err(DialError::Lookup(io::Error::new(io::ErrorKind::NotFound, "it has no address")));
        }
        Ok(addresses)
    }

    /// One address that is refused is enough: a name that points both outside and inside is up to no good.
    async fn judge(&self, egress: &Egress, addresses: &[IpAddr], port: u16) -> Result<(), DialError> {
        let refused = |address: &&IpAddr| egress.resolved(**address, port) == NetworkDecision::Deny;
        if let Some(address) = addresses.iter().find(refused) {
            return Err(DialError::Inside { address: *address });
        }
        for address in addresses {
            if egress.resolved(*address, port) == NetworkDecision::Ask {
                self.ask(&Target { host: Host::Address(*address), port }).await?;
            }
        }
        Ok(())
    }
}

/// The first of the addresses that takes the connection, in their order.
async fn connect(addresses: &[IpAddr], port: u16) -> Result<TcpStream, DialError> {
    let mut last = DialError::ConnectTimeout;
    for address in addresses {
        last = match timeout(CONNECT_MAX, TcpStream::connect((*address, port))).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => DialError::Connect(error),
            Err(_) => DialError::ConnectTimeout,
        };
    }
    Err(last)
}

/// A machine's public address leads to services that it offers to itself, as its loopback does. Who connects to one of
/// its own addresses has the same at both ends; nothing has been sent when this is seen.
fn refuse_own_machine(origin: &TcpStream, egress: &Egress, port: u16) -> Result<(), DialError> {
    let local = origin.local_addr().map_err(DialError::Connect)?.ip();
    let peer = origin.peer_addr().map_err(DialError::Connect)?.ip();
    if local == peer && !egress.names(peer, port) {
        return Err(DialError::OwnMachine { address: peer });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::core::policy::NetworkRule;

    #[tokio::test]
    async fn an_address_of_the_machine_itself_must_be_named() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let own = TcpStream::connect(address).await.unwrap();
        let rules = |host: &str| {
            let decision = NetworkDecision::Allow;
            Egress::new(&[NetworkRule { host: host.into(), ports: Vec::new(), decision }], None).unwrap()
        };
        let refused = refuse_own_machine(&own, &rules("*"), address.port());
        assert!(matches!(refused, Err(DialError::OwnMachine { address }) if address.is_loopback()));
        assert!(refuse_own_machine(&own, &rules("127.0.0.1"), address.port()).is_ok());
    }
}
