//! Rights as a client asks for them.

use unified_exec::core::policy::{ApprovalPolicy, Files, Granular, Network, NetworkDecision, Rights};
use unified_exec::grpc::pb;

/// Policy and profile as fields of a session's configuration.
pub(super) fn config(rights: Rights) -> pb::SessionConfig {
    let (mode, granular) = match rights.policy {
        ApprovalPolicy::Never => (pb::ApprovalMode::Never, None),
        ApprovalPolicy::OnRequest => (pb::ApprovalMode::OnRequest, None),
        ApprovalPolicy::UnlessTrusted => (pb::ApprovalMode::UnlessTrusted, None),
        ApprovalPolicy::Granular(Granular { rules, sandbox_approval, network, stdin }) => (
            pb::ApprovalMode::Granular,
            Some(pb::GranularApproval { rules, sandbox_approval, network, stdin }),
        ),
    };
    let (kind, writable_roots, protected_subpaths) = match rights.profile.files {
        Files::ReadOnly => (pb::SandboxKind::ReadOnly, vec![], vec![]),
        Files::WorkspaceWrite { writable_roots, protected } => {
            (pb::SandboxKind::WorkspaceWrite, writable_roots, protected)
        }
        Files::FullAccess => (pb::SandboxKind::FullAccess, vec![], vec![]),
        Files::External => (pb::SandboxKind::External, vec![], vec![]),
    };
    let (network, rules) = match rights.profile.network {
        Network::Off => (pb::NetworkMode::Off, vec![]),
        Network::On => (pb::NetworkMode::On, vec![]),
        Network::Proxied { rules } => (pb::NetworkMode::Proxied, rules),
    };
    let rules = rules.into_iter().map(|rule| pb::NetworkRule {
        host: rule.host,
        ports: rule.ports.into_iter().map(u32::from).collect(),
        decision: match rule.decision {
            NetworkDecision::Allow => pb::NetworkDecision::Allow,
            NetworkDecision::Ask => pb::NetworkDecision::Ask,
            NetworkDecision::Deny => pb::NetworkDecision::Deny,
        }
        .into(),
    });
    pb::SessionConfig {
        approval_policy: Some(pb::ApprovalPolicy {
            mode: mode.into(),
            granular,
            strict_review: rights.strict_review,
        }),
        sandbox: Some(pb::SandboxProfile {
            kind: kind.into(),
            writable_roots,
            protected_subpaths,
            deny_read: rights.profile.deny_read,
            network: Some(pb::NetworkPolicy { mode: network.into(), rules: rules.collect() }),
        }),
        ..pb::SessionConfig::default()
    }
}
