//! A recorded feed becomes a scenario: what callers did, what programs did, and what came of it.
//!
//! A feed does not tell everything. What was written and said is filled with as many bytes, of which the last ones are
//! the sign of a denial where there was one. Deadlines of calls are the defaults. Which policy was in force is tried out:
//! it is the one by which the model of L0 comes nearest to the feed. The scenario expects the events of the feed, in their
//! order; whatever the model comes to otherwise is said.

mod feed;
mod process;

use std::collections::BTreeMap;
use std::time::Duration;

use toml::Spanned;
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::event::Kind;

use self::feed::{Feed, Told};
use self::process::Process;
use crate::judge::judge;
use crate::scenario::service::{Granular, Network, Policy, Reviewer, Sandbox, Says};
use crate::scenario::{AtEnd, Expect, Expected, Op, Order, Scenario, Verdict, When};
use crate::tier::{Tier, play};
use crate::wire;

/// What the service takes as early unless it is told otherwise.
const WINDOW: Duration = Duration::from_millis(150);

/// A feed that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Something in a line is wrong.
    #[error("{line}: {problem}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What, naming the field.
        problem: String,
    },
    /// There is no event in it.
    #[error("there is no event in it; record one with `uexec --json events --after 0`")]
    Empty,
    /// A defect of this program.
    #[error("the contract has no message Event")]
    Contract,
}

/// A feed as a scenario.
#[derive(Debug)]
pub struct Imported {
    /// The scenario.
    pub scenario: Scenario,
    /// What the feed does not tell and was made up, and what the model comes to otherwise; empty is the same.
    pub differences: Vec<String>,
}

/// Makes a scenario of a feed. An error names line and field.
pub fn import(feed: &str, title: &str) -> Result<Imported, ImportError> {
    let feed = Feed::parse(feed)?;
    let processes = processes(&feed);
    let mut scenario = Scenario::new(title, vec!["imported".to_owned()]);
    scenario.service.sandbox = sandbox(&feed);
    scenario.service.network = network(&feed);
    for process in processes.values() {
        scenario.program.insert(process.cmd.clone(), process.program());
    }
    scenario.reviewer = reviewer(&feed);
    scenario.when = steps(&feed, &processes);
    scenario.expect = expected(&feed, &processes);
    let unknown = feed.told.iter().filter_map(made_up);
    let mut unknown: Vec<String> = unknown.collect();
    unknown.extend(processes.values().filter_map(|process| process.made_up()));
    let (policy, mut differences) = nearest(&scenario);
    scenario.service.policy = policy;
    // Without any right, the service allows everything and asks nobody.
    scenario.run_to = feed.told.last().map(|told| told.t + SETTLED);
    differences.splice(0..0, unknown);
    Ok(Imported { scenario, differences })
}

/// Everything that is reported late has been reported by then.
const SETTLED: u64 = 200;

/// Processes of the feed by id, each with the name of its start.
fn processes(feed: &Feed) -> BTreeMap<u32, Process> {
    let mut processes: BTreeMap<u32, Process> = BTreeMap::new();
    for told in feed.told.iter().filter(|told| told.event.process_id != 0) {
        let number = processes.len();
        let process = processes
            .entry(told.event.process_id)
            .or_insert_with(|| Process::new(format!("c{number}"), told, feed.start));
        process.take(told);
    }
    // Programs are told apart by their command lines.
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for process in processes.values_mut() {
        let times = known.entry(process.cmd.clone()).or_default();
        *times += 1;
        if *times > 1 {
            process.cmd = format!("{} # {times}", process.cmd);
        }
    }
    processes
}

fn enforced(feed: &Feed) -> Option<&pb::Enforced> {
    feed.told.iter().find_map(|told| match &told.kind {
        Kind::AttemptStarted(started) => started.enforced.as_ref().filter(|enforced| !enforced.bypassed),
        _ => None,
    })
}

