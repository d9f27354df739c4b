//! Input to a live process whose permissions were frozen at its launch: when somebody is asked, and what an answer is for.

use bytes::Bytes;

use super::asking::{granular, sandboxed, strict};
use super::bench::input;
use super::*;
use crate::core::approval::{Permissions, Review, Subject, Verdict};
use crate::core::ids::{CallId, ProcessId};
use crate::core::limits::{INPUT_QUEUE_MAX, INPUT_REVIEW_BYTES_MAX};
use crate::core::orchestrate::NewTerminal;
use crate::core::policy::{
    Additional, ApprovalPolicy, Granular, NetworkDecision, NetworkRule, Profile, Rights,
};
use crate::core::session::*;
use crate::core::signal::Signal;

fn on_request() -> Rights {
    sandboxed(ApprovalPolicy::OnRequest)
}

fn rules(host: &str) -> Option<Vec<NetworkRule>> {
    let decision = NetworkDecision::Allow;
    Some(vec![NetworkRule { host: host.into(), ports: Vec::new(), decision }])
}

/// A process with an input that runs without a sandbox: every input to it is reviewed.
fn bypassed() -> (Bench, ProcessId) {
    let mut bench = Bench::of(on_request());
    let (_, process) = bench.approved(shell().stdin().asks_for(Permissions::Escalated));
    bench.advance(1_000);
    (bench, process)
}

/// Input that is asked about.
fn asked(bench: &mut Bench, write: Write) -> CallId {
    let before = bench.questions().len();
    let call = bench.write(write);
    assert_eq!(bench.questions().len(), before + 1, "{:?}", bench.answers(call));
    assert!(matches!(bench.question().subject, Subject::Input { .. }));
    call
}

fn texts(bench: &Bench, process: ProcessId) -> Vec<String> {
    bench.writes(process).into_iter().map(|(_, text, _)| text).collect()
}

// The five rows.

#[test]
fn input_to_a_process_under_what_is_still_in_force_is_not_reviewed() {
    let mut bench = Bench::of(on_request());
    let process = bench.background(shell().stdin());
    bench.write(input(process, "a"));
    assert_eq!((texts(&bench, process), bench.questions().len()), (vec!["a".to_owned()], 0));
}

#[test]
fn another_network_policy_of_the_owner_wants_a_new_process() {
    let mut bench = Bench::of(on_request());
    let process = bench.background(shell().stdin());
    for rules in [rules("a"), rules("b")] {
        bench.event(Event::OwnerNetwork { rules });
        let write = bench.write(input(process, "a"));
        let cause = NewTerminal::OwnerNetwork;
        assert_eq!(*bench.write_error(write), WriteError::NewTerminal { process, cause });
    }
    bench.event(Event::OwnerNetwork { rules: None });
    bench.write(input(process, "a"));
    assert_eq!((bench.writes(process).len(), bench.questions().len()), (1, 0));
    let (mut bench, process) = bypassed();
    bench.event(Event::OwnerNetwork { rules: rules("a") });
    let write = bench.write(input(process, "a"));
    let cause = NewTerminal::Unsandboxed;
    assert_eq!(*bench.write_error(write), WriteError::NewTerminal { process, cause });
}

#[test]
fn a_path_that_may_not_be_read_any_more_wants_a_new_process() {
    let denies = |path: &str| {
        let rights = on_request();
        Rights { profile: Profile { deny_read: vec![path.to_owned()], ..rights.profile.clone() }, ..rights }
    };
    let mut bench = Bench::of(on_request());
    let process = bench.background(shell().stdin());
    bench.rights(denies("/secret"));
    let write = bench.write(input(process, "a"));
    let cause = NewTerminal::DenyRead;
    assert_eq!(*bench.write_error(write), WriteError::NewTerminal { process, cause });
    let second = bench.background(shell().stdin());
    bench.write(input(second, "a"));
    assert_eq!(bench.writes(second).len(), 1);
    bench.wrote(second, 1, WriteOutcome::Whole);
    bench.rights(on_request());
    asked(&mut bench, input(second, "b"));
    assert_eq!(bench.question().permissions, Permissions::Escalated, "another profile, though a looser one");
}

