//! One file of rules: TOML in, entries of a layer out, or the place of what is wrong.
//!
//! Everything is strict: unknown keys, empty words and examples that do not hold are errors, because a rule that is
//! misread may be one that forbids.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::place::{Place, RulesError};
use super::{Kind, destination};
use crate::core::policy::{
    Layer, NetworkDecision, NetworkRule, PrefixRule, RuleDecision, base_name, strictest,
};

/// Entries of a file; far more than anybody keeps in mind.
const ENTRIES_MAX: usize = 4_096;

/// Words of a pattern, and alternatives of each.
const PATTERN_MAX: usize = 64;

/// Bytes of a word, a path or a reason: it is shown to people, in one line.
const TEXT_MAX: usize = 1_024;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    prefix: Vec<Spanned<Prefix>>,
    host_executable: Vec<Spanned<HostExecutable>>,
    network: Vec<Spanned<Connection>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Prefix {
    pattern: Spanned<Vec<Spanned<Token>>>,
    #[serde(default = "allow")]
    decision: Decision,
    justification: Option<Spanned<String>>,
    #[serde(default, rename = "match")]
    matching: Vec<Spanned<Example>>,
    #[serde(default)]
    not_match: Vec<Spanned<Example>>,
}

/// A word of a pattern.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "each part of a pattern must be a word, or a list of alternative words")]
enum Token {
    One(String),
    Any(Vec<String>),
}

