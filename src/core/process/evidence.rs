//! Evidence that a sandbox refused something: a value, never a bare boolean.

/// How sure it is that the sandbox, and not something else, made an attempt fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// An errno word, and nothing to check it against.
    Likely,
    /// An errno word about a path that the profile forbids.
    Checked,
    /// The wait status or the sandbox itself says so.
    Certain,
}

/// Why an attempt counts as denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// How sure.
    pub confidence: Confidence,
    /// The errno word, `SIGSYS`, or the adapter that reported it.
    pub cause: String,
    /// The path, if one was named.
    pub path: Option<String>,
    /// The words it was read from.
    pub excerpt: String,
}
