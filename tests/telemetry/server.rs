//! `uexec serve`, and a client of it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::approval_service_client::ApprovalServiceClient;
use unified_exec::grpc::pb::exec_service_client::ExecServiceClient;
use unified_exec::grpc::pb::session_service_client::SessionServiceClient;

enum Log {
    Read(JoinHandle<String>),
    /// Nobody does.
    Unread(ChildStderr),
}

pub(crate) struct Server {
    child: Child,
    /// What it logs, and whoever reads that.
    log: Log,
    pub(crate) dir: TempDir,
    /// Where the metrics page is, if it has one.
    pub(crate) page: Option<String>,
}

impl Server {
    /// Starts it with these options and variables.
    pub(crate) async fn start(options: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut server = Self::start_unread(options, variables).await;
        if let Log::Unread(mut stderr) = server.log {
            server.log = Log::Read(tokio::spawn(async move {
                let mut log = String::new();
                stderr.read_to_string(&mut log).await.unwrap();
                log
            }));
        }
        server
    }

    /// Starts it; nobody reads its log.
    #[expect(clippy::disallowed_methods, reason = "a test is a user, and starts programs as users do")]
    pub(crate) async fn start_unread(options: &[&str], variables: &[(&str, &str)]) -> Self {
        let dir = TempDir::new_in("/var/tmp").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_uexec"));
        command
            .args(["serve", "--runtime-dir"])
            .arg(dir.path().join("run"))
            .args(options)
            .envs(variables.iter().copied())
            .env_remove("OTEL_EXPORTER_OTLP_ENDPOINT")
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut page = None;
        let places = 2 + usize::from(options.contains(&"--metrics"));
        for _ in 0..places {
            let line = lines.next_line().await.unwrap().expect("it says where it listens");
            page = page.or_else(|| line.strip_prefix("metrics at ").map(str::to_owned));
        }
        let log = Log::Unread(child.stderr.take().unwrap());
        Self { child, log, dir, page }
    }

    async fn channel(&self, role: &str) -> Channel {
        let socket: PathBuf = self.dir.path().join("run").join(format!("{role}.sock"));
        Endpoint::try_from(format!("unix://{}", socket.display())).unwrap().connect().await.unwrap()
    }

    pub(crate) async fn channel_of_agents(&self) -> Channel {
        self.channel("agent").await
    }

    pub(crate) async fn sessions(&self) -> SessionServiceClient<Channel> {
        SessionServiceClient::new(self.channel("reviewer").await)
    }

    pub(crate) async fn exec(&self) -> ExecServiceClient<Channel> {
        ExecServiceClient::new(self.channel("agent").await)
    }

    pub(crate) async fn approvals(&self) -> ApprovalServiceClient<Channel> {
        ApprovalServiceClient::new(self.channel("reviewer").await)
    }

    /// A session that asks before every start, in a sandbox, without login shells.
    pub(crate) async fn careful_session(&self) -> String {
        let config = pb::SessionConfig {
            cwd: self.dir.path().display().to_string(),
            allow_login_shell: Some(false),
            approval_policy: Some(pb::ApprovalPolicy {
                mode: pb::ApprovalMode::UnlessTrusted.into(),
                ..Default::default()
            }),
            sandbox: Some(pb::SandboxProfile {
                kind: pb::SandboxKind::WorkspaceWrite.into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let request = pb::CreateSessionRequest { config: Some(config), ..Default::default() };
        let created = self.sessions().await.create_session(request).await.unwrap().into_inner();
        created.session.unwrap().session_id
    }

    /// Approves the next question that comes up.
    pub(crate) async fn approve_next(&self) {
        let mut approvals = self.approvals().await;
        for _ in 0..500 {
            let listed = approvals.list_approvals(pb::ListApprovalsRequest::default()).await.unwrap();
            if let Some(asked) = listed.into_inner().approvals.pop() {
                let decision = pb::DecideApprovalRequest {
                    approval_id: asked.approval_id,
                    session_id: asked.session_id,
                    digest: asked.digest,
                    verdict: pb::Verdict::Approve.into(),
                    ..Default::default()
                };
                approvals.decide_approval(decision).await.unwrap();
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("nobody is asked");
    }

    /// Ends it; what it logged.
    pub(crate) async fn end(mut self) -> String {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(pid).unwrap(),
            rustix::process::Signal::TERM,
        )
        .unwrap();
        let ended = self.child.wait().await.unwrap();
        let log = match self.log {
            Log::Read(reader) => reader.await.unwrap(),
            Log::Unread(_) => String::new(),
        };
        assert!(ended.success(), "{log}");
        log
    }
}
