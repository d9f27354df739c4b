//! Sessions: what they are set to, and who may set it.

use tonic::{Code, Status};
use unified_exec::core::policy::{ApprovalPolicy, Files, Network, Profile, Rights};
use unified_exec::grpc::auth::Role;
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::session_service_client::SessionServiceClient;

use crate::support::{Bench, assert_refused, caller, server, settings};

fn careful() -> Rights {
    let files = Files::WorkspaceWrite { writable_roots: Vec::new(), protected: vec![".git".into()] };
    Rights {
        policy: ApprovalPolicy::OnRequest,
        strict_review: false,
        profile: Profile { files, network: Network::Off, deny_read: Vec::new() },
    }
}

fn unrestricted() -> pb::SessionConfig {
    pb::SessionConfig {
        approval_policy: Some(pb::ApprovalPolicy {
            mode: pb::ApprovalMode::Never.into(),
            ..Default::default()
        }),
        sandbox: Some(pb::SandboxProfile {
            kind: pb::SandboxKind::FullAccess.into(),
            network: Some(pb::NetworkPolicy { mode: pb::NetworkMode::On.into(), ..Default::default() }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

pub(crate) async fn create(bench: &Bench, config: pb::SessionConfig) -> Result<pb::Session, Status> {
    let request = pb::CreateSessionRequest { config: Some(config), ..Default::default() };
    Ok(bench.sessions.clone().create_session(request).await?.into_inner().session.unwrap())
}

pub(crate) async fn update(
    bench: &Bench,
    paths: &[&str],
    revision: u64,
    config: pb::SessionConfig,
) -> Result<pb::Session, Status> {
    let request = pb::UpdateSessionRequest {
        session_id: bench.session.clone(),
        config: Some(config),
        update_mask: Some(prost_types::FieldMask { paths: paths.iter().map(ToString::to_string).collect() }),
        policy_revision: revision,
    };
    Ok(bench.sessions.clone().update_session(request).await?.into_inner().session.unwrap())
}

#[tokio::test]
async fn what_is_asked_for_is_what_holds_and_no_more_than_agents_may_ask_for() {
    let (edge, _host) = server(settings(careful()), Rights::unrestricted());
    let mut agent = SessionServiceClient::new(edge.channel(caller("me", Role::Agent)));
    let created = agent.create_session(pb::CreateSessionRequest::default()).await.unwrap().into_inner();
    let config = created.session.unwrap().config.unwrap();
    assert_eq!(config.sandbox.unwrap().kind(), pb::SandboxKind::WorkspaceWrite);
    assert_eq!(config.approval_policy.unwrap().mode(), pb::ApprovalMode::OnRequest);
    let open = pb::CreateSessionRequest { config: Some(unrestricted()), ..Default::default() };
    let refused =
        assert_refused(agent.create_session(open.clone()).await, Code::PermissionDenied, "WIDENING_DENIED");
    assert_eq!(refused.fact("field"), "sandbox.kind");
    let mut reviewer = SessionServiceClient::new(edge.channel(caller("me", Role::Reviewer)));
    let session = reviewer.create_session(open).await.unwrap().into_inner().session.unwrap();
    assert_eq!(session.config.unwrap().sandbox.unwrap().kind(), pb::SandboxKind::FullAccess);
}

#[tokio::test]
async fn a_ceiling_holds_for_reviewers_too() {
    let (edge, _host) = server(settings(careful()), careful());
    let mut reviewer = SessionServiceClient::new(edge.channel(caller("me", Role::Reviewer)));
    let open = pb::CreateSessionRequest { config: Some(unrestricted()), ..Default::default() };
    assert_refused(reviewer.create_session(open).await, Code::PermissionDenied, "WIDENING_DENIED");
}

#[tokio::test]
async fn a_session_tells_every_setting_and_takes_changes_of_each() {
    let bench = Bench::start().await;
    let limits =
        pb::SessionLimits { max_processes: Some(3), max_output_tokens: Some(7), ..Default::default() };
    let config = pb::SessionConfig {
        cwd: "/usr".into(),
        shell: "sh".into(),
        limits: Some(limits),
        table_full: pb::TableFull::Reject.into(),
        ..Default::default()
    };
    let session = create(&bench, config).await.unwrap();
    assert_eq!(
        (session.policy_revision, session.state(), session.owner.as_str()),
        (1, pb::SessionState::Open, "me")
    );
    let told = session.config.unwrap();
    assert_eq!(
        (told.cwd.as_str(), told.shell.as_str(), told.environment_id.as_str()),
        ("/usr", "sh", "local")
    );
    assert_eq!((told.allow_login_shell, told.interactive), (Some(false), Some(true)));
    let told_limits = told.limits.unwrap();
    assert_eq!((told_limits.max_processes, told_limits.max_output_tokens), (Some(3), Some(7)));
    assert_eq!(told_limits.max_poll_ms, Some(300_000));
    assert_eq!(told.approval_policy.unwrap().mode(), pb::ApprovalMode::Never);

    let bench = Bench { session: session.session_id, ..bench };
    let run = bench
        .run(bench.cmd("pwd; echo long enough to be cut, that is more than seven tokens"))
        .await
        .unwrap();
    assert!(run.text().starts_with("/usr\n"));
    assert!(run.result.text.unwrap().truncated, "the session's budget counts");
    let changed = update(
        &bench,
        &["cwd", "env_policy"],
        1,
        pb::SessionConfig {
            env_policy: Some(pb::EnvPolicy {
                set: vec![pb::EnvVar { name: "MINE".into(), value: "1".into() }],
                ..Default::default()
            }),
            ..Default::default()
        },
    );
    let changed = changed.await.unwrap();
    assert_eq!(changed.policy_revision, 2);
    assert_eq!(changed.config.unwrap().cwd, "/tmp", "what is absent goes back to the default");
    let run = bench.run(bench.cmd("echo $MINE; pwd")).await.unwrap();
    assert_eq!(run.text(), "1\n/tmp\n");
    let stale = update(&bench, &["cwd"], 1, pb::SessionConfig::default()).await;
    let refused = assert_refused(stale, Code::Aborted, "POLICY_REVISION_MISMATCH");
    assert_eq!((refused.fact("expected"), refused.fact("actual")), ("1".into(), "2".into()));
    let interactive = pb::SessionConfig { interactive: Some(false), ..Default::default() };
    update(&bench, &["interactive"], 0, interactive).await.unwrap();
    assert_refused(bench.run(bench.cmd("true")).await, Code::FailedPrecondition, "ONE_SHOT_ONLY");
}

#[tokio::test]
async fn masks_and_values_that_cannot_be_are_refused_and_change_nothing() {
    let bench = Bench::start().await;
    for (path, reason) in [("nothing", "INVALID_FIELD_MASK"), ("sandbox.network", "INVALID_FIELD_MASK")] {
        let refused = assert_refused(
            update(&bench, &["cwd", path], 0, pb::SessionConfig::default()).await,
            Code::InvalidArgument,
            reason,
        );
        assert!(refused.status.message().contains(path));
    }
    assert_refused(
        update(&bench, &[], 0, pb::SessionConfig::default()).await,
        Code::InvalidArgument,
        "INVALID_FIELD",
    );
    let cases = [
        (
            pb::SessionConfig { cwd: "relative".into(), ..Default::default() },
            Code::InvalidArgument,
            "INVALID_FIELD",
        ),
        (pb::SessionConfig { cwd: "/no/such".into(), ..Default::default() }, Code::NotFound, "CWD_NOT_FOUND"),
        (
            pb::SessionConfig { cwd: "/etc/passwd".into(), ..Default::default() },
            Code::FailedPrecondition,
            "CWD_NOT_ACCESSIBLE",
        ),
        (
            pb::SessionConfig { shell: "fish".into(), ..Default::default() },
            Code::InvalidArgument,
            "INVALID_FIELD",
        ),
        (
            pb::SessionConfig { shell: "/no/such/bash".into(), ..Default::default() },
            Code::NotFound,
            "SHELL_NOT_FOUND",
        ),
        (
            pb::SessionConfig { environment_id: "moon".into(), ..Default::default() },
            Code::NotFound,
            "ENVIRONMENT_NOT_FOUND",
        ),
        (
            pb::SessionConfig { allow_login_shell: Some(true), ..Default::default() },
            Code::PermissionDenied,
            "WIDENING_DENIED",
        ),
        (pb::SessionConfig { table_full: 77, ..Default::default() }, Code::InvalidArgument, "INVALID_FIELD"),
        (
            pb::SessionConfig { min_confidence: 1, ..Default::default() },
            Code::InvalidArgument,
            "INVALID_FIELD",
        ),
        (
            pb::SessionConfig {
                limits: Some(pb::SessionLimits { max_processes: Some(65), ..Default::default() }),
                ..Default::default()
            },
            Code::PermissionDenied,
            "WIDENING_DENIED",
        ),
        (
            pb::SessionConfig {
                limits: Some(pb::SessionLimits { max_processes: Some(0), ..Default::default() }),
                ..Default::default()
            },
            Code::InvalidArgument,
            "INVALID_FIELD",
        ),
        (
            pb::SessionConfig {
                env_policy: Some(pb::EnvPolicy { inherit: pb::EnvInherit::All.into(), ..Default::default() }),
                ..Default::default()
            },
            Code::PermissionDenied,
            "WIDENING_DENIED",
        ),
    ];
    for (config, code, reason) in cases {
        assert_refused(create(&bench, config.clone()).await, code, reason);
        assert_refused(update(&bench, &["*"], 0, config).await, code, reason);
    }
    let request = pb::GetSessionRequest { session_id: bench.session.clone() };
    let session = bench.sessions.clone().get_session(request).await.unwrap().into_inner().session.unwrap();
    assert_eq!(session.policy_revision, 1);
}

#[tokio::test]
async fn a_terminal_holds_the_working_directory_and_a_full_table_refuses() {
    let bench = Bench::start().await;
    let full = pb::SessionConfig {
        limits: Some(pb::SessionLimits { max_processes: Some(1), ..Default::default() }),
        table_full: pb::TableFull::Reject.into(),
        ..Default::default()
    };
    update(&bench, &["limits", "table_full"], 0, full).await.unwrap();
    let mut terminal = bench.cmd("echo ready; sleep 60");
    terminal.tty = true;
    let process = bench.start_ready(terminal).await;
    let moved =
        update(&bench, &["cwd"], 0, pb::SessionConfig { cwd: "/usr".into(), ..Default::default() }).await;
    let refused = assert_refused(moved, Code::FailedPrecondition, "CWD_IN_USE");
    assert_eq!(refused.fact("process_ids"), process.to_string());
    let refused = assert_refused(bench.run(bench.cmd("true")).await, Code::ResourceExhausted, "TABLE_FULL");
    assert_eq!(refused.fact("limit"), "1");
}

#[tokio::test]
async fn closing_ends_what_runs_and_the_session_is_gone() {
    let bench = Bench::start().await;
    let process = bench.start_ready(bench.cmd("echo ready; sleep 60")).await;
    let close = pb::CloseSessionRequest { session_id: bench.session.clone() };
    let closed = bench.sessions.clone().close_session(close.clone()).await.unwrap().into_inner();
    assert_eq!(closed.ended[0].process_id, process);
    assert_eq!(closed.ended[0].exit.as_ref().unwrap().reason(), pb::ExitReason::SessionClosed);
    assert_refused(bench.sessions.clone().close_session(close).await, Code::NotFound, "SESSION_NOT_FOUND");
    assert_refused(bench.run(bench.cmd("true")).await, Code::NotFound, "SESSION_NOT_FOUND");
}

#[tokio::test]
async fn leases_hold_yield_deadlines_and_are_bounded() {
    let bench = Bench::start().await;
    let hold = |lease: &str, duration_ms| pb::HoldDeadlinesRequest {
        session_id: bench.session.clone(),
        lease_id: lease.into(),
        duration_ms,
        ..Default::default()
    };
    let mut client = bench.sessions.clone();
    let lease = client.hold_deadlines(hold("", Some(60_000))).await.unwrap().into_inner();
    assert!(!lease.lease_id.is_empty() && lease.expire_time.is_some());
    let mut request = bench.cmd("sleep 60");
    request.yield_time_ms = Some(250);
    let waiting = tokio::spawn({
        let bench = bench.clone();
        async move { bench.run(request).await }
    });
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    assert!(!waiting.is_finished(), "the deadline stands still");
    let back = client.hold_deadlines(hold(&lease.lease_id, Some(0))).await.unwrap().into_inner();
    assert_eq!(back.expire_time, None);
    let run = waiting.await.unwrap().unwrap();
    assert!(run.result.paused_ms >= 300, "{}", run.result.paused_ms);
    for number in 0..64 {
        client.hold_deadlines(hold(&format!("l{number}"), None)).await.unwrap();
    }
    let refused = assert_refused(
        client.hold_deadlines(hold("one more", None)).await,
        Code::ResourceExhausted,
        "SESSION_LIMIT",
    );
    assert_eq!((refused.fact("resource"), refused.fact("limit")), ("leases".into(), "64".into()));
    client.hold_deadlines(hold("l1", None)).await.unwrap();
    assert_refused(client.hold_deadlines(hold("", Some(0))).await, Code::InvalidArgument, "INVALID_FIELD");
    assert_refused(
        client.hold_deadlines(hold("x", Some(600_001))).await,
        Code::InvalidArgument,
        "INVALID_FIELD",
    );
}

#[tokio::test]
async fn an_owner_has_so_many_sessions_and_no_more() {
    let bench = Bench::start().await;
    let owner = caller("me", Role::Agent).owner;
    while bench.host.sessions(&owner).len() < 1_024 {
        bench.host.create(owner.clone(), settings(Rights::unrestricted())).unwrap();
    }
    let refused = create(&bench, pb::SessionConfig::default()).await;
    let refused = assert_refused(refused, Code::ResourceExhausted, "TOO_MANY_SESSIONS");
    assert_eq!(refused.fact("limit"), "1024");
    let close = pb::CloseSessionRequest { session_id: bench.session.clone() };
    bench.sessions.clone().close_session(close).await.unwrap();
    create(&bench, pb::SessionConfig::default()).await.unwrap();
}
