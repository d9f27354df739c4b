//! The promises about approvals, sandboxes and second attempts, written down anew: what a random life checks at every
//! effect, in the order in which they come.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::world::{Attempt, Child};
use crate::core::approval::{Approval, Permissions, Question, State, Subject, Verdict};
use crate::core::ids::{ApprovalId, ProcessId};
use crate::core::limits::EARLY_WINDOW;
use crate::core::policy::{ApprovalPolicy, Assessment, Files};
use crate::core::process::{ExitStatus, Process};
use crate::core::session::Session;
use crate::core::signal::Signal;

/// What a grant is for, where all commands and rules are the same: a place, a terminal, permissions.
type Granted = (String, bool, Permissions);

/// What has been asked and answered so far.
#[derive(Debug, Default)]
pub(super) struct Promises {
    /// Every question, in the order of its id.
    pub(super) asked: BTreeMap<ApprovalId, Arc<Question>>,
    pub(super) open: BTreeSet<ApprovalId>,
    /// Processes whose start was approved, and those whose retry was.
    started: BTreeSet<ProcessId>,
    retried: BTreeSet<ProcessId>,
    granted: BTreeSet<Granted>,
    /// Input that was approved and not yet written.
    tickets: BTreeMap<ProcessId, Arc<Question>>,
    /// How often somebody was asked about a start, and about a retry.
    counts: BTreeMap<ProcessId, [u32; 2]>,
}

impl Promises {
    /// Somebody is asked: only where the policy lets somebody be asked, and once for each reason.
    pub(super) fn on_ask(&mut self, session: &Session, question: Arc<Question>) {
        let may = match (&session.rights.policy, &question.subject) {
            (_, Subject::Command | Subject::Input { .. }) if question.strict => session.rights.strict_review,
            (ApprovalPolicy::Never, _) => false,
            (ApprovalPolicy::OnRequest | ApprovalPolicy::UnlessTrusted, _) => true,
            (ApprovalPolicy::Granular(may), Subject::Command) => may.rules || may.sandbox_approval,
            (ApprovalPolicy::Granular(may), Subject::Retry { .. }) => may.sandbox_approval,
            (ApprovalPolicy::Granular(may), Subject::Input { .. }) => may.stdin,
            (ApprovalPolicy::Granular(may), Subject::Connection { .. }) => may.network,
        };
        assert!(may, "{:?} lets nobody be asked: {question:?}", session.rights);
        let counts = self.counts.entry(question.process).or_default();
        match question.subject {
            Subject::Command => counts[0] += 1,
            Subject::Retry { .. } => counts[1] += 1,
            Subject::Input { .. } | Subject::Connection { .. } => {}
        }
        assert!(counts.iter().all(|count| *count <= 1), "asked twice for one reason: {question:?}");
        self.open.insert(question.id.clone());
        assert!(self.asked.insert(question.id.clone(), question).is_none(), "an id was drawn twice");
    }

    pub(super) fn on_unask(&mut self, approval: &ApprovalId) {
        assert!(self.open.remove(approval), "{approval} was closed twice");
    }

    /// A question is closed.
    pub(super) fn on_closed(&mut self, approval: &Approval) {
        let State::Decided(decision) = &approval.state else { return };
        let question = &approval.question;
        if !decision.verdict.approves() {
            return;
        }
        match &question.subject {
            Subject::Command => {
                self.started.insert(question.process);
                if decision.verdict == Verdict::ApproveForSession {
                    self.granted.insert((question.cwd.clone(), question.tty, question.permissions.clone()));
                }
            }
            Subject::Retry { .. } => drop(self.retried.insert(question.process)),
            Subject::Input { .. } => {
                self.tickets.insert(question.process, Arc::new(question.clone()));
            }
            Subject::Connection { .. } => {}
        }
    }

    /// An attempt without a sandbox has its approval, its rule, or its early denial.
    pub(super) fn on_first(&self, session: &Session, process: &Process, sandboxed: bool) {
        let profile = &session.rights.profile;
        let restricts = !profile.restricts_nothing() || session.owner_network.is_some();
        if sandboxed || !restricts || profile.files == Files::External {
            return;
        }
        let launch = &process.launch;
        let approved = self.started.contains(&process.id)
            || (!session.rights.strict_review && self.granted.contains(&granted(process)));
        let trusted = launch.assessment.as_ref().is_some_and(Assessment::is_trusted);
        assert!(trusted || (launch.permissions == Permissions::Escalated && approved), "{process:?}");
        assert!(profile.deny_read.is_empty() && session.owner_network.is_none(), "{process:?}");
    }

    pub(super) fn on_second(&self, session: &Session, id: ProcessId, child: &Child, sandboxed: bool) {
        let [first] = &child.attempts[..] else { panic!("a third attempt of {id}") };
        let (spawned_at, (status, at)) = (first.spawned_at.unwrap(), first.exited.unwrap());
        let sigsys = matches!(status, ExitStatus::Signal { number, .. } if number == Signal::SYS.number());
        assert!(first.sandboxed && sigsys && at.since(spawned_at) <= EARLY_WINDOW, "{id}: {first:?}");
        assert!(!sandboxed && !child.has_input && child.write.is_none(), "{id}: {child:?}");
        let wants = match &session.rights.policy {
            ApprovalPolicy::Never | ApprovalPolicy::OnRequest => false,
            ApprovalPolicy::UnlessTrusted => true,
            ApprovalPolicy::Granular(may) => may.sandbox_approval,
        };
        let bypass = session.rights.profile.deny_read.is_empty() && session.owner_network.is_none();
        assert!(wants && bypass, "{id} under {:?}", session.rights);
        let approved = self.started.contains(&id) || session.processes[&id].launch.approved;
        let looked = self.retried.contains(&id) || !session.rights.strict_review;
        assert!((approved || self.retried.contains(&id)) && looked, "nobody approved {id}");
    }

    /// Input goes only where its question is answered, and only what was approved, under the policy it was asked under.
    pub(super) fn on_write(&mut self, session: &Session, id: ProcessId, child: &Child, data: &[u8]) {
        let open = self.open.iter().map(|approval| &self.asked[approval]);
        let mut asked =
            open.filter(|asked| asked.process == id && matches!(asked.subject, Subject::Input { .. }));
        assert!(asked.next().is_none(), "{id} was written to past an open question");
        let ticket = self.tickets.remove(&id);
        let attempt: &Attempt = child.latest();
        let bypassed =
            !attempt.sandboxed && !child.base.restricts_nothing() && child.base.files != Files::External;
        let needed = bypassed || session.rights.strict_review || child.base != session.profile(None);
        if data.is_empty() || !needed {
            return;
        }
        let ticket = ticket.unwrap_or_else(|| panic!("{id} was written to without approval"));
        assert!(matches!(&ticket.subject, Subject::Input { input, .. } if input == data), "{ticket:?}");
        assert_eq!(ticket.policy_revision, session.policy_revision, "a stale ticket");
    }

    pub(super) fn on_forget(&mut self, id: ProcessId) {
        self.counts.remove(&id);
        self.tickets.remove(&id);
        self.started.remove(&id);
        self.retried.remove(&id);
    }
}

fn granted(process: &Process) -> Granted {
    (process.cwd.clone(), process.terminal.is_some(), process.launch.permissions.clone())
}
