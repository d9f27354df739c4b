//! Questions to whoever approves, their answers, and the grants that answers leave behind: data. Who asks and what an
//! answer leads to is decided in [`crate::core::session`].

mod grant;
mod question;
mod serialized;

pub use grant::{Grant, GrantKey};
pub use question::{Approval, Decision, Permissions, Question, Review, State, Subject, Verdict};
pub(crate) use serialized::input_review_bytes;
