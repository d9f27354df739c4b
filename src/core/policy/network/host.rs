//! What a connection is asked for: a name or an address, in one spelling.
//!
//! A decision about a name is worth something only if whoever resolves it later reads it in the same way. Resolvers of
//! the C library also take `127.1`, `0x7f.0.0.1`, `0177.0.0.1` and `2130706433` for an address; here they are neither a
//! name nor an address, so that they are refused before anybody can resolve them.

use ::core::fmt;
use ::core::net::{IpAddr, Ipv6Addr};

/// Longest name of the domain name system, in bytes.
pub const NAME_BYTES_MAX: usize = 253;
/// Longest label of a name, in bytes.
const LABEL_BYTES_MAX: usize = 63;

/// Where a connection is to go. Equal hosts have equal spellings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// A name in lower case, without a dot at its end. Names in other scripts are in their ASCII form (`xn--`).
    Name(String),
    /// An address; one of IPv4 that is written as IPv6 (`::ffff:1.2.3.4`) is one of IPv4.
    Address(IpAddr),
}

/// Why a text is no host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Nothing is there.
    #[error("the host is empty")]
    Empty,
    /// The name, or one of its labels, is too long.
    #[error("{host:?} is too long for a host name: at most 253 bytes, and 63 between two dots")]
    TooLong {
        /// Its beginning.
        host: String,
    },
    /// A resolver may take it for an address, and each may take it for another.
    #[error("{host:?} is an unusual spelling of an address; write it as four decimal numbers")]
    OddAddress {
        /// As it was written.
        host: String,
    },
    /// Something that no name contains.
    #[error(
        "{host:?} is no host name: {found:?} may not be in one; write other scripts in their ASCII form (xn--)"
    )]
    Character {
        /// As it was written.
        host: String,
        /// The first character that may not be there.
        found: char,
    },
    /// Two dots in a row, or one at the beginning.
    #[error("{host:?} is no host name: there is nothing between two dots")]
    EmptyLabel {
        /// As it was written.
        host: String,
    },
}

impl Host {
    /// Reads a name, or an address, also one of IPv6 in brackets. One dot at the end means nothing.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
            && let Ok(address) = inner.parse::<Ipv6Addr>()
        {
            return Ok(Self::address(address.into()));
        }
        let bare = text.strip_suffix('.').unwrap_or(text);
        match bare.parse::<IpAddr>() {
            Ok(address) => Ok(Self::address(address)),
            Err(_) => name(bare).map(Self::Name),
        }
    }

    /// An address in its one spelling.
    pub fn address(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }

    /// Whether this is a name that always means the machine itself (RFC 6761).
    pub(super) fn is_local_name(&self) -> bool {
        matches!(self, Self::Name(name) if name == "localhost" || name.ends_with(".localhost"))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => out.write_str(name),
            Self::Address(address) => address.fmt(out),
        }
    }
}

/// A name in its one spelling.
pub(super) fn name(text: &str) -> Result<String, HostError> {
    if text.is_empty() {
        return Err(HostError::Empty);
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(HostError::TooLong { host: text.chars().take(LABEL_BYTES_MAX).collect() });
    }
    let host = || text.to_owned();
    let foreign = |char: &char| !(char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.'));
    if let Some(found) = text.chars().find(foreign) {
        return Err(HostError::Character { host: host(), found });
    }
    for label in text.split('.') {
        if label.is_empty() {
            return Err(HostError::EmptyLabel { host: host() });
        }
        if label.len() > LABEL_BYTES_MAX {
            return Err(HostError::TooLong { host: host() });
        }
    }
    if ends_in_number(text) {
        return Err(HostError::OddAddress { host: host() });
    }
    Ok(text.to_ascii_lowercase())
}

/// No top-level domain is a number, so whatever ends in one is meant as an address.
fn ends_in_number(text: &str) -> bool {
    let last = text.rsplit('.').next().unwrap_or(text);
    let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    last.bytes().all(|byte| byte.is_ascii_digit())
        || hex.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_spelling() {
        for (text, canonical) in [
            ("Example.COM", "example.com"),
            ("example.com.", "example.com"),
            ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
            ("_srv.a-b.example", "_srv.a-b.example"),
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1.", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("[::FFFF:c000:201]", "192.0.2.1"),
            ("[2001:DB8:0:0::1]", "2001:db8::1"),
            ("0:0:0:0:0:0:0:1", "::1"),
            ("1and1.com", "1and1.com"),
            ("3com", "3com"),
        ] {
            assert_eq!(Host::parse(text).map(|host| host.to_string()), Ok(canonical.to_owned()), "{text}");
        }
    }

    #[test]
    fn odd_spellings_of_addresses_are_neither_names_nor_addresses() {
        for text in [
            "127.1",
            "127.0.1",
            "2130706433",
            "0177.0.0.1",
            "0177.1",
            "0x7f.0.0.1",
            "0x7f000001",
            "0X7F000001",
            "127.0.0.0x1",
            "127.0.0.01",
            "256.0.0.1",
            "1.2.3.4.5",
            "0",
            "0x",
            "00000000000000000000177.0.0.1",
            "017700000001",
            "127.1.",
            "example.0x10",
            "example.12",
        ] {
            let refused = matches!(Host::parse(text), Err(HostError::OddAddress { .. }));
            assert!(refused, "{text}: {:?}", Host::parse(text));
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a b",
            "a\0b",
            "a\n",
            "bücher.example",
            "１２７.0.0.1",
            "a/b",
            "a:80",
            "u@h",
            "[::1",
            "::1]",
            "[127.0.0.1]",
            "fe80::1%eth0",
            "[fe80::1%1]",
            "[[::1]]",
            "*",
            "%31.com",
            "a,b",
        ] {
            assert!(Host::parse(text).is_err(), "{text:?}: {:?}", Host::parse(text));
        }
        assert!(Host::parse(&"a".repeat(64)).is_err());
        assert!(Host::parse(&"a.".repeat(127)).is_ok(), "253 bytes and a dot");
        assert!(Host::parse(&"a.".repeat(128)).is_err());
    }

    #[test]
    fn an_error_about_a_huge_host_is_small() {
        let Err(error) = Host::parse(&"é".repeat(100_000)) else { panic!("it is a host") };
        assert!(error.to_string().len() < 400);
    }
}
