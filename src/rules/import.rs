//! Rules of Codex as rules of ours: runs the Starlark that calls `prefix_rule`, `host_executable` and `network_rule`,
//! and writes down as TOML what it was called with.
//!
//! The result is read by our own reader before it is given out, examples and all. What has no equal here is never made
//! wider: it asks instead, and a comment says so.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use serde_json::Value as Json;
use starlark::environment::{GlobalsBuilder, Module};
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::syntax::{AstModule, Dialect};
use starlark::values::Value;
use starlark::values::none::NoneType;

use super::Kind;
use super::file::read_into;
use super::place::RulesError;
use super::source::FILE_MAX;
use crate::core::policy::Layer;

/// Why a file was not converted.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It cannot be read.
    #[error("cannot read {file}: {source}")]
    Unreadable {
        /// The file.
        file: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// It is larger than a file of rules may be.
    #[error("{file} has more than {FILE_MAX} bytes; split it")]
    TooLarge {
        /// The file.
        file: String,
    },
    /// Its Starlark is wrong, or calls a function with what it does not take.
    #[error("{problem}")]
    Starlark {
        /// Where and what.
        problem: String,
    },
    /// It is right there, and would not be here.
    #[error("converted, it would be wrong: {source}")]
    Unequal {
        /// Where in the converted text, and what.
        #[source]
        source: RulesError,
    },
}

/// Reads a file of Codex rules, and gives it as TOML.
pub fn import(file: &Path) -> Result<String, ImportError> {
    let name = file.display().to_string();
    let size = fs::metadata(file).map(|facts| facts.len());
    if size.is_ok_and(|size| size > FILE_MAX) {
        return Err(ImportError::TooLarge { file: name });
    }
    let text =
        fs::read_to_string(file).map_err(|source| ImportError::Unreadable { file: name.clone(), source })?;
    let converted = convert(&name, text)?;
    let mut layer = Layer::default();
    read_into(&mut layer, Kind::System, Path::new("converted.toml"), &converted)
        .map_err(|source| ImportError::Unequal { source })?;
    Ok(converted)
}

fn convert(name: &str, text: String) -> Result<String, ImportError> {
    let written = Written::new(format!("# Converted from {}.\n", one_line(name)));
    run(name, text, &written).map_err(|error| ImportError::Starlark { problem: format!("{error:#}") })?;
    Ok(written.into_inner())
}

fn run(name: &str, text: String, written: &Written) -> starlark::Result<()> {
    let ast = AstModule::parse(name, text, &Dialect::Extended)?;
    let globals = GlobalsBuilder::standard().with(functions).build();
    Module::with_temp_heap(|module| {
        let mut evaluator = Evaluator::new(&module);
        evaluator.extra = Some(written);
        evaluator.eval_module(ast, &globals)?;
        Ok(())
    })
}

/// The TOML so far.
type Written = RefCell<String>;

/// What a call was given that it does not take.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unfit(String);

fn unfit(problem: impl Into<String>) -> starlark::Error {
    starlark::Error::new_other(Unfit(problem.into()))
}

