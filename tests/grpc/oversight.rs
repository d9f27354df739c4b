//! Who sees and does what: agents their own sessions, reviewers all of them, and nobody runs anything in another's.

use tonic::Code;
use unified_exec::core::policy::{ApprovalPolicy, Files, Network, Profile, Rights};
use unified_exec::grpc::auth::Role;
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::exec_service_client::ExecServiceClient;
use unified_exec::grpc::pb::session_service_client::SessionServiceClient;
use unified_exec::grpc::pb::{ApprovalState, Verdict};

use crate::asking::{Asking, answer};
use crate::support::{Bench, assert_refused, caller, server, settings};

#[tokio::test]
async fn an_agent_of_another_owner_sees_nothing() {
    let asking = Asking::start().await;
    let waiting = asking.ask(asking.bench.cmd("true")).await;
    let id = waiting.question.approval_id.clone();
    let session = asking.bench.session.clone();
    let mut stranger = asking.seen_by("other", Role::Agent);
    let get = pb::GetApprovalRequest { approval_id: id.clone() };
    assert_refused(stranger.get_approval(get.clone()).await, Code::NotFound, "APPROVAL_NOT_FOUND");
    let all = stranger.list_approvals(pb::ListApprovalsRequest::default()).await.unwrap().into_inner();
    assert!(all.approvals.is_empty());
    let list = pb::ListApprovalsRequest { session_id: session.clone(), ..Default::default() };
    assert_refused(stranger.list_approvals(list).await, Code::NotFound, "SESSION_NOT_FOUND");
    let watch = pb::WatchApprovalsRequest { session_id: session.clone(), ..Default::default() };
    assert_refused(stranger.watch_approvals(watch).await, Code::NotFound, "SESSION_NOT_FOUND");
    let grants = pb::ListGrantsRequest { session_id: session, ..Default::default() };
    assert_refused(stranger.list_grants(grants).await, Code::NotFound, "SESSION_NOT_FOUND");
    // Its own agent reads, and decides nothing.
    let mut own = asking.seen_by("me", Role::Agent);
    assert_eq!(own.get_approval(get).await.unwrap().into_inner().approval.unwrap(), waiting.question);
    for client in [&mut own, &mut stranger] {
        let decided = client.decide_approval(answer(&waiting.question, Verdict::Approve)).await;
        assert_refused(decided, Code::PermissionDenied, "ROLE_REQUIRED");
    }
    assert_eq!(asking.question(&id).await.state(), ApprovalState::Open);
}

#[tokio::test]
async fn a_reviewer_looks_at_every_session_changes_and_stops_it_and_runs_nothing_in_it() {
    let bench = Bench::start().await;
    let process = bench.start_ready(bench.cmd("echo ready; sleep 60")).await;
    let channel = bench.edge.channel(caller("somebody", Role::Reviewer));
    let theirs = Bench {
        sessions: SessionServiceClient::new(channel.clone()),
        exec: ExecServiceClient::new(channel),
        ..bench.clone()
    };
    let (mut sessions, mut exec) = (theirs.sessions.clone(), theirs.exec.clone());
    let session_id = bench.session.clone();
    let get = pb::GetSessionRequest { session_id: session_id.clone() };
    assert_eq!(sessions.get_session(get).await.unwrap().into_inner().session.unwrap().owner, "me");
    let watch = pb::WatchSessionRequest { session_id: session_id.clone(), ..Default::default() };
    sessions.watch_session(watch).await.unwrap();
    assert_eq!(theirs.process(process).await.unwrap().process_id, process);
    let read =
        pb::ReadOutputRequest { session_id: session_id.clone(), process_id: process, ..Default::default() };
    exec.read_output(read).await.unwrap();
    let update = pb::UpdateSessionRequest {
        session_id: session_id.clone(),
        config: Some(pb::SessionConfig { interactive: Some(false), ..Default::default() }),
        update_mask: Some(prost_types::FieldMask { paths: vec!["interactive".into()] }),
        policy_revision: 0,
    };
    sessions.update_session(update).await.unwrap();

    assert_refused(theirs.run(theirs.cmd("true")).await, Code::NotFound, "SESSION_NOT_FOUND");
    assert_refused(theirs.send(theirs.write(process, "x")).await, Code::NotFound, "SESSION_NOT_FOUND");
    let attach = theirs.attach(theirs.attach_request(process)).await;
    assert_refused(attach, Code::NotFound, "SESSION_NOT_FOUND");
    let signal = pb::SignalProcessRequest {
        session_id: session_id.clone(),
        process_id: process,
        signal: "TERM".into(),
        ..Default::default()
    };
    assert_refused(exec.signal_process(signal).await, Code::NotFound, "SESSION_NOT_FOUND");
    let hold = pb::HoldDeadlinesRequest { session_id: session_id.clone(), ..Default::default() };
    assert_refused(sessions.hold_deadlines(hold).await, Code::NotFound, "SESSION_NOT_FOUND");

    theirs.interrupt("turn").await;
    let terminate = pb::TerminateProcessRequest {
        session_id: session_id.clone(),
        process_id: process,
        ..Default::default()
    };
    let ended = exec.terminate_process(terminate).await.unwrap().into_inner().ended;
    assert_eq!(ended[0].process_id, process);
    theirs.clean().await;
    let close = pb::CloseSessionRequest { session_id: session_id.clone() };
    sessions.close_session(close).await.unwrap();
    assert_refused(bench.run(bench.cmd("true")).await, Code::NotFound, "SESSION_NOT_FOUND");
}

