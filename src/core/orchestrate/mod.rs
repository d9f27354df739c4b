//! The one place that decides about a start: who must approve it, under what it runs first, and whether a denial may be
//! retried without a sandbox. Pure functions of what is known; [`crate::core::session`] walks from one to the next.
//!
//! ```text
//!  requirement ──Forbidden──► refused
//!      │ NeedsApproval, Review ──► ask ──declined──► refused
//!      │ Skip
//!      ▼
//!  first_confinement ──► attempt 1 ──► ended in the window, with evidence of a denial?
//!                                        no  ──► running, or finished
//!                                        yes ──► after_denial: G1..G5 ──fail──► the denial is surfaced
//!                                                     └──pass──► attempt 2, once, without a sandbox
//! ```
//! [`input_review`] is the same kind of table for input to a process whose sandbox was frozen at its launch.
//!
//! Refuses to know: how anything is asked, who answers, how a sandbox is made.

mod confine;
mod denial;
mod input;
mod requirement;
#[cfg(test)]
pub(in crate::core) mod tests;

pub use confine::{effective_profile, first_confinement};
pub use denial::{AfterDenial, Denial, Gate, after_denial};
pub use input::{InputReview, Launched, NewTerminal, input_review};
pub(crate) use requirement::allows;
pub use requirement::{Forbidden, Reason, Requirement, requirement};
