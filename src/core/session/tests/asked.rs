//! Starts and input that somebody is asked about: answers, expiry, withdrawal, second attempts.

use super::bench::{Bench, input, shell};
use crate::core::approval::{State as Stands, Verdict};
use crate::core::ids::{ApprovalId, AttemptNumber, CallId, ProcessId};
use crate::core::limits::Limits;
use crate::core::policy::{
    ApprovalPolicy, Files, Granular, Network, Profile, Rights, RuleDecision, RuleMatch,
};
use crate::core::process::ExitStatus;
use crate::core::session::*;
use crate::core::signal::Signal;
use crate::core::spawn::Enforced;

/// A workspace without network under this policy.
fn rights(policy: ApprovalPolicy) -> Rights {
    let files = Files::WorkspaceWrite { writable_roots: Vec::new(), protected: Vec::new() };
    let profile = Profile { files, network: Network::Off, deny_read: Vec::new() };
    Rights { policy, strict_review: false, profile }
}

fn granular() -> ApprovalPolicy {
    ApprovalPolicy::Granular(Granular { rules: true, sandbox_approval: true, network: true, stdin: true })
}

impl Bench {
    /// The questions that were asked, in order.
    fn questions(&self) -> Vec<std::sync::Arc<crate::core::approval::Question>> {
        let asked = self.effects.iter().filter_map(|(_, effect)| match effect {
            Effect::Ask { question } => Some(std::sync::Arc::clone(question)),
            _ => None,
        });
        asked.collect()
    }

    fn question(&self) -> ApprovalId {
        self.questions().last().expect("somebody is asked").id.clone()
    }

    fn decides(&mut self, approval: ApprovalId, verdict: Verdict) -> CallId {
        let (text, by) = ("because".to_owned(), "somebody".to_owned());
        self.call(Call::Decide(Decide { approval, verdict, text, rule: Vec::new(), by }))
    }

    fn answers_with(&mut self, verdict: Verdict) -> CallId {
        let approval = self.question();
        self.decides(approval, verdict)
    }

