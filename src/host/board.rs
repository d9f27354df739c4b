//! The questions of all sessions, for those who answer them: what is open, what was, and every change.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;

use super::Owner;
use crate::core::approval::{Approval, State};
use crate::core::ids::{ApprovalId, SessionId};

/// Changes that a watcher may lag behind; one beyond it starts again from a snapshot.
const CHANGES_BOUND: usize = 1_024;
/// Closed questions that are remembered, of all sessions together.
const CLOSED_MAX: usize = 4_096;

/// A question, and whose it is.
#[derive(Clone, Debug)]
pub struct Posted {
    /// Its rank among the questions of the host, by when it was asked.
    pub number: u64,
    /// The session that asks.
    pub session: SessionId,
    /// Whose session that is.
    pub owner: Owner,
    /// The question and where it stands.
    pub approval: Arc<Approval>,
}

impl Posted {
    fn id(&self) -> &ApprovalId {
        &self.approval.question.id
    }

    fn is_open(&self) -> bool {
        self.approval.state == State::Open
    }
}

/// What a watcher hears.
#[derive(Clone, Debug)]
pub enum Change {
    /// A question was asked or closed.
    Posted(Posted),
    /// A session is over, and its questions are forgotten.
    SessionOver(SessionId),
}

/// All questions of a host.
#[derive(Debug)]
pub struct Board {
    asked: AtomicU64,
    posted: Mutex<VecDeque<Posted>>,
    changes: broadcast::Sender<Change>,
}

impl Default for Board {
    fn default() -> Self {
        Self {
            asked: AtomicU64::new(0),
            posted: Mutex::default(),
            changes: broadcast::Sender::new(CHANGES_BOUND),
        }
    }
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Posted>> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A question was asked, or closed.
    pub(super) fn post(&self, session: SessionId, owner: Owner, approval: Arc<Approval>) {
        let mut all = self.lock();
        let posted = match all.iter_mut().find(|known| *known.id() == approval.question.id) {
            Some(known) => {
                known.approval = approval;
                known.clone()
            }
            None => {
                let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
                let posted = Posted { number, session, owner, approval };
                all.push_back(posted.clone());
                posted
            }
        };
        let closed = all.iter().filter(|known| !known.is_open()).count();
        if closed > CLOSED_MAX
            && let Some(oldest) = all.iter().position(|known| !known.is_open())
        {
            all.remove(oldest);
        }
        // Under the lock, so that a snapshot and the changes after it are one story. Nobody may be watching.
        self.changes.send(Change::Posted(posted)).ok();
    }

    /// A session is over; its questions are forgotten.
    pub(super) fn forget(&self, session: &SessionId) {
        let mut all = self.lock();
        all.retain(|posted| posted.session != *session);
        self.changes.send(Change::SessionOver(session.clone())).ok();
    }

    /// A question by its id, open or closed.
    pub fn find(&self, id: &ApprovalId) -> Option<Posted> {
        self.lock().iter().find(|posted| posted.id() == id).cloned()
    }

    /// Every question that is remembered, oldest first.
    pub fn all(&self) -> Vec<Posted> {
        self.lock().iter().cloned().collect()
    }

    /// The questions that are open now, oldest first, and everything that happens to questions from now on.
    pub fn watch(&self) -> (Vec<Posted>, broadcast::Receiver<Change>) {
        let all = self.lock();
        (all.iter().filter(|posted| posted.is_open()).cloned().collect(), self.changes.subscribe())
    }
}
