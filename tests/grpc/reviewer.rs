//! The automatic reviewer as a second process, of every temper: what is not a clear yes to this very question runs
//! nothing.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixListener;
use tokio::process::{Child, Command};
use tokio::time::timeout;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::transport::{Identity, ServerTlsConfig};
use tonic::{Code, Request, Response, Status};
use unified_exec::core::policy::{ApprovalPolicy, Rights};
use unified_exec::grpc::auth::{Role, Token};
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::reviewer_service_server::{ReviewerService, ReviewerServiceServer};
use unified_exec::grpc::pb::{ApprovalState, ReviewVerdict, Verdict};
use unified_exec::grpc::reviewer::{RemoteReviewer, ReviewerAddress, ReviewerOptions};

use crate::asking::Asking;
use crate::support::{Bench, PATIENCE, assert_refused, server_with, settings};

/// Tell the process that it is the reviewer: of which temper, and in which directory it listens.
const TEMPER: &str = "UEXEC_TEST_REVIEWER";
const DIRECTORY: &str = "UEXEC_TEST_REVIEWER_DIRECTORY";
const SOCKET: &str = "reviewer.sock";

/// What the reviewer process serves.
struct Tempered {
    temper: String,
    directory: PathBuf,
}

/// Leaves word that a call was dropped before its answer.
struct Dropped(PathBuf);

impl Drop for Dropped {
    fn drop(&mut self) {
        std::fs::write(&self.0, "").unwrap();
    }
}

#[tonic::async_trait]
impl ReviewerService for Tempered {
    async fn review(
        &self,
        request: Request<pb::ReviewRequest>,
    ) -> Result<Response<pb::ReviewResponse>, Status> {
        let token = request.metadata().get("authorization").map(|value| value.to_str().unwrap().to_owned());
        let deadline = request.metadata().contains_key("grpc-timeout");
        let pb::ReviewRequest { approval, strict, session_labels } = request.into_inner();
        let approval = approval.unwrap();
        let digest = approval.digest.clone();
        let answer = |verdict: ReviewVerdict, text: String| {
            Ok(Response::new(pb::ReviewResponse { verdict: verdict.into(), digest: digest.clone(), text }))
        };
        match self.temper.as_str() {
            "allows" => answer(ReviewVerdict::Allow, String::new()),
            "denies" => answer(ReviewVerdict::Deny, "not on my watch".into()),
            "leaves it to people" => answer(ReviewVerdict::AskPerson, String::new()),
            "says nothing clear" => answer(ReviewVerdict::Unspecified, String::new()),
            "talks" => answer(ReviewVerdict::Deny, "x".repeat(10_000)),
            "tells" => {
                let heard = format!(
                    "{:?} {:?} strict={strict} name={} deadline={deadline} token={token:?}",
                    approval.argv,
                    approval.state(),
                    session_labels["name"]
                );
                answer(ReviewVerdict::Deny, heard)
            }
            "judges something else" => Ok(Response::new(pb::ReviewResponse {
                verdict: ReviewVerdict::Allow.into(),
                digest: vec![0; 32].into(),
                text: String::new(),
            })),
            "fails" => Err(Status::resource_exhausted("the model is busy; key sk-secret")),
            "crashes" => std::process::abort(),
            "is silent" => {
                let _dropped = Dropped(self.directory.join("dropped"));
                std::fs::write(self.directory.join("asked"), "").unwrap();
                std::future::pending().await
            }
            other => panic!("unknown temper {other}"),
        }
    }
}

/// Not a test: what the other tests start as a process of its own.
#[tokio::test]
async fn a_reviewer_for_the_other_tests() {
    let Ok(temper) = std::env::var(TEMPER) else { return };
    let directory = PathBuf::from(std::env::var(DIRECTORY).unwrap());
    let listener = UnixListener::bind(directory.join("new")).unwrap();
    // Whoever sees the socket under its name finds somebody there.
    std::fs::rename(directory.join("new"), directory.join(SOCKET)).unwrap();
    if temper == "speaks no gRPC" {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nallow allow allow\r\n").await.unwrap();
        }
    }
    let service = ReviewerServiceServer::new(Tempered { temper, directory });
    let server = tonic::transport::Server::builder().add_service(service);
    server.serve_with_incoming(UnixListenerStream::new(listener)).await.unwrap();
}

