//! A second attempt, in a real sandbox, as every stream sees it.

use tempfile::TempDir;
use tokio::time::timeout;
use tonic::{Code, Streaming};
use unified_exec::core::limits::Limits;
use unified_exec::core::policy::{ApprovalPolicy, Files, Granular, Network, Profile, Rights};
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::{ApprovalKind, Verdict};
use unified_exec::host::Settings;

use crate::asking::Asking;
use crate::support::{Bench, PATIENCE, Seen, assert_refused, server, settings};

struct Scene {
    asking: Asking,
    workspace: TempDir,
    outside: TempDir,
}

impl Scene {
    /// A session that asks before a retry, or, with `asks_first`, before every start.
    async fn set(policy: ApprovalPolicy) -> Self {
        let within = || TempDir::new_in("/var/tmp").unwrap();
        let (workspace, outside) = (within(), within());
        let files = Files::WorkspaceWrite { writable_roots: Vec::new(), protected: Vec::new() };
        let profile = Profile { files, network: Network::Off, deny_read: Vec::new() };
        let mut base = settings(Rights { policy, strict_review: false, profile });
        base.defaults.cwd = workspace.path().display().to_string();
        // A loaded machine must not make it late.
        let early_window = std::time::Duration::from_secs(5);
        let base = Settings { limits: Limits { early_window, ..Limits::default() }, ..base };
        let asking = Asking::on(Bench::on(server(base, Rights::unrestricted())).await);
        Self { asking, workspace, outside }
    }

    /// Speaks, and writes where the sandbox lets nobody.
    fn denied(&self) -> pb::ExecCommandRequest {
        let outside = self.outside.path().join("file");
        self.asking.bench.cmd(&format!("echo spoken; echo text > {} && echo written", outside.display()))
    }

    fn was_written(&self) -> bool {
        self.outside.path().join("file").exists()
    }
}

const RETRIES: ApprovalPolicy =
    ApprovalPolicy::Granular(Granular { rules: true, sandbox_approval: true, network: false, stdin: true });

async fn next(stream: &mut Streaming<pb::ExecCommandResponse>) -> Seen {
    let seen: Seen =
        timeout(PATIENCE, stream.message()).await.unwrap().unwrap().unwrap().item.unwrap().into();
    assert!(!matches!(seen, Seen::Keepalive), "nothing comes");
    seen
}

