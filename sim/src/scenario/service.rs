//! `[service]`, `[rules]` and `[reviewer]`: what a session is created with, and who answers beside people.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use unified_exec::core::approval::Review;
use unified_exec::core::limits::{Limits, WhenFull};
use unified_exec::core::policy::{
    self, ApprovalPolicy, Files, NetworkDecision, NetworkRule, Profile, Rights,
};
use unified_exec::core::process;

/// Hosts, and what is decided about connections to them.
pub(crate) type Hosts = BTreeMap<String, Connection>;

/// What differs from the service's defaults. Without any right, everything is allowed and nobody is asked.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Service {
    pub(crate) early_window: Option<u64>,
    pub(crate) processes_max: Option<usize>,
    pub(crate) reject_when_full: Option<bool>,
    pub(crate) poll_yield_max: Option<u64>,
    pub(crate) min_confidence: Option<Confidence>,
    /// 0 is never.
    pub(crate) approval_expiry: Option<u64>,
    /// The rules for connections that the server's owner set.
    pub(crate) owner_network: Option<Hosts>,
    pub(crate) policy: Option<Policy>,
    pub(crate) strict_review: Option<bool>,
    pub(crate) sandbox: Option<Sandbox>,
    pub(crate) deny_read: Option<Vec<String>>,
    pub(crate) network: Option<Network>,
}

/// Rights that are changed while a session lives.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    pub(crate) policy: Option<Policy>,
    pub(crate) strict_review: Option<bool>,
    pub(crate) sandbox: Option<Sandbox>,
    pub(crate) deny_read: Option<Vec<String>>,
    pub(crate) network: Option<Network>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Policy {
    Never,
    OnRequest,
    UnlessTrusted,
    Granular(Granular),
}

/// Which kinds of questions may be asked; those that are not named may not.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Granular {
    pub(crate) rules: bool,
    pub(crate) sandbox_approval: bool,
    pub(crate) network: bool,
    pub(crate) stdin: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sandbox {
    ReadOnly,
    /// Below the working directory, but for `.git`.
    WorkspaceWrite,
    FullAccess,
    External,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Network {
    Off,
    On,
    Proxied(Hosts),
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Connection {
    Allow,
    Ask,
    Deny,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Confidence {
    Likely,
    Checked,
    Certain,
}

/// What an automatic reviewer says to every question.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reviewer {
    pub(crate) automatic: Says,
    /// So many milliseconds after it was asked.
    #[serde(default)]
    pub(crate) after: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Says {
    Allow,
    Deny,
    AskPerson,
    Failed,
}

impl Service {
    pub(crate) fn rights(&self) -> Rights {
        let own = self.clone();
        let change = Change {
            policy: own.policy,
            strict_review: own.strict_review,
            sandbox: own.sandbox,
            deny_read: own.deny_read,
            network: own.network,
        };
        change.of(Rights::unrestricted())
    }

    pub(crate) fn owner_network(&self) -> Option<Vec<NetworkRule>> {
        self.owner_network.as_ref().map(rules)
    }

    pub(crate) fn limits(&self) -> Limits {
        let default = Limits::default();
        let millis = Duration::from_millis;
        Limits {
            poll_yield_max: self.poll_yield_max.map_or(default.poll_yield_max, millis),
            processes_max: self.processes_max.unwrap_or(default.processes_max),
            when_full: if self.reject_when_full == Some(true) { WhenFull::Reject } else { WhenFull::Evict },
            early_window: self.early_window.map_or(default.early_window, millis),
            approval_expiry: match self.approval_expiry {
                None => default.approval_expiry,
                Some(expiry) => (expiry > 0).then(|| millis(expiry)),
            },
            min_confidence: self.min_confidence.map_or(default.min_confidence, Confidence::to_core),
            ..default
        }
    }
}

impl Change {
    /// `rights` with what is given here.
    pub(crate) fn of(self, rights: Rights) -> Rights {
        Rights {
            policy: self.policy.map_or(rights.policy, Policy::to_core),
            strict_review: self.strict_review.unwrap_or(rights.strict_review),
            profile: Profile {
                files: self.sandbox.map_or(rights.profile.files, Sandbox::to_core),
                network: self.network.map_or(rights.profile.network, |network| network.to_core()),
                deny_read: self.deny_read.unwrap_or(rights.profile.deny_read),
            },
        }
    }
}

impl Policy {
    const fn to_core(self) -> ApprovalPolicy {
        match self {
            Self::Never => ApprovalPolicy::Never,
            Self::OnRequest => ApprovalPolicy::OnRequest,
            Self::UnlessTrusted => ApprovalPolicy::UnlessTrusted,
            Self::Granular(Granular { rules, sandbox_approval, network, stdin }) => {
                ApprovalPolicy::Granular(policy::Granular { rules, sandbox_approval, network, stdin })
            }
        }
    }
}

impl Sandbox {
    fn to_core(self) -> Files {
        match self {
            Self::ReadOnly => Files::ReadOnly,
            Self::WorkspaceWrite => {
                Files::WorkspaceWrite { writable_roots: Vec::new(), protected: vec![".git".into()] }
            }
            Self::FullAccess => Files::FullAccess,
            Self::External => Files::External,
        }
    }
}

impl Network {
    fn to_core(&self) -> policy::Network {
        match self {
            Self::Off => policy::Network::Off,
            Self::On => policy::Network::On,
            Self::Proxied(hosts) => policy::Network::Proxied { rules: rules(hosts) },
        }
    }
}

impl Confidence {
    const fn to_core(self) -> process::Confidence {
        match self {
            Self::Likely => process::Confidence::Likely,
            Self::Checked => process::Confidence::Checked,
            Self::Certain => process::Confidence::Certain,
        }
    }
}

impl Reviewer {
    pub(crate) fn review(self) -> Review {
        match self.automatic {
            Says::Allow => Review::Allow { text: String::new() },
            Says::Deny => Review::Deny { text: "denied by the scenario".into() },
            Says::AskPerson => Review::AskPerson,
            Says::Failed => Review::Failed { cause: "failed by the scenario".into() },
        }
    }
}

/// Hosts as rules of the proxy, for every port.
pub(crate) fn rules(hosts: &Hosts) -> Vec<NetworkRule> {
    let rule = |(host, decision): (&String, &Connection)| NetworkRule {
        host: host.clone(),
        ports: Vec::new(),
        decision: match decision {
            Connection::Allow => NetworkDecision::Allow,
            Connection::Ask => NetworkDecision::Ask,
            Connection::Deny => NetworkDecision::Deny,
        },
    };
    hosts.iter().map(rule).collect()
}
