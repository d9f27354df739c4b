//! The whole product of what decides about a start, against tables written from the specification's words alone.

use super::bench::{Bench, shell};
use crate::core::approval::{Permissions, Subject, Verdict};
use crate::core::ids::{AttemptNumber, CallId, ProcessId};
use crate::core::limits::Limits;
use crate::core::policy::{
    ApprovalPolicy, Confinement, Files, Granular, Network, NetworkDecision, NetworkRule, Profile, Rights,
    RuleDecision, RuleMatch,
};
use crate::core::process::ExitStatus;
use crate::core::session::*;
use crate::core::signal::Signal;
use crate::core::spawn::Enforced;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Policy {
    Never,
    OnRequest,
    UnlessTrusted,
    Granular { rules: bool, sandbox: bool },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    ReadOnly,
    Workspace,
    Full,
    External,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Net {
    Off,
    On,
    Proxied,
}

/// What the rules and the recognition of dangerous commands say.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Said {
    Nothing,
    Danger,
    Allow,
    Prompt,
    Forbidden,
}

/// How the first attempt ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    Well,
    DeniedEarly,
    DeniedLate,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    policy: Policy,
    kind: Kind,
    net: Net,
    deny_read: bool,
    strict: bool,
    said: Said,
    escalates: bool,
    owner_network: bool,
    approves: bool,
    ends: Ends,
}

/// What can be seen from outside, in order.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    /// A question before the first attempt.
    Asked,
    /// A review that strict review alone wants.
    Reviewed,
    /// A question about a second attempt.
    AskedToRetry,
    Refused,
    Sandboxed,
    Unsandboxed,
    External,
    /// The result, without evidence.
    Ended,
    /// The result, with evidence of a denial.
    Denied {
        early: bool,
    },
}

// The tables.

impl Case {
    /// Section 5, requirement: whether a question of the kind "command outside its sandbox" may be put at all.
    fn may_ask_for_more(&self) -> bool {
        match self.policy {
            Policy::Never | Policy::Granular { sandbox: false, .. } => false,
            Policy::OnRequest | Policy::UnlessTrusted | Policy::Granular { sandbox: true, .. } => true,
        }
    }

    /// `None` is Skip; else whether the question may be put.
    fn question(&self) -> Option<bool> {
        let restricts = match (self.kind, self.net) {
            (Kind::External, _) => false,
            (Kind::Full, Net::On) => self.deny_read,
            _ => true,
        };
        if self.escalates && !self.may_ask_for_more() {
            return Some(false);
        }
        match (self.said, self.policy) {
            (Said::Forbidden, _) => Some(false),
            (Said::Prompt, Policy::Never | Policy::Granular { rules: false, .. }) => Some(false),
            (Said::Prompt, _) => Some(true),
            (Said::Allow, _) => None,
            (Said::Danger, _) => Some(self.may_ask_for_more()),
            (Said::Nothing, Policy::Never) => None,
            (Said::Nothing, Policy::UnlessTrusted) => Some(true),
            (Said::Nothing, Policy::OnRequest | Policy::Granular { .. }) => {
                (self.escalates && restricts).then_some(true)
            }
        }
    }

    /// Section 5, first sandbox.
    fn first(&self, asked: bool) -> Seen {
        let unrestricted = self.kind == Kind::Full && self.net == Net::On && !self.deny_read;
        let set_free = self.said == Said::Allow || (self.escalates && asked);
        match self.kind {
            Kind::External => Seen::External,
            _ if unrestricted && !self.owner_network => Seen::Unsandboxed,
            _ if set_free && !self.deny_read && !self.owner_network => Seen::Unsandboxed,
            _ => Seen::Sandboxed,
        }
    }

