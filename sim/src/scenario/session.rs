//! What a scenario's session is created with, the same on every tier.

use unified_exec::core::command::{Defaults, EnvPolicy};
use unified_exec::core::ids::SessionId;
use unified_exec::core::session::Config;
use unified_exec::core::spawn::ResourceLimits;

use super::Scenario;

/// Where commands run.
const CWD: &str = "/w";

/// What a scenario's session is created with.
pub(crate) fn config(scenario: &Scenario) -> Config {
    let service = &scenario.service;
    Config {
        id: SessionId::new("sim"),
        defaults: defaults(),
        rights: service.rights(),
        process_limits: ResourceLimits::default(),
        owner_network: service.owner_network(),
        automatic_reviewer: scenario.reviewer.is_some(),
        limits: service.limits(),
        interactive: true,
        seed: 1,
    }
}

/// What a command gets that says nothing else.
pub(crate) fn defaults() -> Defaults {
    Defaults {
        cwd: CWD.into(),
        shell: "sh".into(),
        allow_login: false,
        env: EnvPolicy::default(),
        inherited: Vec::new(),
    }
}
