//! Reads a configuration file, and says of what it refuses where that stands.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{fs, io};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Config;

/// A configuration that is not taken.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The file says something that is not taken.
    #[error("{place}: {problem}")]
    Refused {
        /// Where.
        place: Place,
        /// What is wrong, and the way out.
        problem: String,
    },
}

/// A place in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// Counted from 1; 0 is not known.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    /// The key with its tables, such as `limits.poll_max_ms`; empty is not known.
    pub key: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)?;
        if self.key.is_empty() { Ok(()) } else { write!(f, ": {}", self.key) }
    }
}

impl Config {
    /// Reads a file.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let text = fs::read_to_string(file)
            .map_err(|source| ConfigError::Unreadable { file: file.to_owned(), source })?;
        Self::parse(file, &text)
    }

    /// Reads the text of a file.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let document = Document { file, text };
        let config: Self = toml::from_str(text).map_err(|error| {
            // A key that nobody knows is named by its own span, a bad value by the span of the value.
            let at = error.span().unwrap_or(0..0);
            document.refused(at, error.message().to_owned())
        })?;
        config.check(&document)?;
        Ok(config)
    }

    /// What no single value shows.
    fn check(&self, document: &Document<'_>) -> Result<(), ConfigError> {
        for (table, grant) in [
            ("default", Some(&self.rights.default)),
            ("agent", self.rights.agent.as_ref()),
            ("ceiling", Some(&self.rights.ceiling)),
        ] {
            if let Some((key, why)) = grant.and_then(super::Grant::idle_key) {
                return Err(document.refused_at(&["rights", table, key], why));
            }
            if let Some(error) = grant.and_then(super::Grant::bad_pattern) {
                return Err(document.refused_at(&["rights", table, "proxy_allow"], &error.to_string()));
            }
        }
        if let Some((key, problem)) = self.rules.fault() {
            return Err(document.refused_at(&["rules", key], &problem));
        }
        if let Some((key, why)) = self.reviewer.as_ref().and_then(super::Reviewer::contradiction) {
            return Err(document.refused_at(&["reviewer", key], why));
        }
        if let Some(cwd) = &self.session.cwd
            && !Path::new(cwd).is_absolute()
        {
            return Err(document.refused_at(&["session", "cwd"], "must be an absolute path"));
        }
        if let Err(invalid) = self.environment.policy().check() {
            return Err(document.refused_at(&["environment", "set"], &invalid.problem));
        }
        Ok(())
    }
}

/// A file with its text, to tell places in it.
struct Document<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Document<'_> {
    fn refused(&self, at: Range<usize>, problem: String) -> ConfigError {
        let key = DeTable::parse(self.text).map(|table| key_at(table.get_ref(), &at)).unwrap_or_default();
        ConfigError::Refused { place: self.place(at.start, key), problem }
    }

    fn refused_at(&self, keys: &[&str], problem: &str) -> ConfigError {
        let at = DeTable::parse(self.text).ok().and_then(|table| span_of(table.get_ref(), keys));
        ConfigError::Refused {
            place: self.place(at.map_or(0, |span| span.start), keys.join(".")),
            problem: problem.to_owned(),
        }
    }

    fn place(&self, at: usize, key: String) -> Place {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        Place {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            key,
        }
    }
}

/// The longest key whose own text or value covers `at`.
fn key_at(table: &DeTable<'_>, at: &Range<usize>) -> String {
    let covers = |span: Range<usize>| span.start <= at.start && at.end <= span.end && !at.is_empty();
    for (key, value) in table {
        let below = match value.get_ref() {
            DeValue::Table(inner) => key_at(inner, at),
            _ => String::new(),
        };
        let name = key.get_ref();
        if !below.is_empty() {
            return format!("{name}.{below}");
        }
        if covers(key.span()) || covers(value.span()) {
            return name.to_string();
        }
    }
    String::new()
}

/// Where the key stands that is reached by these names.
fn span_of(table: &DeTable<'_>, keys: &[&str]) -> Option<Range<usize>> {
    let (first, rest) = keys.split_first()?;
    let (key, value): (&Spanned<_>, _) = table.iter().find(|(key, _)| key.get_ref() == first)?;
    match value.get_ref() {
        DeValue::Table(inner) if !rest.is_empty() => span_of(inner, rest).or_else(|| Some(key.span())),
        _ => Some(key.span()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        Config::parse(Path::new("uexec.toml"), text).expect_err(text).to_string()
    }

    #[test]
    fn nothing_at_all_is_the_default() {
        assert_eq!(Config::parse(Path::new("x"), "").expect("empty"), Config::default());
    }

    #[test]
    fn what_is_shown_can_be_read() {
        let text = Config::default().to_toml().expect("serializable");
        assert_eq!(Config::parse(Path::new("x"), &text).expect(&text), Config::default());
    }

    #[test]
    fn complaints_name_file_line_and_key() {
        for (text, place, words) in [
            ("\n[limits]\npoll_max = 3\n", "uexec.toml:3:1: limits.poll_max:", "unknown field"),
            ("[limits]\npoll_max_ms = 3\n", "uexec.toml:2:15: limits.poll_max_ms:", "outside 5000..=300000"),
            ("[limits]\nwhen_full = \"panic\"\n", "uexec.toml:2:13: limits.when_full:", "unknown variant"),
            ("limits.poll_max_ms = \"x\"\n", "uexec.toml:1:22: limits.poll_max_ms:", "invalid type"),
            ("[nope]\n", "uexec.toml:1:2: nope:", "unknown field"),
            ("[rules]\nuser = \"here\"\n", "uexec.toml:2:1: rules.user:", "absolute"),
            ("[session]\ncwd = \"here\"\n", "uexec.toml:2:1: session.cwd:", "absolute"),
            (
                "[rights.default]\nproxy_allow = [\"x\"]\n",
                "uexec.toml:2:1: rights.default.proxy_allow:",
                "proxied",
            ),
            (
                "[rights.agent]\nnetwork = \"proxied\"\nproxy_allow = [\"a.example\", \"10.0.0.1/8\"]\n",
                "uexec.toml:3:1: rights.agent.proxy_allow:",
                "write `10.0.0.0/8`",
            ),
            (
                "[reviewer]\naddress = \"http://h\"\n",
                "uexec.toml:2:11: reviewer.address:",
                "https://host:port",
            ),
            ("[reviewer]\naddress = \"https://h:1\"\n", "uexec.toml:2:1: reviewer.address:", "`ca`"),
            (
                "[reviewer]\naddress = \"unix:/r\"\nca = \"/ca.pem\"\n",
                "uexec.toml:3:1: reviewer.ca:",
                "https",
            ),
            ("[reviewer]\n", "uexec.toml:1:", "address"),
            ("[listen]\ntcp = \"nowhere\"\n", "uexec.toml:2:7: listen.tcp:", "socket address"),
        ] {
            let refusal = refusal(text);
            assert!(refusal.starts_with(place) && refusal.contains(words), "{text:?} gave {refusal}");
        }
    }

    #[test]
    fn broken_syntax_names_its_line() {
        assert!(
            refusal("[limits]\npoll_max_ms = = 3\n").starts_with("uexec.toml:2:"),
            "{}",
            refusal("a = = 3")
        );
    }
}
