//! Reviewers that need nothing from outside: people, who are shown every question and answer it through a session's
//! handle, and fixed answers.

use super::ports::{Asked, BoxFuture, Reviewer};
use crate::core::approval::Review;

/// No automatic reviewer: every question is left to people.
#[derive(Clone, Copy, Debug, Default)]
pub struct People;

impl Reviewer for People {
    fn review(&self, _: Asked) -> BoxFuture<Review> {
        Box::pin(std::future::ready(Review::AskPerson))
    }

    fn is_automatic(&self) -> bool {
        false
    }
}

/// The same answer to every question.
#[derive(Clone, Debug)]
pub struct Always(pub Review);

impl Reviewer for Always {
    fn review(&self, _: Asked) -> BoxFuture<Review> {
        Box::pin(std::future::ready(self.0.clone()))
    }

    fn is_automatic(&self) -> bool {
        true
    }
}
