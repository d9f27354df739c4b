//! Output of an attempt, by absolute offset: the head and tail that memory keeps, and text for models.

mod retained;
mod span;
#[cfg(test)]
pub(crate) mod strategies;
mod text;
mod utf8;

pub use retained::{Gap, Piece, Retained, Segment, Slice};
pub use text::{Header, ModelText, ProcessState, render, tokens};
pub use utf8::{Utf8Carry, complete_len};

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

/// What happens when a reader is slower than the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Flow {
    /// The child runs on; the reader is told exactly what it missed.
    #[default]
    DropWithGap,
    /// The child waits; the reader misses nothing.
    Block,
}