    /// The policy table: what an early denial under a sandbox leads to. `None` is surface.
    fn retry(&self, approved: bool) -> Option<&'static [Seen]> {
        if self.deny_read || self.owner_network {
            return None;
        }
        match self.policy {
            Policy::Never | Policy::OnRequest | Policy::Granular { sandbox: false, .. } => None,
            Policy::UnlessTrusted | Policy::Granular { sandbox: true, .. } if self.strict => {
                Some(&[Seen::AskedToRetry])
            }
            Policy::UnlessTrusted | Policy::Granular { sandbox: true, .. } if approved => Some(&[]),
            Policy::UnlessTrusted | Policy::Granular { sandbox: true, .. } => Some(&[Seen::AskedToRetry]),
        }
    }

    fn expected(&self) -> Vec<Seen> {
        let asked = match self.question() {
            Some(false) => return vec![Seen::Refused],
            Some(true) => Some(Seen::Asked),
            None => self.strict.then_some(Seen::Reviewed),
        };
        let mut seen: Vec<Seen> = asked.into_iter().collect();
        if asked.is_some() && !self.approves {
            return [seen, vec![Seen::Refused]].concat();
        }
        let first = self.first(asked == Some(Seen::Asked));
        seen.push(first);
        let early = match (self.ends, first) {
            (Ends::DeniedEarly, Seen::Sandboxed) => true,
            (Ends::DeniedLate, Seen::Sandboxed) => false,
            _ => return [seen, vec![Seen::Ended]].concat(),
        };
        match self.retry(asked.is_some()).filter(|_| early) {
            None => seen.push(Seen::Denied { early }),
            Some(question) => {
                seen.extend(question);
                let answered = question.is_empty() || self.approves;
                seen.extend(if answered {
                    vec![Seen::Unsandboxed, Seen::Ended]
                } else {
                    vec![Seen::Denied { early }]
                });
            }
        }
        seen
    }
}

// The same, played.

impl Case {
    fn rights(&self) -> Rights {
        let policy = match self.policy {
            Policy::Never => ApprovalPolicy::Never,
            Policy::OnRequest => ApprovalPolicy::OnRequest,
            Policy::UnlessTrusted => ApprovalPolicy::UnlessTrusted,
            Policy::Granular { rules, sandbox } => ApprovalPolicy::Granular(Granular {
                rules,
                sandbox_approval: sandbox,
                network: false,
                stdin: false,
            }),
        };
        let files = match self.kind {
            Kind::ReadOnly => Files::ReadOnly,
            Kind::Workspace => Files::WorkspaceWrite { writable_roots: Vec::new(), protected: Vec::new() },
            Kind::Full => Files::FullAccess,
            Kind::External => Files::External,
        };
        let network = match self.net {
            Net::Off => Network::Off,
            Net::On => Network::On,
            Net::Proxied => Network::Proxied { rules: Vec::new() },
        };
        let deny_read = if self.deny_read { vec!["/secret".to_owned()] } else { Vec::new() };
        Rights { policy, strict_review: self.strict, profile: Profile { files, network, deny_read } }
    }

    fn observed(&self) -> Vec<Seen> {
        let mut bench = Bench::built(self.rights(), Limits::default(), true);
        if self.owner_network {
            let rule = NetworkRule { host: "*".into(), ports: Vec::new(), decision: NetworkDecision::Allow };
            bench.event(Event::OwnerNetwork { rules: Some(vec![rule]) });
        }
        let segment = &mut bench.assessment.segments[0];
        segment.danger = (self.said == Said::Danger).then(|| "rm -rf".to_owned());
        let decision = match self.said {
            Said::Nothing | Said::Danger => None,
            Said::Allow => Some(RuleDecision::Allow),
            Said::Prompt => Some(RuleDecision::Prompt),
            Said::Forbidden => Some(RuleDecision::Forbidden),
        };
        segment.rule = decision.map(|decision| RuleMatch { decision, rule: "r".into(), justification: None });
        let permissions = if self.escalates { Permissions::Escalated } else { Permissions::Default };
        let call = bench.exec(Exec { permissions, ..shell() });
        let mut seen = Vec::new();
        let mut at = 0;
        let mut attempts = 0;
        // Whatever the session wants of the world is given to it, in order.
        while let Some((_, effect)) = bench.effects.get(at) {
            at += 1;
            match effect.clone() {
                Effect::Ask { question } => {
                    seen.push(match (&question.subject, question.strict) {
                        (Subject::Retry { .. }, _) => Seen::AskedToRetry,
                        (_, true) => Seen::Reviewed,
                        (_, false) => Seen::Asked,
                    });
                    let verdict = if self.approves { Verdict::Approve } else { Verdict::Decline };
                    let (text, by) = (String::new(), "somebody".to_owned());
                    let approval = question.id.clone();
                    bench.call(Call::Decide(Decide { approval, verdict, text, rule: Vec::new(), by }));
                }
                Effect::Spawn { process, attempt, .. } => {
                    attempts += 1;
                    self.runs(&mut bench, process, attempt);
                }
                Effect::Publish(FeedEvent { kind: FeedKind::AttemptStarted { attempt, .. }, .. }) => {
                    seen.push(match attempt.confinement {
                        Confinement::Profile(_) => Seen::Sandboxed,
                        Confinement::Unrestricted | Confinement::Bypassed => Seen::Unsandboxed,
                        Confinement::External => Seen::External,
                    });
                }
                _ => {}
            }
        }
        assert!(attempts <= 2, "{attempts} attempts");
        seen.push(outcome(&bench, call));
        seen
    }

