//! What the tests ask of the service, in few words.

use std::path::Path;

use tonic::Status;
use tonic::transport::Channel;
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::exec_service_client::ExecServiceClient;
use unified_exec::grpc::pb::session_service_client::SessionServiceClient;

/// PATH of what a case runs.
pub(crate) const PATH: &str = "/usr/bin:/bin";

/// A connection.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) exec: ExecServiceClient<Channel>,
    pub(crate) sessions: SessionServiceClient<Channel>,
}

impl Client {
    pub(crate) fn new(channel: Channel) -> Self {
        Self { exec: ExecServiceClient::new(channel.clone()), sessions: SessionServiceClient::new(channel) }
    }

    /// A session that asks nobody, sandboxes nothing and gives children no variable of the server.
    pub(crate) async fn session(&self, cwd: &Path) -> Session {
        let env = pb::EnvPolicy { inherit: pb::EnvInherit::None.into(), ..Default::default() };
        self.session_with(pb::SessionConfig {
            cwd: cwd.display().to_string(),
            env_policy: Some(env),
            ..Default::default()
        })
        .await
    }

    /// A session that asks nobody and sandboxes nothing, else as told.
    pub(crate) async fn session_with(&self, config: pb::SessionConfig) -> Session {
        self.create_unasked(config).await.unwrap()
    }

    /// The same, if it is given.
    pub(crate) async fn create_unasked(&self, config: pb::SessionConfig) -> Result<Session, Status> {
        let approval_policy =
            pb::ApprovalPolicy { mode: pb::ApprovalMode::Never.into(), ..Default::default() };
        let network = pb::NetworkPolicy { mode: pb::NetworkMode::On.into(), rules: Vec::new() };
        let sandbox = pb::SandboxProfile {
            kind: pb::SandboxKind::FullAccess.into(),
            network: Some(network),
            ..Default::default()
        };
        let config = pb::SessionConfig {
            approval_policy: Some(approval_policy),
            sandbox: Some(sandbox),
            shell: "/bin/bash".into(),
            ..config
        };
        self.create(config).await
    }

    /// A session whose commands write below their directory only and reach no network, where this is asked.
    pub(crate) async fn confined(&self, cwd: &Path, mode: pb::ApprovalMode) -> Session {
        self.confined_to(pb::SandboxProfile::default(), cwd, mode).await
    }

    /// The same, with a profile that says more.
    pub(crate) async fn confined_to(
        &self,
        profile: pb::SandboxProfile,
        cwd: &Path,
        mode: pb::ApprovalMode,
    ) -> Session {
        let config = pb::SessionConfig {
            cwd: cwd.display().to_string(),
            approval_policy: Some(pb::ApprovalPolicy { mode: mode.into(), ..Default::default() }),
            sandbox: Some(pb::SandboxProfile { kind: pb::SandboxKind::WorkspaceWrite.into(), ..profile }),
            // As without a sandbox, nothing of the server's own variables.
            env_policy: Some(pb::EnvPolicy { inherit: pb::EnvInherit::None.into(), ..Default::default() }),
            shell: "/bin/bash".into(),
            ..Default::default()
        };
        self.create(config).await.unwrap()
    }

    async fn create(&self, config: pb::SessionConfig) -> Result<Session, Status> {
        let request = pb::CreateSessionRequest { config: Some(config), ..Default::default() };
        let answer = self.sessions.clone().create_session(request).await?.into_inner();
        let session = answer.session.ok_or_else(|| Status::unknown("no session in the answer"))?;
        Ok(Session { client: self.clone(), id: session.session_id })
    }
}

/// A session of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) id: String,
}

impl Session {
    /// A start of a program with these variables and nothing else but `UNIFIED_EXEC*`.
    pub(crate) fn request(&self, argv: Vec<String>, env: Vec<(String, String)>) -> pb::ExecCommandRequest {
        let env = env
            .into_iter()
            .map(|(name, value)| pb::EnvVar { name, value: value.into_bytes().into() })
            .collect();
        pb::ExecCommandRequest {
            session_id: self.id.clone(),
            command: Some(pb::Command { argv, env, ..Default::default() }),
            full_terminal: true,
            ..Default::default()
        }
    }

