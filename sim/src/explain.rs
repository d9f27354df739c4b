//! Walks the decision about one command, step by step, with the core's own functions.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;
use unified_exec::core::approval::Permissions;
use unified_exec::core::command::{Command, Program, TerminalSize};
use unified_exec::core::ids::{ProcessId, SessionId};
use unified_exec::core::orchestrate::{
    AfterDenial, Denial, Gate, Requirement, after_denial, effective_profile, first_confinement, requirement,
};
use unified_exec::core::policy::{
    ApprovalPolicy, Assessment, Confinement, Files, Network, Profile, Rights, Segment,
};
use unified_exec::core::spawn::{SpawnPlan, Stdio};

use crate::rulebook::{Decision, Rulebook};
use crate::scenario::service::Service;
use crate::scenario::session::defaults;
use crate::tell::forbidden;

/// A path that `--deny-read` means when it names none.
const SECRET: &str = "/secret";

/// Options that `explain` does not understand.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// There is no command.
    #[error("explain needs a command, such as: sim explain \"npm install\" --policy never --deny-read")]
    NoCommand,
    /// A value does not fit its option, or there is no such option.
    #[error("--{option}: {problem}")]
    Option {
        /// The option.
        option: String,
        /// Why.
        problem: String,
    },
}

/// What is to be explained: the command, the rights of `[service]`, and what the command asks for.
struct Case {
    service: Service,
    rules: BTreeMap<String, Decision>,
    command: Command,
    escalate: bool,
}

/// One option's value: as TOML if it looks like it, else as a word.
fn value(option: &str, given: Option<&str>) -> String {
    match (option, given) {
        ("deny_read", None) => format!("[{SECRET:?}]"),
        ("deny_read", Some(path)) if !path.starts_with('[') => format!("[{path:?}]"),
        ("owner_network", None) => "{ \"*\" = \"allow\" }".to_owned(),
        ("policy", Some("granular")) => "{ granular = { sandbox_approval = true } }".to_owned(),
        (_, None) => "true".to_owned(),
        (_, Some(word)) if word.starts_with(['{', '[']) || word == "true" || word == "false" => {
            word.to_owned()
        }
        (_, Some(word)) if word.chars().all(|digit| digit.is_ascii_digit()) => word.to_owned(),
        (_, Some(word)) => format!("{word:?}"),
    }
}

impl Case {
    fn read(args: &[String]) -> Result<Self, ExplainError> {
        let (line, options) = args.split_first().ok_or(ExplainError::NoCommand)?;
        if line.starts_with("--") {
            return Err(ExplainError::NoCommand);
        }
        let mut case = Self {
            service: Service::default(),
            rules: BTreeMap::new(),
            command: Command {
                program: Program::Shell { cmd: line.clone(), shell: None, login: None },
                cwd: None,
                env: Vec::new(),
                terminal: None,
                stdin: false,
                full_terminal: false,
            },
            escalate: false,
        };
        let mut settings = String::from("sandbox = \"workspace_write\"\nnetwork = \"off\"\n");
        let mut given: BTreeMap<String, String> = BTreeMap::new();
        let mut options = options.iter().map(String::as_str).peekable();
        while let Some(word) = options.next() {
            let option =
                word.strip_prefix("--").ok_or_else(|| wrong(word, "is no option"))?.replace('-', "_");
            let argument = options.next_if(|next| !next.starts_with("--"));
            match (option.as_str(), argument) {
                ("tty", None) => case.command.terminal = Some(TerminalSize::default()),
                ("stdin", None) => case.command.stdin = true,
                ("escalate", None) => case.escalate = true,
                ("rule", Some(rule)) => case.add_rule(rule)?,
                (name, argument) => drop(given.insert(name.to_owned(), value(name, argument))),
            }
        }
        for (option, value) in given {
            let alone = format!("{option} = {value}\n");
            toml::from_str::<Service>(&alone).map_err(|error| wrong(&option, error.message()))?;
            if let "sandbox" | "network" = option.as_str() {
                let kept = settings.lines().filter(|line| !line.starts_with(&option));
                settings = kept.map(|line| format!("{line}\n")).collect();
            }
            settings += &alone;
        }
        case.service = toml::from_str(&settings).map_err(|error| wrong("service", error.message()))?;
        Ok(case)
    }

