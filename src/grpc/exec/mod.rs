//! What the methods of `ExecService` are made of: one file for each kind.

mod attach;
mod collect;
pub(super) mod control;
mod describe;
mod input;
pub(super) mod interact;
pub(super) mod read;
pub(super) mod stdin;

pub(super) use attach::{Attached, Attaching, Reading};
pub(super) use collect::{Collecting, FromCall};
pub(super) use describe::describe;