#[starlark_module]
fn functions(builder: &mut GlobalsBuilder) {
    fn prefix_rule<'v>(
        pattern: Value<'v>,
        decision: Option<Value<'v>>,
        r#match: Option<Value<'v>>,
        not_match: Option<Value<'v>>,
        justification: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<NoneType> {
        let mut entry = Entry::new("prefix");
        entry.add("pattern", Some(pattern))?;
        entry.add("decision", decision)?;
        entry.add("justification", justification)?;
        entry.add("match", r#match)?;
        entry.add("not_match", not_match)?;
        entry.write(eval)
    }

    fn host_executable<'v>(
        name: Value<'v>,
        paths: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<NoneType> {
        let mut entry = Entry::new("host_executable");
        entry.add("name", Some(name))?;
        entry.add("paths", Some(paths))?;
        entry.write(eval)
    }

    fn network_rule<'v>(
        host: Value<'v>,
        protocol: Value<'v>,
        decision: Value<'v>,
        justification: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<NoneType> {
        let (protocol, decision) = (word(protocol)?, word(decision)?);
        let mut entry = Entry::new("network");
        entry.connection(&protocol, &decision)?;
        entry.add("host", Some(host))?;
        entry.add("justification", justification)?;
        entry.write(eval)
    }
}

fn word(value: Value<'_>) -> starlark::Result<String> {
    value.unpack_str().map(str::to_owned).ok_or_else(|| unfit(format!("{value} is no text")))
}

/// A table of the TOML.
struct Entry(String);

impl Entry {
    fn new(table: &str) -> Self {
        Self(format!("\n[[{table}]]\n"))
    }

    /// Adds a key, unless its value is left out or `None`.
    fn add(&mut self, key: &str, value: Option<Value<'_>>) -> starlark::Result<()> {
        let Some(value) = value.filter(|value| !value.is_none()) else { return Ok(()) };
        let json = value.to_json_value().map_err(|error| unfit(format!("`{key}`: {error}")))?;
        let toml =
            toml_value(json).ok_or_else(|| unfit(format!("`{key}` must be texts, and lists of texts")))?;
        self.line(&format!("{key} = {toml}"));
        Ok(())
    }

    /// Ports and decision of a protocol. Here rules know ports: where those do not tell the protocol, nothing is allowed.
    fn connection(&mut self, protocol: &str, decision: &str) -> starlark::Result<()> {
        let port = match protocol {
            "https" | "https_connect" | "http-connect" => Some(443),
            "http" => Some(80),
            "socks5_tcp" | "socks5_udp" => None,
            _ => return Err(unfit(format!("{protocol:?} is no protocol that is known"))),
        };
        let ours = match (decision, port) {
            ("deny" | "forbidden", _) => "deny",
            ("prompt", _) => "ask",
            ("allow", Some(_)) => "allow",
            ("allow", None) => {
                self.line(&format!(
                    "# It allowed {protocol}, on any port; say which `ports` to allow it here."
                ));
                "ask"
            }
            _ => return Err(unfit(format!("{decision:?} is no decision: allow, prompt or deny"))),
        };
        self.line(&format!("decision = \"{ours}\""));
        // What is denied is denied on every port.
        if let Some(port) = port.filter(|_| ours != "deny") {
            self.line(&format!("ports = [{port}]"));
        }
        Ok(())
    }

    fn line(&mut self, line: &str) {
        // Writing into a String cannot fail.
        writeln!(self.0, "{line}").ok();
    }

    fn write(self, eval: &Evaluator<'_, '_, '_>) -> starlark::Result<NoneType> {
        let written = eval.extra.and_then(|extra| extra.downcast_ref::<Written>());
        let written = written.ok_or_else(|| unfit("rules can only be given while a file is converted"))?;
        let mut text = written.borrow_mut();
        if (text.len() + self.0.len()) as u64 > FILE_MAX {
            return Err(unfit(format!("the rules take more than {FILE_MAX} bytes")));
        }
        text.push_str(&self.0);
        Ok(NoneType)
    }
}

/// Texts, and lists of them.
fn toml_value(json: Json) -> Option<toml::Value> {
    match json {
        Json::String(text) => Some(toml::Value::String(text)),
        Json::Array(items) => {
            items.into_iter().map(toml_value).collect::<Option<_>>().map(toml::Value::Array)
        }
        _ => None,
    }
}

fn one_line(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::policy::{RuleDecision, strictest};

    fn imported(text: &str) -> Result<String, ImportError> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), text).expect("written");
        import(file.path())
    }

    fn layer(toml: &str) -> Layer {
        let mut layer = Layer::default();
        read_into(&mut layer, Kind::System, Path::new("x"), toml).expect(toml);
        layer
    }

    #[test]
    fn rules_mean_the_same() {
        let toml = imported(
            r#"
# Comments, variables and loops are Starlark too.
tools = ["cargo", "rustc"]
prefix_rule(
    pattern = ["git", ["push", "fetch"]],
    decision = "prompt",
    justification = 'others "see" it',
    match = [["git", "push", "origin"], "git fetch"],
    not_match = ["git log"],
)
[prefix_rule([tool, "--version"]) for tool in tools]
prefix_rule(pattern = ["rm"], decision = "forbidden")
host_executable(name = "git", paths = ["/usr/bin/git", "/opt/bin/git"])
network_rule(host = "example.org", protocol = "https", decision = "allow")
network_rule(host = "evil.org", protocol = "http", decision = "deny", justification = "no")
network_rule(host = "odd.org", protocol = "socks5_tcp", decision = "allow")
"#,
        )
        .expect("right");
        let layer = layer(&toml);
        let says = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            strictest(&[&layer], 1, &words).map(|found| found.decision)
        };
        assert_eq!(says("git fetch x"), Some(RuleDecision::Prompt));
        assert_eq!(says("rustc --version"), Some(RuleDecision::Allow));
        assert_eq!(says("rm x"), Some(RuleDecision::Forbidden));
        assert_eq!(says("git log"), None);
        let network: Vec<String> = layer
            .network()
            .iter()
            .map(|rule| format!("{} {:?} {:?}", rule.host, rule.ports, rule.decision))
            .collect();
        assert_eq!(network, ["example.org [443] Allow", "evil.org [] Deny", "odd.org [] Ask"]);
        assert!(toml.contains("# It allowed socks5_tcp"), "{toml}");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, words) in [
            ("x = 1\nprefix_rule(", ":2:"),
            ("\nprefix_rule(patern = [\"a\"])", ":2:"),
            ("\n\nprefix_rule(pattern = [1])", ":3:"),
            ("network_rule(host = \"a\", protocol = \"gopher\", decision = \"deny\")", "gopher"),
            ("network_rule(host = \"a\", protocol = \"http\", decision = \"maybe\")", "maybe"),
            ("prefix_rule(pattern = [\"a\"], decision = \"maybe\")", "unknown variant"),
            ("prefix_rule(pattern = [\"a\"], match = [\"b\"])", "does not match"),
            ("prefix_rule(pattern = [])", "1 to 64 words"),
            ("load(\"other.star\", \"x\")", "load"),
            ("[prefix_rule([\"x\" * 1000]) for i in range(1000)]", "bytes"),
        ] {
            let refusal = imported(text).expect_err(text).to_string();
            assert!(refusal.contains(words), "{text:?} gave {refusal}");
        }
        assert!(import(Path::new("/nowhere")).is_err());
    }
}