/// Everything up to a question, which it is.
async fn until_asked(
    scene: &Scene,
    stream: &mut Streaming<pb::ExecCommandResponse>,
) -> (Vec<u8>, pb::Approval) {
    let mut said = Vec::new();
    loop {
        match next(stream).await {
            Seen::Output(output) => said.extend_from_slice(&output.data),
            Seen::Pending(pending) => return (said, scene.asking.question(&pending.approval_id).await),
            Seen::Result(result) => panic!("it ended: {result:?}"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_denied_attempt_is_asked_about_and_its_streams_go_on_with_the_second() {
    let scene = Scene::set(RETRIES).await;
    let bench = &scene.asking.bench;
    let mut stream = bench.exec.clone().exec_command(scene.denied()).await.unwrap().into_inner();
    let (said, question) = until_asked(&scene, &mut stream).await;
    assert!(String::from_utf8_lossy(&said).starts_with("spoken\n"));
    assert_eq!(question.kind(), ApprovalKind::Retry);
    assert_eq!(question.allowed_verdicts.len(), 3);
    assert_eq!(question.profile.as_ref().unwrap().kind(), pb::SandboxKind::WorkspaceWrite);
    assert!(question.evidence.as_ref().unwrap().confidence() >= pb::Confidence::Likely);
    let refused = scene.asking.decide(&question, Verdict::ApproveForSession).await;
    let refused = assert_refused(refused, Code::FailedPrecondition, "VERDICT_NOT_ALLOWED");
    assert_eq!(refused.fact("verdict"), "APPROVE_FOR_SESSION");

    let mut attached = bench.attach(bench.attach_request(question.process_id)).await.unwrap();
    let mut first_only = bench.attach_request(question.process_id);
    first_only.cursor = Some(pb::Cursor { attempt: 1, offset: 0 });
    let mut first_only = bench.attach(first_only).await.unwrap();
    scene.asking.decide(&question, Verdict::Approve).await.unwrap();

    let mut order = Vec::new();
    let mut outputs = [Vec::new(), Vec::new(), Vec::new()];
    while let Some(item) = timeout(PATIENCE, attached.message()).await.unwrap().unwrap() {
        match item.item.unwrap().into() {
            Seen::Attached(_) => order.push("attached".to_owned()),
            Seen::Output(output) => {
                assert_eq!(output.offset as usize, outputs[output.attempt as usize].len());
                outputs[output.attempt as usize].extend_from_slice(&output.data);
                order.push(format!("output {}", output.attempt));
            }
            Seen::Closed(end) => {
                assert_eq!(end.offset as usize, outputs[end.attempt as usize].len());
                order.push(format!("closed {}", end.attempt));
            }
            Seen::Denied(denied) => order.push(format!("denied {}", denied.attempt)),
            Seen::AttemptStarted(started) => order.push(format!("started {}", started.attempt)),
            Seen::Exited(exit) => {
                assert_eq!(exit.shell_code, 0);
                order.push("exited".into());
            }
            other => panic!("{other:?}"),
        }
    }
    order.dedup();
    let (told, end) = order.split_at(5);
    assert_eq!(told, ["attached", "output 1", "closed 1", "denied 1", "started 2"]);
    // The exit is told as soon as it is known, before output, between, or after it.
    let mut outputs_of_second = end.to_vec();
    outputs_of_second.retain(|told| told != "exited");
    outputs_of_second.dedup();
    assert_eq!(outputs_of_second, ["output 2", "closed 2"]);
    assert!(end.contains(&"exited".to_owned()), "{end:?}");
    assert!(String::from_utf8_lossy(&outputs[1]).starts_with("spoken\n"));
    assert_eq!(String::from_utf8_lossy(&outputs[2]), "spoken\nwritten\n");
    let mut attempts = Vec::new();
    while let Some(item) = timeout(PATIENCE, first_only.message()).await.unwrap().unwrap() {
        if let Seen::Output(output) = item.item.unwrap().into() {
            attempts.push(output.attempt);
        }
    }
    attempts.dedup();
    assert_eq!(attempts, [1], "who asked for one attempt gets that one");

    let mut order = Vec::new();
    let result = loop {
        match next(&mut stream).await {
            Seen::Denied(denied) => order.push(format!("denied {}", denied.attempt)),
            Seen::AttemptStarted(started) => order.push(format!("started {}", started.attempt)),
            Seen::Output(output) => order.push(format!("output {}", output.attempt)),
            Seen::Result(result) => break result,
            other => panic!("{other:?}"),
        }
    };
    order.dedup();
    assert_eq!(order, ["denied 1", "started 2", "output 2"]);
    assert_eq!((result.attempts.len(), result.exit.unwrap().shell_code), (2, 0));
    assert!(result.attempts[1].enforced.as_ref().unwrap().bypassed);
    assert!(scene.was_written());
    let story = scene.asking.story().await;
    let wanted = [
        "attempt_started 1",
        "process_started",
        "approval_requested",
        "approval_decided approved",
        "attempt_denied 1",
        "attempt_started 2",
        "process_exited",
    ];
    assert_eq!(story, wanted);
}

#[tokio::test]
async fn a_retry_that_is_declined_surfaces_the_denial_with_its_output() {
    let scene = Scene::set(RETRIES).await;
    let mut stream = scene.asking.bench.exec.clone().exec_command(scene.denied()).await.unwrap().into_inner();
    let (_, question) = until_asked(&scene, &mut stream).await;
    scene.asking.decide(&question, Verdict::Decline).await.unwrap();
    let Seen::Result(result) = next(&mut stream).await else { panic!() };
    assert_eq!((result.process_id, result.attempts.len()), (None, 1));
    assert!(result.evidence.is_some() && result.exit.unwrap().shell_code != 0);
    assert!(result.text.unwrap().text.contains("spoken"));
    assert!(!scene.was_written());
}

#[tokio::test]
async fn an_approved_start_is_retried_without_another_question() {
    let scene = Scene::set(ApprovalPolicy::UnlessTrusted).await;
    let run = scene.asking.approved(scene.denied()).await;
    assert_eq!((run.exit_code(), run.result.attempts.len()), (0, 2));
    let kinds: Vec<String> = run
        .items
        .iter()
        .filter_map(|item| match item {
            Seen::AttemptStarted(started) => Some(format!("started {}", started.attempt)),
            Seen::Denied(denied) => Some(format!("denied {}", denied.attempt)),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, ["started 1", "denied 1", "started 2"]);
    assert!(scene.was_written());
    let asked = scene.asking.story().await.into_iter().filter(|event| event == "approval_requested");
    assert_eq!(asked.count(), 1);
}

#[tokio::test]
async fn what_is_asked_for_by_name_runs_with_it_once_approved() {
    let scene = Scene::set(RETRIES).await;
    let mut escalated = scene.denied();
    let command = escalated.command.as_mut().unwrap();
    command.sandbox_permissions = pb::SandboxPermissions::RequireEscalated.into();
    command.justification = "the report goes there".into();
    let waiting = scene.asking.ask(escalated).await;
    assert_eq!(waiting.question.justification, "the report goes there");
    assert_eq!(waiting.question.sandbox_permissions(), pb::SandboxPermissions::RequireEscalated);
    scene.asking.decide(&waiting.question, Verdict::Approve).await.unwrap();
    assert_eq!(waiting.outcome().await.unwrap().exit_code(), 0);
    std::fs::remove_file(scene.outside.path().join("file")).unwrap();

    let mut more = scene.denied();
    let command = more.command.as_mut().unwrap();
    command.sandbox_permissions = pb::SandboxPermissions::WithAdditionalPermissions.into();
    let write = vec![scene.outside.path().display().to_string()];
    command.additional_permissions =
        Some(pb::AdditionalPermissions { write: write.clone(), ..Default::default() });
    let waiting = scene.asking.ask(more).await;
    assert_eq!(waiting.question.additional_permissions.as_ref().unwrap().write, write);
    let roots = &waiting.question.profile.as_ref().unwrap().writable_roots;
    assert_eq!(*roots, [scene.workspace.path().display().to_string(), write[0].clone()]);
    scene.asking.decide(&waiting.question, Verdict::Approve).await.unwrap();
    let run = waiting.outcome().await.unwrap();
    assert_eq!((run.exit_code(), run.result.attempts.len()), (0, 1));
    assert!(!run.result.attempts[0].enforced.as_ref().unwrap().bypassed);
    assert!(scene.was_written());
}