#[test]
fn an_unsandboxed_process_is_reviewed_as_escalated() {
    let (mut bench, process) = bypassed();
    let call = asked(&mut bench, input(process, "rm x\n").eof());
    let question = bench.question();
    assert_eq!(question.permissions, Permissions::Escalated);
    assert_eq!(
        question.subject,
        Subject::Input { input: Bytes::from_static(b"rm x\n"), eof: true },
        "all of it is shown"
    );
    assert_eq!((question.process, question.strict), (process, false));
    assert!(matches!(bench.progress(call).last(), Some(Progress::Asking { .. })));
    assert!(bench.writes(process).is_empty());
    bench.approves();
    assert_eq!(bench.writes(process).len(), 1);
    bench.wrote(process, 5, WriteOutcome::Whole);
    bench.advance(250);
    assert_eq!(bench.result(call).stdin, Some((0, 5)));
}

#[test]
fn what_was_granted_on_top_is_reviewed_as_that() {
    let mut bench = Bench::of(on_request());
    let more = Additional { write: vec!["/more".into()], ..Additional::default() };
    let (_, process) = bench.approved(shell().stdin().asks_for(Permissions::Additional(more.clone())));
    asked(&mut bench, input(process, "a"));
    assert_eq!(bench.question().permissions, Permissions::Additional(more));
}

#[test]
fn strict_review_sees_every_input_that_is_not_empty() {
    let mut bench = Bench::of(on_request());
    let process = bench.background(shell().stdin());
    bench.rights(strict(on_request()));
    let poll = bench.poll(process);
    assert!(bench.waits(poll) && bench.questions().is_empty());
    asked(&mut bench, input(process, "a"));
    assert!(bench.question().strict && bench.question().permissions == Permissions::Default);
    bench.reviews(Review::Allow { text: String::new() });
    assert_eq!(texts(&bench, process), ["a"]);
}

#[test]
fn a_needed_review_is_a_refusal_where_nobody_may_be_asked() {
    let no_stdin = Granular { stdin: false, ..granular() };
    for policy in [ApprovalPolicy::Never, ApprovalPolicy::Granular(no_stdin)] {
        let (mut bench, process) = bypassed();
        bench.rights(sandboxed(policy));
        let write = bench.write(input(process, "a"));
        assert_eq!(*bench.write_error(write), WriteError::Forbidden { process });
        assert_eq!((bench.writes(process).len(), bench.questions().len()), (0, 1));
    }
}

#[test]
fn a_later_policy_never_alters_what_a_live_process_runs_under() {
    let mut bench = Bench::of(on_request());
    let process = bench.background(shell().stdin());
    let before = bench.view(process).unwrap().attempts;
    bench.rights(Rights::unrestricted());
    assert_eq!(bench.view(process).unwrap().attempts, before);
}

// What is never asked about.

#[test]
fn polls_and_an_interrupt_character_to_a_pipe_are_not_reviewed() {
    let mut bench = Bench::of(on_request());
    let (_, process) = bench.approved(shell().asks_for(Permissions::Escalated));
    bench.advance(1_000);
    let poll = bench.poll(process);
    let interrupt = bench.write(input(process, "\u{3}"));
    assert!(bench.waits(poll) && bench.waits(interrupt));
    assert_eq!((bench.blows(process), bench.questions().len()), (vec!["1000 INT Group".to_owned()], 1));
}

#[test]
fn a_null_byte_is_refused_before_anybody_is_asked() {
    let (mut bench, process) = bypassed();
    let write = bench.write(input(process, "ab\0c"));
    assert_eq!(*bench.write_error(write), WriteError::ReviewNul { process, at: 2 });
    let mut bench2 = Bench::of(on_request());
    let free = bench2.background(shell().stdin());
    bench2.write(input(free, "ab\0c"));
    assert_eq!(bench2.writes(free).len(), 1, "only reviewed input must be readable");
    assert_eq!(bench.questions().len(), 1);
}

#[test]
fn the_bound_is_on_the_serialized_form_with_its_reason() {
    let (mut bench, process) = bypassed();
    asked(&mut bench, input(process, "x"));
    let reason = bench.question().reason.clone();
    bench.declines();
    let frame = format!(
        r#"{{"action":"write_stdin","process_id":{process},"input":"","eof":false,"reason":"{reason}"}}"#
    );
    let room = INPUT_REVIEW_BYTES_MAX - frame.len();
    asked(&mut bench, input(process, &"a".repeat(room)));
    bench.declines();
    let over = bench.write(input(process, &"a".repeat(room + 1)));
    let (bytes, limit) = (INPUT_REVIEW_BYTES_MAX + 1, INPUT_REVIEW_BYTES_MAX);
    assert_eq!(*bench.write_error(over), WriteError::ReviewTooLarge { process, bytes, limit });
    let escaped = bench.write(input(process, &"\n".repeat(room / 2 + 1)));
    assert!(
        matches!(bench.write_error(escaped), WriteError::ReviewTooLarge { .. }),
        "an escape is two bytes"
    );
    assert!(bench.writes(process).is_empty(), "nobody executes an unreviewed tail");
}

