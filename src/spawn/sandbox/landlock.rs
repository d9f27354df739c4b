//! The kernel's own rights on paths and ports (Landlock): a second lock under namespaces, and the first where there are
//! none. Landlock can only allow: nothing below an allowed directory can be taken out again.

use ::landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, path_beneath_rules,
};

/// From this version on signals and abstract sockets can be kept inside, without which it is no sandbox by itself.
pub(in crate::spawn) const VERSION_ALONE: i32 = 6;
/// The version that has every right on files that is used here. Later ones add the control of devices that are opened,
/// which terminals need.
const FILES: ABI = ABI::V3;
/// The version that has the rights on ports.
const PORTS: ABI = ABI::V4;

/// What is let through.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(in crate::spawn) struct Rules {
    /// Below what may be read; everywhere if `None`.
    pub(in crate::spawn) read: Option<Vec<String>>,
    /// Below what may be written; everywhere if `None`.
    pub(in crate::spawn) write: Option<Vec<String>>,
    /// Whether TCP is closed.
    pub(in crate::spawn) no_tcp: bool,
    /// Whether all of it must hold. If not, what this kernel cannot do is left to the other layers.
    pub(in crate::spawn) required: bool,
}

/// Puts this process under `rules`, and gives up new privileges for ever. The error is a sentence.
pub(in crate::spawn) fn restrict(rules: &Rules) -> Result<(), String> {
    let status = try_restrict(rules).map_err(|error| format!("Landlock refuses the rules: {error}"))?;
    if rules.required && status != RulesetStatus::FullyEnforced {
        return Err("this kernel's Landlock cannot enforce the profile".to_owned());
    }
    Ok(())
}

fn try_restrict(rules: &Rules) -> Result<RulesetStatus, ::landlock::RulesetError> {
    let level = if rules.required { CompatLevel::HardRequirement } else { CompatLevel::BestEffort };
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    let writing = AccessFs::from_write(FILES);
    let mut ruleset = Ruleset::default().set_compatibility(level);
    if rules.read.is_some() {
        ruleset = ruleset.handle_access(reading)?;
    }
    if rules.write.is_some() {
        ruleset = ruleset.handle_access(writing)?;
    }
    if rules.no_tcp {
        ruleset = ruleset.handle_access(AccessNet::from_all(PORTS))?;
    }
    ruleset = ruleset.scope(Scope::AbstractUnixSocket | Scope::Signal)?;
    // A path that is not there needs no rule; that is no reason to fail.
    let mut created = ruleset.create()?.set_compatibility(CompatLevel::BestEffort);
    if let Some(paths) = &rules.read {
        created = created.add_rules(path_beneath_rules(paths, reading))?;
    }
    if let Some(paths) = &rules.write {
        created = created.add_rules(path_beneath_rules(paths, writing))?;
    }
    Ok(created.restrict_self()?.ruleset)
}

/// The version that this kernel has; 0 if none, or if it is switched off.
pub(in crate::spawn) fn version() -> i32 {
    crate::spawn::unix::landlock_version()
}
