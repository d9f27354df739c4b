//! Rules for commands and connections: files, layers, and the [`Book`] that answers the host's port
//! [`Rulebook`](crate::host::ports::Rulebook).
//!
//! ```text
//!   files ─► source ─► file (TOML, examples) ─► set (layers, the strictest counts) ─► book ─► assess
//!               ▲                                  ▲                                   │
//!               └── append ◄── allow               └── script (shell lines, split)     └── watch, reload
//! ```
//!
//! What a rule is and which one counts stands in [`crate::core::policy`]. Here is what that needs of the world: files,
//! and a grammar for shells. Refuses to know sessions, questions, and how anything is started.
//!
//! **Invariants.** Asking does no I/O. What cannot be read or understood never makes the rules laxer: at the start it
//! is an error, later the layer stays as it was. A layer can add caution to another, and take none away.

mod append;
mod book;
mod destination;
mod file;
#[cfg(feature = "starlark")]
mod import;
mod place;
mod script;
mod set;
mod source;

pub use book::Book;
#[cfg(feature = "starlark")]
pub use import::{ImportError, import};
pub use place::{Place, RulesError};
pub use source::{PROJECT_FILE, SYSTEM_DIRECTORY, Sources};

/// Whose rules they are; an earlier one is trusted more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The system's owner.
    System,
    /// The user that the server runs as.
    User,
    /// A project that the configuration trusts.
    Project,
}
