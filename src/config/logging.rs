//! `[logging]`: what the service writes to its stderr.

use serde::{Deserialize, Serialize};

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Logging {
    /// A level, or directives such as `info,unified_exec::spawn=debug`.
    pub filter: String,
    /// For people or for programs.
    pub format: Format,
}

/// Form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Default for Logging {
    fn default() -> Self {
        Self { filter: "info".to_owned(), format: Format::Text }
    }
}
