//! The whole way of a start, from its request to its last attempt, for every policy, sandbox, rule, permission, answer and
//! end: what the feed counts, against the tables of [`crate::core::orchestrate`]'s tests.

use super::*;
use crate::core::approval::{Permissions, Verdict};
use crate::core::orchestrate::tests::{
    FLAGS, Facts, Needs, assessment, line_needs, permissions, profiles, restricts, row,
};
use crate::core::policy::{ApprovalPolicy, Files, Granular, Rights, RuleDecision};
use crate::core::session::*;
use crate::core::signal::Signal;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    DeniedEarly,
    DeniedLate,
    Fails,
}

#[derive(Clone, Debug)]
struct Case {
    rights: Rights,
    line: Vec<Facts>,
    permissions: Permissions,
    owner: bool,
    /// Whether the question about the start, and the one about a retry, are approved.
    answers: (bool, bool),
    ends: Ends,
}

/// What the feed and the answer say in the end.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    questions: usize,
    attempts: usize,
    denied: usize,
    exited: usize,
    refused: usize,
    first_is_sandboxed: Option<bool>,
    evidence: bool,
}

fn policies() -> Vec<ApprovalPolicy> {
    let granular = FLAGS.into_iter().flat_map(|rules| {
        FLAGS.map(|sandbox_approval| {
            ApprovalPolicy::Granular(Granular { rules, sandbox_approval, ..Granular::default() })
        })
    });
    let plain = [ApprovalPolicy::Never, ApprovalPolicy::OnRequest, ApprovalPolicy::UnlessTrusted];
    plain.into_iter().chain(granular).collect()
}

fn lines() -> Vec<Vec<Facts>> {
    let (none, allow) = ((None, false), (Some(RuleDecision::Allow), false));
    let prompt = (Some(RuleDecision::Prompt), false);
    vec![
        vec![none],
        vec![allow],
        vec![prompt],
        vec![(Some(RuleDecision::Forbidden), false)],
        vec![(None, true)],
        vec![allow, none],
        vec![allow, allow],
        vec![allow, prompt],
    ]
}

fn every_case(mut check: impl FnMut(Case)) {
    for (policy, profile) in
        policies().iter().flat_map(|policy| profiles().into_iter().map(move |profile| (policy, profile)))
    {
        for (strict_review, owner) in FLAGS.into_iter().flat_map(|strict| FLAGS.map(|owner| (strict, owner)))
        {
            let rights = Rights { policy: policy.clone(), strict_review, profile: profile.clone() };
            for (line, permissions) in
                lines().into_iter().flat_map(|line| permissions().map(|asked| (line.clone(), asked)))
            {
                for answers in [(false, false), (true, false), (true, true)] {
                    for ends in [Ends::DeniedEarly, Ends::DeniedLate, Ends::Fails] {
                        check(Case {
                            rights: rights.clone(),
                            line: line.clone(),
                            permissions: permissions.clone(),
                            owner,
                            answers,
                            ends,
                        });
                    }
                }
            }
        }
    }
}

fn expected(case: &Case) -> Seen {
    let Case { rights, line, permissions, owner, answers, ends } = case;
    let nothing = Seen {
        questions: 0,
        attempts: 0,
        denied: 0,
        exited: 0,
        refused: 1,
        first_is_sandboxed: None,
        evidence: false,
    };
    let needs = line_needs(rights, line, permissions, *owner);
    let asked = needs == Needs::Ask || (needs == Needs::Skip && rights.strict_review);
    match needs {
        Needs::Forbidden => return nothing,
        _ if asked && !answers.0 => return Seen { questions: 1, ..nothing },
        Needs::Ask | Needs::Skip => {}
    }
    let trusted = line.iter().all(|(rule, _)| *rule == Some(RuleDecision::Allow));
    let wants_none = trusted || (*permissions == Permissions::Escalated && asked);
    let can_bypass = rights.profile.deny_read.is_empty() && !owner;
    let external = rights.profile.files == Files::External;
    let sandboxed = !external && (restricts(&rights.profile) || *owner) && !(wants_none && can_bypass);
    let denied = sandboxed && *ends == Ends::DeniedEarly;
    let after = row(&rights.policy, rights.strict_review, asked, can_bypass);
    let asked_again = denied && ["ask", "review"].contains(&after);
    let retried = denied && (after == "retry" || (asked_again && answers.1));
    Seen {
        questions: usize::from(asked) + usize::from(asked_again),
        attempts: 1 + usize::from(retried),
        denied: usize::from(retried),
        exited: 1,
        refused: 0,
        first_is_sandboxed: Some(sandboxed),
        evidence: sandboxed && *ends != Ends::Fails && !retried,
    }
}

