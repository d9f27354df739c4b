//! What may be reached over the network: rules as data here, what they mean for one connection in [`Egress`].

mod egress;
mod host;
mod pattern;
mod reserved;
#[cfg(test)]
mod tests;

pub use egress::{Egress, EgressError};
pub use host::{Host, HostError, NAME_BYTES_MAX};
pub use pattern::{HostPattern, HostPatternError};

/// What may be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// Nothing.
    Off,
    /// Everything.
    On,
    /// What the rules of a proxy let through; a host that no rule matches is asked about.
    Proxied {
        /// The strictest match decides.
        rules: Vec<NetworkRule>,
    },
}

/// One rule of the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkRule {
    /// A host name, `*.` and a domain (its subdomains), an address, a CIDR range, or `*`; case-blind.
    pub host: String,
    /// Which ports, each at least 1; empty is every port.
    pub ports: Vec<u16>,
    /// What to do with a connection.
    pub decision: NetworkDecision,
}

/// What the proxy does with a connection; a later one is stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkDecision {
    /// Let through.
    Allow,
    /// Held until somebody has answered; refused where nobody may be asked.
    Ask,
    /// Refused.
    Deny,
}

impl Network {
    /// Whether everything that this lets through is let through by `bound`: rules may be left out if they allow, and
    /// added if they do not.
    pub(super) fn within(&self, bound: &Self) -> bool {
        match (self, bound) {
            (Self::Off, _) | (_, Self::On) => true,
            (Self::Proxied { rules }, Self::Proxied { rules: bound }) => {
                let allows = |rule: &&NetworkRule| rule.decision == NetworkDecision::Allow;
                rules.iter().filter(allows).all(|rule| bound.contains(rule))
                    && bound.iter().filter(|rule| !allows(rule)).all(|rule| rules.contains(rule))
            }
            (Self::On | Self::Proxied { .. }, Self::Off | Self::Proxied { .. }) => false,
        }
    }
}
