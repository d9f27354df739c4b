//! Changes of the session itself, and leases on its deadlines.

use super::timers::Timer;
use super::{Answer, FeedKind, Hold, HoldError, Session, SessionView, Update, UpdateError};
use crate::core::command::InvalidCommand;
use crate::core::ids::{CallId, ProcessId};
use crate::core::limits::{HOLD_MAX, HOLDS_MAX, Limits};
use crate::core::policy::{NetworkRule, Rights};
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
            rights.check(self.automatic_reviewer)?;
        }
        if let Some(cwd) = &update.cwd {
            self.check_cwd(cwd)?;
        }
        let fields = self.apply(update);
        if !fields.is_empty() {
            self.policy_changed(now, fields);
        }
        Ok(Box::new(self.view()))
    }

    /// A new revision: what was asked under the old one is no longer what would be done.
    fn policy_changed(&mut self, now: Instant, fields: Vec<&'static str>) {
        self.policy_revision += 1;
        self.publish(now, None, FeedKind::PolicyChanged { revision: self.policy_revision, fields });
        self.withdraw_stale(now);
    }

    pub(super) fn on_owner_network(&mut self, now: Instant, rules: Option<Vec<NetworkRule>>) {
        if self.owner_network != rules {
            self.owner_network = rules;
            self.policy_changed(now, vec!["owner_network"]);
        }
    }

    /// Sets what differs, and names it as the wire does.
    fn apply(&mut self, update: Update) -> Vec<&'static str> {
        let mut fields = Vec::new();
        let mut set = |name, changed: bool| fields.extend(changed.then_some(name));
        set("cwd", replace(&mut self.defaults.cwd, update.cwd));
        set("shell", replace(&mut self.defaults.shell, update.shell));
        set("allow_login_shell", replace(&mut self.defaults.allow_login, update.allow_login));
        set("env_policy", replace(&mut self.defaults.env, update.env));
        set("interactive", replace(&mut self.interactive, update.interactive));
        if let Some(rights) = update.rights {
            set("sandbox", rights.profile != self.rights.profile);
            let asks = |rights: &Rights| (rights.policy.clone(), rights.strict_review);
            set("approval_policy", asks(&rights) != asks(&self.rights));
            self.rights = rights;
        }
        set("process_limits", replace(&mut self.process_limits, update.process_limits));
        if let Some(limits) = update.limits {
            set("table_full", limits.when_full != self.limits.when_full);
            set("min_confidence", limits.min_confidence != self.limits.min_confidence);
            let Limits { when_full, min_confidence, .. } = self.limits;
            set("limits", Limits { when_full, min_confidence, ..limits.clone() } != self.limits);
            self.limits = limits;
        }
        fields
    }

    /// A terminal that lives in the old directory would silently be elsewhere than the session says.
    fn check_cwd(&self, cwd: &str) -> Result<(), UpdateError> {
        if !cwd.starts_with('/') || cwd.contains('\0') {
            let problem = format!("{cwd:?} is not an absolute path");
            return Err(InvalidCommand { field: "cwd", problem }.into());
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
            return self.reply(call, Answer::Held(Ok(None)));
        }
        if self.holds.len() >= HOLDS_MAX && !self.holds.contains(&hold.lease) {
            return self.reply(call, Answer::Held(Err(HoldError::TooMany { limit: HOLDS_MAX })));
        }
        let until = now + hold.duration.min(HOLD_MAX);
        if !self.yields_are_held() {
            self.pause_yields(now);
        }
        self.holds.insert(hold.lease.clone());
        self.timers.set(Timer::Hold(hold.lease), until);
        self.reply(call, Answer::Held(Ok(Some(until))));
    }

    pub(super) fn release_hold(&mut self, now: Instant, lease: &str) {
        if self.holds.remove(lease) && !self.yields_are_held() {
            self.resume_yields(now);
        }
    }
}

/// Sets `place` if there is something to set, and says whether that changed anything.
fn replace<T: PartialEq>(place: &mut T, new: Option<T>) -> bool {
    new.is_some_and(|new| {
        let changed = *place != new;
        *place = new;
        changed
    })
}
