//! `[listen]`: where the service can be reached.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Where the service listens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Listen {
    /// Holds the sockets and the token files; absent is [`default_runtime_dir`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_dir: Option<PathBuf>,
    /// A TCP address besides the sockets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<SocketAddr>,
    /// Values of the header `Origin` that are accepted; empty accepts no browser.
    pub allowed_origins: Vec<String>,
    /// TLS for the TCP address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

/// Files for TLS, PEM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate chain.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Certificates that sign those of clients; absent asks clients for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
}

impl Listen {
    /// The runtime directory in force.
    pub fn runtime_dir(&self) -> PathBuf {
        self.runtime_dir.clone().unwrap_or_else(default_runtime_dir)
    }
}

/// `$XDG_RUNTIME_DIR/unified-exec` where the system has such a directory, else one in `/tmp` with the user's number.
pub fn default_runtime_dir() -> PathBuf {
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match session.filter(|dir| dir.is_absolute() && dir.is_dir()) {
        Some(dir) => dir.join("unified-exec"),
        None => fallback(&std::env::temp_dir()),
    }
}

#[cfg(unix)]
fn fallback(temporary: &Path) -> PathBuf {
    temporary.join(format!("unified-exec-{}", rustix::process::geteuid().as_raw()))
}

#[cfg(not(unix))]
fn fallback(temporary: &Path) -> PathBuf {
    temporary.join("unified-exec")
}
