//! Who must approve a start, and what a sandbox allows. This release starts only what needs neither: see
//! [`Rights::check`].

/// When a question is asked before or after an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalPolicy {
    /// Nobody is asked; what would need an answer is refused.
    Never,
    /// The caller asks for escalation when it wants one.
    OnRequest,
    /// Whatever no rule allows is asked for.
    UnlessTrusted,
    /// Kinds of questions, one by one.
    Granular(Granular),
}

/// Which kinds of questions may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Granular {
    /// Questions that a rule prompts.
    pub rules: bool,
    /// Questions about running without a sandbox.
    pub sandbox_approval: bool,
    /// Questions about connections.
    pub network: bool,
    /// Questions about input to a live process.
    pub stdin: bool,
}

/// What the file system and the network allow; frozen when a process starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// What may be written.
    pub files: Files,
    /// What may be reached.
    pub network: Network,
    /// Paths and globs that may not even be read.
    pub deny_read: Vec<String>,
}

impl Profile {
    /// No restriction at all.
    pub const fn full_access() -> Self {
        Self { files: Files::FullAccess, network: Network::On, deny_read: Vec::new() }
    }

    /// Whether this profile restricts nothing, so that no sandbox is needed to honour it.
    pub fn restricts_nothing(&self) -> bool {
        self.files == Files::FullAccess && self.network == Network::On && self.deny_read.is_empty()
    }
}

/// What may be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Files {
    /// Nothing.
    ReadOnly,
    /// The roots, without their protected subpaths.
    WorkspaceWrite {
        /// Absolute directories.
        writable_roots: Vec<String>,
        /// Names below a root that stay read-only, such as `.git`.
        protected: Vec<String>,
    },
    /// Everything that the service's user may write.
    FullAccess,
    /// Somebody else sandboxes.
    External,
}

/// What may be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// Nothing.
    Off,
    /// Everything.
    On,
    /// What the rules of a proxy allow.
    Proxied {
        /// Host patterns.
        allow: Vec<String>,
    },
}

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

impl ApprovalPolicy {
    /// Whether everything that runs, or may be asked for, under this policy is so under `bound`. To ask nobody is no
    /// narrowing of asking about everything.
    fn within(&self, bound: &Self) -> bool {
        match (self, bound) {
            (Self::Never, Self::Never | Self::OnRequest | Self::Granular(_)) => true,
            (Self::UnlessTrusted, Self::UnlessTrusted | Self::OnRequest) => true,
            (Self::OnRequest, Self::OnRequest) => true,
            (Self::Granular(_), Self::OnRequest) => true,
            (Self::Granular(asked), Self::Granular(bound)) => {
                (!asked.rules || bound.rules)
                    && (!asked.sandbox_approval || bound.sandbox_approval)
                    && (!asked.network || bound.network)
                    && (!asked.stdin || bound.stdin)
            }
            (Self::Never, Self::UnlessTrusted)
            | (Self::UnlessTrusted | Self::OnRequest | Self::Granular(_), _) => false,
        }
    }
}

impl Files {
    fn within(&self, bound: &Self) -> bool {
        match (self, bound) {
            (Self::ReadOnly, _) | (_, Self::FullAccess) => true,
            (
                Self::WorkspaceWrite { writable_roots, protected },
                Self::WorkspaceWrite { writable_roots: roots, protected: kept },
            ) => {
                writable_roots.iter().all(|root| roots.contains(root))
                    && kept.iter().all(|name| protected.contains(name))
            }
            (Self::WorkspaceWrite { .. } | Self::External, Self::External) => true,
            (Self::WorkspaceWrite { .. } | Self::FullAccess | Self::External, _) => false,
        }
    }
}

impl Network {
    fn within(&self, bound: &Self) -> bool {
        match (self, bound) {
            (Self::Off, _) | (_, Self::On) => true,
            (Self::Proxied { allow }, Self::Proxied { allow: bound }) => {
                allow.iter().all(|host| bound.contains(host))
            }
            (Self::On | Self::Proxied { .. }, Self::Off | Self::Proxied { .. }) => false,
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
