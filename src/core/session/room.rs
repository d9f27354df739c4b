//! Which process makes room when the table is full: never a protected or a busy one.

use super::{Session, StartError};
use crate::core::ids::ProcessId;
use crate::core::limits::{PROTECTED_PROCESSES, WhenFull};
use crate::core::process::{EndReason, Process};
use crate::core::time::Instant;

impl Session {
    /// Ends a process if the table is full, or refuses.
    pub(super) fn make_room(&mut self, now: Instant) -> Result<(), StartError> {
        let limit = self.limits.processes_max;
        if self.processes.values().filter(|process| process.occupies_slot()).count() < limit {
            return Ok(());
        }
        let victim = match self.limits.when_full {
            WhenFull::Evict => self.victim(),
            WhenFull::Reject => None,
        };
        let victim = victim.ok_or(StartError::TableFull { limit })?;
        let Some(process) = self.processes.get_mut(&victim) else { return Ok(()) };
        if process.exit().is_some() {
            // Telling its end is all that it still holds the slot for; its descendants live on.
            self.enter_ended(now, victim);
        } else {
            process.gave_room = true;
            self.begin_kill(now, victim, EndReason::Pruned, None);
        }
        Ok(())
    }

    /// The least recently used process that is neither among the most recently used ones nor in use; one that has
    /// ended comes first, then one that is being ended anyhow. Uses are numbered, so there are no ties.
    fn victim(&self) -> Option<ProcessId> {
        let mut by_use: Vec<&Process> =
            self.processes.values().filter(|process| process.occupies_slot()).collect();
        by_use.sort_by_key(|process| std::cmp::Reverse(process.used));
        by_use
            .into_iter()
            .skip(PROTECTED_PROCESSES)
            .filter(|process| !self.is_busy(process))
            .min_by_key(|process| (process.exit().is_none(), process.kill.is_none(), process.used))
            .map(|process| process.id)
    }

    /// Whether a call about it is in progress. Following its output is none: whoever watches everything would never
    /// make room.
    fn is_busy(&self, process: &Process) -> bool {
        process.attempt().is_none()
            || process.input.is_busy()
            || self.waits.values().any(|wait| wait.process == process.id)
    }
}
