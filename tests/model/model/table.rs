//! The tables of the specification: who must approve, under what a command runs, whether a denial is tried again, and
//! whether input is reviewed.

use crate::picture::Held;
use crate::step::{Command, Policy, Profile};

/// What a start needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    Question,
    Refusal,
}

/// Kinds of questions that `Granular` tells apart.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Rules,
    Sandbox,
    Stdin,
}

/// Whether a policy rejects questions of a kind.
fn rejects(policy: Policy, kind: Kind) -> bool {
    match (policy, kind) {
        (Policy::Never, _) => true,
        (Policy::OnRequest | Policy::UnlessTrusted, _) => false,
        (Policy::Granular { rules, .. }, Kind::Rules) => !rules,
        (Policy::Granular { sandbox, .. }, Kind::Sandbox) => !sandbox,
        (Policy::Granular { stdin, .. }, Kind::Stdin) => !stdin,
    }
}

pub(crate) fn requirement(policy: Policy, profile: Profile, command: Command, escalated: bool) -> Need {
    let question = |kind| if rejects(policy, kind) { Need::Refusal } else { Need::Question };
    if escalated && rejects(policy, Kind::Sandbox) {
        return Need::Refusal;
    }
    let restricts = matches!(profile, Profile::ReadOnly | Profile::DenyRead);
    match command {
        Command::Forbidden => Need::Refusal,
        Command::Prompted => question(Kind::Rules),
        Command::Allowed => Need::Nothing,
        Command::Dangerous => question(Kind::Sandbox),
        Command::Plain => match policy {
            Policy::Never => Need::Nothing,
            Policy::UnlessTrusted => Need::Question,
            Policy::OnRequest | Policy::Granular { .. } if escalated && restricts => Need::Question,
            Policy::OnRequest | Policy::Granular { .. } => Need::Nothing,
        },
    }
}

pub(crate) fn first_sandbox(profile: Profile, trusted: bool, escalation_approved: bool) -> Held {
    match profile {
        Profile::External => Held::External,
        Profile::Full => Held::Free,
        Profile::ReadOnly if trusted || escalation_approved => Held::Bypassed,
        Profile::ReadOnly | Profile::DenyRead => Held::Sandboxed,
    }
}

/// What becomes of a denial in the window, once it could be tried again at all.
pub(crate) fn second_attempt(policy: Policy, frozen: Profile, now: Profile, approved: bool) -> Need {
    let wanted = match policy {
        Policy::UnlessTrusted => true,
        Policy::Granular { sandbox, .. } => sandbox,
        Policy::Never | Policy::OnRequest => false,
    };
    if !wanted || frozen == Profile::DenyRead || now == Profile::DenyRead {
        Need::Refusal
    } else if approved {
        Need::Nothing
    } else {
        Need::Question
    }
}

/// What input needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Review {
    Nothing,
    Question,
    /// The policy lets nobody be asked.
    Forbidden,
    NewTerminal,
}

/// `frozen` is the session's profile when the process was launched.
pub(crate) fn input(policy: Policy, held: Held, frozen: Profile, now: Profile) -> Review {
    let bypassed = held == Held::Bypassed;
    if now == Profile::DenyRead && (bypassed || frozen != Profile::DenyRead) {
        Review::NewTerminal
    } else if !bypassed && frozen == now {
        Review::Nothing
    } else if rejects(policy, Kind::Stdin) {
        Review::Forbidden
    } else {
        Review::Question
    }
}
