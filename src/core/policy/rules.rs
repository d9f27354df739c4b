//! Rules for commands: what they say, which of them match, and which of those counts.
//!
//! A rule names the first words of a command. Rules come in layers, the most trusted first (system, user, project); of
//! all that match, in whatever layer, the strictest counts, so that a layer can only add caution to what another says.
//! Knows words and nothing of files; who reads those is `src/rules`.
//!
//! Trust is given narrowly and caution widely. A rule that allows `git` counts for the bare name and for absolute paths
//! that stand for it; one that asks or forbids counts for whatever path ends in `git`.

use std::collections::BTreeMap;

use super::{NetworkRule, RuleDecision, RuleMatch};

/// Where a program may lie to be taken for its bare name, as long as no definition lists its paths: directories that
/// only the system's owner writes to.
pub const STANDARD_DIRECTORIES: [&str; 4] = ["/bin", "/usr/bin", "/sbin", "/usr/sbin"];

/// A rule for commands that begin with certain words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixRule {
    /// For each leading word of a command the words that match there. At least one position, each with at least one
    /// alternative.
    pub pattern: Vec<Vec<String>>,
    /// What it says.
    pub decision: RuleDecision,
    /// Why it is there, in its author's words.
    pub justification: Option<String>,
    /// Where it stands, such as `rules.toml:12`.
    pub place: String,
}

impl PrefixRule {
    /// Whether the words after the program are those of the pattern.
    fn covers_arguments(&self, words: &[String]) -> bool {
        self.pattern.len() <= words.len()
            && self.pattern.iter().zip(words).skip(1).all(|(alternatives, word)| alternatives.contains(word))
    }

    fn to_match(&self) -> RuleMatch {
        let pattern: Vec<String> = self.pattern.iter().map(|alternatives| alternatives.join("|")).collect();
        RuleMatch {
            decision: self.decision,
            rule: format!("{}: {}", self.place, pattern.join(" ")),
            justification: self.justification.clone(),
        }
    }
}

/// The rules of one origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// By each word that may stand first.
    prefixes: BTreeMap<String, Vec<PrefixRule>>,
    executables: BTreeMap<String, Vec<String>>,
    network: Vec<NetworkRule>,
}

impl Layer {
    /// Adds a rule.
    pub fn add_prefix(&mut self, rule: PrefixRule) {
        let first = rule.pattern.first().cloned().unwrap_or_default();
        for word in first {
            self.prefixes.entry(word).or_default().push(rule.clone());
        }
    }

    /// Says which absolute paths stand for a bare name; a later call for the same name replaces an earlier one.
    pub fn set_executable(&mut self, name: String, paths: Vec<String>) {
        self.executables.insert(name, paths);
    }

    /// Adds a rule for connections.
    pub fn add_network(&mut self, rule: NetworkRule) {
        self.network.push(rule);
    }

    /// The rules for connections.
    pub fn network(&self) -> &[NetworkRule] {
        &self.network
    }

    /// All that this layer says, without where it says it: equal texts decide equally.
    pub fn normalised(&self) -> String {
        let mut lines: Vec<String> = self
            .prefixes
            .iter()
            .flat_map(|(first, rules)| rules.iter().map(move |rule| (first, rule)))
            .map(|(first, rule)| {
                format!("{first:?} {:?} {:?} {:?}", &rule.pattern[1..], rule.decision, rule.justification)
            })
            .chain(self.executables.iter().map(|definition| format!("{definition:?}")))
            .chain(self.network.iter().map(|rule| format!("{rule:?}")))
            .collect();
        lines.sort();
        lines.dedup();
        lines.join("\n")
    }
}

/// The strictest rule of all layers that matches a command; of equally strict ones that with the longest pattern, then
/// the first. Rules that allow are heard in the first `trusting` layers only; 0 hears none.
pub fn strictest(layers: &[&Layer], trusting: usize, words: &[String]) -> Option<RuleMatch> {
    let program = words.first()?;
    let mut best: Option<&PrefixRule> = None;
    for (at, layer) in layers.iter().enumerate() {
        let exact = layer.prefixes.get(program).into_iter().flatten().map(|rule| (rule, at < trusting));
        let name = base_name(program);
        let by_name = name.and_then(|name| layer.prefixes.get(name)).into_iter().flatten();
        let lends_trust = at < trusting && name.is_some_and(|name| stands_for(layers, at, program, name));
        for (rule, trusted) in exact.chain(by_name.map(|rule| (rule, lends_trust))) {
            let heard = trusted || rule.decision != RuleDecision::Allow;
            if heard && rule.covers_arguments(words) && best.is_none_or(|best| rank(rule) > rank(best)) {
                best = Some(rule);
            }
        }
    }
    best.map(PrefixRule::to_match)
}

fn rank(rule: &PrefixRule) -> (RuleDecision, usize) {
    (rule.decision, rule.pattern.len())
}

