//! Policy and profile of a session, both ways.

use super::config::{PATH_BYTES_MAX, known};
use super::{Valid, bounded, invalid};
use crate::core::policy::{
    ApprovalPolicy, Files, Granular, HostPattern, Network, NetworkDecision, NetworkRule, Profile, Rights,
};
use crate::grpc::pb;

const WRITABLE_ROOTS: &str = "config.sandbox.writable_roots";
const PROTECTED_SUBPATHS: &str = "config.sandbox.protected_subpaths";
/// Entries of one list of a profile.
const PATHS_MAX: usize = 256;
/// The longest name with `*.` in front, or range of addresses.
const HOST_BYTES_MAX: usize = 256;
/// Ports of one rule.
const PORTS_MAX: usize = 256;
/// Rules of one network policy.
const RULES_MAX: usize = 1_024;

/// Who is asked, and whether an automatic reviewer sees everything.
pub(super) fn approval_policy(
    wire: Option<pb::ApprovalPolicy>,
    default: &Rights,
) -> Valid<(ApprovalPolicy, bool)> {
    let Some(wire) = wire else { return Ok((default.policy.clone(), default.strict_review)) };
    let mode = known("config.approval_policy.mode", wire.mode)?;
    let policy = match mode {
        pb::ApprovalMode::Unspecified => default.policy.clone(),
        pb::ApprovalMode::Never => ApprovalPolicy::Never,
        pb::ApprovalMode::OnRequest => ApprovalPolicy::OnRequest,
        pb::ApprovalMode::UnlessTrusted => ApprovalPolicy::UnlessTrusted,
        pb::ApprovalMode::Granular => {
            let pb::GranularApproval { rules, sandbox_approval, network, stdin } =
                wire.granular.unwrap_or_default();
            return Ok((
                ApprovalPolicy::Granular(Granular { rules, sandbox_approval, network, stdin }),
                wire.strict_review,
            ));
        }
    };
    if wire.granular.is_some() {
        return invalid("config.approval_policy.granular", "has no meaning without mode GRANULAR");
    }
    Ok((policy, wire.strict_review))
}

/// What a sandbox is asked to allow.
pub(super) fn profile(wire: Option<pb::SandboxProfile>, default: &Profile) -> Valid<Profile> {
    let Some(wire) = wire else { return Ok(default.clone()) };
    let kind = known("config.sandbox.kind", wire.kind)?;
    each(WRITABLE_ROOTS, &wire.writable_roots, check_path)?;
    each(PROTECTED_SUBPATHS, &wire.protected_subpaths, check_subpath)?;
    each("config.sandbox.deny_read", &wire.deny_read, check_glob)?;
    let workspace = (wire.writable_roots, wire.protected_subpaths);
    let files = match (kind, &default.files) {
        (pb::SandboxKind::Unspecified, Files::WorkspaceWrite { .. })
        | (pb::SandboxKind::WorkspaceWrite, _) => {
            return Ok(Profile {
                files: workspace_write(workspace, &default.files),
                network: network(wire.network)?,
                deny_read: wire.deny_read,
            });
        }
        (pb::SandboxKind::Unspecified, other) => other.clone(),
        (pb::SandboxKind::ReadOnly, _) => Files::ReadOnly,
        (pb::SandboxKind::FullAccess, _) => Files::FullAccess,
        (pb::SandboxKind::External, _) => Files::External,
    };
    if !workspace.0.is_empty() {
        return invalid(WRITABLE_ROOTS, "has no meaning without kind WORKSPACE_WRITE");
    }
    if !workspace.1.is_empty() {
        return invalid(PROTECTED_SUBPATHS, "has no meaning without kind WORKSPACE_WRITE");
    }
    Ok(Profile { files, network: network(wire.network)?, deny_read: wire.deny_read })
}

/// Checks a list of paths, entry by entry.
fn each(field: &str, list: &[String], check: impl Fn(&str) -> Result<(), &'static str>) -> Valid<()> {
    if list.len() > PATHS_MAX {
        return invalid(field, format!("has {} entries; at most {PATHS_MAX} are allowed", list.len()));
    }
    for (at, path) in list.iter().enumerate() {
        let entry = format!("{field}[{at}]");
        bounded(&entry, path, PATH_BYTES_MAX)?;
        if let Err(problem) = check(path) {
            return invalid(entry, format!("{path:?} {problem}"));
        }
    }
    Ok(())
}

/// What names one place, whatever the working directory is.
pub(super) fn check_path(path: &str) -> Result<(), &'static str> {
    check_glob(path)?;
    if path.contains(['*', '?']) { Err("is a glob; name the path") } else { Ok(()) }
}

/// What names places, whatever the working directory is.
pub(super) fn check_glob(path: &str) -> Result<(), &'static str> {
    if !path.starts_with('/') {
        Err("is not an absolute path")
    } else if path.contains('\0') {
        Err("has a null byte; the system takes none")
    } else if path.split('/').any(|part| part == "..") {
        Err("has a part `..`, which could lead anywhere; name the place itself")
    } else {
        Ok(())
    }
}

/// What lies below each writable root.
fn check_subpath(path: &str) -> Result<(), &'static str> {
    if path.starts_with('/') {
        Err("is absolute; it is meant below each writable root")
    } else if path.contains('\0') {
        Err("has a null byte; the system takes none")
    } else if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        Err("is no path below a root: no part of it may be empty, `.` or `..`")
    } else {
        Ok(())
    }
}