/// A command that a rule is tried on.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "an example must be a command: a text, or a list of words")]
enum Example {
    Line(String),
    Words(Vec<String>),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Decision {
    Allow,
    Prompt,
    Forbidden,
}

const fn allow() -> Decision {
    Decision::Allow
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostExecutable {
    name: Spanned<String>,
    paths: Vec<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Connection {
    host: Spanned<String>,
    #[serde(default)]
    ports: Vec<Spanned<u16>>,
    decision: ConnectionDecision,
    justification: Option<Spanned<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ConnectionDecision {
    Allow,
    Ask,
    Deny,
}

/// Adds what a file says to a layer of this kind. On an error the layer holds a part of it, and is of no use.
pub(super) fn read_into(layer: &mut Layer, kind: Kind, file: &Path, text: &str) -> Result<(), RulesError> {
    let reader = Reader { file, text };
    let parsed: File = toml::from_str(text)
        .map_err(|error| reader.refused(error.span().unwrap_or(0..0), error.message().to_owned()))?;
    if parsed.prefix.len() + parsed.host_executable.len() + parsed.network.len() > ENTRIES_MAX {
        return Err(reader.refused(0..0, format!("more than {ENTRIES_MAX} entries; remove some")));
    }
    let mut executables = BTreeMap::new();
    for definition in parsed.host_executable {
        let (name, paths) = reader.executable(definition.into_inner())?;
        executables.insert(name, paths);
    }
    for entry in parsed.prefix {
        layer.add_prefix(reader.prefix(entry.into_inner(), &executables)?);
    }
    for (name, paths) in executables {
        layer.set_executable(name, paths);
    }
    for entry in parsed.network {
        layer.add_network(reader.connection(entry, kind)?);
    }
    Ok(())
}

/// A file with its text, to tell places in it.
struct Reader<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn refused(&self, at: Range<usize>, problem: impl Into<String>) -> RulesError {
        RulesError::Refused { place: Place::of(self.file, self.text, at.start), problem: problem.into() }
    }

    fn prefix(
        &self,
        entry: Prefix,
        executables: &BTreeMap<String, Vec<String>>,
    ) -> Result<PrefixRule, RulesError> {
        let at = entry.pattern.span();
        let place = Place::of(self.file, self.text, at.start);
        let pattern = entry.pattern.into_inner();
        if pattern.is_empty() || pattern.len() > PATTERN_MAX {
            return Err(self.refused(at, format!("`pattern` must have 1 to {PATTERN_MAX} words")));
        }
        let rule = PrefixRule {
            pattern: pattern.into_iter().map(|token| self.token(token)).collect::<Result<_, _>>()?,
            decision: match entry.decision {
                Decision::Allow => RuleDecision::Allow,
                Decision::Prompt => RuleDecision::Prompt,
                Decision::Forbidden => RuleDecision::Forbidden,
            },
            justification: self.justification(entry.justification)?,
            place: format!("{}:{}", place.file.display(), place.line),
        };
        self.try_examples(&rule, executables, entry.matching, true)?;
        self.try_examples(&rule, executables, entry.not_match, false)?;
        Ok(rule)
    }

    fn token(&self, token: Spanned<Token>) -> Result<Vec<String>, RulesError> {
        let at = token.span();
        let alternatives = match token.into_inner() {
            Token::One(word) => vec![word],
            Token::Any(words) => words,
        };
        if alternatives.is_empty() || alternatives.len() > PATTERN_MAX {
            return Err(
                self.refused(at, format!("a list of alternatives must have 1 to {PATTERN_MAX} words"))
            );
        }
        match alternatives.iter().find(|word| !is_text(word)) {
            Some(_) => Err(self.refused(at, format!("a word must have 1 to {TEXT_MAX} bytes, and no NUL"))),
            None => Ok(alternatives),
        }
    }

    fn justification(&self, text: Option<Spanned<String>>) -> Result<Option<String>, RulesError> {
        match text {
            Some(text) if !is_text(text.get_ref()) || text.get_ref().trim().is_empty() => Err(self.refused(
                text.span(),
                format!("`justification` must have 1 to {TEXT_MAX} bytes; leave it out if there is none"),
            )),
            text => Ok(text.map(Spanned::into_inner)),
        }
    }

    fn try_examples(
        &self,
        rule: &PrefixRule,
        executables: &BTreeMap<String, Vec<String>>,
        examples: Vec<Spanned<Example>>,
        expected: bool,
    ) -> Result<(), RulesError> {
        let mut alone = Layer::default();
        alone.add_prefix(rule.clone());
        for (name, paths) in executables {
            alone.set_executable(name.clone(), paths.clone());
        }
        for example in examples {
            let at = example.span();
            let words = match example.into_inner() {
                Example::Words(words) => words,
                Example::Line(line) => shlex::split(&line)
                    .ok_or_else(|| self.refused(at.clone(), "quotes of the example do not close"))?,
            };
            if strictest(&[&alone], 1, &words).is_some() != expected {
                let (key, does) =
                    if expected { ("match", "does not match") } else { ("not_match", "matches") };
                let problem =
                    format!("an example of `{key}` fails: the rule {does} {words:?}; correct one of the two");
                return Err(self.refused(at, problem));
            }
        }
        Ok(())
    }

    fn executable(&self, definition: HostExecutable) -> Result<(String, Vec<String>), RulesError> {
        let name = definition.name.get_ref();
        if !is_text(name) || name.contains('/') {
            return Err(self.refused(definition.name.span(), "`name` must be a bare name, without `/`"));
        }
        for path in &definition.paths {
            let text = path.get_ref();
            if !text.starts_with('/') || base_name(text) != Some(name) || !is_text(text) {
                let problem = format!("{text:?} must be an absolute path that ends in /{name}");
                return Err(self.refused(path.span(), problem));
            }
        }
        Ok((name.clone(), definition.paths.into_iter().map(Spanned::into_inner).collect()))
    }

    fn connection(&self, entry: Spanned<Connection>, kind: Kind) -> Result<NetworkRule, RulesError> {
        let at = entry.span();
        let Connection { host, ports, decision, justification } = entry.into_inner();
        match kind {
            Kind::Project => {
                return Err(self.refused(at, "rules for connections hold for the whole server; put them into the system's or the user's file"));
            }
            Kind::User if decision == ConnectionDecision::Allow => {
                return Err(self.refused(at, "a user's file can only narrow connections, with `ask` or `deny`; put `allow` into the system's file"));
            }
            Kind::System | Kind::User => {}
        }
        self.justification(justification)?;
        if let Some(port) = ports.iter().find(|port| *port.get_ref() == 0) {
            return Err(self.refused(port.span(), "a port is 1 to 65535; leave `ports` out for every port"));
        }
        let name = destination::host(host.get_ref()).map_err(|problem| self.refused(host.span(), problem))?;
        Ok(NetworkRule {
            host: name,
            ports: ports.into_iter().map(Spanned::into_inner).collect(),
            decision: match decision {
                ConnectionDecision::Allow => NetworkDecision::Allow,
                ConnectionDecision::Ask => NetworkDecision::Ask,
                ConnectionDecision::Deny => NetworkDecision::Deny,
            },
        })
    }
}

fn is_text(text: &str) -> bool {
    !text.is_empty() && text.len() <= TEXT_MAX && !text.contains('\0')
}

#[cfg(test)]
#[path = "file/tests.rs"]
mod tests;