/// The last part of a program that is named by a path; `None` for a bare name.
pub fn base_name(program: &str) -> Option<&str> {
    let (_, name) = program.rsplit_once('/')?;
    (!name.is_empty()).then_some(name)
}

/// Whether a rule of `layers[of]` for the bare `name` may trust the program at `path`. Definitions of that layer and of
/// more trusted ones widen; every definition narrows. A relative path is whatever its directory holds: never.
pub fn stands_for(layers: &[&Layer], of: usize, path: &str, name: &str) -> bool {
    let listed = |layer: &&Layer| layer.executables.get(name).map(|paths| paths.iter().any(|it| it == path));
    let defined = layers.iter().take(of + 1).any(|layer| listed(layer).is_some());
    path.starts_with('/')
        && (defined || is_standard(path, name))
        && layers.iter().all(|layer| listed(layer).unwrap_or(true))
}

fn is_standard(path: &str, name: &str) -> bool {
    path.strip_suffix(name)
        .and_then(|directory| directory.strip_suffix('/'))
        .is_some_and(|directory| STANDARD_DIRECTORIES.contains(&directory))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::core::policy::strategies;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    fn rule(decision: RuleDecision, pattern: &str) -> PrefixRule {
        let pattern = pattern.split(' ').map(|word| word.split('|').map(str::to_owned).collect()).collect();
        PrefixRule { pattern, decision, justification: None, place: "t:1".to_owned() }
    }

    fn layer(rules: &[(RuleDecision, &str)]) -> Layer {
        let mut layer = Layer::default();
        for (decision, pattern) in rules {
            layer.add_prefix(rule(*decision, pattern));
        }
        layer
    }

    fn decision(layers: &[&Layer], line: &str) -> Option<RuleDecision> {
        strictest(layers, layers.len(), &words(line)).map(|found| found.decision)
    }

    use RuleDecision::{Allow, Forbidden, Prompt};

    #[test]
    fn a_rule_matches_the_first_words_with_their_alternatives() {
        let git = layer(&[(Prompt, "git|hg push|fetch")]);
        for line in ["git push", "hg fetch origin"] {
            assert_eq!(decision(&[&git], line), Some(Prompt), "{line}");
        }
        for line in ["git", "git pull", "push git", "gitk push", "git pushx"] {
            assert_eq!(decision(&[&git], line), None, "{line}");
        }
        assert_eq!(strictest(&[&git], 1, &[]), None);
    }

    #[test]
    fn the_answer_names_the_rule() {
        let found = strictest(&[&layer(&[(Allow, "git push|fetch")])], 1, &words("git push"));
        assert_eq!(found.map(|found| found.rule).as_deref(), Some("t:1: git push|fetch"));
    }

    #[test]
    fn a_lower_layer_cannot_loosen() {
        let system = layer(&[(Forbidden, "git push"), (Prompt, "make")]);
        let project = layer(&[(Allow, "git"), (Allow, "make")]);
        assert_eq!(decision(&[&system, &project], "git push origin"), Some(Forbidden));
        assert_eq!(decision(&[&system, &project], "make all"), Some(Prompt));
        assert_eq!(decision(&[&system, &project], "git log"), Some(Allow));
    }

    #[test]
    fn trust_by_name_is_for_standard_and_listed_paths_only() {
        let allows = layer(&[(Allow, "git")]);
        assert_eq!(decision(&[&allows], "/usr/bin/git log"), Some(Allow));
        for line in
            ["./git log", "bin/git log", "/tmp/git log", "/usr/bin/../../tmp/git log", "/usr/bin/git/ log"]
        {
            assert_eq!(decision(&[&allows], line), None, "{line}");
        }
        let mut listed = allows.clone();
        listed.set_executable("git".into(), vec!["/usr/bin/git".into()]);
        listed.set_executable("git".into(), vec!["/opt/git".into()]);
        assert_eq!(decision(&[&listed], "/opt/git log"), Some(Allow));
        assert_eq!(decision(&[&listed], "/usr/bin/git log"), None, "the last definition does not list it");
        listed.set_executable("git".into(), Vec::new());
        assert_eq!(decision(&[&listed], "/opt/git log"), None);
        assert_eq!(decision(&[&listed], "git log"), Some(Allow));
    }

    #[test]
    fn a_lower_layer_cannot_say_which_programs_a_higher_one_trusts() {
        let user = layer(&[(Allow, "git")]);
        let mut project = Layer::default();
        project.set_executable("git".into(), vec!["/home/me/evil/git".into()]);
        assert_eq!(decision(&[&user, &project], "/home/me/evil/git log"), None);
        assert_eq!(decision(&[&user, &project], "/usr/bin/git log"), None, "but it may narrow");
        let mut system = Layer::default();
        system.set_executable("git".into(), vec!["/opt/git".into()]);
        assert_eq!(decision(&[&system, &user], "/opt/git log"), Some(Allow), "a higher one may");
    }

    #[test]
    fn caution_is_for_every_path_of_a_program() {
        let forbids = layer(&[(Forbidden, "git push"), (Prompt, "/opt/tool")]);
        for line in ["git push", "/usr/bin/git push", "./git push", "/tmp/x/git push"] {
            assert_eq!(decision(&[&forbids], line), Some(Forbidden), "{line}");
        }
        assert_eq!(decision(&[&forbids], "/opt/tool x"), Some(Prompt));
        assert_eq!(decision(&[&forbids], "tool x"), None);
    }

    #[test]
    fn allowing_rules_are_heard_where_they_are_trusted() {
        let all = [&layer(&[(Allow, "ls")]), &layer(&[(Allow, "make"), (Prompt, "cat")])];
        assert_eq!(strictest(&all, 1, &words("make")), None);
        assert!(strictest(&all, 2, &words("make")).is_some());
        assert!(strictest(&all, 0, &words("cat")).is_some(), "caution is always heard");
        assert_eq!(strictest(&all, 0, &words("ls")), None);
    }

    #[test]
    fn what_decides_is_in_the_normalised_text_and_where_it_stands_is_not() {
        let one = layer(&[(Allow, "ls"), (Prompt, "cat")]);
        let mut other = layer(&[(Prompt, "cat"), (Allow, "ls")]);
        assert_eq!(one.normalised(), other.normalised());
        other.add_prefix(PrefixRule { place: "elsewhere:9".into(), ..rule(Allow, "ls") });
        assert_eq!(one.normalised(), other.normalised());
        let mut changed: Vec<Layer> = vec![
            layer(&[(Allow, "ls"), (Forbidden, "cat")]),
            layer(&[(Allow, "ls"), (Prompt, "cat x")]),
            layer(&[(Allow, "ls")]),
            one.clone(),
            one.clone(),
        ];
        changed[3].set_executable("ls".into(), Vec::new());
        changed[4].add_network(NetworkRule {
            host: "*".into(),
            ports: Vec::new(),
            decision: super::super::NetworkDecision::Deny,
        });
        for layer in changed {
            assert_ne!(layer.normalised(), one.normalised());
        }
    }

    /// From trusted to forbidden; nothing said stands between trust and a question.
    fn caution(found: Option<RuleMatch>) -> u8 {
        match found.map(|found| found.decision) {
            Some(Allow) => 0,
            None => 1,
            Some(Prompt) => 2,
            Some(Forbidden) => 3,
        }
    }

    proptest! {
        #[test]
        fn the_order_of_rules_never_matters(
            (rules, shuffled) in prop::collection::vec(strategies::rule(), 0..8)
                .prop_flat_map(|rules| (Just(rules.clone()), Just(rules).prop_shuffle())),
            line in strategies::line(),
        ) {
            let (one, other) = (strategies::layer_of(rules), strategies::layer_of(shuffled));
            prop_assert_eq!(caution(strictest(&[&one], 1, &line)), caution(strictest(&[&other], 1, &line)));
            prop_assert_eq!(one.normalised(), other.normalised());
        }

        #[test]
        fn nor_does_the_layer_that_a_rule_stands_in(
            rules in prop::collection::vec((strategies::rule(), 0..4_usize), 0..8),
            line in strategies::line(),
        ) {
            let of = |wanted: usize| rules.iter().filter(move |(_, at)| *at == wanted).map(|(rule, _)| rule.clone());
            let layers: Vec<Layer> = (0..4).map(|at| strategies::layer_of(of(at))).collect();
            let apart: Vec<&Layer> = layers.iter().collect();
            let backwards: Vec<&Layer> = layers.iter().rev().collect();
            let together = strategies::layer_of(rules.iter().map(|(rule, _)| rule.clone()));
            let said = caution(strictest(&[&together], 1, &line));
            prop_assert_eq!(said, caution(strictest(&apart, apart.len(), &line)));
            prop_assert_eq!(said, caution(strictest(&backwards, backwards.len(), &line)));
        }

        #[test]
        fn no_rule_that_matches_is_stricter_than_what_is_said(
            rules in prop::collection::vec(strategies::rule(), 1..8),
            line in strategies::line(),
        ) {
            let all = strategies::layer_of(rules.clone());
            let said = strictest(&[&all], 1, &line).map(|found| found.decision);
            let alone = rules.into_iter().filter_map(|rule| {
                strictest(&[&strategies::layer_of([rule])], 1, &line).map(|found| found.decision)
            });
            prop_assert_eq!(said, alone.max());
        }

        #[test]
        fn another_layer_never_loosens_what_is_forbidden_or_asked(
            layers in prop::collection::vec(strategies::layer(), 1..4),
            more in strategies::layer(),
            line in strategies::line(),
        ) {
            let before: Vec<&Layer> = layers.iter().collect();
            let after: Vec<&Layer> = layers.iter().chain([&more]).collect();
            let was = strictest(&before, before.len(), &line);
            let is = strictest(&after, after.len(), &line);
            if was.as_ref().is_some_and(|was| was.decision != Allow) {
                prop_assert!(caution(is) >= caution(was));
            }
        }
    }
}