fn sandbox(feed: &Feed) -> Option<Sandbox> {
    match enforced(feed)?.kind() {
        pb::SandboxKind::ReadOnly => Some(Sandbox::ReadOnly),
        pb::SandboxKind::WorkspaceWrite => Some(Sandbox::WorkspaceWrite),
        pb::SandboxKind::FullAccess => Some(Sandbox::FullAccess),
        pb::SandboxKind::External => Some(Sandbox::External),
        pb::SandboxKind::Unspecified => None,
    }
}

fn network(feed: &Feed) -> Option<Network> {
    match enforced(feed)?.network() {
        pb::NetworkMode::Off => Some(Network::Off),
        pb::NetworkMode::Proxied => Some(Network::Proxied(BTreeMap::new())),
        pb::NetworkMode::On => Some(Network::On),
        pb::NetworkMode::Unspecified => None,
    }
}

/// What callers did, in the order in which it happened.
fn steps(feed: &Feed, processes: &BTreeMap<u32, Process>) -> Vec<Spanned<When>> {
    let mut steps: Vec<When> = processes.values().map(Process::start).collect();
    let (mut asked, mut cleaned): (Vec<&str>, usize) = (Vec::new(), 0);
    for told in &feed.told {
        let process = processes.get(&told.event.process_id);
        let turn = Some(told.event.turn_id.clone()).filter(|turn| !turn.is_empty());
        let when = When { at: Some(told.t), ..When::default() };
        match &told.kind {
            Kind::ApprovalRequested(approval) => asked.push(&approval.approval_id),
            Kind::ApprovalDecided(approval) => {
                let number = asked.iter().position(|id| *id == approval.approval_id).map(|at| at + 1);
                if let (Some(question), Some(verdict)) = (number, verdict(approval)) {
                    let rule = approval.decision.as_ref().map(|decision| decision.prefix_rule.clone());
                    steps.push(When {
                        op: Op::Decide,
                        question: Some(question),
                        verdict: Some(verdict),
                        rule: rule.filter(|rule| !rule.is_empty()),
                        ..when
                    });
                }
            }
            Kind::StdinWritten(written) => steps.push(When {
                op: Op::Write,
                to: process.map(|process| process.call.clone()),
                turn,
                input: Some("x".repeat(usize::try_from(written.end - written.start).unwrap_or_default())),
                eof: written.eof.then_some(true),
                ..when
            }),
            Kind::Interrupted(_) => steps.push(When { op: Op::Interrupt, turn, ..when }),
            Kind::ProcessExited(exited) => {
                let end = process.and_then(|process| process.ended_by(exited.exit.as_ref()?));
                // One call ends all that it finds.
                let known = |end: &When| {
                    let ends = steps.iter().filter(|step| step.op == end.op && step.to == end.to).count();
                    if end.to.is_some() { ends > 0 } else { ends > cleaned }
                };
                if let Some(end) = end.filter(|end| !known(end)) {
                    steps.push(end);
                }
            }
            Kind::Cleaned(_) => {
                let ends = |step: &&When| matches!(step.op, Op::Clean | Op::Close | Op::Drain);
                if steps.iter().filter(ends).count() == cleaned {
                    steps.push(When { op: Op::Clean, ..when });
                }
                cleaned += 1;
            }
            _ => {}
        }
    }
    steps.sort_by_key(|step| step.at);
    for (number, step) in steps.iter_mut().enumerate().filter(|(_, step)| step.op != Op::Exec) {
        step.call = Some(format!("d{number}"));
    }
    steps.into_iter().map(|step| Spanned::new(0..0, step)).collect()
}

/// Who decides in place of people, by its name in a feed.
const AUTOMATIC: &str = "automatic";