    /// An attempt starts and ends; a second one ends well.
    fn runs(&self, bench: &mut Bench, process: ProcessId, attempt: AttemptNumber) {
        let enforced = Enforced::default();
        bench.event(Event::Spawned { process, attempt, pid: Some(7), enforced, at: bench.now });
        let ends = if attempt == AttemptNumber::FIRST { self.ends } else { Ends::Well };
        if ends == Ends::DeniedLate {
            bench.advance(151);
        }
        let status = match ends {
            Ends::Well => ExitStatus::Code(0),
            Ends::DeniedEarly | Ends::DeniedLate => {
                ExitStatus::Signal { number: Signal::SYS.number(), core_dumped: false }
            }
        };
        let at = bench.now;
        bench.event(Event::Exited { process, attempt, status, usage: None, out_of_memory: false, at });
        bench.event(Event::Closed { process, attempt, end: 0 });
    }
}

fn outcome(bench: &Bench, call: CallId) -> Seen {
    match bench.answer(call) {
        Answer::Exec(Ok(result)) => match &result.evidence {
            Some(evidence) => Seen::Denied { early: evidence.early },
            None => Seen::Ended,
        },
        Answer::Exec(Err(StartError::Forbidden(_) | StartError::NotApproved(_))) => Seen::Refused,
        other => panic!("{other:?}"),
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let granular = |rules, sandbox| Policy::Granular { rules, sandbox };
    let policies = [
        Policy::Never,
        Policy::OnRequest,
        Policy::UnlessTrusted,
        granular(false, false),
        granular(false, true),
        granular(true, false),
        granular(true, true),
    ];
    let both = [false, true];
    for policy in policies {
        for kind in [Kind::ReadOnly, Kind::Workspace, Kind::Full, Kind::External] {
            for net in [Net::Off, Net::On, Net::Proxied] {
                for said in [Said::Nothing, Said::Danger, Said::Allow, Said::Prompt, Said::Forbidden] {
                    for ends in [Ends::Well, Ends::DeniedEarly, Ends::DeniedLate] {
                        for flags in 0..32_usize {
                            let flag = |bit: usize| both[flags >> bit & 1];
                            cases.push(Case {
                                policy,
                                kind,
                                net,
                                said,
                                ends,
                                deny_read: flag(0),
                                strict: flag(1),
                                escalates: flag(2),
                                owner_network: flag(3),
                                approves: flag(4),
                            });
                        }
                    }
                }
            }
        }
    }
    cases
}

#[test]
fn every_start_does_what_the_tables_say() {
    let cases = cases();
    assert_eq!(cases.len(), 40_320);
    let wrong: Vec<_> = cases
        .into_iter()
        .map(|case| (case, case.expected(), case.observed()))
        .filter(|(_, expected, observed)| expected != observed)
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of 40 320 differ; the first: {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(3)]
    );
}
