//! What the cases say of programs in a sandbox, and of input that somebody is asked about.

use std::time::Duration;

use tonic::transport::Channel;
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::approval_service_client::ApprovalServiceClient;

use super::{Stage, code, on_terminal, output, short};
use crate::case::Case;
use crate::client::Session;
use crate::skip;

impl Stage {
    /// Its directory, in a session that is confined to it and asks nobody.
    async fn confined(&self) -> Session {
        self.server.client().await.confined(self.dir.path(), pb::ApprovalMode::Never).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k04_death_by_sigsys_is_a_denial_only_under_a_filter() {
    let stage = Stage::set().await;
    let line = "ulimit -c 0; kill -SYS $$";
    let free = stage.session.sh(line).await;
    assert_eq!((code(&free), free.evidence), (Some(159), None));
    let confined = stage.confined().await.sh(line).await;
    assert_eq!(code(&confined), Some(159));
    assert!(confined.evidence.is_some(), "{confined:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l06_l15_l16_what_the_system_refuses_is_refused_in_a_sandbox_too() {
    let stage = Stage::set().await;
    let confined = stage.confined().await;
    for line in ["touch /sys/qz_probe; exit 1", "cat /proc/kcore >/dev/null; exit 1"] {
        let (inside, outside) = (confined.sh(line).await, stage.session.sh(line).await);
        assert_eq!((code(&inside), code(&outside)), (Some(1), Some(1)), "{line}");
        assert_eq!(outside.evidence, None, "without a sandbox nothing is a denial: {line}");
    }
    // The sandbox has processes of its own only: whoever is 1 there is no one else.
    let signalled = confined.sh("kill -0 $PPID 2>&1; ls /proc | grep -c '^[0-9]'").await;
    let others: u32 = output(&signalled).lines().last().and_then(|count| count.parse().ok()).unwrap();
    assert!(others < 10, "{signalled:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l07_l14_a_write_outside_the_workspace_is_denied_and_told() {
    let stage = Stage::set().await;
    let confined = stage.confined().await;
    let denied = confined.sh("echo x > /etc/qz_probe").await;
    assert_eq!(code(&denied), Some(1));
    assert!(output(&denied).contains("Read-only file system"), "{denied:?}");
    let evidence = denied.evidence.unwrap();
    assert_eq!((evidence.confidence(), evidence.path.as_str()), (pb::Confidence::Checked, "/etc/qz_probe"));
    assert!(!std::path::Path::new("/etc/qz_probe").exists());
    let kept = confined.sh("echo kept > f.txt; cat f.txt").await;
    let again = confined.sh("cat f.txt").await;
    assert_eq!((output(&kept), output(&again)), ("kept\n", "kept\n"));
    assert_eq!(std::fs::read_to_string(stage.dir.path().join("f.txt")).unwrap(), "kept\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l08_a_command_that_succeeds_as_a_whole_was_not_denied() {
    let stage = Stage::set().await;
    let line = "{ echo x > /etc/qz_cache || true; } && echo main-work-done";
    let result = stage.confined().await.sh(line).await;
    assert_eq!((code(&result), result.evidence.is_none(), result.attempts.len()), (Some(0), true, 1));
    let text = output(&result);
    assert!(text.contains("Read-only file system") && text.contains("main-work-done"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l09_an_error_text_that_is_thrown_away_invents_nothing() {
    let stage = Stage::set().await;
    let result = stage.confined().await.sh("{ echo x > /etc/qz_f; } 2>/dev/null; exit 1").await;
    assert_eq!((code(&result), output(&result)), (Some(1), ""));
    assert!(!std::path::Path::new("/etc/qz_f").exists());
}

/// A terminal that was started with more rights than its session has now: all input to it is asked about.
struct Reviewed {
    stage: Stage,
    session: Session,
    reviewer: ApprovalServiceClient<Channel>,
    process: u32,
}

impl Reviewed {
    async fn start(line: &str) -> Self {
        let stage = Stage::set().await;
        let client = stage.server.client().await;
        let session = client.confined(stage.dir.path(), pb::ApprovalMode::OnRequest).await;
        let started = session.run(short(on_terminal(session.line(line)))).await.unwrap();
        let config = pb::SessionConfig {
            sandbox: Some(pb::SandboxProfile {
                kind: pb::SandboxKind::ReadOnly.into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let request = pb::UpdateSessionRequest {
            session_id: session.id.clone(),
            config: Some(config),
            update_mask: Some(prost_types::FieldMask { paths: vec!["sandbox".into()] }),
            ..Default::default()
        };
        client.sessions.clone().update_session(request).await.unwrap();
        let reviewer = stage.server.reviewer().await;
        Self { stage, session, reviewer, process: started.process_id.unwrap() }
    }

    /// Sends input; nobody waits for what becomes of it yet.
    fn sends(&self, bytes: &'static [u8]) -> tokio::task::JoinHandle<Result<pb::ExecResult, tonic::Status>> {
        let (session, process) = (self.session.clone(), self.process);
        tokio::spawn(async move { session.input(process, bytes).await })
    }

    /// The question that is open, once it is.
    async fn question(&mut self) -> pb::Approval {
        for _ in 0..400 {
            if let Some(open) = self.list(false).await.pop() {
                return open;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("nobody is asked");
    }

    async fn list(&mut self, include_closed: bool) -> Vec<pb::Approval> {
        let session_id = self.session.id.clone();
        let request = pb::ListApprovalsRequest { session_id, include_closed, ..Default::default() };
        self.reviewer.list_approvals(request).await.unwrap().into_inner().approvals
    }

    async fn decides(&mut self, question: pb::Approval, verdict: pb::Verdict) {
        let request = pb::DecideApprovalRequest {
            approval_id: question.approval_id,
            session_id: question.session_id,
            digest: question.digest,
            verdict: verdict.into(),
            ..Default::default()
        };
        self.reviewer.decide_approval(request).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q02_every_half_of_a_command_is_asked_about() {
    let mut reviewed = Reviewed::start("PS1='sh$ ' exec bash --norc --noprofile -i").await;
    for (half, verdict) in [(&b"tou"[..], pb::Verdict::Approve), (b"ch marker\n", pb::Verdict::Decline)] {
        let sent = reviewed.sends(half);
        let question = reviewed.question().await;
        assert_eq!(question.input, half);
        reviewed.decides(question, verdict).await;
        assert_eq!(sent.await.unwrap().is_ok(), verdict == pb::Verdict::Approve);
    }
    assert!(!reviewed.stage.dir.path().join("marker").exists());
    let binary = reviewed.sends(b"\xff\xfe");
    let question = reviewed.question().await;
    assert_eq!(question.input, &b"\xff\xfe"[..], "what is no text is asked about too");
    reviewed.decides(question, pb::Verdict::Decline).await;
    assert!(binary.await.unwrap().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q03_a_program_talks_on_while_the_question_is_open() {
    let line =
        "sleep 1; for i in $(seq 1 3000); do echo \"line $i\"; done; echo end-of-lines; read x; echo got:$x";
    let mut reviewed = Reviewed::start(line).await;
    let sent = reviewed.sends(b"yes\n");
    let question = reviewed.question().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    reviewed.decides(question, pb::Verdict::Approve).await;
    sent.await.unwrap().unwrap();
    let condition = pb::wait_request::Condition::Exit(true);
    reviewed.session.wait(reviewed.process, condition, 5_000).await.unwrap();
    let chunks = reviewed.session.read(reviewed.process, 0).await.unwrap().chunks;
    let bytes: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.data.to_vec()).collect();
    let text = String::from_utf8(bytes).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("line ")).count();
    assert_eq!((lines, text.matches("got:yes").count()), (3_000, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q03_a_question_about_input_for_a_program_that_ends_is_withdrawn() {
    let mut reviewed = Reviewed::start("sleep 2; exit 4").await;
    let sent = reviewed.sends(b"yes\n");
    reviewed.question().await;
    assert_eq!(code(&sent.await.unwrap().unwrap()), Some(4));
    let closed = reviewed.list(true).await;
    assert_eq!(closed.len(), 1);
    assert_eq!(closed[0].state(), pb::ApprovalState::Withdrawn);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cases_that_come_out_otherwise_in_a_sandbox_do_so_for_the_reason_that_is_given() {
    let stage = Stage::set().await;
    let confined = stage.confined().await;
    let outside = std::fs::read_link("/proc/self/ns/net").unwrap().display().to_string();
    for otherwise in skip::OTHERWISE {
        let mut request = confined.line(otherwise.line);
        let command = request.command.as_mut().unwrap();
        command
            .env
            .push(pb::EnvVar { name: "OUTSIDE_NET".into(), value: outside.clone().into_bytes().into() });
        let result = confined.run(on_terminal(request)).await.unwrap();
        assert_eq!(output(&result).replace('\r', ""), otherwise.prints, "{}: {result:?}", otherwise.reason);
    }
    let ours: Vec<Case> = include_str!("../ours.jsonl").lines().map(Case::parse).collect();
    for id in skip::OTHERWISE.iter().flat_map(|otherwise| otherwise.instead) {
        assert!(ours.iter().any(|case| case.id == *id), "there is no {id}");
    }
}
