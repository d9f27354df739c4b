//! What properties of rules are tried on, for every test that needs it.

use proptest::prelude::*;

use super::{Layer, PrefixRule, RuleDecision};

/// What a rule says.
pub(crate) fn decision() -> impl Strategy<Value = RuleDecision> {
    prop::sample::select(vec![RuleDecision::Allow, RuleDecision::Prompt, RuleDecision::Forbidden])
}

/// A rule of few words, so that many rules are about the same command.
pub(crate) fn rule() -> impl Strategy<Value = PrefixRule> {
    rule_of("[ab]|/bin/[ab]")
}

/// A rule whose words match this expression.
pub(crate) fn rule_of(word: &'static str) -> impl Strategy<Value = PrefixRule> {
    let alternatives = prop::collection::vec(word, 1..3);
    (prop::collection::vec(alternatives, 1..3), decision()).prop_map(|(pattern, decision)| PrefixRule {
        pattern,
        decision,
        justification: None,
        place: String::new(),
    })
}

/// A command that such rules are about, and others.
pub(crate) fn line() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[ab]|(/bin|/x|\\.)/[ab]", 1..4)
}

/// A layer of these rules.
pub(crate) fn layer_of(rules: impl IntoIterator<Item = PrefixRule>) -> Layer {
    let mut layer = Layer::default();
    rules.into_iter().for_each(|rule| layer.add_prefix(rule));
    layer
}

/// A layer with rules, and paths that stand for names.
pub(crate) fn layer() -> impl Strategy<Value = Layer> {
    let executables = prop::collection::vec(("[ab]", prop::collection::vec("/(bin|x)/[ab]", 0..2)), 0..2);
    (prop::collection::vec(rule(), 0..6), executables).prop_map(|(rules, executables)| {
        let mut layer = layer_of(rules);
        executables.into_iter().for_each(|(name, paths)| layer.set_executable(name, paths));
        layer
    })
}
