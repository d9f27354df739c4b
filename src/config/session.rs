//! `[session]`: what a session gets that asks for nothing.

use serde::{Deserialize, Serialize};

/// Defaults of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Session {
    /// Working directory, absolute; absent is the one that the service was started in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Shell for commands that name none, by name or path; absent is the user's, see [`super::detect_shell`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Whether shells may be login shells, and so read profile files.
    pub login_shell: bool,
    /// Whether processes may outlive their calls.
    pub interactive: bool,
}

impl Default for Session {
    fn default() -> Self {
        Self { cwd: None, shell: None, login_shell: true, interactive: true }
    }
}
