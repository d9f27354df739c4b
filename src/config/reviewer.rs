//! `[reviewer]`: the automatic reviewer, a program outside that sees every question before people do.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::bounded::Bounded;

/// A model that judges takes seconds; one that takes longer than this is not there.
const TIMEOUT_MS: u64 = 30_000;

/// How the automatic reviewer is reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reviewer {
    /// Where it listens.
    pub address: Address,
    /// How long a review may take, milliseconds; what takes longer is a refusal.
    #[serde(default = "timeout_default")]
    pub timeout_ms: Bounded<100, 600_000>,
    /// Holds a bearer token that is presented to it; absent presents none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// For `https`: certificates that sign the reviewer's, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
}

const fn timeout_default() -> Bounded<100, 600_000> {
    Bounded::clamped(TIMEOUT_MS)
}

impl Reviewer {
    /// How long a review may take.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.get())
    }

    /// What is set and does not go with the address: the key, and why.
    pub(super) fn contradiction(&self) -> Option<(&'static str, &'static str)> {
        let tls = matches!(&self.address, Address::Tcp(uri) if uri.starts_with("https://"));
        match (tls, &self.ca) {
            (true, None) => Some((
                "address",
                "with https, name in `ca` the certificates that the reviewer's is checked against",
            )),
            (false, Some(_)) => Some(("ca", "has a meaning only with an https:// address")),
            (true, Some(_)) | (false, None) => None,
        }
    }
}

/// Where the automatic reviewer listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// The absolute path of a Unix socket.
    Unix(PathBuf),
    /// `http://host:port` or `https://host:port`.
    Tcp(String),
}

impl Address {
    fn parse(text: &str) -> Result<Self, String> {
        const FORMS: &str =
            "give unix:/path/to/reviewer.sock, http://host:port (this machine only) or https://host:port";
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.starts_with('/') {
                Ok(Self::Unix(path.into()))
            } else {
                Err(format!("the path of a socket must be absolute; {FORMS}"))
            };
        }
        let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        let authority = rest.map(|rest| rest.trim_end_matches('/')).ok_or(FORMS)?;
        let port = authority.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        match port.map(|(_, port)| port.parse::<u16>()) {
            Some(Ok(1..)) if !authority.contains(['/', '@', '?', '#']) => Ok(Self::Tcp(text.to_owned())),
            _ => Err(format!("{text:?} is no host and port; {FORMS}")),
        }
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unix(path) => serializer.collect_str(&format_args!("unix:{}", path.display())),
            Self::Tcp(uri) => serializer.serialize_str(uri),
        }
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_socket_or_a_host_with_its_port() {
        assert_eq!(Address::parse("unix:/run/r.sock"), Ok(Address::Unix("/run/r.sock".into())));
        assert_eq!(Address::parse("unix:///run/r.sock"), Ok(Address::Unix("/run/r.sock".into())));
        for text in ["http://127.0.0.1:7", "http://[::1]:7/", "https://reviewer.example:443"] {
            assert_eq!(Address::parse(text), Ok(Address::Tcp(text.into())));
        }
        for text in [
            "",
            "unix:r.sock",
            "127.0.0.1:7",
            "http://127.0.0.1",
            "http://:7",
            "http://h:0",
            "http://h:x",
            "http://h:7/path",
            "http://user:secret@h:7",
            "ftp://h:7",
        ] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }
}
