//! The rules of a scenario, as the session asks for them. What matches, what is dangerous and what is too broad is said
//! by the core; only the way a line is split into its commands is simpler here than in the service: at ` && `.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use unified_exec::core::policy::{
    Assessment, Layer, PrefixRule, RuleDecision, Segment, danger, strictest, too_broad,
};

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Decision {
    Allow,
    Prompt,
    Forbidden,
}

#[derive(Debug, Default)]
pub(crate) struct Rulebook(Layer);

impl Rulebook {
    pub(crate) fn new(rules: &BTreeMap<String, Decision>) -> Self {
        let mut book = Self::default();
        for (words, decision) in rules {
            let decision = match decision {
                Decision::Allow => RuleDecision::Allow,
                Decision::Prompt => RuleDecision::Prompt,
                Decision::Forbidden => RuleDecision::Forbidden,
            };
            book.put(split(words), decision);
        }
        book
    }

    fn put(&mut self, words: Vec<String>, decision: RuleDecision) {
        let pattern = words.into_iter().map(|word| vec![word]).collect();
        let place = "rules".to_owned();
        self.0.add_prefix(PrefixRule { pattern, decision, justification: None, place });
    }

    /// What the rules say of the command line that is the last word of `argv`.
    pub(crate) fn assess(&self, argv: &[String]) -> Assessment {
        let line = argv.last().map_or("", String::as_str);
        let segments = line.split(" && ").map(|command| self.segment(split(command))).collect();
        let canonical = split(line);
        Assessment { segments, canonical, fingerprint: self.0.normalised() }
    }

    fn segment(&self, words: Vec<String>) -> Segment {
        let (rule, danger) = (strictest(&[&self.0], 1, &words), danger(&words));
        Segment { words, rule, danger }
    }

    /// Adds a rule that allows what begins with `words`, or says why not.
    pub(crate) fn allow(&mut self, words: Vec<String>) -> Result<(), String> {
        match too_broad(&words) {
            Some(why) => Err(why),
            None => {
                self.put(words, RuleDecision::Allow);
                Ok(())
            }
        }
    }
}

fn split(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}
