//! What reviewers see and do on the bench, and rights under which they are asked.

use std::sync::Arc;

use super::bench::Bench;
use crate::core::approval::{Approval, Permissions, Question, Review, Verdict};
use crate::core::ids::{ApprovalId, AttemptNumber, CallId, ConnectionId, ProcessId};
use crate::core::policy::{
    ApprovalPolicy, Assessment, Files, Granular, Network, Profile, Rights, RuleDecision, RuleMatch, Segment,
};
use crate::core::session::*;
use crate::core::signal::Signal;

/// A sandbox that may write nothing and reach nothing, under this policy.
pub(super) const fn sandboxed(policy: ApprovalPolicy) -> Rights {
    let profile = Profile { files: Files::ReadOnly, network: Network::Off, deny_read: Vec::new() };
    Rights { policy, strict_review: false, profile }
}

/// Every question is asked of the automatic reviewer first.
pub(super) fn strict(rights: Rights) -> Rights {
    Rights { strict_review: true, ..rights }
}

/// Every kind of question may be asked.
pub(super) const fn granular() -> Granular {
    Granular { rules: true, sandbox_approval: true, network: true, stdin: true }
}

/// A command of one segment, of which a rule says this.
pub(super) fn ruled(decision: RuleDecision) -> Assessment {
    let rule = RuleMatch { decision, rule: "rules.toml:1: sleep".into(), justification: None };
    let segment = Segment { words: vec!["sleep".into()], rule: Some(rule), danger: None };
    Assessment { segments: vec![segment], canonical: vec!["sleep".into()], fingerprint: "r1".into() }
}

impl Exec {
    pub(super) fn asks_for(mut self, permissions: Permissions) -> Self {
        self.permissions = permissions;
        self
    }
}

impl Bench {
    /// Every question so far.
    pub(super) fn questions(&self) -> Vec<Arc<Question>> {
        let asked = self.effects.iter().filter_map(|(_, effect)| match effect {
            Effect::Ask { question } => Some(Arc::clone(question)),
            _ => None,
        });
        asked.collect()
    }

    /// The last question.
    pub(super) fn question(&self) -> Arc<Question> {
        self.questions().pop().expect("somebody was asked")
    }

    /// How many questions are open.
    pub(super) fn open(&self) -> usize {
        self.session.view().open_questions
    }

    pub(super) fn decide(&mut self, approval: &ApprovalId, verdict: Verdict) -> CallId {
        self.decide_with(approval, verdict, "", &[])
    }

    pub(super) fn decide_with(
        &mut self,
        approval: &ApprovalId,
        verdict: Verdict,
        text: &str,
        rule: &[&str],
    ) -> CallId {
        let rule = rule.iter().map(|word| (*word).to_owned()).collect();
        let approval = approval.clone();
        self.call(Call::Decide(Decide { approval, verdict, text: text.into(), rule, by: "alice".into() }))
    }

    /// Answers the last question, which is open.
    pub(super) fn answers_with(&mut self, verdict: Verdict) {
        let call = self.decide(&self.question().id.clone(), verdict);
        assert!(self.decided(call).is_ok(), "{:?}", self.decided(call));
    }

    pub(super) fn approves(&mut self) {
        self.answers_with(Verdict::Approve);
    }

    /// Approves the last question, open or not.
    pub(super) fn decides_any(&mut self) {
        self.decide(&self.question().id.clone(), Verdict::Approve);
    }

    pub(super) fn declines(&mut self) {
        self.answers_with(Verdict::Decline);
    }

    pub(super) fn decided(&self, call: CallId) -> Result<&Approval, &DecideError> {
        match self.answer(call) {
            Answer::Decided(decided) => decided.as_ref().map(|approval| &**approval),
            other => panic!("{call:?} was answered {other:?}"),
        }
    }

    /// The automatic reviewer says so about the last question.
    pub(super) fn reviews(&mut self, review: Review) {
        let approval = self.question().id.clone();
        self.event(Event::Reviewed { approval, review });
    }

