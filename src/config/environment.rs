//! `[environment]`: which variables of the service children get.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::core::command::{self, EnvPolicy, EnvVar};

/// The environment policy of a session that asks for none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Environment {
    /// What is taken from the service's own environment.
    pub inherit: Inherit,
    /// Drops names that look like secrets: `*KEY*`, `*SECRET*`, `*TOKEN*`.
    pub default_excludes: bool,
    /// Drops names that match one of these patterns (`*`, `?`, case-blind).
    pub exclude: Vec<String>,
    /// Keeps only names that match one of these; empty keeps all.
    pub include_only: Vec<String>,
    /// Sets these.
    pub set: BTreeMap<String, String>,
}

/// What is taken from the service's own environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inherit {
    /// Everything.
    All,
    /// The handful that programs cannot do without, such as PATH and HOME.
    Core,
    /// Nothing.
    None,
}

impl Default for Environment {
    fn default() -> Self {
        let EnvPolicy { default_excludes, exclude, include_only, .. } = EnvPolicy::default();
        Self { inherit: Inherit::Core, default_excludes, exclude, include_only, set: BTreeMap::new() }
    }
}

impl Environment {
    /// In the core's words.
    pub fn policy(&self) -> EnvPolicy {
        EnvPolicy {
            inherit: match self.inherit {
                Inherit::All => command::Inherit::All,
                Inherit::Core => command::Inherit::Core,
                Inherit::None => command::Inherit::Nothing,
            },
            default_excludes: self.default_excludes,
            exclude: self.exclude.clone(),
            set: self.set.iter().map(|(name, value)| EnvVar::new(name.clone(), value.clone())).collect(),
            include_only: self.include_only.clone(),
        }
    }
}
