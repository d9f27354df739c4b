//! Questions and answers: an agent asks by starting something, and a reviewer decides.

use std::time::Duration;

use tonic::Code;
use unified_exec::core::limits::Limits;
use unified_exec::core::policy::Rights;
use unified_exec::grpc::auth::Role;
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::{ApprovalKind, ApprovalState, Verdict};

use crate::asking::{Asking, answer, asks_always};
use crate::support::{Bench, assert_refused, server, settings};

#[tokio::test]
async fn a_question_shows_what_is_to_be_judged_and_an_answer_lets_exactly_that_run() {
    let asking = Asking::start().await;
    let mut request = asking.bench.cmd("echo approved");
    (request.turn_id, request.request_id) = ("t1".into(), "r1".into());
    if let Some(command) = &mut request.command {
        command.prefix_rule = vec!["echo".into()];
        command.cwd = "/usr".into();
    }
    let waiting = asking.ask(request).await;
    let question = waiting.question.clone();
    assert_eq!(question.session_id, asking.bench.session);
    assert_eq!((question.turn_id.as_str(), question.request_id.as_str()), ("t1", "r1"));
    assert_eq!((question.kind(), question.state()), (ApprovalKind::Command, ApprovalState::Open));
    assert_eq!(question.argv[1..], ["-c", "echo approved"]);
    assert_eq!((question.cwd.as_str(), question.environment_id.as_str()), ("/usr", "local"));
    assert_eq!(question.profile.as_ref().unwrap().kind(), pb::SandboxKind::FullAccess);
    assert_eq!(
        (question.proposed_prefix_rule.as_slice(), question.policy_revision),
        (&["echo".into()][..], 1)
    );
    assert_eq!((question.digest.len(), question.allowed_verdicts.len()), (32, 5));
    assert!(question.expire_time.unwrap().seconds - question.create_time.unwrap().seconds >= 599);
    assert!(!question.reason.is_empty() && question.decision.is_none());
    let process = asking.processes().await.remove(0);
    assert_eq!((process.phase(), process.state()), (pb::ProcessPhase::Asking, pb::ProcessState::Starting));
    assert_eq!((process.process_id, process.os_pid), (question.process_id, 0));

    let decided = asking.decide(&question, Verdict::Approve).await.unwrap();
    assert_eq!(decided.state(), ApprovalState::Approved);
    let decision = decided.decision.unwrap();
    assert_eq!((decision.verdict(), decision.decided_by.as_str()), (Verdict::Approve, "somebody"));
    assert_eq!(waiting.outcome().await.unwrap().text(), "approved\n");
    assert!(asking.open().await.is_empty());
    let story = asking.story().await;
    let begun = ["approval_requested", "approval_decided approved", "attempt_started 1", "process_started"];
    assert_eq!(story[..4], begun);
}

#[tokio::test]
async fn what_is_declined_does_not_run_and_the_agent_hears_why() {
    let asking = Asking::start().await;
    let directory = tempfile::tempdir().unwrap();
    let marker = directory.path().join("ran");
    let cases = [
        (Verdict::Decline, "APPROVAL_DECLINED", "declined"),
        (Verdict::AbortTurn, "TURN_ABORTED", "declined"),
    ];
    for (verdict, reason, state) in cases {
        let waiting = asking.ask(asking.bench.cmd(&format!("touch {}", marker.display()))).await;
        let question = waiting.question.clone();
        let words =
            pb::DecideApprovalRequest { text: "use the test tree".into(), ..answer(&question, verdict) };
        asking.send(words).await.unwrap();
        let refused = assert_refused(waiting.outcome().await, Code::PermissionDenied, reason);
        assert_eq!(refused.fact("approval_id"), question.approval_id);
        assert!(refused.status.message().contains("use the test tree"), "{:?}", refused.status);
        let story = asking.story().await;
        assert!(story.contains(&format!("approval_decided {state}")), "{story:?}");
        assert!(story.contains(&format!("start_refused {reason}")), "{story:?}");
    }
    assert!(!marker.exists() && asking.processes().await.is_empty(), "nothing ran and the id is given back");
}

#[tokio::test]
async fn aborting_the_turn_ends_its_waits_and_no_process() {
    let asking = Asking::start().await;
    let mut background = asking.bench.cmd("sleep 60");
    background.yield_time_ms = Some(250);
    let alive = asking.approved(background).await.process();
    let mut poll = asking.bench.write(alive, "");
    poll.yield_time_ms = Some(300_000);
    let polling = tokio::spawn({
        let bench = asking.bench.clone();
        async move { bench.send(poll).await }
    });
    let waiting = asking.ask(asking.bench.cmd("true")).await;
    asking.decide(&waiting.question, Verdict::AbortTurn).await.unwrap();
    let refused = assert_refused(waiting.outcome().await, Code::PermissionDenied, "TURN_ABORTED");
    assert_eq!(refused.fact("turn_id"), "turn");
    let polled = polling.await.unwrap().unwrap();
    assert_eq!(polled.result.wait_end(), pb::WaitEnd::Interrupted);
    assert_eq!(polled.process(), alive);
}