#[expect(clippy::disallowed_methods, reason = "a second process of the test itself")]
async fn start(temper: &str, directory: &Path) -> Child {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["reviewer::a_reviewer_for_the_other_tests", "--exact", "--nocapture"])
        .env(TEMPER, temper)
        .env(DIRECTORY, directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    appears(&directory.join(SOCKET)).await;
    child
}

async fn appears(path: &Path) {
    let there = async {
        while !path.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, there).await.unwrap();
}

/// A session without a sandbox under strict review by what listens in a directory.
async fn reviewed(policy: ApprovalPolicy, directory: &Path, bound: Duration) -> Asking {
    let options = ReviewerOptions {
        address: ReviewerAddress::Unix(directory.join(SOCKET)),
        timeout: bound,
        token: Some(Token::parse(&"a".repeat(32)).unwrap()),
        authority: None,
    };
    reviewed_by(policy, options).await
}

async fn reviewed_by(policy: ApprovalPolicy, options: ReviewerOptions) -> Asking {
    let rights = Rights { policy, strict_review: true, ..Rights::unrestricted() };
    let server = server_with(settings(rights.clone()), rights, |clock, ports| {
        ports.reviewer = std::sync::Arc::new(RemoteReviewer::new(clock, options).unwrap());
    });
    let mut bench = Bench::on(server).await;
    let labels = [("name".to_owned(), "builder".to_owned())].into();
    let create = pb::CreateSessionRequest { config: None, labels };
    let created = bench.sessions.create_session(create).await.unwrap();
    bench.session = created.into_inner().session.unwrap().session_id;
    Asking::on(bench)
}

struct Scene {
    directory: TempDir,
    asking: Asking,
    _reviewer: Option<Child>,
}

async fn scene(temper: &str) -> Scene {
    let directory = TempDir::new().unwrap();
    let reviewer = start(temper, directory.path()).await;
    let asking = reviewed(ApprovalPolicy::Never, directory.path(), PATIENCE).await;
    Scene { directory, asking, _reviewer: Some(reviewer) }
}

impl Scene {
    /// Tries to run something that would leave a trace, and checks that it does not.
    async fn refused(&self, reason: &str) -> crate::support::Refusal {
        let trace = self.directory.path().join("ran");
        let run = self.asking.bench.run(self.asking.bench.cmd(&format!("touch {}", trace.display()))).await;
        let refused = assert_refused(run, Code::PermissionDenied, reason);
        assert!(!trace.exists());
        let story = self.asking.story().await;
        assert!(!story.iter().any(|event| event.starts_with("attempt_started")), "{story:?}");
        refused
    }
}

#[tokio::test]
async fn what_the_reviewer_allows_runs() {
    let scene = scene("allows").await;
    let run = scene.asking.bench.run(scene.asking.bench.cmd("echo allowed")).await.unwrap();
    assert_eq!(run.text(), "allowed\n");
    let decided = scene.asking.story().await;
    assert_eq!(decided[..2], ["approval_requested", "approval_decided approved"]);
}

#[tokio::test]
async fn what_the_reviewer_denies_does_not_and_its_words_are_told() {
    let denied = scene("denies").await.refused("APPROVAL_DECLINED").await;
    assert!(denied.status.message().contains("not on my watch"), "{:?}", denied.status);
}

#[tokio::test]
async fn every_answer_that_is_none_is_a_refusal() {
    for (temper, words) in [
        ("says nothing clear", "no verdict"),
        ("judges something else", "digest"),
        ("fails", "ResourceExhausted"),
        ("crashes", "broke off"),
        ("speaks no gRPC", "broke off"),
    ] {
        let failed = scene(temper).await.refused("REVIEW_FAILED").await;
        let cause = failed.fact("cause");
        assert!(cause.contains(words), "{temper}: {cause}");
        assert!(!failed.status.message().contains("secret"), "{:?}", failed.status);
    }
}

#[tokio::test]
async fn a_reviewer_that_is_not_there_or_says_nothing_in_time_refuses() {
    let directory = TempDir::new().unwrap();
    let asking = reviewed(ApprovalPolicy::Never, directory.path(), PATIENCE).await;
    let absent = Scene { directory, asking, _reviewer: None };
    assert!(absent.refused("REVIEW_FAILED").await.fact("cause").contains("cannot be reached"));
    // It comes, and is found.
    let _reviewer = start("allows", absent.directory.path()).await;
    absent.asking.bench.run(absent.asking.bench.cmd("true")).await.unwrap();

    let directory = TempDir::new().unwrap();
    let reviewer = start("is silent", directory.path()).await;
    let asking = reviewed(ApprovalPolicy::Never, directory.path(), Duration::from_millis(300)).await;
    let silent = Scene { directory, asking, _reviewer: Some(reviewer) };
    assert!(silent.refused("REVIEW_FAILED").await.fact("cause").contains("within 300 ms"));
    appears(&silent.directory.path().join("dropped")).await;
}

