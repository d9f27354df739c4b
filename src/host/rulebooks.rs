//! Rulebooks that need nothing from outside.

use std::sync::Arc;

use super::ports::{AddRuleError, Assessing, BoxFuture, Rulebook};
use crate::core::policy::{Assessment, NetworkRule, Segment};

/// No rules at all: every command is one segment that nothing is known of.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRules;

impl Rulebook for NoRules {
    fn assess(&self, argv: Vec<String>, _: String) -> Assessing {
        let segment = Segment { words: argv.clone(), rule: None, danger: None };
        Assessing::Now(Assessment { segments: vec![segment], canonical: argv, fingerprint: String::new() })
    }

    fn owner_network(&self) -> Option<Arc<[NetworkRule]>> {
        None
    }

    fn allow(&self, _: Vec<String>) -> BoxFuture<Result<(), AddRuleError>> {
        let reason = "this host has no rules".to_owned();
        Box::pin(std::future::ready(Err(AddRuleError::ReadOnly { reason })))
    }

    fn takes_rules(&self) -> bool {
        false
    }
}