// The lane.

#[test]
fn pieces_behind_a_reviewed_one_wait_in_order_and_are_reviewed_themselves() {
    let (mut bench, process) = bypassed();
    asked(&mut bench, input(process, "a").frame());
    let second = bench.write(input(process, "b").frame());
    let third = bench.write(input(process, "c").frame());
    assert_eq!(bench.open(), 1, "one question at a time");
    bench.approves();
    assert_eq!((texts(&bench, process), bench.open()), (vec!["a".to_owned()], 0));
    bench.wrote(process, 1, WriteOutcome::Whole);
    assert_eq!(bench.question().subject, Subject::Input { input: Bytes::from_static(b"b"), eof: false });
    assert!(bench.waits(second), "unacknowledged while its question is open");
    bench.declines();
    assert!(matches!(bench.write_error(second), WriteError::NotApproved(NotApproved::Declined { .. })));
    assert_eq!(bench.open(), 1, "the next one has its own chance");
    bench.approves();
    bench.wrote(process, 1, WriteOutcome::Whole);
    assert_eq!(bench.result(third).stdin, Some((1, 2)));
    assert_eq!(texts(&bench, process), ["a", "c"]);
}

#[test]
fn nobody_else_waits_for_a_review() {
    let (mut bench, process) = bypassed();
    let other = bench.background(shell().stdin());
    asked(&mut bench, input(process, "a"));
    bench.write(input(other, "x"));
    assert_eq!(bench.writes(other).len(), 1);
    bench.call(super::bench::signal(process, Signal::INT, crate::core::signal::Scope::Group));
    assert_eq!(bench.blows(process).len(), 1);
    assert_eq!(bench.state(process), Some(State::Running));
    let poll = bench.poll(process);
    bench.finishes(process, 0);
    assert_eq!(bench.result(poll).end, WaitEnd::Exited);
}

#[test]
fn an_interrupt_withdraws_a_review_and_reports_where_the_input_is() {
    let (mut bench, process) = bypassed();
    asked(&mut bench, input(process, "abc").frame());
    bench.approves();
    bench.wrote(process, 3, WriteOutcome::Whole);
    let call = asked(&mut bench, input(process, "d"));
    let report = bench.interrupt("t");
    assert_eq!((report.withdrawn, report.alive), (1, vec![process]));
    assert_eq!((bench.result(call).end, bench.result(call).stdin), (WaitEnd::Interrupted, Some((3, 3))));
    let late = bench.decide(&bench.question().id.clone(), Verdict::Approve);
    assert!(matches!(bench.decided(late), Err(DecideError::NotOpen { .. })));
    assert_eq!(texts(&bench, process), ["abc"], "nothing is written after it was taken back");
}

#[test]
fn a_client_that_goes_away_takes_its_reviewed_input_along_and_the_next_has_its_turn() {
    let (mut bench, process) = bypassed();
    let first = asked(&mut bench, input(process, "a").request("w", 1));
    let second = bench.write(input(process, "b").frame());
    bench.drops(first);
    assert_eq!(bench.question().subject, Subject::Input { input: Bytes::from_static(b"b"), eof: false });
    bench.approves();
    bench.wrote(process, 1, WriteOutcome::Whole);
    assert_eq!((bench.result(second).stdin, texts(&bench, process)), (Some((0, 1)), vec!["b".to_owned()]));
    asked(&mut bench, input(process, "a").request("w", 1));
}

#[test]
fn nobody_is_asked_for_a_client_that_went_away_before_its_turn() {
    let (mut bench, process) = bypassed();
    asked(&mut bench, input(process, "a").frame());
    let gone = bench.write(input(process, "b").request("w", 1));
    bench.drops(gone);
    bench.declines();
    assert_eq!((bench.open(), bench.questions().len()), (0, 2));
    asked(&mut bench, input(process, "b").request("w", 1));
}

#[test]
fn a_repeat_of_a_reviewed_write_joins_it_and_hears_of_the_question() {
    let (mut bench, process) = bypassed();
    let first = asked(&mut bench, input(process, "a").request("w", 1));
    let repeat = bench.write(input(process, "a").request("w", 1));
    assert!(
        bench.progress(repeat).iter().any(|progress| matches!(progress, Progress::Asking { .. })),
        "{:?}",
        bench.progress(repeat)
    );
    bench.drops(first);
    assert_eq!(bench.open(), 1, "somebody still waits");
    bench.approves();
    bench.wrote(process, 1, WriteOutcome::Whole);
    bench.advance(250);
    assert_eq!((bench.result(repeat).stdin, bench.writes(process).len()), (Some((0, 1)), 1));
}

