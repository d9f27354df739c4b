//! `uexec rules`: what the rules say of a command, and rules of Codex as rules of ours. Needs no server.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Subcommand;

use crate::cli::args::Global;
use crate::cli::failure::Failure;
use crate::cli::{exit, json, output, words};
use crate::config::{Config, detect_shell};
use crate::core::policy::{Assessment, RuleDecision, Segment};
use crate::rules::Book;

/// Explain and convert the rules for commands
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum What {
    Check(Check),
    Import(Import),
}

/// Say what the rules of the configuration say of a command, which is not run
#[derive(Debug, clap::Args)]
#[command(after_long_help = CHECK_HELP)]
struct Check {
    /// The configuration file
    #[arg(long, env = "UEXEC_CONFIG", value_name = "FILE", hide_env_values = true)]
    config: Option<PathBuf>,
    /// Where the command would start, which decides whose projects' rules count [default: here]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Take one word as a program without arguments
    #[arg(long)]
    argv: bool,
    /// The command: one word is a line for the session's shell, several are a program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const CHECK_HELP: &str = "\
Exit codes: 0 every command is allowed by a rule; 1 a rule forbids one; 3 a rule asks, or one is dangerous and no rule says \
anything about it; 4 no rule says anything about one, so that the session's policy decides; 2 the command line, the \
configuration or a file of rules is wrong.";

/// Convert a file of Codex rules (prefix_rule, host_executable, network_rule) into TOML
#[derive(Debug, clap::Args)]
struct Import {
    /// The file, such as ~/.codex/rules/default.rules
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write it to this file, which must not exist [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Explains or converts.
pub(crate) fn run(global: &Global, args: &Args) -> Result<u8, Failure> {
    match &args.what {
        What::Check(check) => check.run(global.json),
        What::Import(import) => import.run(global.json),
    }
}

/// What is to become of a command; a later one is stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Allow,
    Undecided,
    Dangerous,
    Prompt,
    Forbidden,
}

impl Verdict {
    fn of(segment: &Segment) -> Self {
        match (segment.rule.as_ref().map(|rule| rule.decision), &segment.danger) {
            (Some(RuleDecision::Allow), _) => Self::Allow,
            (Some(RuleDecision::Prompt), _) => Self::Prompt,
            (Some(RuleDecision::Forbidden), _) => Self::Forbidden,
            (None, Some(_)) => Self::Dangerous,
            (None, None) => Self::Undecided,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Undecided => "undecided",
            Self::Dangerous => "dangerous",
            Self::Prompt => "prompt",
            Self::Forbidden => "forbidden",
        }
    }

    const fn meaning(self) -> &'static str {
        match self {
            Self::Allow => "it runs without a question and without a sandbox",
            Self::Undecided => "no rule says anything about all of it; the session's policy decides",
            Self::Dangerous => "somebody must approve it; where nobody may be asked, it is refused",
            Self::Prompt => "a rule wants somebody to approve it; where nobody may be asked, it is refused",
            Self::Forbidden => "a rule forbids it",
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Allow => exit::OK,
            Self::Forbidden => exit::NO,
            Self::Dangerous | Self::Prompt => exit::ASKS,
            Self::Undecided => exit::UNDECIDED,
        }
    }
}

impl Check {
    fn run(&self, as_json: bool) -> Result<u8, Failure> {
        let config = match &self.config {
            Some(file) => super::config::load(file)?,
            None => Config::default(),
        };
        let variable = |name: &str| std::env::var(name).ok();
        let sources =
            config.rules.sources(variable("XDG_CONFIG_HOME").as_deref(), variable("HOME").as_deref());
        let book = Book::open(sources).map_err(|error| {
            Failure::usage(error.to_string()).hint("docs/rules.md shows what a file of rules may say")
        })?;
        let shell = config
            .session
            .shell
            .clone()
            .unwrap_or_else(|| detect_shell(variable("SHELL").as_deref(), variable("PATH").as_deref()));
        let argv = match self.command.as_slice() {
            [line] if !self.argv => {
                let mode = if config.session.login_shell { "-lc" } else { "-c" };
                vec![shell, mode.to_owned(), line.clone()]
            }
            words => words.to_vec(),
        };
        let cwd = std::path::absolute(self.cwd.as_deref().unwrap_or_else(|| Path::new(".")))?;
        let cwd = cwd.to_str().ok_or_else(|| Failure::usage("the directory is not UTF-8"))?;
        let assessment = book.consult(&argv, cwd);
        let verdict = assessment.segments.iter().map(Verdict::of).max().unwrap_or(Verdict::Undecided);
        if as_json {
            json::print(&document(&argv, cwd, &assessment, verdict))?;
        } else {
            output::print(&explanation(&assessment, verdict))?;
        }
        Ok(verdict.code())
    }
}

fn document(argv: &[String], cwd: &str, assessment: &Assessment, verdict: Verdict) -> serde_json::Value {
    let segment = |segment: &Segment| {
        serde_json::json!({
            "words": segment.words,
            "decision": Verdict::of(segment).name(),
            "rule": segment.rule.as_ref().map(|rule| &rule.rule),
            "justification": segment.rule.as_ref().and_then(|rule| rule.justification.as_ref()),
            "danger": segment.danger,
        })
    };
    serde_json::json!({
        "argv": argv,
        "cwd": cwd,
        "decision": verdict.name(),
        "segments": assessment.segments.iter().map(segment).collect::<Vec<_>>(),
        "canonical": assessment.canonical,
        "rules_fingerprint": assessment.fingerprint,
    })
}

/// Each command with what decides about it, then the whole.
fn explanation(assessment: &Assessment, verdict: Verdict) -> String {
    let mut text = String::new();
    for segment in &assessment.segments {
        let command = words::command(&segment.words);
        // Writing into a String cannot fail.
        writeln!(text, "{}", visible(&command)).ok();
        let reason = match &segment.rule {
            Some(rule) => rule.rule.as_str(),
            None => "no rule",
        };
        writeln!(text, "  {:<10} {}", Verdict::of(segment).name(), visible(reason)).ok();
        if let Some(why) = segment.rule.as_ref().and_then(|rule| rule.justification.as_ref()) {
            writeln!(text, "  {:<10} {}", "because", visible(why)).ok();
        }
        if let Some(danger) = &segment.danger {
            writeln!(text, "  {:<10} {}", "danger", visible(danger)).ok();
        }
    }
    writeln!(text, "{}: {}", verdict.name(), verdict.meaning()).ok();
    text
}

/// Without what would move a terminal's cursor.
fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

impl Import {
    fn run(&self, as_json: bool) -> Result<u8, Failure> {
        let text = convert(&self.file)?;
        match &self.output {
            Some(file) => {
                let open = std::fs::File::options().write(true).create_new(true).open(file);
                open.and_then(|mut open| open.write_all(text.as_bytes())).map_err(|error| {
                    Failure::usage(format!("cannot write {}: {error}", file.display()))
                        .hint("name a file that does not exist yet")
                })?;
            }
            None if as_json => json::print(&serde_json::json!({ "toml": text }))?,
            None => output::print(&text)?,
        }
        Ok(exit::OK)
    }
}

#[cfg(feature = "starlark")]
fn convert(file: &Path) -> Result<String, Failure> {
    crate::rules::import(file).map_err(|error| Failure::usage(error.to_string()))
}

#[cfg(not(feature = "starlark"))]
fn convert(_: &Path) -> Result<String, Failure> {
    Err(Failure::usage("this uexec was built without Starlark, in which Codex writes its rules")
        .hint("build one that has it: cargo build --release --features starlark"))
}
