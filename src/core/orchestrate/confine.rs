//! Under what the first attempt runs.

use crate::core::policy::{Additional, Confinement, Files, Network, NetworkDecision, NetworkRule, Profile};

/// The profile that counts for one command: its session's, with the directory that empty roots mean, what was granted
/// on top, and the owner's network policy, which no session may loosen.
pub fn effective_profile(
    base: &Profile,
    cwd: &str,
    additional: Option<&Additional>,
    owner_network: bool,
) -> Profile {
    let mut profile = base.clone().in_directory(cwd);
    if let Some(additional) = additional {
        profile = profile.with(additional);
    }
    if owner_network && profile.network == Network::On {
        let everything =
            NetworkRule { host: "*".into(), ports: Vec::new(), decision: NetworkDecision::Allow };
        profile.network = Network::Proxied { rules: vec![everything] };
    }
    profile
}

/// Under what the first attempt runs. `unsandboxed` says that every segment is trusted by an explicit rule, or that an
/// escalation was asked for and approved.
pub fn first_confinement(profile: &Profile, unsandboxed: bool, owner_network: bool) -> Confinement {
    if profile.files == Files::External {
        Confinement::External
    } else if profile.restricts_nothing() {
        Confinement::Unrestricted
    } else if unsandboxed && can_bypass(profile, owner_network) {
        Confinement::Bypassed
    } else {
        Confinement::Profile(Box::new(profile.clone()))
    }
}

/// Whether a profile may ever be left aside.
pub(super) fn can_bypass(profile: &Profile, owner_network: bool) -> bool {
    profile.deny_read.is_empty() && !owner_network
}