fn played(case: &Case) -> Seen {
    let mut bench = Bench::of(case.rights.clone());
    if case.owner {
        bench.event(Event::OwnerNetwork { rules: Some(Vec::new()) });
    }
    bench.assessment = assessment(&case.line);
    let call = bench.exec(shell().asks_for(case.permissions.clone()));
    let verdict = |approves| if approves { Verdict::Approve } else { Verdict::Decline };
    if bench.open() > 0 {
        bench.answers_with(verdict(case.answers.0));
    }
    let mut first_is_sandboxed = None;
    if bench.spawns() == 1 {
        let process = bench.process_of(call);
        first_is_sandboxed = Some(bench.sandbox(process).is_some());
        bench.spawned(process);
        bench.advance(if case.ends == Ends::DeniedLate { 151 } else { 80 });
        match case.ends {
            Ends::Fails => bench.finishes(process, 1),
            Ends::DeniedEarly | Ends::DeniedLate => bench.is_denied(process),
        }
        if bench.open() > 0 {
            bench.answers_with(verdict(case.answers.1));
        }
        if bench.spawns() == 2 {
            assert_eq!(bench.sandbox(process), None, "{case:?}");
            bench.spawned(process);
            bench.finishes(process, 0);
        }
    }
    let evidence = match bench.answer(call) {
        Answer::Exec(Ok(result)) => {
            assert_eq!(result.live_process(), None, "{case:?}");
            result.evidence.is_some()
        }
        _ => false,
    };
    Seen {
        questions: bench.told("approval_requested").len(),
        attempts: bench.told("attempt_started").len(),
        denied: bench.told("attempt_denied").len(),
        exited: bench.told("process_exited").len(),
        refused: bench.told("start_refused").len(),
        first_is_sandboxed,
        evidence,
    }
}

#[test]
fn every_start_goes_the_way_that_the_tables_say() {
    let mut spawned = [0; 3];
    every_case(|case| {
        let (expected, seen) = (expected(&case), played(&case));
        assert_eq!(seen, expected, "{case:?}");
        assert!(
            case.rights.policy != ApprovalPolicy::Never || case.rights.strict_review || seen.questions == 0
        );
        spawned[seen.attempts] += 1;
    });
    assert!(spawned.iter().all(|times| *times > 0), "{spawned:?}");
}

fn denied_early(policy: ApprovalPolicy) -> (Bench, crate::core::ids::CallId) {
    let mut bench = Bench::of(super::asking::sandboxed(policy));
    let call = bench.exec(shell());
    if bench.open() > 0 {
        bench.approves();
    }
    let process = bench.process_of(call);
    bench.spawned(process);
    bench.advance(80);
    bench.is_denied(process);
    (bench, call)
}

#[test]
fn under_never_an_early_denial_is_one_spawn_and_no_question() {
    let (bench, call) = denied_early(ApprovalPolicy::Never);
    assert_eq!((bench.spawns(), bench.told("approval_requested").len()), (1, 0));
    assert!(bench.result(call).evidence.is_some() && bench.result(call).live_process().is_none());
    assert_eq!(bench.result(call).exit.unwrap().shell_code(), 128 + Signal::SYS.number());
}

#[test]
fn unless_trusted_an_early_denial_is_two_spawns_and_one_question() {
    let (mut bench, call) = denied_early(ApprovalPolicy::UnlessTrusted);
    let process = bench.process_of(call);
    bench.spawned(process);
    bench.finishes(process, 0);
    assert_eq!((bench.told("attempt_started").len(), bench.told("approval_requested").len()), (2, 1));
    assert_eq!(bench.result(call).exit.unwrap().shell_code(), 0);
}
