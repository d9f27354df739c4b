//! Output of an attempt, by absolute offset: the head and tail that memory keeps, and text for models.

/// Where a byte of output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// A pipe process's standard output.
    Stdout,
    /// A pipe process's standard error.
    Stderr,
    /// A terminal, which has one stream.
    Terminal,
}