    /// Changes policy and profile.
    pub(super) fn rights(&mut self, rights: Rights) {
        let call = self.call(Call::Update(Update { rights: Some(rights), ..Update::default() }));
        assert!(matches!(self.answer(call), Answer::Updated(Ok(_))), "{:?}", self.answer(call));
    }

    /// A start that is asked about, and the process that it would become.
    pub(super) fn asked(&mut self, exec: Exec) -> (CallId, ProcessId) {
        let before = self.questions().len();
        let call = self.exec(exec);
        assert_eq!(self.questions().len(), before + 1, "{:?}", self.answers(call));
        (call, self.question().process)
    }

    /// A start that is asked about, approved, and runs.
    pub(super) fn approved(&mut self, exec: Exec) -> (CallId, ProcessId) {
        let (call, process) = self.asked(exec);
        self.approves();
        self.spawned(process);
        (call, process)
    }

    /// The sandbox kills it for a system call, and its output ends.
    pub(super) fn is_denied(&mut self, process: ProcessId) {
        self.dies_of(process, Signal::SYS);
        self.closed(process, 0);
    }

    /// Under what the attempt was started that was asked for last.
    pub(super) fn sandbox(&self, process: ProcessId) -> Option<Profile> {
        let plan = self.effects.iter().rev().find_map(|(_, effect)| match effect {
            Effect::Spawn { process: of, plan, .. } if *of == process => Some(plan.clone()),
            _ => None,
        });
        plan.expect("it was started").sandbox
    }

    /// Output of an attempt that may not be the last.
    pub(super) fn output_of(&mut self, process: ProcessId, attempt: AttemptNumber, end: u64) {
        self.event(Event::Output { process, attempt, end });
    }

    /// An attempt that may not be the last, and all its descendants, are gone.
    pub(super) fn tree_gone_of(&mut self, process: ProcessId, attempt: AttemptNumber) {
        self.event(Event::TreeGone { process, attempt });
    }

    /// The process wants to connect there.
    pub(super) fn connects(&mut self, process: ProcessId, connection: u64, host: &str) {
        let (connection, host) = (ConnectionId(connection), host.to_owned());
        self.event(Event::Connecting { process, connection, host, port: 443 });
    }

    /// What a connection was told; `None` is nothing yet.
    pub(super) fn connected(&self, connection: u64) -> Option<Result<(), ConnectionRefused>> {
        let mut told = self.effects.iter().filter_map(|(_, effect)| match effect {
            Effect::Connect { connection: to, answer } if to.0 == connection => {
                Some(answer.clone().map(drop))
            }
            _ => None,
        });
        let first = told.next();
        assert_eq!(told.next(), None, "a connection is answered once");
        first
    }

    /// Why a start was not approved.
    pub(super) fn refusal(&self, call: CallId) -> &NotApproved {
        match self.start_error(call) {
            StartError::NotApproved(why) => why,
            other => panic!("{other:?}"),
        }
    }

    /// Nothing of a start is left, and nothing ever ran.
    pub(super) fn assert_nothing_of(&mut self, process: ProcessId) {
        assert_eq!((self.spawns(), self.open(), self.state(process)), (0, 0, None));
        assert!(self.session.processes.is_empty() && self.session.requests.is_empty());
        assert_eq!(self.session.next_deadline(), None, "a timer is left behind");
    }
}

/// Everything is asked about.
pub(super) fn wary() -> Bench {
    Bench::of(sandboxed(ApprovalPolicy::UnlessTrusted))
}

/// A first attempt is asked about; a second one then is not.
pub(super) fn retries_silently() -> Bench {
    Bench::of(sandboxed(ApprovalPolicy::UnlessTrusted))
}

/// The denial was surfaced: its result carries evidence and no process, and its end was told once.
pub(super) fn assert_surfaced(bench: &Bench, call: CallId) {
    let result = bench.result(call);
    assert_eq!((result.end, result.live_process()), (WaitEnd::Exited, None));
    assert!(result.evidence.is_some(), "{result:?}");
    assert_eq!((result.attempts.len(), bench.told("process_exited").len()), (1, 1));
    assert_eq!((bench.spawns(), bench.told("attempt_denied").len()), (1, 0));
}
