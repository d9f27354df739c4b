//! The service, as a client sees it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use unified_exec::grpc::pb::exec_service_client::ExecServiceClient;
use unified_exec::grpc::pb::session_service_client::SessionServiceClient;
use unified_exec::grpc::pb::{
    self, ExecCommandRequest, exec_command_response, interact_request, interact_response,
};

#[expect(clippy::disallowed_methods, reason = "a measurement")]
fn now() -> Instant {
    Instant::now()
}

/// A running server, which ends with this value.
pub(crate) struct Server {
    child: Child,
    runtime_dir: TempDir,
}

impl Server {
    #[expect(clippy::disallowed_methods, reason = "the server under measurement")]
    pub(crate) fn start() -> Self {
        let private = Permissions::from_mode(0o700);
        let runtime_dir = tempfile::Builder::new().permissions(private).tempdir().expect("a folder");
        let child = Command::new(env!("CARGO_BIN_EXE_uexec"))
            .arg("serve")
            .arg("--runtime-dir")
            .arg(runtime_dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let server = Self { child, runtime_dir };
        for _ in 0..200 {
            if server.socket().exists() {
                return server;
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
        panic!("the server does not listen");
    }

    /// The reviewer's: an agent may not give itself room for so many processes.
    fn socket(&self) -> PathBuf {
        self.runtime_dir.path().join("reviewer.sock")
    }

    /// With a session that runs everything as it is.
    pub(crate) async fn connect(&self) -> Client {
        self.connect_with(pb::SandboxProfile {
            kind: pb::SandboxKind::FullAccess.into(),
            network: Some(pb::NetworkPolicy { mode: pb::NetworkMode::On.into(), ..Default::default() }),
            ..Default::default()
        })
        .await
    }

    /// With a session whose commands write below their directory only, and reach no network.
    pub(crate) async fn connect_sandboxed(&self) -> Client {
        self.connect_with(pb::SandboxProfile {
            kind: pb::SandboxKind::WorkspaceWrite.into(),
            network: Some(pb::NetworkPolicy { mode: pb::NetworkMode::Off.into(), ..Default::default() }),
            ..Default::default()
        })
        .await
    }

    async fn connect_with(&self, sandbox: pb::SandboxProfile) -> Client {
        let endpoint =
            Endpoint::try_from(format!("unix://{}", self.socket().display())).expect("an endpoint");
        let channel = endpoint.connect().await.expect("a connection");
        let mut sessions = SessionServiceClient::new(channel.clone());
        let config = pb::SessionConfig {
            cwd: "/tmp".into(),
            approval_policy: Some(pb::ApprovalPolicy {
                mode: pb::ApprovalMode::Never.into(),
                ..Default::default()
            }),
            sandbox: Some(sandbox),
            limits: Some(pb::SessionLimits { max_processes: Some(4_096), ..Default::default() }),
            ..Default::default()
        };
        let request = pb::CreateSessionRequest { config: Some(config), ..Default::default() };
        let created = sessions.create_session(request).await.expect("a session").into_inner();
        let session_id = created.session.expect("a session").session_id;
        Client { exec: ExecServiceClient::new(channel), session_id }
    }

    fn status(&self, key: &str) -> u64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("the server runs");
        let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("a known key");
        line.trim_start_matches(':').split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number")
    }

    /// Resident memory, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.status("VmRSS") * 1024
    }

    pub(crate) fn threads(&self) -> u64 {
        self.status("Threads")
    }

    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("the server runs").count()
    }

    /// Children that have ended and that nobody has reaped.
    pub(crate) fn zombies(&self) -> usize {
        let parent = self.child.id().to_string();
        let processes = fs::read_dir("/proc").expect("the process table").flatten();
        let stats = processes.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
        stats
            .filter(|stat| {
                let mut fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
                fields.next() == Some("Z") && fields.next() == Some(parent.as_str())
            })
            .count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
        self.child.wait().ok();
    }
}

pub(crate) struct Client {
    exec: ExecServiceClient<Channel>,
    session_id: String,
}

impl Client {
    fn start(&self, argv: &[&str], tty: bool) -> ExecCommandRequest {
        ExecCommandRequest {
            session_id: self.session_id.clone(),
            command: Some(pb::Command {
                argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
                ..Default::default()
            }),
            tty,
            flow: pb::Flow::Block.into(),
            ..Default::default()
        }
    }

