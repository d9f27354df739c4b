//! What is known of one process: how far it is, what it has said, who waits for it.

mod evidence;
mod exit;

pub use evidence::{Confidence, Evidence};
pub use exit::{EndReason, Exit, ExitStatus, TimeoutKind};