#[tokio::test]
async fn a_review_is_cancelled_when_nobody_needs_it_any_more() {
    let scene = scene("is silent").await;
    let waiting = scene.asking.ask(scene.asking.bench.cmd("true")).await;
    appears(&scene.directory.path().join("asked")).await;
    assert!(!scene.directory.path().join("dropped").exists());
    scene.asking.bench.interrupt("turn").await;
    assert_refused(waiting.outcome().await, Code::Aborted, "START_CANCELLED");
    appears(&scene.directory.path().join("dropped")).await;
}

#[tokio::test]
async fn the_reviewer_sees_what_people_see_and_its_words_are_cut() {
    let scene = scene("tells").await;
    let told = scene.refused("APPROVAL_DECLINED").await;
    let heard = told.status.message();
    for part in ["touch", "Open", "strict=true", "name=builder", "deadline=true"] {
        assert!(heard.contains(part), "{part} in {heard}");
    }
    assert!(heard.contains(&format!("Bearer {}", "a".repeat(32))), "{heard}");

    let scene = self::scene("talks").await;
    let waiting = scene.asking.ask(scene.asking.bench.cmd("true")).await;
    let id = waiting.question.approval_id.clone();
    waiting.outcome().await.unwrap_err();
    let decision = scene.asking.question(&id).await.decision.unwrap();
    assert_eq!((decision.text.len(), decision.decided_by.as_str()), (4_096, "automatic"));
}

#[tokio::test]
async fn what_the_reviewer_leaves_to_people_waits_for_one() {
    let directory = TempDir::new().unwrap();
    let _reviewer = start("leaves it to people", directory.path()).await;
    let asking = reviewed(ApprovalPolicy::OnRequest, directory.path(), PATIENCE).await;
    let waiting = asking.ask(asking.bench.cmd("echo asked")).await;
    assert_eq!(waiting.question.state(), ApprovalState::Open);
    asking.decide(&waiting.question, Verdict::Approve).await.unwrap();
    assert_eq!(waiting.outcome().await.unwrap().text(), "asked\n");
    // Where nobody may be asked, it is a refusal.
    let asking = reviewed(ApprovalPolicy::Never, directory.path(), PATIENCE).await;
    let run = asking.bench.run(asking.bench.cmd("true")).await;
    assert_refused(run, Code::PermissionDenied, "APPROVAL_DECLINED");
}

#[tokio::test]
async fn strict_review_without_a_reviewer_is_no_review() {
    let bench = Bench::start().await;
    let strict = pb::SessionConfig {
        approval_policy: Some(pb::ApprovalPolicy { strict_review: true, ..Default::default() }),
        ..Default::default()
    };
    let request = pb::CreateSessionRequest { config: Some(strict), ..Default::default() };
    let mut reviewer = pb::session_service_client::SessionServiceClient::new(
        bench.edge.channel(crate::support::caller("me", Role::Reviewer)),
    );
    let refused = reviewer.create_session(request).await;
    assert_refused(refused, Code::FailedPrecondition, "REVIEWER_NOT_CONFIGURED");
}

#[tokio::test]
async fn over_the_network_the_reviewer_must_show_a_certificate_of_its_authority() {
    let ours = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let identity = Identity::from_pem(ours.cert.pem(), ours.signing_key.serialize_pem());
    let tempered = Tempered { temper: "allows".into(), directory: PathBuf::new() };
    let server = tonic::transport::Server::builder()
        .tls_config(ServerTlsConfig::new().identity(identity))
        .unwrap()
        .add_service(ReviewerServiceServer::new(tempered));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    for (authority, allowed) in [(ours.cert.pem(), true), (other.cert.pem(), false)] {
        let options = ReviewerOptions {
            address: ReviewerAddress::Tcp(address.parse().unwrap()),
            timeout: PATIENCE,
            token: None,
            authority: Some(authority.into_bytes()),
        };
        let asking = reviewed_by(ApprovalPolicy::Never, options).await;
        let run = asking.bench.run(asking.bench.cmd("true")).await;
        if allowed {
            assert_eq!(run.unwrap().exit_code(), 0);
        } else {
            assert_refused(run, Code::PermissionDenied, "REVIEW_FAILED");
        }
    }
}
