//! What a command needs before it may start.

use super::confine::can_bypass;
use crate::core::approval::Permissions;
use crate::core::policy::{ApprovalPolicy, Assessment, Files, Granular, Rights, RuleDecision, Segment};

/// What a command needs before it may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// It may not.
    Forbidden(Forbidden),
    /// Somebody must approve.
    NeedsApproval(Reason),
    /// Policy needs no approval; strict review sees it all the same.
    Review,
    /// Nothing. It bypasses the sandbox only if [`Assessment::is_trusted`].
    Skip,
}

/// Why a command may not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// A rule says so.
    #[error("{rule} forbids it{}", because(.justification.as_deref()))]
    Rule {
        /// Which.
        rule: String,
        /// Its author's words.
        justification: Option<String>,
    },
    /// A rule wants a question, and the policy lets nobody be asked.
    #[error("{rule} wants it approved, and the session's approval policy lets nobody be asked")]
    RulePrompt {
        /// Which.
        rule: String,
    },
    /// It is dangerous, and the policy lets nobody be asked.
    #[error(
        "it is dangerous ({danger}), and the session's approval policy lets nobody be asked; \
         a rule can allow it"
    )]
    Danger {
        /// What makes it so.
        danger: String,
    },
    /// It asks for more than its profile, and the policy rejects such questions.
    #[error("more than the session's profile was asked for, and its approval policy rejects such questions")]
    Escalation,
}

fn because(justification: Option<&str>) -> String {
    justification.map(|words| format!(": {words}")).unwrap_or_default()
}

/// Why somebody is asked; a later one is the more telling one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Reason {
    /// No rule trusts it, and the policy wants a rule or an answer.
    #[error("no rule allows it")]
    Untrusted,
    /// It asks for more than its profile.
    #[error("it asks for more than the session's profile")]
    Escalation,
    /// It is dangerous.
    #[error("it is dangerous: {danger}")]
    Danger {
        /// What makes it so.
        danger: String,
    },
    /// A rule wants it.
    #[error("{rule} wants it approved")]
    Rule {
        /// Which.
        rule: String,
    },
}

/// What one segment needs; a later one is stricter.
enum Needs {
    Nothing,
    Approval(Reason),
    Refusal(Forbidden),
}

/// What a command needs, by what the rules say of it and what its session's rights are. The strictest segment decides.
///
/// Where more than the profile is asked for, and the policy rejects such questions, the command is forbidden whatever the
/// rules say of it, also where the profile restricts nothing. A rule trusts a command and not what is asked for on top of
/// the profile: grants need an answer also for a trusted line, unless its sandbox is left aside anyway. Questions about
/// danger go by the flag of those about the sandbox, for no rule led to them.
pub fn requirement(
    rights: &Rights,
    assessment: &Assessment,
    permissions: &Permissions,
    owner_network: bool,
) -> Requirement {
    if *permissions != Permissions::Default && !allows(&rights.policy, |granular| granular.sandbox_approval) {
        // A rule's own refusal tells more.
        let by_rule = assessment.segments.iter().find_map(forbidden_by_rule);
        return Requirement::Forbidden(by_rule.unwrap_or(Forbidden::Escalation));
    }
    let mut reason = None;
    let mut refusal = None;
    for segment in &assessment.segments {
        match needs(rights, segment, permissions) {
            Needs::Nothing => {}
            Needs::Approval(why) => reason = reason.max(Some(why)),
            Needs::Refusal(why) => refusal = refusal.or(Some(why)),
        }
    }
    if let Permissions::Additional(_) = permissions
        && assessment.is_trusted()
        && is_restricted(rights)
        && !can_bypass(&rights.profile, owner_network)
    {
        reason = Some(Reason::Escalation);
    }
    match (refusal, reason) {
        (Some(why), _) => Requirement::Forbidden(why),
        (None, Some(why)) => Requirement::NeedsApproval(why),
        (None, None) if rights.strict_review => Requirement::Review,
        (None, None) => Requirement::Skip,
    }
}

fn forbidden_by_rule(segment: &Segment) -> Option<Forbidden> {
    let rule = segment.rule.as_ref().filter(|rule| rule.decision == RuleDecision::Forbidden)?;
    Some(Forbidden::Rule { rule: rule.rule.clone(), justification: rule.justification.clone() })
}

fn needs(rights: &Rights, segment: &Segment, permissions: &Permissions) -> Needs {
    let policy = &rights.policy;
    if let Some(rule) = &segment.rule {
        let name = rule.rule.clone();
        return match rule.decision {
            RuleDecision::Forbidden => {
                Needs::Refusal(Forbidden::Rule { rule: name, justification: rule.justification.clone() })
            }
            RuleDecision::Prompt if allows(policy, |granular| granular.rules) => {
                Needs::Approval(Reason::Rule { rule: name })
            }
            RuleDecision::Prompt => Needs::Refusal(Forbidden::RulePrompt { rule: name }),
            RuleDecision::Allow => Needs::Nothing,
        };
    }
    if let Some(danger) = &segment.danger {
        let danger = danger.clone();
        return if allows(policy, |granular| granular.sandbox_approval) {
            Needs::Approval(Reason::Danger { danger })
        } else {
            Needs::Refusal(Forbidden::Danger { danger })
        };
    }
    let escalates = *permissions != Permissions::Default && is_restricted(rights);
    match policy {
        ApprovalPolicy::Never => Needs::Nothing,
        ApprovalPolicy::UnlessTrusted if escalates => Needs::Approval(Reason::Escalation),
        ApprovalPolicy::UnlessTrusted => Needs::Approval(Reason::Untrusted),
        ApprovalPolicy::OnRequest | ApprovalPolicy::Granular(_) if escalates => {
            Needs::Approval(Reason::Escalation)
        }
        ApprovalPolicy::OnRequest | ApprovalPolicy::Granular(_) => Needs::Nothing,
    }
}

/// Whether there is anything here that an escalation could leave aside.
fn is_restricted(rights: &Rights) -> bool {
    !rights.profile.restricts_nothing() && rights.profile.files != Files::External
}

/// Whether a policy lets questions be asked: Granular by the flag of their kind, Never none.
pub(crate) fn allows(policy: &ApprovalPolicy, kind: impl Fn(&Granular) -> bool) -> bool {
    match policy {
        ApprovalPolicy::Never => false,
        ApprovalPolicy::OnRequest | ApprovalPolicy::UnlessTrusted => true,
        ApprovalPolicy::Granular(granular) => kind(granular),
    }
}
