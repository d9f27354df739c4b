//! Whether a denied attempt is tried once more without a sandbox: five gates, in order.

use super::confine::can_bypass;
use super::requirement::allows;
use crate::core::policy::{ApprovalPolicy, Profile, Rights};

/// A first attempt that ended inside the early window, with evidence that its sandbox refused it something.
#[derive(Clone, Copy, Debug)]
pub struct Denial<'a> {
    /// The session's rights as they are now.
    pub rights: &'a Rights,
    /// The profile that the attempt ran under.
    pub frozen: &'a Profile,
    /// Whether an owner's network policy exists.
    pub owner_network: bool,
    /// Whether the first attempt had been approved, by an answer or a grant.
    pub approved: bool,
    /// Whether it can be tried again at all: its kind of tool escalates, its call still waits, and it has taken no input.
    pub retriable: bool,
}

/// A gate that did not let a second attempt pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// G1: it cannot be tried again: its kind of tool does not escalate, nobody waits for it, or it has taken input.
    Tool,
    /// G2: the policy wants no retries.
    Policy,
    /// G3: there are paths that may not be read, or the owner has a network policy.
    Bypass,
}

/// What becomes of a denied attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterDenial {
    /// The denial is the result, with its output; this gate stopped it.
    Surface(Gate),
    /// A second attempt, without a question.
    Retry,
    /// A second attempt, if somebody approves.
    Ask,
    /// A second attempt, if a fresh review approves.
    Review,
}

/// Walks the gates. G5 has no failure of its own: the second attempt has no sandbox.
pub fn after_denial(denial: &Denial<'_>) -> AfterDenial {
    if !denial.retriable {
        return AfterDenial::Surface(Gate::Tool);
    }
    if !wants_retries(&denial.rights.policy) {
        return AfterDenial::Surface(Gate::Policy);
    }
    let bypassable = |profile| can_bypass(profile, denial.owner_network);
    if !bypassable(denial.frozen) || !bypassable(&denial.rights.profile) {
        return AfterDenial::Surface(Gate::Bypass);
    }
    match (denial.rights.strict_review, denial.approved) {
        (true, _) => AfterDenial::Review,
        (false, true) => AfterDenial::Retry,
        (false, false) => AfterDenial::Ask,
    }
}

/// G2. `OnRequest` wants none: its caller may ask again for an escalation.
fn wants_retries(policy: &ApprovalPolicy) -> bool {
    match policy {
        ApprovalPolicy::Never | ApprovalPolicy::OnRequest => false,
        ApprovalPolicy::UnlessTrusted => true,
        ApprovalPolicy::Granular(_) => allows(policy, |granular| granular.sandbox_approval),
    }
}
