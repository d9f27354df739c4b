//! `[audit]`: the record of what was asked, answered, started and refused.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::bounded::Bounded;
use crate::audit::Options;

/// A terabyte: more is no file any more.
const ROTATE_MAX: u64 = 1 << 40;

/// Where the record is, and how much of it stays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// Whether anything is recorded.
    pub enabled: bool,
    /// An absolute directory of its own; absent is `audit` in the runtime directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// A file is followed by another before it grows beyond this many bytes.
    pub rotate_bytes: Bounded<4_096, ROTATE_MAX>,
    /// Files that stay.
    pub keep_files: Bounded<1, 10_000>,
    /// Whether records survive a power failure, not only the end of the server.
    pub fsync: bool,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            enabled: true,
            directory: None,
            rotate_bytes: Bounded::clamped(64 * 1024 * 1024),
            keep_files: Bounded::clamped(16),
            fsync: true,
        }
    }
}

impl Audit {
    /// For a server with this runtime directory; `None` if nothing is to be recorded.
    pub fn options(&self, runtime: &Path) -> Option<Options> {
        self.enabled.then(|| Options {
            directory: self.directory.clone().unwrap_or_else(|| runtime.join("audit")),
            rotate_bytes: self.rotate_bytes.get(),
            keep_files: self.keep_files.as_usize(),
            fsync: self.fsync,
        })
    }
}
