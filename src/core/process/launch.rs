//! What a process was asked to be, what was decided about it, and what was frozen for it.

use crate::core::approval::{GrantKey, Permissions};
use crate::core::command::LOCAL_ENVIRONMENT;
use crate::core::orchestrate::Launched;
use crate::core::policy::{Additional, Assessment};
use crate::core::process::{Evidence, Exit};
use crate::core::spawn::SpawnPlan;

/// A start, from its request to its last attempt.
#[derive(Debug)]
pub(crate) struct Launch {
    /// What it asks for in relation to the session's profile.
    pub(crate) permissions: Permissions,
    /// Why, in the agent's words.
    pub(crate) justification: String,
    /// The words of a rule that the agent proposes.
    pub(crate) proposed_rule: Vec<String>,
    /// What its attempts are started with, but for the sandbox; absent once there is no more attempt to come.
    pub(crate) plan: Option<Box<SpawnPlan>>,
    /// The names of variables that may make another program of it than its words say.
    pub(crate) influences: Vec<String>,
    /// What the rules say of it, once they were asked.
    pub(crate) assessment: Option<Assessment>,
    /// Whether an answer or a grant approved it.
    pub(crate) approved: bool,
    /// What its first attempt was started with.
    pub(crate) frozen: Option<Launched>,
    /// Whether the call that started it still waits. Once it does not, no second attempt follows.
    pub(crate) attended: bool,
    /// The end of a denied first attempt, while a second one is decided on or started.
    pub(crate) denied: Option<(Exit, Evidence)>,
}

impl Launch {
    /// What was granted on top of the session's profile.
    pub(crate) fn additional(&self) -> Option<&Additional> {
        match &self.permissions {
            Permissions::Additional(additional) if self.approved => Some(additional),
            Permissions::Additional(_) | Permissions::Default | Permissions::Escalated => None,
        }
    }

    /// What a grant must equal to spare the question about this start; nothing does if its words do not say what it is.
    pub(crate) fn key(&self, argv: &[String], cwd: &str, tty: bool) -> Option<GrantKey> {
        let assessment = self.assessment.as_ref().filter(|_| self.influences.is_empty())?;
        Some(GrantKey::Command {
            environment: LOCAL_ENVIRONMENT.to_owned(),
            executable: argv.first()?.clone(),
            canonical: assessment.canonical.clone(),
            cwd: cwd.to_owned(),
            tty,
            permissions: self.permissions.clone(),
            rules: assessment.fingerprint.clone(),
        })
    }
}