#[tokio::test]
async fn an_answer_that_is_not_to_this_question_changes_nothing() {
    let asking = Asking::start().await;
    let other = Asking::on(Bench { session: another_session(&asking.bench).await, ..asking.bench.clone() });
    let waiting = asking.ask(asking.bench.cmd("echo once")).await;
    let question = waiting.question.clone();
    let yes = answer(&question, Verdict::Approve);
    let wrong = pb::DecideApprovalRequest { digest: vec![0; 32].into(), ..yes.clone() };
    assert_refused(asking.send(wrong).await, Code::Aborted, "DIGEST_MISMATCH");
    let none = pb::DecideApprovalRequest { digest: Vec::new().into(), ..yes.clone() };
    assert_refused(asking.send(none).await, Code::Aborted, "DIGEST_MISMATCH");
    let elsewhere = pb::DecideApprovalRequest { session_id: other.bench.session.clone(), ..yes.clone() };
    assert_refused(asking.send(elsewhere).await, Code::NotFound, "APPROVAL_NOT_FOUND");
    let unknown = pb::DecideApprovalRequest { approval_id: "apr_nothing".into(), ..yes.clone() };
    assert_refused(asking.send(unknown).await, Code::NotFound, "APPROVAL_NOT_FOUND");
    for (field, request) in [
        ("verdict", pb::DecideApprovalRequest { verdict: 0, ..yes.clone() }),
        ("verdict", pb::DecideApprovalRequest { verdict: 99, ..yes.clone() }),
        ("text", pb::DecideApprovalRequest { text: "x".repeat(4_097), ..yes.clone() }),
        ("prefix_rule", pb::DecideApprovalRequest { prefix_rule: vec!["ls".into()], ..yes.clone() }),
        ("approval_id", pb::DecideApprovalRequest { approval_id: String::new(), ..yes.clone() }),
        ("session_id", pb::DecideApprovalRequest { session_id: String::new(), ..yes.clone() }),
        // Neither the question nor the answer has words for a rule.
        ("prefix_rule", answer(&question, Verdict::ApproveAndAddRule)),
        (
            "prefix_rule",
            pb::DecideApprovalRequest {
                prefix_rule: vec!["ls".into(); 65],
                ..answer(&question, Verdict::ApproveAndAddRule)
            },
        ),
    ] {
        let refused = assert_refused(asking.send(request).await, Code::InvalidArgument, "INVALID_FIELD");
        assert_eq!(refused.field(), field);
    }
    assert_eq!(asking.question(&question.approval_id).await.state(), ApprovalState::Open);
    asking.send(yes.clone()).await.unwrap();
    let twice = assert_refused(asking.send(yes).await, Code::FailedPrecondition, "APPROVAL_NOT_OPEN");
    assert_eq!(twice.fact("state"), "APPROVED");
    assert_eq!(waiting.outcome().await.unwrap().text(), "once\n");
}

async fn another_session(bench: &Bench) -> String {
    let created = bench.sessions.clone().create_session(pb::CreateSessionRequest::default()).await.unwrap();
    created.into_inner().session.unwrap().session_id
}

#[tokio::test]
async fn of_two_reviewers_at_once_exactly_one_decides() {
    let asking = Asking::start().await;
    for _ in 0..20 {
        let waiting = asking.ask(asking.bench.cmd("exit 0")).await;
        let (yes, no) = tokio::join!(
            asking.decide(&waiting.question, Verdict::Approve),
            asking.decide(&waiting.question, Verdict::Decline)
        );
        assert_eq!(u8::from(yes.is_ok()) + u8::from(no.is_ok()), 1);
        assert_eq!(waiting.outcome().await.is_ok(), yes.is_ok());
        let late = if yes.is_ok() { no } else { yes };
        assert_refused(late, Code::FailedPrecondition, "APPROVAL_NOT_OPEN");
    }
}

