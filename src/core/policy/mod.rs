//! Who must approve a start, what a sandbox allows, and what a set of rules says of a command: data, and the questions
//! one may ask of it. What follows from all of it together is decided in [`crate::core::orchestrate`].

mod approval;
mod assessment;
mod breadth;
mod danger;
mod network;
pub(crate) mod path;
mod profile;
mod reach;
mod rules;
#[cfg(test)]
pub(crate) mod strategies;

pub use approval::{ApprovalPolicy, Granular};
pub use assessment::{Assessment, RuleDecision, RuleMatch, Segment};
pub use breadth::too_broad;
pub use danger::danger;
pub use network::{
    Egress, EgressError, Host, HostError, HostPattern, HostPatternError, NAME_BYTES_MAX, Network,
    NetworkDecision, NetworkRule,
};
pub use profile::{Additional, Confinement, Files, Profile};
pub use reach::{Reached, is_shell, reach};
pub use rules::{Layer, PrefixRule, STANDARD_DIRECTORIES, base_name, stands_for, strictest};

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

/// Strict review was asked for, and there is nobody who could do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strict review needs an automatic reviewer, and none is configured; leave it off, or configure one")]
pub struct ReviewerMissing;

impl Rights {
    /// Everything, without questions.
    pub const fn unrestricted() -> Self {
        Self { policy: ApprovalPolicy::Never, strict_review: false, profile: Profile::full_access() }
    }

    /// Refuses what can never be honoured here.
    pub const fn check(&self, automatic_reviewer: bool) -> Result<(), ReviewerMissing> {
        if self.strict_review && !automatic_reviewer { Err(ReviewerMissing) } else { Ok(()) }
    }
}

impl Rights {
    /// These rights with the directory that empty roots of the profile mean.
    #[must_use]
    pub fn in_directory(self, cwd: &str) -> Self {
        Self { profile: self.profile.in_directory(cwd), ..self }
    }

    /// The first thing, by its name on the wire, in which these rights go beyond `bound`. Both have the directories that
    /// empty roots mean, see [`Self::in_directory`]. Paths are compared as they stand.
    pub fn beyond(&self, bound: &Self) -> Option<&'static str> {
        if !self.policy.within(&bound.policy) {
            Some("approval_policy.mode")
        } else if bound.strict_review && !self.strict_review {
            Some("approval_policy.strict_review")
        } else if let Some(field) = self.profile.files.beyond(&bound.profile.files) {
            Some(field)
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
    fn strict_review_needs_a_reviewer() {
        let strict = Rights { strict_review: true, ..Rights::unrestricted() };
        assert_eq!(strict.check(false), Err(ReviewerMissing));
        assert_eq!(strict.check(true), Ok(()));
        assert_eq!(Rights::unrestricted().check(false), Ok(()));
    }

    #[test]
    fn a_root_is_one_of_the_bounds_and_nothing_else() {
        let rights = |roots: &[&str], protected: &[&str]| {
            let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            let files = Files::WorkspaceWrite { writable_roots: words(roots), protected: words(protected) };
            let profile = Profile { files, network: Network::Off, deny_read: Vec::new() };
            Rights { policy: ApprovalPolicy::OnRequest, strict_review: false, profile }
        };
        let bound = rights(&["/w", "/v/"], &[".git"]);
        for roots in [&["/w"][..], &["/w", "/v"], &["/v/"]] {
            assert_eq!(rights(roots, &[".git", ".hg"]).beyond(&bound), None, "{roots:?}");
        }
        for roots in [&["/"][..], &["/w", "/other"], &["/wide"], &["/w/../etc"], &["/w/a"]] {
            assert_eq!(rights(roots, &[".git"]).beyond(&bound), Some("sandbox.writable_roots"), "{roots:?}");
        }
        assert_eq!(rights(&["/w"], &[]).beyond(&bound), Some("sandbox.protected_subpaths"));
        let here = rights(&[], &[".git"]);
        assert_eq!(here.clone().in_directory("/w").beyond(&bound), None);
        assert_eq!(here.in_directory("/etc").beyond(&bound), Some("sandbox.writable_roots"));
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
