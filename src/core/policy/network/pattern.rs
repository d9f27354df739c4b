//! What a rule's host stands for.

use ::core::net::IpAddr;

use super::host::{self, Host, HostError};
use super::reserved;

/// The host of a rule, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// `*`: every name and every address.
    Any,
    /// Exactly this name.
    Name(String),
    /// `*.` and this domain: everything below it, and not the domain itself.
    Subdomains(String),
    /// The addresses that begin with the first `prefix` bits of `network`; one address if those are all of its bits.
    Addresses {
        /// All bits behind the prefix are 0.
        network: IpAddr,
        /// At most 32, or 128.
        prefix: u8,
    },
}

/// Why a text is no pattern of hosts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostPatternError {
    /// It is no host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A star where none may be.
    #[error("{pattern:?}: a star stands alone or in front of a domain, as in `*.example.com`")]
    Star {
        /// As it was written.
        pattern: String,
    },
    /// What stands before the slash is no address, or what stands behind it is no length.
    #[error(
        "{pattern:?} is no range of addresses as `10.0.0.0/8` or `2001:db8::/32` are; a host stands alone, without \
         scheme and path"
    )]
    Range {
        /// As it was written.
        pattern: String,
    },
    /// The address has bits behind the prefix, so that it is unclear what was meant.
    #[error("{pattern:?} has bits behind its prefix; write `{network}/{prefix}` for the range")]
    HostBits {
        /// As it was written.
        pattern: String,
        /// The range it is in.
        network: IpAddr,
        /// Its length.
        prefix: u8,
    },
}

impl HostPattern {
    /// Reads `*`, `*.domain`, a name, an address (also in brackets) or a range of addresses. Case-blind; one dot at the
    /// end of a name means nothing.
    pub fn parse(text: &str) -> Result<Self, HostPatternError> {
        if text == "*" {
            return Ok(Self::Any);
        }
        if let Some(domain) = text.strip_prefix("*.") {
            if domain.contains('*') {
                return Err(HostPatternError::Star { pattern: text.to_owned() });
            }
            return Ok(Self::Subdomains(host::name(domain.strip_suffix('.').unwrap_or(domain))?));
        }
        if text.contains('*') {
            return Err(HostPatternError::Star { pattern: text.to_owned() });
        }
        if let Some((network, prefix)) = text.split_once('/') {
            return range(text, network, prefix);
        }
        Ok(match Host::parse(text)? {
            Host::Name(name) => Self::Name(name),
            Host::Address(network) => Self::Addresses { network, prefix: bits(network) },
        })
    }

    /// Whether this host is meant. A name never matches a range: what it resolves to is judged once it is known.
    pub fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Name(own), Host::Name(name)) => own == name,
            (Self::Subdomains(domain), Host::Name(name)) => {
                name.strip_suffix(domain.as_str()).is_some_and(|below| below.ends_with('.'))
            }
            (Self::Addresses { .. }, Host::Address(address)) => self.names_address(*address),
            (Self::Name(_) | Self::Subdomains(_), Host::Address(_))
            | (Self::Addresses { .. }, Host::Name(_)) => false,
        }
    }

    /// Whether this is the address, or a range with it. An address that carries another inside, for a translator on the
    /// way, is both.
    pub(super) fn names_address(&self, address: IpAddr) -> bool {
        let Self::Addresses { network, prefix } = self else { return false };
        let address = address.to_canonical();
        let begins = |address: IpAddr| masked(address, *prefix) == Some(*network);
        begins(address) || reserved::translated(address).is_some_and(|inner| begins(inner.into()))
    }
}

fn range(pattern: &str, network: &str, prefix: &str) -> Result<HostPattern, HostPatternError> {
    let no_range = || HostPatternError::Range { pattern: pattern.to_owned() };
    let inner = network.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(network);
    let address: IpAddr = inner.parse().map_err(|_| no_range())?;
    let digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
    let prefix: u8 = if digits { prefix.parse().map_err(|_| no_range())? } else { return Err(no_range()) };
    let masked = masked(address, prefix).ok_or_else(no_range)?;
    if masked != address {
        return Err(HostPatternError::HostBits { pattern: pattern.to_owned(), network: masked, prefix });
    }
    // All of IPv4 inside IPv6 begins with 96 fixed bits, the last of which would be behind a shorter prefix.
    let canonical = address.to_canonical();
    let prefix = if canonical == address { prefix } else { prefix.saturating_sub(96) };
    Ok(HostPattern::Addresses { network: canonical, prefix })
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with all bits behind the prefix at 0; nothing if it has fewer bits than that.
fn masked(address: IpAddr, prefix: u8) -> Option<IpAddr> {
    let behind = u32::from(bits(address).checked_sub(prefix)?);
    Some(match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(behind).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(behind).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, host: &str) -> bool {
        HostPattern::parse(pattern).unwrap().matches(&Host::parse(host).unwrap())
    }

    #[test]
    fn a_pattern_matches_what_it_says_and_nothing_else() {
        for (pattern, yes, no) in [
            ("*", &["example.com", "192.0.2.1", "::1"][..], &[][..]),
            (
                "Example.com.",
                &["example.COM", "example.com."],
                &["a.example.com", "example.org", "xexample.com"],
            ),
            (
                "*.example.com",
                &["a.example.com", "A.B.example.com."],
                &["example.com", "aexample.com", "1.2.3.4"],
            ),
            ("192.0.2.1", &["192.0.2.1", "::ffff:192.0.2.1", "64:ff9b::192.0.2.1"], &["192.0.2.2", "::1"]),
            ("[::ffff:192.0.2.1]", &["192.0.2.1"], &["192.0.2.2"]),
            (
                "10.0.0.0/8",
                &["10.0.0.0", "10.255.255.255"],
                &["11.0.0.0", "9.255.255.255", "a.example", "::a00:1"],
            ),
            ("0.0.0.0/0", &["0.0.0.0", "255.255.255.255"], &["::1", "2001:db8::1"]),
            ("::/0", &["::1", "2001:db8::1"], &["192.0.2.1"]),
            ("2001:db8::/33", &["2001:db8:7fff::1"], &["2001:db8:8000::1"]),
            ("[2001:db8::]/32", &["2001:db8:8000::1"], &["2001:db9::1"]),
            ("::ffff:10.0.0.0/104", &["10.1.2.3"], &["11.0.0.0"]),
            ("::ffff:0:0/96", &["10.1.2.3", "8.8.8.8"], &["::1"]),
            ("192.0.2.7/32", &["192.0.2.7"], &["192.0.2.6"]),
        ] {
            for host in yes {
                assert!(matches(pattern, host), "{pattern} and {host}");
            }
            for host in no {
                assert!(!matches(pattern, host), "{pattern} and {host}");
            }
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_the_way_out() {
        for text in [
            "",
            "*.",
            "**",
            "*.*.com",
            "a.*.com",
            "*example.com",
            "example.*",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/-1",
            "10.0.0/8",
            "::/129",
            "::/999",
            "example.com/8",
            "10.0.0.0/8/8",
            "/8",
            "127.1",
            "*.127.1",
            "*.12",
            "http://a",
            "a:443",
            "[::1]:443",
            "a b",
            "bücher.example",
        ] {
            assert!(HostPattern::parse(text).is_err(), "{text:?}: {:?}", HostPattern::parse(text));
        }
        let error = HostPattern::parse("10.1.2.3/8").unwrap_err();
        assert!(error.to_string().contains("10.0.0.0/8"), "{error}");
        assert!(HostPattern::parse("::ffff:10.0.0.0/90").is_err(), "half inside IPv4");
    }
}
