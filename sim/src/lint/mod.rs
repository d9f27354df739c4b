//! What strict parsing lets pass and is wrong all the same: names that nothing uses, steps that never come, patterns that
//! can match nothing, times that would be chance in real time.

mod names;
mod patterns;
mod times;
mod uses;
mod vocabulary;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::model;
use crate::run::Run;
use crate::scenario::{LoadError, Scenario};

/// Something wrong in a scenario file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1; 0 if the file cannot be read.
    pub line: usize,
    /// The field, or the table, that is at fault; empty if parsing says it in the problem.
    pub field: String,
    /// What is wrong, and the way out.
    pub problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.path.display(), self.line)?;
        if !self.field.is_empty() {
            write!(f, "`{}`: ", self.field)?;
        }
        f.write_str(&self.problem)
    }
}

impl From<LoadError> for Finding {
    fn from(error: LoadError) -> Self {
        let (path, line, problem) = match error {
            LoadError::Read { path, source } => (path, 0, source.to_string()),
            LoadError::Invalid { path, line, problem } => (path, line, problem),
        };
        Self { path, line, field: String::new(), problem }
    }
}

/// A file under inspection, and what a run of it came to.
struct Subject<'a> {
    path: &'a Path,
    text: &'a str,
    scenario: Scenario,
    run: Run,
    findings: Vec<Finding>,
}

impl Subject<'_> {
    /// Something is wrong at a byte of the text.
    fn find(&mut self, at: usize, field: impl Into<String>, problem: impl Into<String>) {
        let line = 1 + self.text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count();
        let (path, field, problem) = (self.path.to_owned(), field.into(), problem.into());
        self.findings.push(Finding { path, line, field, problem });
    }

    /// Where a line begins that begins with `words`; the top of the file if none does.
    fn at(&self, words: &str) -> usize {
        let mut at = 0;
        for line in self.text.split_inclusive('\n') {
            if line.trim_start().starts_with(words) {
                return at;
            }
            at += line.len();
        }
        0
    }
}

/// Everything that is wrong in these files, given by path and text, in their order.
pub fn lint(files: &[(PathBuf, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut titles: BTreeMap<String, &Path> = BTreeMap::new();
    for (path, text) in files {
        let scenario = match Scenario::parse(path, text) {
            Ok(scenario) => scenario,
            Err(error) => {
                findings.push(error.into());
                continue;
            }
        };
        let run = model::play(&scenario);
        let mut subject = Subject { path, text, scenario, run, findings: Vec::new() };
        names::check(&mut subject);
        let title = subject.scenario.title.to_lowercase();
        if let Some(first) = titles.get(&title) {
            let problem = format!("{} has the same; say what is different", first.display());
            subject.find(subject.at("title"), "title", problem);
        } else {
            titles.insert(title, path);
        }
        uses::check(&mut subject);
        patterns::check(&mut subject);
        times::check(&mut subject);
        subject.findings.sort_by_key(|finding| finding.line);
        findings.append(&mut subject.findings);
    }
    findings
}