/// An automatic reviewer that says what the feed's one said first, as fast.
fn reviewer(feed: &Feed) -> Option<Reviewer> {
    let decided = feed.told.iter().find_map(|told| match &told.kind {
        Kind::ApprovalDecided(approval) => {
            let decision = approval.decision.as_ref().filter(|decision| decision.decided_by == AUTOMATIC)?;
            Some((told.t, approval, decision.verdict()))
        }
        _ => None,
    });
    let (t, approval, verdict) = decided?;
    let asked = feed.told.iter().find(|told| {
        matches!(&told.kind, Kind::ApprovalRequested(asked) if asked.approval_id == approval.approval_id)
    });
    let automatic = if verdict == pb::Verdict::Approve { Says::Allow } else { Says::Deny };
    Some(Reviewer { automatic, after: asked.map_or(0, |asked| t.saturating_sub(asked.t)) })
}

/// What a person answered; nobody did where it expired or was withdrawn.
fn verdict(approval: &pb::Approval) -> Option<Verdict> {
    let decision = approval.decision.as_ref().filter(|decision| decision.decided_by != AUTOMATIC)?;
    match decision.verdict() {
        pb::Verdict::Approve => Some(Verdict::Approve),
        pb::Verdict::ApproveForSession => Some(Verdict::ApproveForSession),
        pb::Verdict::ApproveAndAddRule => Some(Verdict::ApproveAndAddRule),
        pb::Verdict::Decline => Some(Verdict::Decline),
        pb::Verdict::AbortTurn => Some(Verdict::AbortTurn),
        pb::Verdict::Unspecified => None,
    }
}

fn expected(feed: &Feed, processes: &BTreeMap<u32, Process>) -> Expect {
    let mut lines = wire::said::Lines::new(feed.start, WINDOW);
    let (mut questions, mut events) = (Vec::new(), Vec::new());
    for told in &feed.told {
        let who = processes.get(&told.event.process_id).map_or("-", |process| process.call.as_str());
        if let Kind::ApprovalRequested(approval) | Kind::ApprovalDecided(approval) = &told.kind
            && !questions.contains(&approval.approval_id)
        {
            questions.push(approval.approval_id.clone());
        }
        let number = match &told.kind {
            Kind::ApprovalRequested(approval) | Kind::ApprovalDecided(approval) => {
                questions.iter().position(|id| *id == approval.approval_id).map(|at| at + 1)
            }
            _ => None,
        };
        let e = lines.pattern(who, number, told.event.clone());
        events.push(Spanned::new(0..0, Expected { t: None, e }));
    }
    let live = processes.values().filter(|process| process.is_live()).count();
    let open = questions.len()
        - feed.told.iter().filter(|told| matches!(told.kind, Kind::ApprovalDecided(_))).count();
    let at_end = AtEnd { live, children: live, questions: open, ..AtEnd::default() };
    Expect { order: Order::Subsequence, events, at_end, ..Expect::default() }
}

/// The policy by which the model comes nearest to what is expected, and how far away it is then.
fn nearest(scenario: &Scenario) -> (Option<Policy>, Vec<String>) {
    let every = Granular { rules: true, sandbox_approval: true, network: true, stdin: true };
    let policies = [
        None,
        Some(Policy::OnRequest),
        Some(Policy::UnlessTrusted),
        Some(Policy::Never),
        Some(Policy::Granular(every)),
    ];
    let tried = policies.into_iter().map(|policy| {
        let mut tried = scenario.clone();
        tried.service.policy = policy;
        let failures = judge(&tried, &play(&tried, Tier::Core)).failures;
        (policy, failures)
    });
    tried.min_by_key(|(_, failures)| failures.len()).unwrap_or_default()
}

/// What had to be made up because a feed does not tell it.
fn made_up(told: &Told) -> Option<String> {
    match &told.kind {
        Kind::PolicyChanged(changed) => Some(format!(
            "at {} ms {} changed, and a feed does not tell to what: add an `update` step",
            told.t,
            changed.fields.join(", ")
        )),
        _ => None,
    }
}