#[test]
fn the_end_of_a_process_withdraws_its_review() {
    let (mut bench, process) = bypassed();
    let call = asked(&mut bench, input(process, "a"));
    bench.finishes(process, 0);
    let result = bench.result(call);
    assert_eq!((result.end, result.stdin, result.live_process()), (WaitEnd::Exited, Some((0, 0)), None));
    assert_eq!((bench.open(), bench.writes(process).len()), (0, 0));
}

#[test]
fn an_expired_review_delivers_nothing() {
    let (mut bench, process) = bypassed();
    let call = asked(&mut bench, input(process, "a"));
    bench.advance(600_000);
    assert!(matches!(bench.write_error(call), WriteError::NotApproved(NotApproved::Expired { .. })));
    assert!(bench.writes(process).is_empty());
}

#[test]
fn a_policy_that_changes_while_a_review_is_open_makes_it_stale_and_the_next_is_judged_anew() {
    let (mut bench, process) = bypassed();
    let first = asked(&mut bench, input(process, "a"));
    let second = bench.write(input(process, "b").frame());
    bench.rights(sandboxed(ApprovalPolicy::UnlessTrusted));
    assert_eq!(*bench.write_error(first), WriteError::NotApproved(NotApproved::Stale { process }));
    assert_eq!((bench.open(), bench.question().policy_revision), (1, 2));
    bench.rights(sandboxed(ApprovalPolicy::Never));
    assert!(matches!(bench.write_error(second), WriteError::NotApproved(NotApproved::Stale { .. })));
    assert_eq!((bench.open(), bench.writes(process).len()), (0, 0));
}

#[test]
fn a_stream_is_checked_again_at_every_frame() {
    let mut bench = Bench::of(on_request());
    let process = bench.background(shell().stdin());
    bench.write(input(process, "a").frame());
    let second = bench.write(input(process, "b").frame());
    let profile = Profile { deny_read: vec!["/secret".into()], ..on_request().profile };
    bench.rights(Rights { profile, ..on_request() });
    bench.wrote(process, 1, WriteOutcome::Whole);
    let cause = NewTerminal::DenyRead;
    assert_eq!(*bench.write_error(second), WriteError::NewTerminal { process, cause });
    assert_eq!(texts(&bench, process), ["a"]);
}

#[test]
fn what_was_delivered_already_is_not_reviewed_twice() {
    let (mut bench, process) = bypassed();
    asked(&mut bench, input(process, "abc").at(0).frame());
    bench.approves();
    bench.wrote(process, 3, WriteOutcome::Whole);
    let repeat = bench.write(input(process, "abc").at(0).frame());
    assert_eq!((bench.result(repeat).end, bench.open()), (WaitEnd::Delivered, 0));
    asked(&mut bench, input(process, "abcd").at(0).frame());
    assert_eq!(bench.question().subject, Subject::Input { input: Bytes::from_static(b"d"), eof: false });
}

#[test]
fn an_approved_piece_that_was_taken_in_part_is_not_approved_for_its_rest() {
    let (mut bench, process) = bypassed();
    let call = asked(&mut bench, input(process, "abc").frame());
    bench.approves();
    bench.wrote(process, 2, WriteOutcome::Stopped);
    assert_eq!(bench.result(call).stdin, Some((0, 2)));
    asked(&mut bench, input(process, "abc").at(0).frame());
    assert_eq!(bench.question().subject, Subject::Input { input: Bytes::from_static(b"c"), eof: false });
}

#[test]
fn the_yield_of_a_reviewed_write_counts_from_its_delivery() {
    let (mut bench, process) = bypassed();
    let call = asked(&mut bench, input(process, "a").yields(1_000));
    bench.advance(60_000);
    bench.approves();
    bench.wrote(process, 1, WriteOutcome::Whole);
    bench.advance(999);
    assert!(bench.waits(call));
    bench.advance(1);
    assert_eq!((bench.result(call).end, bench.result(call).paused), (WaitEnd::Yielded, ms(60_000)));
}

#[test]
fn a_lane_with_a_review_at_its_head_is_bounded() {
    let (mut bench, process) = bypassed();
    asked(&mut bench, input(process, "a").frame());
    for _ in 0..INPUT_QUEUE_MAX {
        bench.write(input(process, "b").frame());
    }
    let refused = bench.write(input(process, "c").frame());
    assert!(matches!(bench.write_error(refused), WriteError::QueueFull { .. }));
}