fn workspace_write((roots, subpaths): (Vec<String>, Vec<String>), default: &Files) -> Files {
    let usual = match default {
        Files::WorkspaceWrite { protected, .. } => protected.clone(),
        Files::ReadOnly | Files::FullAccess | Files::External => vec![".git".to_owned()],
    };
    let protected = if subpaths.is_empty() { usual } else { subpaths };
    Files::WorkspaceWrite { writable_roots: roots, protected }
}

fn network(wire: Option<pb::NetworkPolicy>) -> Valid<Network> {
    let wire = wire.unwrap_or_default();
    let mode = known("config.sandbox.network.mode", wire.mode)?;
    if wire.rules.len() > RULES_MAX {
        return invalid("config.sandbox.network.rules", format!("has more than {RULES_MAX} rules"));
    }
    let mut rules = Vec::new();
    for (at, rule) in wire.rules.iter().enumerate() {
        let field = |name: &str| format!("config.sandbox.network.rules[{at}].{name}");
        if rule.host.is_empty() {
            return invalid(field("host"), "is required");
        }
        bounded(&field("host"), &rule.host, HOST_BYTES_MAX)?;
        if let Err(error) = HostPattern::parse(&rule.host) {
            return invalid(field("host"), error.to_string());
        }
        if rule.ports.len() > PORTS_MAX {
            return invalid(field("ports"), format!("has more than {PORTS_MAX} ports"));
        }
        let mut ports = Vec::new();
        for port in &rule.ports {
            match u16::try_from(*port) {
                Ok(port) if port > 0 => ports.push(port),
                _ => return invalid(field("ports"), format!("{port} is no port")),
            }
        }
        let decision = match known(&field("decision"), rule.decision)? {
            pb::NetworkDecision::Unspecified => return invalid(field("decision"), "is required"),
            pb::NetworkDecision::Allow => NetworkDecision::Allow,
            pb::NetworkDecision::Ask => NetworkDecision::Ask,
            pb::NetworkDecision::Deny => NetworkDecision::Deny,
        };
        rules.push(NetworkRule { host: rule.host.clone(), ports, decision });
    }
    match mode {
        pb::NetworkMode::Proxied => Ok(Network::Proxied { rules }),
        _ if !wire.rules.is_empty() => {
            invalid("config.sandbox.network.rules", "has no meaning without mode PROXIED")
        }
        pb::NetworkMode::Unspecified | pb::NetworkMode::Off => Ok(Network::Off),
        pb::NetworkMode::On => Ok(Network::On),
    }
}

/// Who is asked.
pub(in crate::grpc) fn policy_to_wire(rights: &Rights) -> pb::ApprovalPolicy {
    let (mode, granular) = match &rights.policy {
        ApprovalPolicy::Never => (pb::ApprovalMode::Never, None),
        ApprovalPolicy::OnRequest => (pb::ApprovalMode::OnRequest, None),
        ApprovalPolicy::UnlessTrusted => (pb::ApprovalMode::UnlessTrusted, None),
        ApprovalPolicy::Granular(Granular { rules, sandbox_approval, network, stdin }) => {
            let granular = pb::GranularApproval {
                rules: *rules,
                sandbox_approval: *sandbox_approval,
                network: *network,
                stdin: *stdin,
            };
            (pb::ApprovalMode::Granular, Some(granular))
        }
    };
    pb::ApprovalPolicy { mode: mode.into(), granular, strict_review: rights.strict_review }
}

/// What a sandbox allows.
pub(in crate::grpc) fn profile_to_wire(profile: &Profile) -> pb::SandboxProfile {
    let (kind, writable_roots, protected_subpaths) = match &profile.files {
        Files::ReadOnly => (pb::SandboxKind::ReadOnly, Vec::new(), Vec::new()),
        Files::WorkspaceWrite { writable_roots, protected } => {
            (pb::SandboxKind::WorkspaceWrite, writable_roots.clone(), protected.clone())
        }
        Files::FullAccess => (pb::SandboxKind::FullAccess, Vec::new(), Vec::new()),
        Files::External => (pb::SandboxKind::External, Vec::new(), Vec::new()),
    };
    pb::SandboxProfile {
        kind: kind.into(),
        writable_roots,
        protected_subpaths,
        deny_read: profile.deny_read.clone(),
        network: Some(network_to_wire(&profile.network)),
    }
}

/// What may be reached.
pub(in crate::grpc) fn network_to_wire(network: &Network) -> pb::NetworkPolicy {
    let (mode, rules) = match network {
        Network::Off => (pb::NetworkMode::Off, &[][..]),
        Network::On => (pb::NetworkMode::On, &[][..]),
        Network::Proxied { rules } => (pb::NetworkMode::Proxied, &rules[..]),
    };
    pb::NetworkPolicy { mode: mode.into(), rules: rules.iter().map(rule_to_wire).collect() }
}

fn rule_to_wire(rule: &NetworkRule) -> pb::NetworkRule {
    let decision = match rule.decision {
        NetworkDecision::Allow => pb::NetworkDecision::Allow,
        NetworkDecision::Ask => pb::NetworkDecision::Ask,
        NetworkDecision::Deny => pb::NetworkDecision::Deny,
    };
    let ports = rule.ports.iter().copied().map(u32::from).collect();
    pb::NetworkRule { host: rule.host.clone(), ports, decision: decision.into() }
}