    /// A start of a shell line, with the variables that every case has.
    pub(crate) fn line(&self, cmd: &str) -> pb::ExecCommandRequest {
        let env = [("PATH", PATH), ("LANG", "C.UTF-8"), ("TERM", "dumb"), ("HOME", "/nonexistent")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        self.request(vec!["/bin/bash".into(), "-c".into(), cmd.into()], env)
    }

    /// Runs a start to its result.
    pub(crate) async fn run(&self, request: pb::ExecCommandRequest) -> Result<pb::ExecResult, Status> {
        use pb::exec_command_response::Item;
        let mut stream = self.client.exec.clone().exec_command(request).await?.into_inner();
        while let Some(message) = stream.message().await? {
            if let Some(Item::Result(result)) = message.item {
                return Ok(result);
            }
        }
        Err(Status::unknown("the stream ended without a result"))
    }

    /// Runs a shell line to its result.
    pub(crate) async fn sh(&self, cmd: &str) -> pb::ExecResult {
        self.run(self.line(cmd)).await.unwrap()
    }

    /// Writes, or polls, and gives back the result.
    pub(crate) async fn write(&self, request: pb::WriteStdinRequest) -> Result<pb::ExecResult, Status> {
        use pb::write_stdin_response::Item;
        let request = pb::WriteStdinRequest { session_id: self.id.clone(), ..request };
        let mut stream = self.client.exec.clone().write_stdin(request).await?.into_inner();
        while let Some(message) = stream.message().await? {
            if let Some(Item::Result(result)) = message.item {
                return Ok(result);
            }
        }
        Err(Status::unknown("the stream ended without a result"))
    }

    /// Writes bytes.
    pub(crate) async fn input(&self, process_id: u32, bytes: &[u8]) -> Result<pb::ExecResult, Status> {
        let input = bytes.to_vec().into();
        let content = Some(pb::write_stdin_request::Content::Input(input));
        self.write(pb::WriteStdinRequest { process_id, content, ..Default::default() }).await
    }

    /// Polls for at least five seconds, or until it ends.
    pub(crate) async fn poll(&self, process_id: u32) -> Result<pb::ExecResult, Status> {
        self.write(pb::WriteStdinRequest { process_id, ..Default::default() }).await
    }

    /// Writes by a stream, which answers as soon as all of it is delivered.
    pub(crate) async fn stream(&self, process_id: u32, bytes: &[u8]) -> Result<u64, Status> {
        use pb::stream_stdin_request::Item;
        let open = pb::StdinOpen { session_id: self.id.clone(), process_id, ..Default::default() };
        let frames =
            bytes.chunks(65_536).map(|frame| pb::StdinData { offset: None, data: frame.to_vec().into() });
        let items: Vec<Item> = std::iter::once(Item::Open(open)).chain(frames.map(Item::Data)).collect();
        let requests = items.into_iter().map(|item| pb::StreamStdinRequest { item: Some(item) });
        let answer = self.client.exec.clone().stream_stdin(tokio_stream::iter(requests)).await?;
        Ok(answer.into_inner().committed)
    }

    pub(crate) async fn signal(
        &self,
        process_id: u32,
        signal: &str,
        scope: pb::SignalScope,
    ) -> Result<pb::SignalProcessResponse, Status> {
        let request = pb::SignalProcessRequest {
            session_id: self.id.clone(),
            process_id,
            signal: signal.into(),
            scope: scope.into(),
            ..Default::default()
        };
        Ok(self.client.exec.clone().signal_process(request).await?.into_inner())
    }

    pub(crate) async fn get(&self, process_id: u32) -> Result<pb::Process, Status> {
        let request = pb::GetProcessRequest { session_id: self.id.clone(), process_id, ..Default::default() };
        let answer = self.client.exec.clone().get_process(request).await?.into_inner();
        answer.process.ok_or_else(|| Status::unknown("no process in the answer"))
    }

    /// The processes that are alive.
    pub(crate) async fn list(&self) -> Vec<pb::Process> {
        let request = pb::ListProcessesRequest {
            session_id: self.id.clone(),
            page_size: 1000,
            include_descendants: true,
            ..Default::default()
        };
        let answer = self.client.exec.clone().list_processes(request).await.unwrap().into_inner();
        answer.processes
    }

    pub(crate) async fn clean(&self) -> Result<pb::CleanBackgroundTerminalsResponse, Status> {
        let request =
            pb::CleanBackgroundTerminalsRequest { session_id: self.id.clone(), ..Default::default() };
        Ok(self.client.sessions.clone().clean_background_terminals(request).await?.into_inner())
    }

    pub(crate) async fn wait(
        &self,
        process_id: u32,
        condition: pb::wait_request::Condition,
        timeout_ms: u64,
    ) -> Result<pb::WaitResponse, Status> {
        let request = pb::WaitRequest {
            session_id: self.id.clone(),
            process_id,
            condition: Some(condition),
            timeout_ms: Some(u32::try_from(timeout_ms).unwrap_or(u32::MAX)),
            ..Default::default()
        };
        Ok(self.client.exec.clone().wait(request).await?.into_inner())
    }

    pub(crate) async fn read(&self, process_id: u32, offset: u64) -> Result<pb::ReadOutputResponse, Status> {
        let request = pb::ReadOutputRequest {
            session_id: self.id.clone(),
            process_id,
            cursor: Some(pb::Cursor { attempt: 0, offset }),
            ..Default::default()
        };
        Ok(self.client.exec.clone().read_output(request).await?.into_inner())
    }

    pub(crate) async fn close(&self) -> Result<(), Status> {
        let request = pb::CloseSessionRequest { session_id: self.id.clone() };
        self.client.sessions.clone().close_session(request).await.map(|_| ())
    }
}
