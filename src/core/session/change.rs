//! Changes of the session itself, and leases on its deadlines.

use super::timers::Timer;
use super::{Answer, FeedKind, Hold, Session, SessionView, Update, UpdateError};
use crate::core::command::InvalidCommand;
use crate::core::ids::{CallId, ProcessId};
use crate::core::limits::HOLD_MAX;
use crate::core::time::Instant;

impl Session {
    pub(super) fn update(&mut self, now: Instant, update: Update) -> Result<Box<SessionView>, UpdateError> {
        if self.closing {
            return Err(UpdateError::Closing);
        }
        if let Some(asked) = update.if_revision.filter(|asked| *asked != self.policy_revision) {
            return Err(UpdateError::RevisionChanged { in_force: self.policy_revision, asked });
        }
        if let Some(rights) = &update.rights {
            rights.check()?;
        }
        if let Some(cwd) = &update.cwd {
            self.check_cwd(cwd)?;
        }
        let mut changed = false;
        if let Some(cwd) = update.cwd {
            changed |= std::mem::replace(&mut self.defaults.cwd, cwd.clone()) != cwd;
        }
        if let Some(shell) = update.shell {
            changed |= std::mem::replace(&mut self.defaults.shell, shell.clone()) != shell;
        }
        if let Some(rights) = update.rights {
            changed |= std::mem::replace(&mut self.rights, rights.clone()) != rights;
        }
        if let Some(tokens) = update.output_tokens_max {
            changed |= std::mem::replace(&mut self.limits.output_tokens_max, tokens) != tokens;
        }
        if changed {
            self.policy_revision += 1;
            self.publish(now, None, FeedKind::PolicyChanged { revision: self.policy_revision });
        }
        Ok(Box::new(self.view()))
    }

    /// A terminal that lives in the old directory would silently be elsewhere than the session says.
    fn check_cwd(&self, cwd: &str) -> Result<(), UpdateError> {
        if !cwd.starts_with('/') || cwd.contains('\0') {
            let problem = format!("{cwd:?} is not an absolute path");
            return Err(InvalidCommand { field: "working_directory", problem }.into());
        }
        let holders: Vec<ProcessId> = self
            .processes
            .values()
            .filter(|process| process.terminal.is_some() && process.exit().is_none())
            .map(|process| process.id)
            .collect();
        if cwd == self.defaults.cwd || holders.is_empty() {
            Ok(())
        } else {
            Err(UpdateError::CwdHeld { by: holders })
        }
    }

    pub(super) fn hold(&mut self, now: Instant, call: CallId, hold: Hold) {
        if hold.duration.is_zero() {
            self.timers.stop(&Timer::Hold(hold.lease.clone()));
            self.release_hold(now, &hold.lease);
            return self.reply(call, Answer::Held(None));
        }
        let until = now + hold.duration.min(HOLD_MAX);
        if self.holds.is_empty() {
            self.pause_yields(now);
        }
        self.holds.insert(hold.lease.clone());
        self.timers.set(Timer::Hold(hold.lease), until);
        self.reply(call, Answer::Held(Some(until)));
    }

    pub(super) fn release_hold(&mut self, now: Instant, lease: &str) {
        if self.holds.remove(lease) && self.holds.is_empty() {
            self.resume_yields(now);
        }
    }
}