fn bounded(roots: &[&str]) -> Rights {
    let writable_roots = roots.iter().map(|root| (*root).to_owned()).collect();
    let files = Files::WorkspaceWrite { writable_roots, protected: vec![".git".into()] };
    Rights {
        policy: ApprovalPolicy::OnRequest,
        strict_review: false,
        profile: Profile { files, network: Network::Off, deny_read: vec!["/etc/shadow".into()] },
    }
}

fn workspace(roots: &[&str], protected: &[&str], deny_read: &[&str]) -> pb::SessionConfig {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let sandbox = pb::SandboxProfile {
        kind: pb::SandboxKind::WorkspaceWrite.into(),
        writable_roots: words(roots),
        protected_subpaths: words(protected),
        deny_read: words(deny_read),
        network: None,
    };
    pb::SessionConfig { sandbox: Some(sandbox), ..Default::default() }
}

#[tokio::test]
async fn an_agent_narrows_within_its_bounds_and_a_reviewer_widens_up_to_the_ceiling() {
    let base = settings(bounded(&["/tmp", "/var"]));
    let ceiling = Rights { policy: ApprovalPolicy::OnRequest, ..Rights::unrestricted() };
    let bench = Bench::on(server(base, ceiling)).await;
    let mut agent = bench.sessions.clone();
    let mut reviewer = SessionServiceClient::new(bench.edge.channel(caller("me", Role::Reviewer)));
    let create = |config: &pb::SessionConfig| pb::CreateSessionRequest {
        config: Some(config.clone()),
        ..Default::default()
    };
    for config in [
        workspace(&["/tmp"], &[".git"], &["/etc/shadow"]),
        workspace(&["/var"], &[".git", ".hg"], &["/etc/shadow", "/root/**"]),
        // The working directory is within the bounds.
        workspace(&[], &[".git"], &["/etc/shadow"]),
    ] {
        agent.create_session(create(&config)).await.unwrap();
    }
    let proxied = pb::NetworkPolicy { mode: pb::NetworkMode::Proxied.into(), rules: Vec::new() };
    let mut connected = workspace(&["/tmp"], &[".git"], &["/etc/shadow"]);
    connected.sandbox.as_mut().unwrap().network = Some(proxied);
    let elsewhere = pb::SessionConfig { cwd: "/usr".into(), ..workspace(&[], &[".git"], &["/etc/shadow"]) };
    let unasked = pb::SessionConfig {
        approval_policy: Some(pb::ApprovalPolicy {
            mode: pb::ApprovalMode::UnlessTrusted.into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    agent.create_session(create(&unasked)).await.unwrap();
    for (config, field) in [
        (workspace(&["/"], &[".git"], &["/etc/shadow"]), "sandbox.writable_roots"),
        // It could be replaced by a link that leads elsewhere.
        (workspace(&["/var/tmp"], &[".git"], &["/etc/shadow"]), "sandbox.writable_roots"),
        (workspace(&["/tmp", "/usr"], &[".git"], &["/etc/shadow"]), "sandbox.writable_roots"),
        (workspace(&["/tmp"], &[".hg"], &["/etc/shadow"]), "sandbox.protected_subpaths"),
        (workspace(&["/tmp"], &[".git"], &[]), "sandbox.deny_read"),
        (connected, "sandbox.network"),
        (elsewhere, "sandbox.writable_roots"),
    ] {
        let refused = agent.create_session(create(&config)).await;
        let refused = assert_refused(refused, Code::PermissionDenied, "WIDENING_DENIED");
        assert_eq!(refused.fact("field"), field);
        reviewer.create_session(create(&config)).await.unwrap();
    }
    // What moves the workspace is judged as if the workspace had been asked for.
    let moved = pb::UpdateSessionRequest {
        session_id: {
            let created = agent.create_session(create(&workspace(&[], &[".git"], &["/etc/shadow"]))).await;
            created.unwrap().into_inner().session.unwrap().session_id
        },
        config: Some(pb::SessionConfig { cwd: "/usr".into(), ..Default::default() }),
        update_mask: Some(prost_types::FieldMask { paths: vec!["cwd".into()] }),
        policy_revision: 0,
    };
    assert_refused(agent.update_session(moved).await, Code::PermissionDenied, "WIDENING_DENIED");
}
