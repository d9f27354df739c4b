//! `[rights]`: what a session gets when it asks for nothing, and the most that anybody can give it.

use serde::{Deserialize, Serialize};

use crate::core::policy;

/// Default and ceilings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rights {
    /// What a session gets that asks for nothing.
    pub default: Grant,
    /// The most that an agent may ask for by name; absent is what a session gets that asks for nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<Grant>,
    /// The most that a reviewer can give.
    pub ceiling: Grant,
}

impl Default for Rights {
    /// An agent may only narrow what a careful default gives; a reviewer is a person of the machine, and may give
    /// everything.
    fn default() -> Self {
        Self { default: Grant::default(), agent: None, ceiling: Grant::everything() }
    }
}

impl Rights {
    /// The most that an agent may ask for by name.
    pub fn agent(&self) -> &Grant {
        self.agent.as_ref().unwrap_or(&self.default)
    }
}

/// Policy and profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Grant {
    /// When somebody is asked.
    pub approval: Approval,
    /// The kinds of questions that may be asked when `approval` is `granular`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granular: Option<Granular>,
    /// Whether an automatic reviewer also sees what needs no approval.
    pub strict_review: bool,
    /// What may be written.
    pub profile: Profile,
    /// For `workspace_write`: absolute directories; empty is the session's working directory.
    pub writable_roots: Vec<String>,
    /// For `workspace_write`: names below each root that stay read-only.
    pub protected: Vec<String>,
    /// Absolute paths and globs that may not be read.
    pub deny_read: Vec<String>,
    /// What may be reached.
    pub network: Network,
    /// For `proxied`: host patterns that may be reached.
    pub proxy_allow: Vec<String>,
}

/// When somebody is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// Never.
    Never,
    /// When the caller wants more than its profile.
    OnRequest,
    /// Whenever no rule allows the command.
    UnlessTrusted,
    /// By kind of question.
    Granular,
}

/// Kinds of questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Granular {
    /// That a rule prompts.
    pub rules: bool,
    /// About running without a sandbox.
    pub sandbox_approval: bool,
    /// About connections.
    pub network: bool,
    /// About input to a live process.
    pub stdin: bool,
}

/// What may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Nothing.
    ReadOnly,
    /// The workspace.
    WorkspaceWrite,
    /// Everything that the service's user may write.
    FullAccess,
    /// Somebody else sandboxes.
    External,
}

/// What may be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Nothing.
    Off,
    /// Everything.
    On,
    /// What a proxy lets through.
    Proxied,
}

impl Default for Grant {
    /// What a careful operator wants: a sandbox on the workspace, no network, and a question for more.
    fn default() -> Self {
        Self {
            approval: Approval::OnRequest,
            granular: None,
            strict_review: false,
            profile: Profile::WorkspaceWrite,
            writable_roots: Vec::new(),
            protected: vec![".git".to_owned()],
            deny_read: Vec::new(),
            network: Network::Off,
            proxy_allow: Vec::new(),
        }
    }
}

fn allow(host: &str) -> policy::NetworkRule {
    policy::NetworkRule { host: host.to_owned(), ports: Vec::new(), decision: policy::NetworkDecision::Allow }
}

impl Grant {
    /// Everything, without questions.
    pub fn unrestricted() -> Self {
        Self {
            approval: Approval::Never,
            profile: Profile::FullAccess,
            network: Network::On,
            protected: Vec::new(),
            ..Self::default()
        }
    }

    /// As far as anybody can go: everything, with questions where they are wanted.
    pub fn everything() -> Self {
        Self { approval: Approval::OnRequest, ..Self::unrestricted() }
    }

    /// In the core's words.
    pub fn rights(&self) -> policy::Rights {
        policy::Rights {
            policy: self.policy(),
            strict_review: self.strict_review,
            profile: policy::Profile {
                files: match self.profile {
                    Profile::ReadOnly => policy::Files::ReadOnly,
                    Profile::WorkspaceWrite => policy::Files::WorkspaceWrite {
                        writable_roots: self.writable_roots.clone(),
                        protected: self.protected.clone(),
                    },
                    Profile::FullAccess => policy::Files::FullAccess,
                    Profile::External => policy::Files::External,
                },
                network: match self.network {
                    Network::Off => policy::Network::Off,
                    Network::On => policy::Network::On,
                    Network::Proxied => policy::Network::Proxied {
                        rules: self.proxy_allow.iter().map(|host| allow(host)).collect(),
                    },
                },
                deny_read: self.deny_read.clone(),
            },
        }
    }

    fn policy(&self) -> policy::ApprovalPolicy {
        match self.approval {
            Approval::Never => policy::ApprovalPolicy::Never,
            Approval::OnRequest => policy::ApprovalPolicy::OnRequest,
            Approval::UnlessTrusted => policy::ApprovalPolicy::UnlessTrusted,
            Approval::Granular => {
                let Granular { rules, sandbox_approval, network, stdin } = self.granular.unwrap_or_default();
                policy::ApprovalPolicy::Granular(policy::Granular { rules, sandbox_approval, network, stdin })
            }
        }
    }

    /// What is wrong with a host pattern of the proxy, if one is wrong.
    pub(super) fn bad_pattern(&self) -> Option<policy::HostPatternError> {
        self.proxy_allow.iter().find_map(|host| policy::HostPattern::parse(host).err())
    }

    /// What is set and has no meaning here: the key, and why.
    pub(super) fn idle_key(&self) -> Option<(&'static str, &'static str)> {
        let workspace = self.profile == Profile::WorkspaceWrite;
        if self.granular.is_some() && self.approval != Approval::Granular {
            Some(("granular", "has a meaning only with `approval = \"granular\"`"))
        } else if !workspace && !self.writable_roots.is_empty() {
            Some(("writable_roots", "has a meaning only with `profile = \"workspace_write\"`"))
        } else if self.network != Network::Proxied && !self.proxy_allow.is_empty() {
            Some(("proxy_allow", "has a meaning only with `network = \"proxied\"`"))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unrestricted_is_the_cores() {
        assert_eq!(Grant::unrestricted().rights(), policy::Rights::unrestricted());
        assert_ne!(Grant::default().rights(), policy::Rights::unrestricted());
    }
}
