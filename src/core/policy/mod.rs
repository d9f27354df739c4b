//! Who must approve a start, what a sandbox allows, and what a set of rules says of a command: data, and the questions
//! one may ask of it. What follows from all of it together is decided in [`crate::core::orchestrate`].

mod approval;
mod assessment;
mod network;
pub(crate) mod path;
mod profile;

pub use approval::{ApprovalPolicy, Granular};
pub use assessment::{Assessment, RuleDecision, RuleMatch, Segment};
pub use network::{Network, NetworkDecision, NetworkRule};
pub use profile::{Additional, Confinement, Files, Profile};

/// Policy and profile of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Who must approve.
    pub policy: ApprovalPolicy,
    /// Whether an automatic reviewer also sees what needs no approval.
    pub strict_review: bool,
    /// What a child may do.
    pub profile: Profile,
}

/// A right that this release cannot honour, and so refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// Approvals.
    #[error("approval policies other than `never` are not available yet; set the policy to `never`")]
    ApprovalPolicy,
    /// Strict automatic review.
    #[error("strict automatic review is not available yet; leave it off")]
    StrictReview,
    /// Sandboxes.
    #[error(
        "a sandbox is not available yet, and nothing runs with less than was asked for; \
         ask for the profile `full_access` with network `on` where that is acceptable"
    )]
    Sandbox,
    /// Escalation and extra permissions.
    #[error("sandbox permissions are not available yet; leave them at their default")]
    SandboxPermissions,
}

impl Rights {
    /// Everything, without questions: what this release can honour.
    pub const fn unrestricted() -> Self {
        Self { policy: ApprovalPolicy::Never, strict_review: false, profile: Profile::full_access() }
    }

    /// Refuses what cannot be honoured, so that nothing ever runs with less protection than asked for.
    pub fn check(&self) -> Result<(), Unsupported> {
        if self.policy != ApprovalPolicy::Never {
            return Err(Unsupported::ApprovalPolicy);
        }
        if self.strict_review {
            return Err(Unsupported::StrictReview);
        }
        if !self.profile.restricts_nothing() {
            return Err(Unsupported::Sandbox);
        }
        Ok(())
    }
}

impl Rights {
    /// The first thing, by its name on the wire, in which these rights go beyond `bound`.
    pub fn beyond(&self, bound: &Self) -> Option<&'static str> {
        if !self.policy.within(&bound.policy) {
            Some("approval_policy.mode")
        } else if bound.strict_review && !self.strict_review {
            Some("approval_policy.strict_review")
        } else if !self.profile.files.within(&bound.profile.files) {
            Some("sandbox.kind")
        } else if !self.profile.network.within(&bound.profile.network) {
            Some("sandbox.network")
        } else if !bound.profile.deny_read.iter().all(|path| self.profile.deny_read.contains(path)) {
            Some("sandbox.deny_read")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_honoured_passes() {
        assert_eq!(Rights::unrestricted().check(), Ok(()));
        let policy = Rights { policy: ApprovalPolicy::OnRequest, ..Rights::unrestricted() };
        assert_eq!(policy.check(), Err(Unsupported::ApprovalPolicy));
        let strict = Rights { strict_review: true, ..Rights::unrestricted() };
        assert_eq!(strict.check(), Err(Unsupported::StrictReview));
        for profile in [
            Profile { files: Files::ReadOnly, ..Profile::full_access() },
            Profile { network: Network::Off, ..Profile::full_access() },
            Profile { deny_read: vec!["/etc/shadow".into()], ..Profile::full_access() },
            Profile { files: Files::External, ..Profile::full_access() },
        ] {
            let rights = Rights { profile, ..Rights::unrestricted() };
            assert_eq!(rights.check(), Err(Unsupported::Sandbox), "{rights:?}");
        }
    }

    #[test]
    fn narrowing_is_within_and_widening_is_named() {
        let default = Rights {
            policy: ApprovalPolicy::OnRequest,
            strict_review: false,
            profile: Profile {
                files: Files::WorkspaceWrite {
                    writable_roots: vec!["/w".into()],
                    protected: vec![".git".into()],
                },
                network: Network::Off,
                deny_read: vec!["/secret".into()],
            },
        };
        let narrower = Rights {
            policy: ApprovalPolicy::Never,
            strict_review: true,
            profile: Profile { files: Files::ReadOnly, ..default.profile.clone() },
        };
        assert_eq!(default.beyond(&default), None);
        assert_eq!(narrower.beyond(&default), None);
        assert_eq!(default.beyond(&narrower), Some("approval_policy.mode"));
        assert_eq!(Rights::unrestricted().beyond(&default), Some("sandbox.kind"));
        assert_eq!(default.beyond(&Rights::unrestricted()), Some("approval_policy.mode"));
        let open = Rights {
            profile: Profile { network: Network::On, ..default.profile.clone() },
            ..default.clone()
        };
        assert_eq!(open.beyond(&default), Some("sandbox.network"));
        let reads = Rights {
            profile: Profile { deny_read: Vec::new(), ..default.profile.clone() },
            ..default.clone()
        };
        assert_eq!(reads.beyond(&default), Some("sandbox.deny_read"));
        let trusting = Rights { policy: ApprovalPolicy::UnlessTrusted, ..default.clone() };
        assert_eq!(
            narrower.beyond(&trusting),
            Some("approval_policy.mode"),
            "nobody would be asked any more"
        );
    }
}