    fn add_rule(&mut self, rule: &str) -> Result<(), ExplainError> {
        #[derive(Deserialize)]
        struct Rule {
            says: Decision,
        }
        let problem = "needs words and what the rule says of them, such as \"npm install=allow\"";
        let (words, says) = rule.rsplit_once('=').ok_or_else(|| wrong("rule", problem))?;
        let rule: Rule =
            toml::from_str(&format!("says = {says:?}")).map_err(|error| wrong("rule", error.message()))?;
        self.rules.insert(words.to_owned(), rule.says);
        Ok(())
    }
}

fn wrong(option: &str, problem: &str) -> ExplainError {
    let option = option.trim_start_matches("--").replace('_', "-");
    ExplainError::Option { option, problem: problem.to_owned() }
}

/// The walk for `args`: a command, then options that are named as the fields of `[service]`, with `-` for `_`; besides
/// them `--rule "WORDS=allow"`, `--escalate`, `--tty` and `--stdin`.
pub fn explain(args: &[String]) -> Result<String, ExplainError> {
    let case = Case::read(args)?;
    let mut out = Page::default();
    let plan = plan(&case.command).ok_or(ExplainError::NoCommand)?;
    let rights = case.service.rights();
    let owner = case.service.owner_network.is_some();
    let permissions = if case.escalate { Permissions::Escalated } else { Permissions::Default };
    let assessment = Rulebook::new(&case.rules).assess(&plan.argv);
    out.put("command", &plan.argv.join(" "));
    out.put("spawn", spawner(&plan.stdio));
    for segment in &assessment.segments {
        out.put("segment", &of_segment(segment));
    }
    out.put("rights", &of_rights(&rights, owner));
    let required = requirement(&rights, &assessment, &permissions, owner);
    out.put("requirement", &of_requirement(&required));
    if matches!(required, Requirement::Forbidden(_)) {
        return Ok(out.0);
    }
    let approved = !matches!(required, Requirement::Skip);
    let profile = effective_profile(&rights.profile, &plan.cwd, None, owner);
    let trusted = Assessment::is_trusted(&assessment) || (case.escalate && approved);
    let confinement = first_confinement(&profile, trusted, owner);
    out.put("first sandbox", &of_confinement(&confinement, trusted));
    let window = case.service.limits().early_window.as_millis();
    out.put("window", &format!("{window} ms from the spawn; an exit at {window} ms is early"));
    let denial =
        Denial { rights: &rights, frozen: &profile, owner_network: owner, approved, retriable: true };
    match confinement {
        Confinement::Profile(_) => gates(&mut out, &denial),
        Confinement::External | Confinement::Unrestricted => {
            out.put("row", "external, or full access with network: never sandboxed here, so no denial path");
        }
        Confinement::Bypassed => out.put("row", "no sandbox, so no denial path"),
    }
    Ok(out.0)
}

/// What starts: the same plan as the session's.
fn plan(command: &Command) -> Option<SpawnPlan> {
    command.check(&defaults()).ok()?;
    Some(command.plan(&defaults(), &SessionId::new("sim"), ProcessId::new(1000)?))
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn put(&mut self, what: &str, says: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{what:<14} {says}");
    }
}

const fn spawner(stdio: &Stdio) -> &'static str {
    match stdio {
        Stdio::Terminal(_) => "terminal (tty)",
        Stdio::Pipes { stdin: true } => "pipes, with stdin",
        Stdio::Pipes { stdin: false } => "pipes, stdin closed",
    }
}

fn of_segment(segment: &Segment) -> String {
    let rule = segment.rule.as_ref().map_or_else(
        || "no rule".to_owned(),
        |rule| format!("{:?} by {}", rule.decision, rule.rule).to_lowercase(),
    );
    let danger = segment.danger.as_ref().map_or_else(String::new, |danger| format!("; danger: {danger}"));
    format!("{:?}: {rule}{danger}", segment.words.join(" "))
}

fn of_policy(policy: &ApprovalPolicy) -> String {
    match policy {
        ApprovalPolicy::Never => "Never".to_owned(),
        ApprovalPolicy::OnRequest => "OnRequest".to_owned(),
        ApprovalPolicy::UnlessTrusted => "UnlessTrusted".to_owned(),
        ApprovalPolicy::Granular(granular) => {
            let flags = [
                ("rules", granular.rules),
                ("sandbox_approval", granular.sandbox_approval),
                ("network", granular.network),
                ("stdin", granular.stdin),
            ];
            let on: Vec<&str> = flags.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect();
            format!("Granular, {} on", if on.is_empty() { "nothing".to_owned() } else { on.join(", ") })
        }
    }
}

