//! The rules for the connections of one process, read and frozen: what is let through, asked about, or refused.
//!
//! Two moments are judged. [`Egress::decide`] judges what was asked for, a name or an address, before anything is
//! resolved. [`Egress::resolved`] judges each address that a name turned out to have, before anything connects there.

use ::core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Host, HostPattern, HostPatternError, NetworkDecision, NetworkRule, reserved};

/// The rules of a session, and those of the server's owner, which bound them.
///
/// Within each set the strictest match decides. The stricter of both sets' decisions counts, so that neither can be
/// loosened by the other:
///
/// | | nothing matches |
/// |---|---|
/// | the session's rules | ask |
/// | the owner's, if one of them allows something: a list of what may be reached | refuse |
/// | the owner's otherwise: a list of what may not, or may not without a question | no bound |
///
/// What is no public address is refused, unless a rule of the session names it by address or range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Egress {
    session: Rules,
    owner: Option<Rules>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rules(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    host: HostPattern,
    ports: Vec<u16>,
    decision: NetworkDecision,
}

/// A rule that cannot be read. It must not be left out: it may have been the one that refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("network rule {}{}: {error}", index + 1, if *.owner { " of the server's owner" } else { "" })]
pub struct EgressError {
    /// Whether it is one of the owner's.
    pub owner: bool,
    /// Which one, from 0.
    pub index: usize,
    /// What is wrong with its host.
    pub error: HostPatternError,
}

impl Egress {
    /// Reads both sets.
    pub fn new(rules: &[NetworkRule], owner: Option<&[NetworkRule]>) -> Result<Self, EgressError> {
        let read =
            |rules, owner| Rules::new(rules).map_err(|(index, error)| EgressError { owner, index, error });
        Ok(Self { session: read(rules, false)?, owner: owner.map(|owner| read(owner, true)).transpose()? })
    }

    /// What to do with a connection to `host`, as it was asked for.
    pub fn decide(&self, host: &Host, port: u16) -> NetworkDecision {
        if self.leads_inside(host, port) {
            return NetworkDecision::Deny;
        }
        let session = self.session.strictest(host, port).unwrap_or(NetworkDecision::Ask);
        let owner = self.owner.as_ref().map_or(NetworkDecision::Allow, |owner| {
            owner.strictest(host, port).unwrap_or_else(|| owner.for_the_rest())
        });
        session.max(owner)
    }

    /// What to do with a connection to this address of a name that was let through. `Ask` is about the address itself.
    pub fn resolved(&self, address: IpAddr, port: u16) -> NetworkDecision {
        let session = self.session.strictest_by_address(address, port).unwrap_or_else(|| {
            if reserved::is_reserved(address) { NetworkDecision::Deny } else { NetworkDecision::Allow }
        });
        let owner = self.owner.as_ref().and_then(|owner| owner.strictest_by_address(address, port));
        session.max(owner.unwrap_or(NetworkDecision::Allow))
    }

    /// Whether a rule of the session speaks of this address by address or range, and does not refuse it: what is
    /// needed to reach places that are not public.
    pub fn names(&self, address: IpAddr, port: u16) -> bool {
        self.session
            .strictest_by_address(address, port)
            .is_some_and(|decision| decision != NetworkDecision::Deny)
    }

    /// Whether the host is known, without resolving it, to be where nothing may connect to; nobody need be asked.
    fn leads_inside(&self, host: &Host, port: u16) -> bool {
        match host {
            Host::Address(address) => reserved::is_reserved(*address) && !self.names(*address, port),
            Host::Name(_) if host.is_local_name() => {
                let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
                !loopback.into_iter().any(|address| self.names(address, port))
            }
            Host::Name(_) => false,
        }
    }
}

impl Rules {
    fn new(rules: &[NetworkRule]) -> Result<Self, (usize, HostPatternError)> {
        let read = |(index, rule): (usize, &NetworkRule)| {
            let host = HostPattern::parse(&rule.host).map_err(|error| (index, error))?;
            Ok(Rule { host, ports: rule.ports.clone(), decision: rule.decision })
        };
        rules.iter().enumerate().map(read).collect::<Result<_, _>>().map(Self)
    }

    fn strictest(&self, host: &Host, port: u16) -> Option<NetworkDecision> {
        let matching = self.0.iter().filter(|rule| rule.has_port(port) && rule.host.matches(host));
        matching.map(|rule| rule.decision).max()
    }

    fn strictest_by_address(&self, address: IpAddr, port: u16) -> Option<NetworkDecision> {
        let matching = self.0.iter().filter(|rule| rule.has_port(port) && rule.host.names_address(address));
        matching.map(|rule| rule.decision).max()
    }

    /// What an owner wants for what none of its rules matches.
    fn for_the_rest(&self) -> NetworkDecision {
        if self.0.iter().any(|rule| rule.decision == NetworkDecision::Allow) {
            NetworkDecision::Deny
        } else {
            NetworkDecision::Allow
        }
    }
}

impl Rule {
    fn has_port(&self, port: u16) -> bool {
        self.ports.is_empty() || self.ports.contains(&port)
    }
}