    pub(crate) async fn exec_true(&mut self, count: usize) -> Vec<Duration> {
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let request = self.start(&["/bin/true"], false);
            let start = now();
            self.run(request).await;
            times.push(start.elapsed());
        }
        times
    }

    pub(crate) async fn output(&mut self, bytes: u64, tty: bool) -> Duration {
        let script = format!("{}exec head -c {bytes} /dev/zero", if tty { "stty raw; " } else { "" });
        let mut request = self.start(&["/bin/sh", "-c", &script], tty);
        request.follow = true;
        let start = now();
        let read = self.run(request).await;
        assert_eq!(read, bytes);
        start.elapsed()
    }

    /// The SHA-256 of what [`crate::bare::numbers`] writes, as it arrives.
    pub(crate) async fn digest(&mut self, bytes: u64, tty: bool) -> Vec<u8> {
        let script = format!("{}{}", if tty { "stty raw; " } else { "" }, crate::bare::numbers(bytes));
        let mut request = self.start(&["/bin/sh", "-c", &script], tty);
        request.follow = true;
        let mut digest = Sha256::new();
        self.run_with(request, |data| digest.update(data)).await;
        digest.finalize().to_vec()
    }

    /// Runs a command to its result; answers how much output came.
    async fn run(&mut self, request: ExecCommandRequest) -> u64 {
        let mut read = 0;
        self.run_with(request, |data| read += data.len() as u64).await;
        read
    }

    async fn run_with(&mut self, request: ExecCommandRequest, mut sees: impl FnMut(&[u8])) {
        let mut stream = self.exec.exec_command(request).await.expect("a stream").into_inner();
        while let Some(message) = stream.message().await.expect("no error") {
            match message.item {
                Some(exec_command_response::Item::Output(output)) => sees(&output.data),
                Some(exec_command_response::Item::Result(result)) => {
                    assert!(result.exit.is_some_and(|exit| exit.shell_code == 0));
                    return;
                }
                _ => {}
            }
        }
        panic!("a stream ends with a result");
    }

    /// Starts a command that lives on; answers its id.
    async fn start_and_leave(&mut self, argv: &[&str]) -> u32 {
        let mut request = self.start(argv, true);
        request.yield_time_ms = Some(250);
        request.stream_output = Some(false);
        let mut stream = self.exec.exec_command(request).await.expect("a stream").into_inner();
        while let Some(message) = stream.message().await.expect("no error") {
            if let Some(exec_command_response::Item::Started(started)) = message.item {
                return started.process_id;
            }
        }
        panic!("the command does not start");
    }

    /// From each key to its echo by a program in raw mode, over an open stream.
    pub(crate) async fn echo(&mut self, keys: usize) -> Vec<Duration> {
        let process_id =
            self.start_and_leave(&["/bin/sh", "-c", "stty raw -echo; echo ready; exec cat"]).await;
        let (requests, receiver) = mpsc::channel(4);
        let open = pb::InteractOpen {
            session_id: self.session_id.clone(),
            process_id,
            flow: pb::Flow::Block.into(),
            ..Default::default()
        };
        let send = |item| pb::InteractRequest { item: Some(item) };
        requests.send(send(interact_request::Item::Open(open))).await.expect("open");
        let mut stream =
            self.exec.interact(ReceiverStream::new(receiver)).await.expect("a stream").into_inner();
        let mut seen = Vec::new();
        while !seen.windows(5).any(|window: &[u8]| window == b"ready") {
            seen.extend_from_slice(&output(&mut stream).await);
        }
        let mut times = Vec::with_capacity(keys);
        for _ in 0..keys {
            let key = pb::StdinData { data: bytes::Bytes::from_static(b"x"), ..Default::default() };
            let start = now();
            requests.send(send(interact_request::Item::Stdin(key))).await.expect("a key");
            while !output(&mut stream).await.contains(&b'x') {}
            times.push(start.elapsed());
        }
        drop(requests);
        let request = pb::TerminateProcessRequest {
            session_id: self.session_id.clone(),
            process_id,
            ..Default::default()
        };
        self.exec.terminate_process(request).await.expect("cat is ended");
        times
    }

    pub(crate) async fn idle_terminals(&mut self, count: u32) {
        for _ in 0..count {
            self.start_and_leave(&["/bin/cat"]).await;
        }
    }
}

async fn output(stream: &mut tonic::Streaming<pb::InteractResponse>) -> bytes::Bytes {
    loop {
        let message = stream.message().await.expect("no error").expect("the stream is open");
        if let Some(interact_response::Item::Output(output)) = message.item {
            return output.data;
        }
    }
}