#[tokio::test]
async fn an_approval_for_the_session_spares_the_same_question_until_it_is_taken_back() {
    let asking = Asking::start().await;
    let waiting = asking.ask(asking.bench.cmd("echo same")).await;
    asking.decide(&waiting.question, Verdict::ApproveForSession).await.unwrap();
    waiting.outcome().await.unwrap();
    assert_eq!(asking.bench.run(asking.bench.cmd("echo same")).await.unwrap().text(), "same\n");
    let list = pb::ListGrantsRequest { session_id: asking.bench.session.clone(), ..Default::default() };
    let mut agent = asking.seen_by("me", Role::Agent);
    let grants = agent.list_grants(list.clone()).await.unwrap().into_inner().grants;
    let [grant] = &grants[..] else { panic!("{grants:?}") };
    assert_eq!((grant.uses, grant.decided_by.as_str()), (1, "somebody"));
    assert_eq!((grant.cwd.as_str(), grant.tty), ("/tmp", false));
    asking.ask(asking.bench.cmd("echo other")).await;
    let revoke =
        pb::RevokeGrantRequest { session_id: asking.bench.session.clone(), grant_id: grant.grant_id.clone() };
    let refused =
        assert_refused(agent.revoke_grant(revoke.clone()).await, Code::PermissionDenied, "ROLE_REQUIRED");
    assert_eq!(refused.fact("role"), "reviewer");
    let mut reviewer = asking.reviewer.clone();
    let revoked = reviewer.revoke_grant(revoke.clone()).await.unwrap().into_inner().grant.unwrap();
    assert_eq!(revoked, *grant);
    assert_refused(reviewer.revoke_grant(revoke).await, Code::NotFound, "GRANT_NOT_FOUND");
    assert!(reviewer.list_grants(list).await.unwrap().into_inner().grants.is_empty());
    asking.ask(asking.bench.cmd("echo same")).await;
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_answers_expires_as_a_refusal() {
    let limits = Limits { approval_expiry: Some(Duration::from_secs(600)), ..Limits::default() };
    let settings = unified_exec::host::Settings { limits, ..settings(asks_always()) };
    let asking = Asking::on(Bench::on(server(settings, Rights::unrestricted())).await);
    let since = tokio::time::Instant::now();
    let waiting = asking.ask(asking.bench.cmd("true")).await;
    let question = waiting.question.clone();
    let stream = waiting.stream;
    // Longer than the usual patience, in a time that nobody waits for.
    let expired = crate::support::patiently(stream, Duration::from_secs(900)).await;
    let refused = assert_refused(expired, Code::PermissionDenied, "APPROVAL_EXPIRED");
    assert_eq!(refused.fact("approval_id"), question.approval_id);
    assert_eq!(since.elapsed().as_secs(), 600);
    let late = assert_refused(
        asking.decide(&question, Verdict::Approve).await,
        Code::FailedPrecondition,
        "APPROVAL_NOT_OPEN",
    );
    assert_eq!(late.fact("state"), "EXPIRED");
    assert_eq!(asking.story().await[1..], ["approval_decided expired", "start_refused APPROVAL_EXPIRED"]);
}

#[tokio::test]
async fn a_question_is_withdrawn_when_nobody_needs_its_answer_any_more() {
    let asking = Asking::start().await;
    let bench = &asking.bench;

    let waiting = asking.ask(bench.cmd("true")).await;
    let report = bench.interrupt("turn").await;
    assert_eq!((report.waits_ended, report.approvals_withdrawn), (1, 1));
    let first = waiting.question.clone();
    assert_refused(waiting.outcome().await, Code::Aborted, "START_CANCELLED");

    let waiting = asking.ask(bench.cmd("true")).await;
    bench.clean().await;
    assert_refused(waiting.outcome().await, Code::Aborted, "START_CANCELLED");

    let waiting = asking.ask(bench.cmd("true")).await;
    let update = pb::UpdateSessionRequest {
        session_id: bench.session.clone(),
        config: Some(pb::SessionConfig { interactive: Some(true), cwd: "/usr".into(), ..Default::default() }),
        update_mask: Some(prost_types::FieldMask { paths: vec!["cwd".into()] }),
        policy_revision: 0,
    };
    bench.sessions.clone().update_session(update).await.unwrap();
    assert_refused(waiting.outcome().await, Code::Aborted, "TICKET_STALE");

    let waiting = asking.ask(bench.cmd("true")).await;
    let dropped = waiting.question.clone();
    drop(waiting);
    while asking.question(&dropped.approval_id).await.state() == ApprovalState::Open {
        tokio::task::yield_now().await;
    }
    for question in [&first, &dropped] {
        assert_eq!(asking.question(&question.approval_id).await.state(), ApprovalState::Withdrawn);
        let late = assert_refused(
            asking.decide(question, Verdict::Approve).await,
            Code::FailedPrecondition,
            "APPROVAL_NOT_OPEN",
        );
        assert_eq!(late.fact("state"), "WITHDRAWN");
    }
    assert!(asking.processes().await.is_empty(), "every id is given back");

    let waiting = asking.ask(bench.cmd("true")).await;
    let close = pb::CloseSessionRequest { session_id: bench.session.clone() };
    bench.sessions.clone().close_session(close).await.unwrap();
    assert_refused(waiting.outcome().await, Code::Aborted, "START_CANCELLED");
    let story = asking.open().await;
    assert!(story.is_empty(), "questions go with their session");
}

#[tokio::test]
async fn yield_deadlines_of_the_session_stand_still_while_a_question_is_open() {
    let asking = Asking::start().await;
    let mut request = asking.bench.cmd("cat");
    (request.stdin, request.yield_time_ms) = (true, Some(250));
    let process = asking.approved(request.clone()).await.process();
    // The start that is asked about waits, and so does whatever else of the session waits for a deadline.
    let waiting = asking.ask(request).await;
    let question = waiting.question.clone();
    let start = tokio::spawn(waiting.outcome());
    let write = tokio::spawn({
        let (bench, write) = (asking.bench.clone(), asking.bench.write(process, "x\n"));
        async move { bench.send(write).await }
    });
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(!start.is_finished() && !write.is_finished(), "deadlines stand still");
    asking.decide(&question, Verdict::Approve).await.unwrap();
    let write = write.await.unwrap().unwrap();
    assert_eq!((write.result.wait_end(), write.text().as_str()), (pb::WaitEnd::Yielded, "x\n"));
    assert!(write.result.paused_ms >= 500, "{}", write.result.paused_ms);
    assert!(write.result.wall_time_ms >= write.result.paused_ms + 250, "{:?}", write.result);
    let start = start.await.unwrap().unwrap();
    assert_eq!(start.result.wait_end(), pb::WaitEnd::Yielded);
    assert!(start.result.wall_time_ms >= 900, "its own time begins with the answer: {:?}", start.result);
}

#[tokio::test]
async fn what_waits_for_an_answer_takes_no_input_has_no_output_and_can_be_ended() {
    let asking = Asking::start().await;
    let bench = &asking.bench;
    let mut request = bench.cmd("cat");
    request.stdin = true;
    let waiting = asking.ask(request).await;
    let process = waiting.question.process_id;
    let starting = (Code::FailedPrecondition, "PROCESS_STARTING");
    assert_refused(bench.send(bench.write(process, "x")).await, starting.0, starting.1);
    assert_refused(bench.attach(bench.attach_request(process)).await, starting.0, starting.1);
    let read = pb::ReadOutputRequest {
        session_id: bench.session.clone(),
        process_id: process,
        ..Default::default()
    };
    assert_refused(bench.exec.clone().read_output(read).await, starting.0, starting.1);
    let signal = pb::SignalProcessRequest {
        session_id: bench.session.clone(),
        process_id: process,
        signal: "TERM".into(),
        ..Default::default()
    };
    assert_refused(bench.exec.clone().signal_process(signal).await, starting.0, starting.1);
    let terminate = pb::TerminateProcessRequest {
        session_id: bench.session.clone(),
        process_id: process,
        ..Default::default()
    };
    bench.exec.clone().terminate_process(terminate).await.unwrap();
    assert_refused(waiting.outcome().await, Code::Aborted, "START_CANCELLED");
    assert_refused(bench.process(process).await, Code::NotFound, "PROCESS_NOT_FOUND");
}

#[tokio::test]
async fn a_repeat_of_a_start_that_waits_joins_it_and_is_told_of_the_question() {
    let asking = Asking::start().await;
    let mut request = asking.bench.cmd("echo once");
    request.request_id = "r1".into();
    let first = asking.ask(request.clone()).await;
    let second = asking.ask(request).await;
    assert_eq!(first.question, second.question);
    assert_eq!(asking.open().await.len(), 1);
    asking.decide(&first.question, Verdict::Approve).await.unwrap();
    let (first, second) = (first.outcome().await.unwrap(), second.outcome().await.unwrap());
    assert_eq!((first.text(), first.result), (second.text(), second.result));
}

#[tokio::test]
async fn a_one_shot_waits_for_its_answer_too() {
    let asking = Asking::start().await;
    let request = pb::ExecToCompletionRequest {
        session_id: asking.bench.session.clone(),
        command: Some(pb::Command { cmd: "echo done".into(), ..Default::default() }),
        timeout_ms: Some(20_000),
        ..Default::default()
    };
    let run = tokio::spawn({
        let mut exec = asking.bench.exec.clone();
        async move {
            let stream = exec.exec_to_completion(request).await.unwrap().into_inner();
            crate::support::collect(stream, |item| item.item.map(Into::into)).await
        }
    });
    let question = loop {
        if let Some(question) = asking.open().await.pop() {
            break question;
        }
        tokio::task::yield_now().await;
    };
    asking.decide(&question, Verdict::Approve).await.unwrap();
    let run = run.await.unwrap().unwrap();
    assert!(matches!(run.items[0], crate::support::Seen::Pending(_)), "{:?}", run.items);
    assert_eq!(run.text(), "done\n");
}
