//! Watching and listing questions.

use tokio::time::timeout;
use tonic::{Code, Streaming};
use unified_exec::grpc::auth::Role;
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::watch_approvals_response::Item;
use unified_exec::grpc::pb::{ApprovalState, Verdict};

use crate::asking::{Approvals, Asking};
use crate::support::{Bench, PATIENCE, assert_refused};

type Watching = Streaming<pb::WatchApprovalsResponse>;

async fn watch(mut client: Approvals, session: &str) -> Watching {
    let request = pb::WatchApprovalsRequest { session_id: session.into(), ..Default::default() };
    client.watch_approvals(request).await.unwrap().into_inner()
}

async fn next(watching: &mut Watching) -> Option<Item> {
    timeout(PATIENCE, watching.message()).await.unwrap().unwrap().map(|item| item.item.unwrap())
}

async fn question(watching: &mut Watching) -> (String, ApprovalState) {
    match next(watching).await {
        Some(Item::Approval(approval)) => (approval.approval_id.clone(), approval.state()),
        other => panic!("{other:?}"),
    }
}

async fn snapshot(watching: &mut Watching) -> Vec<String> {
    let mut open = Vec::new();
    loop {
        match next(watching).await {
            Some(Item::Approval(approval)) => open.push(approval.approval_id),
            Some(Item::SnapshotDone(done)) => {
                assert_eq!(done.count as usize, open.len());
                return open;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_watch_begins_with_what_is_open_and_tells_every_change() {
    let asking = Asking::start().await;
    let first = asking.ask(asking.bench.cmd("true")).await;
    let mut watching = watch(asking.reviewer.clone(), "").await;
    assert_eq!(snapshot(&mut watching).await, std::slice::from_ref(&first.question.approval_id));
    let second = asking.ask(asking.bench.cmd("true")).await;
    let id = second.question.approval_id.clone();
    assert_eq!(question(&mut watching).await, (id.clone(), ApprovalState::Open));
    asking.decide(&second.question, Verdict::Decline).await.unwrap();
    assert_eq!(question(&mut watching).await, (id, ApprovalState::Declined));
    asking.bench.interrupt("turn").await;
    assert_eq!(question(&mut watching).await, (first.question.approval_id, ApprovalState::Withdrawn));
}

#[tokio::test]
async fn a_watch_of_one_session_ends_with_it_and_hears_of_no_other() {
    let asking = Asking::start().await;
    let created = asking.bench.sessions.clone().create_session(pb::CreateSessionRequest::default()).await;
    let other = created.unwrap().into_inner().session.unwrap().session_id;
    let other = Asking::on(Bench { session: other, ..asking.bench.clone() });
    // The agent may read those of its own sessions.
    let mut watching = watch(asking.seen_by("me", Role::Agent), &asking.bench.session).await;
    assert!(snapshot(&mut watching).await.is_empty());
    let elsewhere = other.ask(other.bench.cmd("true")).await;
    let here = asking.ask(asking.bench.cmd("true")).await;
    assert_eq!(question(&mut watching).await, (here.question.approval_id, ApprovalState::Open));
    let close = pb::CloseSessionRequest { session_id: asking.bench.session.clone() };
    asking.bench.sessions.clone().close_session(close).await.unwrap();
    loop {
        match next(&mut watching).await {
            Some(Item::Approval(approval)) => assert_eq!(approval.state(), ApprovalState::Withdrawn),
            Some(other) => panic!("{other:?}"),
            None => break,
        }
    }
    assert_eq!(asking.open().await, [elsewhere.question]);
}

#[tokio::test]
async fn a_watcher_that_was_too_slow_starts_again_from_what_is_open() {
    let asking = Asking::start().await;
    let mut watching = watch(asking.reviewer.clone(), "").await;
    assert!(snapshot(&mut watching).await.is_empty());
    let long = "x".repeat(16_000);
    // Two changes each, and no room in the pipe for what nobody reads.
    for _ in 0..700 {
        let waiting = asking.ask(asking.bench.cmd(&format!("true {long}"))).await;
        asking.decide(&waiting.question, Verdict::Decline).await.unwrap();
        waiting.outcome().await.unwrap_err();
    }
    let open = asking.ask(asking.bench.cmd("true")).await;
    let (mut changes, mut told) = (0, None);
    while told != Some(open.question.approval_id.clone()) {
        match next(&mut watching).await {
            Some(Item::Approval(approval)) => {
                changes += 1;
                told = (approval.state() == ApprovalState::Open).then_some(approval.approval_id);
            }
            Some(Item::SnapshotDone(_)) => panic!("told before what it ends"),
            other => panic!("{other:?}"),
        }
    }
    assert!(changes < 1_400, "it was not slow: {changes}");
    assert!(matches!(next(&mut watching).await, Some(Item::SnapshotDone(pb::SnapshotDone { count: 1 }))));
}

#[tokio::test]
async fn lists_come_in_pages_oldest_first_with_or_without_what_is_closed() {
    let asking = Asking::start().await;
    let mut asked = Vec::new();
    for _ in 0..5 {
        asked.push(asking.ask(asking.bench.cmd("true")).await);
    }
    asking.decide(&asked[1].question, Verdict::Decline).await.unwrap();
    let ids: Vec<String> = asked.iter().map(|waiting| waiting.question.approval_id.clone()).collect();
    let mut client = asking.seen_by("me", Role::Agent);
    for include_closed in [true, false] {
        let (mut seen, mut token) = (Vec::new(), String::new());
        loop {
            let request = pb::ListApprovalsRequest {
                session_id: asking.bench.session.clone(),
                include_closed,
                page_size: 2,
                page_token: token,
            };
            let page = client.list_approvals(request.clone()).await.unwrap().into_inner();
            seen.extend(page.approvals.into_iter().map(|approval| approval.approval_id));
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
            let other = pb::ListApprovalsRequest {
                include_closed: !include_closed,
                page_token: token.clone(),
                ..request
            };
            let refused = client.list_approvals(other).await;
            assert_refused(refused, Code::InvalidArgument, "INVALID_PAGE_TOKEN");
        }
        let wanted = ids.iter().enumerate().filter(|(at, _)| include_closed || *at != 1);
        assert_eq!(seen, wanted.map(|(_, id)| id.clone()).collect::<Vec<_>>());
    }
}
