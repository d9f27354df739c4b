//! Input that somebody must approve before it is delivered. The piece at the head of a process's lane is reviewed, and
//! nothing goes past it; polling, signals and reading do not wait for that.
//!
//! A decision is a ticket for exactly one thing: this piece, to this attempt, under this policy. Whatever changes one of
//! them withdraws the question, and nothing is delivered.

use super::questions::{Matter, Purpose};
use super::wait::Stage;
use super::{RequestState, Session, WriteError};
use crate::core::approval::{Permissions, Subject, input_review_bytes};
use crate::core::ids::{CallId, ProcessId};
use crate::core::limits::INPUT_REVIEW_BYTES_MAX;
use crate::core::orchestrate::{InputReview, input_review};
use crate::core::process::{Queued, Reviewing};
use crate::core::time::Instant;

impl Session {
    /// The piece, if it may be delivered now; otherwise it has been refused, or somebody is asked.
    pub(super) fn review_input(&mut self, now: Instant, id: ProcessId, piece: Queued) -> Option<Queued> {
        if piece.approved || piece.data.is_empty() {
            return Some(piece);
        }
        let (call, review) = (piece.call, self.review_needed(id));
        let asked = match review {
            InputReview::Skip => return Some(piece),
            InputReview::Review { .. }
                if self.waits.get(&call).is_none_or(|wait| wait.callers.is_empty()) =>
            {
                // Its client went away while it waited behind other input: nobody needs the answer.
                self.forget_write(call);
                return None;
            }
            InputReview::Forbidden => Err(WriteError::Forbidden { process: id }),
            InputReview::Refused(cause) => Err(WriteError::NewTerminal { process: id, cause }),
            InputReview::Review { permissions, strict } => {
                self.ask_about_input(now, id, piece, permissions, strict)
            }
        };
        if let Err(refusal) = asked {
            self.refuse_write(now, call, refusal);
        }
        None
    }

    fn review_needed(&self, id: ProcessId) -> InputReview {
        let frozen = self.processes.get(&id).and_then(|process| process.launch.frozen.as_ref());
        match frozen {
            Some(frozen) => {
                input_review(frozen, &self.rights, &self.profile(None), self.owner_network.as_deref())
            }
            None => InputReview::Forbidden,
        }
    }

    fn ask_about_input(
        &mut self,
        now: Instant,
        id: ProcessId,
        piece: Queued,
        permissions: Permissions,
        strict: bool,
    ) -> Result<(), WriteError> {
        let reason = reason(&permissions);
        if let Some(at) = piece.data.iter().position(|byte| *byte == 0) {
            return Err(WriteError::ReviewNul { process: id, at });
        }
        let bytes = input_review_bytes(id, &piece.data, piece.eof, reason);
        if bytes > INPUT_REVIEW_BYTES_MAX {
            return Err(WriteError::ReviewTooLarge { process: id, bytes, limit: INPUT_REVIEW_BYTES_MAX });
        }
        let wait = self.waits.get(&piece.call);
        let process = self.processes.get(&id);
        let frozen = process.and_then(|process| process.launch.frozen.as_ref());
        let profile = frozen.map(|frozen| {
            frozen.confinement.profile().cloned().unwrap_or_else(crate::core::policy::Profile::full_access)
        });
        let (Some(wait), Some(profile)) = (wait, profile) else { return Ok(()) };
        let matter = Matter {
            purpose: Purpose::Input(piece.call),
            subject: Subject::Input { input: piece.data.clone(), eof: piece.eof },
            turn: wait.turn.clone(),
            request: wait.request.clone(),
            permissions,
            profile,
            reason: reason.to_owned(),
            rule: None,
            strict,
        };
        self.mark_write(piece.call, Stage::Asked, (0, 0));
        let approval = self.ask(now, id, matter)?;
        if let Some(process) = self.processes.get_mut(&id) {
            process.input.reviewing = Some(Reviewing { approval, piece });
        }
        Ok(())
    }

    /// Somebody approved the piece at the head of the lane.
    pub(super) fn deliver_reviewed(&mut self, now: Instant, id: ProcessId) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        if let Some(Reviewing { piece, .. }) = process.input.reviewing.take() {
            process.input.queue.push_front(Queued { approved: true, ..piece });
            self.feed_input(now, id);
        }
    }

    /// Nobody approved the piece at the head of the lane; the ones behind it have their own chance.
    pub(super) fn drop_reviewed(&mut self, now: Instant, id: ProcessId, call: CallId, refusal: WriteError) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.input.reviewing = None;
        }
        self.refuse_write(now, call, refusal);
        self.feed_input(now, id);
    }

    /// Takes back the question about the head of a lane, and the piece with it.
    pub(super) fn withdraw_review(&mut self, now: Instant, id: ProcessId) {
        let reviewing = self.processes.get_mut(&id).and_then(|process| process.input.reviewing.take());
        if let Some(Reviewing { approval, piece }) = reviewing {
            self.withdraw(now, &approval);
            self.mark_write(piece.call, Stage::Queued, (0, 0));
        }
    }

    /// The attempt that the head of a lane was for has ended: if another one follows, it is asked about anew.
    pub(super) fn suspend_review(&mut self, now: Instant, id: ProcessId) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        if let Some(Reviewing { approval, piece }) = process.input.reviewing.take() {
            let call = piece.call;
            process.input.queue.push_front(piece);
            self.withdraw(now, &approval);
            self.mark_write(call, Stage::Queued, (0, 0));
        }
    }

    /// The client of a write that somebody is asked about went away: nothing is delivered for it.
    pub(super) fn abandon_review(&mut self, now: Instant, call: CallId) {
        let Some(process) = self.forget_write(call) else { return };
        self.withdraw_review(now, process);
        self.feed_input(now, process);
    }

    /// Ends the wait of a write that nobody is told of; a repeat of it is a new one. The process it was for.
    fn forget_write(&mut self, call: CallId) -> Option<ProcessId> {
        let wait = self.end_wait(call)?;
        if let Some(request) = wait.request.as_ref().and_then(|request| self.requests.get_mut(request)) {
            request.state = RequestState::Abandoned;
        }
        Some(wait.process)
    }
}

/// Why input is reviewed, in the service's words.
const fn reason(permissions: &Permissions) -> &'static str {
    match permissions {
        Permissions::Escalated => "the process runs with other permissions than the session has now",
        Permissions::Additional(_) => "the process was granted permissions on top of the session's",
        Permissions::Default => "strict review sees every input",
    }
}
