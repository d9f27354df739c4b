//! Whether input to a live process must be reviewed: what was frozen at its launch against the policy now.

use super::requirement::allows;
use crate::core::approval::Permissions;
use crate::core::policy::{Additional, Confinement, NetworkRule, Profile, Rights};

/// What was frozen when a process was launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Under what its attempt runs.
    pub confinement: Confinement,
    /// The session's profile then, with its roots.
    pub base: Profile,
    /// What it was granted on top.
    pub additional: Option<Additional>,
    /// The owner's network policy then.
    pub owner_network: Option<Vec<NetworkRule>>,
}

/// What input needs before it is delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputReview {
    /// Nothing.
    Skip,
    /// Somebody must approve it, as if the process were started now with these permissions.
    Review {
        /// Which.
        permissions: Permissions,
        /// Whether only strict review wants it.
        strict: bool,
    },
    /// The policy rejects the question that it needs.
    Forbidden,
    /// It may not be delivered at all; a new process can get it.
    Refused(NewTerminal),
}

/// Why a process gets no more input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NewTerminal {
    /// The owner's network policy is another one than at its launch.
    #[error("the owner's network policy has changed since it was launched")]
    OwnerNetwork,
    /// It runs without a sandbox, and there is an owner's network policy.
    #[error("it runs without a sandbox, and the owner has a network policy")]
    Unsandboxed,
    /// Paths that may not be read now were readable at its launch.
    #[error("paths may not be read now that it can read")]
    DenyRead,
}

/// Compares what was frozen with the rights now. `base` is the session's profile now, with its roots. The first row that
/// matches decides.
///
/// A path of `deny_read` is new if the session did not have it at the launch: one that an approved grant made an exception
/// of, or that somebody else's sandbox answers for, was known then, and no new terminal would be stricter. The review that
/// only strict review wants is the automatic reviewer's, which every policy has; the others are questions.
pub fn input_review(
    launched: &Launched,
    rights: &Rights,
    base: &Profile,
    owner_network: Option<&[NetworkRule]>,
) -> InputReview {
    let unsandboxed = launched.confinement == Confinement::Bypassed;
    if unsandboxed && owner_network.is_some() {
        return InputReview::Refused(NewTerminal::Unsandboxed);
    }
    if launched.owner_network.as_deref() != owner_network {
        return InputReview::Refused(NewTerminal::OwnerNetwork);
    }
    let enforced = launched.confinement.profile().map_or(&[][..], |profile| &profile.deny_read);
    let known = |path| enforced.contains(path) || (!unsandboxed && launched.base.deny_read.contains(path));
    if !base.deny_read.iter().all(known) {
        return InputReview::Refused(NewTerminal::DenyRead);
    }
    let permissions = if unsandboxed || *base != launched.base {
        Permissions::Escalated
    } else if let Some(additional) = &launched.additional {
        Permissions::Additional(additional.clone())
    } else if rights.strict_review {
        return InputReview::Review { permissions: Permissions::Default, strict: true };
    } else {
        return InputReview::Skip;
    };
    if allows(&rights.policy, |granular| granular.stdin) {
        InputReview::Review { permissions, strict: false }
    } else {
        InputReview::Forbidden
    }
}
