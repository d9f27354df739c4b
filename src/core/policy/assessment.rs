//! What the rules say of one command: the answer of the host's port `Rulebook`, as data.

/// What a set of rules says of a command. A shell line is split into its commands where that is certain to be right;
/// what cannot be split is judged whole, as one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    /// At least one.
    pub segments: Vec<Segment>,
    /// The command in the form that grants are compared by: the words of a line that is one plain command, else a
    /// mark, the way the shell is called, and the line.
    pub canonical: Vec<String>,
    /// Names the set of rules; another set, another name.
    pub fingerprint: String,
}

impl Assessment {
    /// The same without what rules allow: the command is not what their author had in mind.
    #[must_use]
    pub fn distrusted(mut self) -> Self {
        for segment in &mut self.segments {
            segment.rule = segment.rule.take().filter(|rule| rule.decision != RuleDecision::Allow);
        }
        self
    }

    /// Whether every command of it is trusted by an explicit rule.
    pub fn is_trusted(&self) -> bool {
        let allows = |segment: &Segment| {
            segment.rule.as_ref().is_some_and(|rule| rule.decision == RuleDecision::Allow)
        };
        !self.segments.is_empty() && self.segments.iter().all(allows)
    }
}

/// One command of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its words; of what cannot be split, the whole `argv`.
    pub words: Vec<String>,
    /// The strictest rule that matches, if any does.
    pub rule: Option<RuleMatch>,
    /// What makes it dangerous whatever the rules say, such as `rm -rf`.
    pub danger: Option<String>,
}

/// A rule that matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleMatch {
    /// What it says.
    pub decision: RuleDecision,
    /// Where it stands and what it matches, for people: `rules.toml:12: git push`.
    pub rule: String,
    /// Why it is there, in its author's words.
    pub justification: Option<String>,
}

/// What a rule says; a later one is stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleDecision {
    /// Trusted: nobody is asked, and no sandbox is needed.
    Allow,
    /// Somebody must approve.
    Prompt,
    /// Never.
    Forbidden,
}