    fn stands(&mut self, approval: ApprovalId) -> Stands {
        let call = self.call(Call::Approval { approval });
        match self.answer(call) {
            Answer::Approval(Ok(approval)) => approval.state.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// The process of the last spawn.
    fn spawned_last(&self) -> ProcessId {
        let last = self.effects.iter().rev().find_map(|(_, effect)| match effect {
            Effect::Spawn { process, .. } => Some(*process),
            _ => None,
        });
        last.expect("something was spawned")
    }

    fn starts(&mut self, process: ProcessId, attempt: AttemptNumber) {
        let enforced = Enforced::default();
        self.event(Event::Spawned { process, attempt, pid: Some(7), enforced, at: self.now });
    }

    /// The sandbox kills the attempt for a system call, and its output ends.
    fn is_denied(&mut self, process: ProcessId, attempt: AttemptNumber) {
        let status = ExitStatus::Signal { number: Signal::SYS.number(), core_dumped: false };
        self.event(Event::Exited {
            process,
            attempt,
            status,
            usage: None,
            out_of_memory: false,
            at: self.now,
        });
        self.event(Event::Closed { process, attempt, end: 0 });
    }
}

const FIRST: AttemptNumber = AttemptNumber::FIRST;
const SECOND: AttemptNumber = AttemptNumber::SECOND;

#[test]
fn nothing_starts_before_the_answer_and_it_takes_no_slot() {
    let mut bench = Bench::of(rights(ApprovalPolicy::UnlessTrusted));
    let call = bench.exec(shell());
    assert_eq!((bench.spawns(), bench.waits(call)), (0, true));
    assert_eq!(bench.session.view().live, 0);
    let decided = bench.answers_with(Verdict::Approve);
    assert!(matches!(bench.answer(decided), Answer::Decided(Ok(_))));
    assert_eq!(bench.spawns(), 1);
}

#[test]
fn declined_with_words_the_id_is_given_back() {
    let mut bench = Bench::of(rights(ApprovalPolicy::UnlessTrusted));
    let call = bench.exec(shell());
    bench.answers_with(Verdict::Decline);
    let refused = bench.start_error(call);
    assert!(
        matches!(refused, StartError::NotApproved(NotApproved::Declined { text, .. }) if text == "because")
    );
    assert!(bench.session.processes.is_empty());
    assert_eq!(bench.told("start_refused").len(), 1);
}

#[test]
fn the_first_answer_counts_and_later_ones_do_nothing() {
    let mut bench = Bench::of(rights(ApprovalPolicy::UnlessTrusted));
    bench.exec(shell());
    let approval = bench.question();
    bench.decides(approval.clone(), Verdict::Decline);
    let late = bench.decides(approval.clone(), Verdict::Approve);
    assert!(matches!(bench.answer(late), Answer::Decided(Err(DecideError::NotOpen { .. }))));
    let unknown = bench.decides(ApprovalId::new("apr_other"), Verdict::Approve);
    assert!(matches!(bench.answer(unknown), Answer::Decided(Err(DecideError::Unknown { .. }))));
    assert_eq!(bench.spawns(), 0);
}

#[test]
fn a_question_expires_and_yields_stand_still_until_then() {
    let mut bench = Bench::of(rights(ApprovalPolicy::UnlessTrusted));
    let other = {
        bench.exec(shell());
        bench.answers_with(Verdict::Approve);
        let process = bench.spawned_last();
        bench.starts(process, FIRST);
        bench.poll(process)
    };
    let call = bench.exec(shell().turn("u"));
    bench.advance(599_999);
    assert!(bench.waits(other) && bench.waits(call), "no yield passes while a question is open");
    bench.advance(1);
    assert!(matches!(bench.start_error(call), StartError::NotApproved(NotApproved::Expired { .. })));
    bench.advance(5_000);
    assert_eq!(bench.result(other).end, WaitEnd::Yielded);
    assert_eq!(bench.result(other).paused.as_millis(), 600_000);
}

#[test]
fn interrupt_drop_clean_and_a_new_policy_withdraw() {
    for withdraw in ["interrupt", "drop", "clean", "update"] {
        let mut bench = Bench::of(rights(ApprovalPolicy::UnlessTrusted));
        let call = bench.exec(shell());
        let approval = bench.question();
        match withdraw {
            "interrupt" => assert_eq!(bench.interrupt("t").withdrawn, 1),
            "drop" => bench.drops(call),
            "clean" => {
                bench.clean();
            }
            _ => {
                let rights = Some(rights(ApprovalPolicy::OnRequest));
                bench.call(Call::Update(Update { rights, ..Update::default() }));
            }
        }
        assert!(matches!(bench.stands(approval.clone()), Stands::Withdrawn { .. }), "{withdraw}");
        let late = bench.decides(approval, Verdict::Approve);
        assert!(matches!(bench.answer(late), Answer::Decided(Err(DecideError::NotOpen { .. }))));
        assert_eq!(bench.spawns(), 0, "{withdraw}");
        assert!(bench.session.processes.is_empty(), "{withdraw}");
        match withdraw {
            "drop" => assert!(bench.waits(call), "nobody is there to be answered"),
            "update" => {
                assert!(matches!(bench.start_error(call), StartError::NotApproved(NotApproved::Stale { .. })))
            }
            _ => assert_eq!(*bench.start_error(call), StartError::Cancelled),
        }
    }
}

#[test]
fn an_aborted_turn_ends_its_other_waits() {
    let mut bench = Bench::of(rights(ApprovalPolicy::UnlessTrusted));
    let (first, second) = (bench.exec(shell()), bench.exec(shell()));
    let approval = bench.questions()[0].id.clone();
    bench.decides(approval, Verdict::AbortTurn);
    assert!(matches!(bench.start_error(first), StartError::NotApproved(NotApproved::TurnAborted { .. })));
    assert_eq!(*bench.start_error(second), StartError::Cancelled);
}

#[test]
fn an_approval_for_the_session_spares_the_next_question_until_it_is_revoked() {
    let mut bench = Bench::of(rights(ApprovalPolicy::UnlessTrusted));
    bench.exec(shell());
    bench.answers_with(Verdict::ApproveForSession);
    bench.exec(shell());
    assert_eq!((bench.spawns(), bench.questions().len()), (2, 1));
    bench.exec(shell().tty());
    assert_eq!(bench.questions().len(), 2, "a terminal is another thing");
    let listed = bench.call(Call::Grants);
    let Answer::Grants(grants) = bench.answer(listed) else { panic!("grants") };
    assert_eq!((grants.len(), grants[0].uses), (1, 1));
    let grant = grants[0].id.clone();
    bench.call(Call::Revoke { grant });
    bench.exec(shell());
    assert_eq!((bench.spawns(), bench.questions().len()), (2, 3));
}

#[test]
fn an_early_denial_of_what_was_approved_is_retried_in_silence() {
    let mut bench = Bench::of(rights(ApprovalPolicy::UnlessTrusted));
    let call = bench.exec(shell());
    bench.answers_with(Verdict::Approve);
    let process = bench.spawned_last();
    bench.starts(process, FIRST);
    bench.advance(150);
    bench.is_denied(process, FIRST);
    assert_eq!((bench.spawns(), bench.questions().len()), (2, 1));
    bench.starts(process, SECOND);
    bench.event(Event::Exited {
        process,
        attempt: SECOND,
        status: ExitStatus::Code(0),
        usage: None,
        out_of_memory: false,
        at: bench.now,
    });
    bench.event(Event::Closed { process, attempt: SECOND, end: 0 });
    let result = bench.result(call);
    assert_eq!((result.attempt, result.attempts.len(), result.evidence.is_none()), (SECOND, 2, true));
    for (name, times) in [("process_started", 1), ("attempt_denied", 1), ("process_exited", 1)] {
        assert_eq!(bench.told(name).len(), times, "{name}");
    }
}

#[test]
fn a_denial_one_millisecond_later_is_only_reported() {
    let mut bench = Bench::of(rights(ApprovalPolicy::UnlessTrusted));
    let call = bench.exec(shell());
    bench.answers_with(Verdict::Approve);
    let process = bench.spawned_last();
    bench.starts(process, FIRST);
    bench.advance(151);
    bench.is_denied(process, FIRST);
    let evidence = bench.result(call).evidence.clone().expect("it is reported");
    assert!(!evidence.early);
    assert_eq!((bench.spawns(), bench.result(call).live_process()), (1, None));
}

#[test]
fn never_is_asked_nothing_and_retries_nothing() {
    let mut bench = Bench::of(rights(ApprovalPolicy::Never));
    let call = bench.exec(shell());
    let process = bench.spawned_last();
    bench.starts(process, FIRST);
    bench.is_denied(process, FIRST);
    assert!(bench.result(call).evidence.is_some());
    assert_eq!((bench.spawns(), bench.questions().len()), (1, 0));
}

#[test]
fn what_nobody_waits_for_any_more_is_not_retried() {
    for leave in ["interrupt", "drop"] {
        let mut bench = Bench::of(rights(ApprovalPolicy::UnlessTrusted));
        let call = bench.exec(shell());
        bench.answers_with(Verdict::Approve);
        let process = bench.spawned_last();
        bench.starts(process, FIRST);
        if leave == "interrupt" {
            bench.interrupt("t");
            assert_eq!(bench.result(call).live_process(), Some(process));
        } else {
            bench.drops(call);
        }
        bench.is_denied(process, FIRST);
        assert_eq!(bench.spawns(), 1, "{leave}");
        assert_eq!(bench.told("process_exited").len(), 1, "{leave}");
    }
}

#[test]
fn a_retry_is_asked_about_and_whatever_ends_the_question_surfaces_the_denial() {
    for end in ["decline", "interrupt", "clean", "update", "expire"] {
        let mut bench = Bench::of(rights(granular()));
        let call = bench.exec(shell());
        let process = bench.spawned_last();
        bench.starts(process, FIRST);
        bench.is_denied(process, FIRST);
        assert!(bench.waits(call), "the call waits for the answer");
        match end {
            "decline" => {
                bench.answers_with(Verdict::Decline);
            }
            "interrupt" => {
                bench.interrupt("t");
            }
            "clean" => {
                bench.clean();
            }
            "update" => {
                let rights = Some(rights(ApprovalPolicy::Never));
                bench.call(Call::Update(Update { rights, ..Update::default() }));
            }
            _ => bench.advance(600_000),
        }
        assert!(bench.result(call).evidence.is_some(), "{end}");
        assert_eq!((bench.spawns(), bench.told("process_exited").len()), (1, 1), "{end}");
    }
}

#[test]
fn a_second_attempt_that_cannot_be_started_leaves_the_first_denial() {
    let mut bench = Bench::of(rights(granular()));
    let call = bench.exec(shell());
    let process = bench.spawned_last();
    bench.starts(process, FIRST);
    bench.is_denied(process, FIRST);
    bench.answers_with(Verdict::Approve);
    let error = crate::core::spawn::SpawnError::ProgramMissing { program: "sleep".into() };
    bench.event(Event::SpawnFailed { process, attempt: SECOND, error });
    let result = bench.result(call);
    assert_eq!((result.attempt, result.evidence.is_some()), (FIRST, true));
    assert_eq!(bench.told("process_exited").len(), 1);
}

#[test]
fn what_a_rule_says_counts() {
    let rule = |decision| Some(RuleMatch { decision, rule: "r".into(), justification: None });
    let mut bench = Bench::of(rights(ApprovalPolicy::UnlessTrusted));
    bench.assessment.segments[0].rule = rule(RuleDecision::Allow);
    bench.exec(shell());
    assert_eq!((bench.spawns(), bench.questions().len()), (1, 0));
    bench.assessment.segments[0].rule = rule(RuleDecision::Forbidden);
    let call = bench.exec(shell());
    assert!(matches!(bench.start_error(call), StartError::Forbidden(_)));
}

#[test]
fn input_to_what_runs_under_other_rights_is_reviewed_in_order() {
    let mut bench = Bench::of(rights(ApprovalPolicy::OnRequest));
    let process = {
        bench.exec(shell().stdin());
        let process = bench.spawned_last();
        bench.starts(process, FIRST);
        process
    };
    let free = bench.write(input(process, "free"));
    assert_eq!(bench.writes(process).len(), 1, "equal rights need no review");
    bench.wrote(process, 4, WriteOutcome::Whole);
    let narrower = Profile { files: Files::ReadOnly, ..rights(ApprovalPolicy::OnRequest).profile };
    let rights = Some(Rights { profile: narrower, ..rights(ApprovalPolicy::OnRequest) });
    bench.call(Call::Update(Update { rights, ..Update::default() }));
    let reviewed = bench.write(input(process, "reviewed"));
    let behind = bench.write(input(process, "behind"));
    assert_eq!(bench.writes(process).len(), 1, "nothing is delivered before the answer");
    bench.answers_with(Verdict::Approve);
    assert_eq!(bench.writes(process)[1].1, "reviewed");
    bench.wrote(process, 8, WriteOutcome::Whole);
    bench.answers_with(Verdict::Decline);
    assert!(matches!(bench.write_error(behind), WriteError::NotApproved(NotApproved::Declined { .. })));
    assert_eq!(bench.writes(process).len(), 2);
    let _ = (free, reviewed);
}

#[test]
fn a_review_has_its_bound_and_its_ticket() {
    let mut bench = Bench::of(rights(ApprovalPolicy::OnRequest));
    bench.exec(shell().stdin());
    let process = bench.spawned_last();
    bench.starts(process, FIRST);
    let narrower = Rights {
        profile: Profile { files: Files::ReadOnly, ..rights(ApprovalPolicy::OnRequest).profile },
        ..rights(ApprovalPolicy::OnRequest)
    };
    bench.call(Call::Update(Update { rights: Some(narrower), ..Update::default() }));
    let large = bench.write(input(process, &"x".repeat(8_000)));
    assert!(matches!(bench.write_error(large), WriteError::ReviewTooLarge { limit: 8_000, .. }));
    let nul = bench.write(input(process, "a\0b"));
    assert!(matches!(bench.write_error(nul), WriteError::ReviewNul { at: 1, .. }));
    let stale = bench.write(input(process, "stale"));
    let limits = Some(Limits { output_tokens_max: 7, ..Limits::default() });
    bench.call(Call::Update(Update { limits, ..Update::default() }));
    assert!(matches!(bench.write_error(stale), WriteError::NotApproved(NotApproved::Stale { .. })));
    let open = bench.write(input(process, "late"));
    let approval = bench.question();
    bench.is_denied(process, FIRST);
    assert!(matches!(bench.stands(approval), Stands::Withdrawn { .. }));
    assert!(bench.result(open).exit.is_some());
    assert!(bench.writes(process).is_empty());
}