fn of_rights(rights: &Rights, owner: bool) -> String {
    let strict = if rights.strict_review { ", strict review" } else { "" };
    let owner = if owner { ", an owner's network policy" } else { "" };
    format!("{}{strict}; {}{owner}", of_policy(&rights.policy), of_profile(&rights.profile))
}

fn of_profile(profile: &Profile) -> String {
    let files = match &profile.files {
        Files::ReadOnly => "read only",
        Files::WorkspaceWrite { .. } => "workspace write",
        Files::FullAccess => "full access",
        Files::External => "external",
    };
    let network = match profile.network {
        Network::Off => "off",
        Network::On => "on",
        Network::Proxied { .. } => "proxied",
    };
    let denied = match &profile.deny_read[..] {
        [] => String::new(),
        paths => format!(", may not read {}", paths.join(", ")),
    };
    format!("{files}, network {network}{denied}")
}

fn of_requirement(required: &Requirement) -> String {
    match required {
        Requirement::Forbidden(why) => format!("forbidden ({}): {why}", forbidden(why)),
        Requirement::NeedsApproval(why) => {
            format!(
                "approval: {why}; declined: refused, nothing starts; approved, by an answer or a grant: goes on"
            )
        }
        Requirement::Review => {
            "review: strict review sees what needs no approval; denied: refused".to_owned()
        }
        Requirement::Skip => "skip: nobody is asked".to_owned(),
    }
}

fn of_confinement(confinement: &Confinement, unsandboxed: bool) -> String {
    match confinement {
        Confinement::Unrestricted => "none: the profile restricts nothing".to_owned(),
        Confinement::External => "none here: somebody else sandboxes".to_owned(),
        Confinement::Bypassed => "none: bypassed by allow rules, or by an approved escalation".to_owned(),
        Confinement::Profile(profile) => {
            let kept = if unsandboxed { ", kept for deny-read or the owner's network policy" } else { "" };
            format!("the profile: {}{kept}", of_profile(profile))
        }
    }
}

/// The gates in their order: those before the one that stops have let it pass.
fn gates(out: &mut Page, denial: &Denial<'_>) {
    let after = after_denial(denial);
    let stopped = if let AfterDenial::Surface(gate) = after { Some(gate) } else { None };
    for (gate, name, stops) in [
        (Gate::Tool, "G1 tool", "this kind of tool does not escalate"),
        (Gate::Policy, "G2 policy", "the policy wants no retries"),
        (
            Gate::Bypass,
            "G3 bypass",
            "deny-read or an owner's network policy: the sandbox is never left aside",
        ),
    ] {
        if stopped == Some(gate) {
            out.put(name, &format!("STOPS: {stops}"));
            break;
        }
        out.put(name, "passes");
    }
    match after {
        AfterDenial::Surface(_) => {}
        AfterDenial::Retry => out.put("G4 approval", "passes silently: the first attempt was approved"),
        AfterDenial::Ask => out.put("G4 approval", "asks: retry without sandbox?"),
        AfterDenial::Review => out.put("G4 approval", "asks for a fresh review"),
    }
    if stopped.is_none() {
        out.put("G5 sandbox", "none for the second attempt");
    }
    out.put("row", &row(denial, after));
    out.put("late denial", "reported with its evidence, never retried");
}

/// The row of the policy table that this is.
fn row(denial: &Denial<'_>, after: AfterDenial) -> String {
    let policy = of_policy(&denial.rights.policy);
    let first = if denial.approved { "approved" } else { "not approved" };
    match after {
        AfterDenial::Surface(Gate::Tool) => "not this tool: surface".to_owned(),
        AfterDenial::Surface(Gate::Policy) => format!("{policy}: surface"),
        AfterDenial::Surface(Gate::Bypass) => {
            "any, with deny-read or owner network policy: surface".to_owned()
        }
        AfterDenial::Retry => format!("{policy}, first attempt {first}: retry unsandboxed, silently"),
        AfterDenial::Ask => format!("{policy}, first attempt {first}: ask, then retry unsandboxed"),
        AfterDenial::Review => format!("{policy}, strict automatic review: fresh review, then retry"),
    }
}
