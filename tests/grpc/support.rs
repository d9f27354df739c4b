//! A server in the test's own process, reached over a pipe that speaks HTTP/2, and what a client does with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use tonic_types::StatusExt as _;
use unified_exec::core::command::{Defaults, EnvPolicy, EnvVar};
use unified_exec::core::limits::Limits;
use unified_exec::core::policy::Rights;
use unified_exec::core::spawn::ResourceLimits;
use unified_exec::grpc::auth::{Caller, Role};
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::exec_service_client::ExecServiceClient;
use unified_exec::grpc::pb::session_service_client::SessionServiceClient;
use unified_exec::grpc::server::{Edge, EdgeOptions, SessionDefaults};
use unified_exec::host::clock::Clock;
use unified_exec::host::{Host, Owner, Ports, Settings};
use unified_exec::spawn::{LocalSpawner, Options};

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn settings(rights: Rights) -> Settings {
    Settings {
        defaults: Defaults {
            cwd: "/tmp".into(),
            shell: "bash".into(),
            allow_login: false,
            env: EnvPolicy::default(),
            inherited: vec![EnvVar::new("PATH", "/usr/bin:/bin"), EnvVar::new("HOME", "/tmp")],
        },
        rights,
        process_limits: ResourceLimits::default(),
        limits: Limits::default(),
        interactive: true,
    }
}

/// A server, and a client of it with a session.
#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) edge: Edge,
    pub(crate) host: Host,
    pub(crate) sessions: SessionServiceClient<Channel>,
    pub(crate) exec: ExecServiceClient<Channel>,
    pub(crate) session: String,
}

pub(crate) fn server(settings: Settings, ceiling: Rights) -> (Edge, Host) {
    server_with(settings, ceiling, |_, _| {})
}

/// A server whose children are confined by the real launcher, with other ports than the usual.
pub(crate) fn server_with(
    settings: Settings,
    ceiling: Rights,
    change: impl FnOnce(Clock, &mut Ports),
) -> (Edge, Host) {
    let clock = Clock::start();
    let launcher = Some(env!("CARGO_BIN_EXE_uexec").into());
    let spawner = LocalSpawner::start(clock, Options { launcher, ..Options::default() }).unwrap();
    let inherited = settings.defaults.inherited.clone();
    let mut ports = Ports::of(Arc::new(spawner));
    change(clock, &mut ports);
    // Descendants are told by the ids of their process and session: two servers in one test process need others.
    static SEED: AtomicU64 = AtomicU64::new(1);
    let seed = SEED.fetch_add(1, Ordering::Relaxed);
    let host = Host::new(ports, clock, inherited, seed);
    let agent_ceiling = settings.rights.clone();
    let options = EdgeOptions::new(SessionDefaults { settings, ceiling, agent_ceiling });
    (Edge::new(host.clone(), options), host)
}

pub(crate) fn caller(owner: &str, role: Role) -> Caller {
    Caller { owner: Owner::new(owner), role }
}

impl Bench {
    pub(crate) async fn start() -> Self {
        Self::on(server(settings(Rights::unrestricted()), Rights::unrestricted())).await
    }

    /// An agent's client of a server, with a session that asks for nothing.
    pub(crate) async fn on((edge, host): (Edge, Host)) -> Self {
        let channel = edge.channel(caller("me", Role::Agent));
        let mut sessions = SessionServiceClient::new(channel.clone());
        let created = sessions.create_session(pb::CreateSessionRequest::default()).await.unwrap();
        let session = created.into_inner().session.unwrap().session_id;
        let exec = ExecServiceClient::new(channel).max_decoding_message_size(8 * 1024 * 1024);
        Self { edge, host, sessions, exec, session }
    }

    /// A start of a shell line, without login shell.
    pub(crate) fn cmd(&self, cmd: &str) -> pb::ExecCommandRequest {
        pb::ExecCommandRequest {
            session_id: self.session.clone(),
            turn_id: "turn".into(),
            command: Some(pb::Command { cmd: cmd.into(), ..Default::default() }),
            ..Default::default()
        }
    }

    pub(crate) async fn run(&self, request: pb::ExecCommandRequest) -> Result<Run, Status> {
        let stream = self.exec.clone().exec_command(request).await?.into_inner();
        collect(stream, |item| item.item.map(Into::into)).await
    }

    /// Starts something that lives on, as soon as it has said `ready`.
    pub(crate) async fn start_ready(&self, mut request: pb::ExecCommandRequest) -> u32 {
        request.follow = true;
        let mut stream = self.exec.clone().exec_command(request).await.unwrap().into_inner();
        let (mut process, mut said) = (0, Vec::new());
        while let Some(item) = timeout(PATIENCE, stream.message()).await.unwrap().unwrap() {
            match item.item.unwrap().into() {
                Seen::Started(started) => process = started.process_id,
                Seen::Output(output) => said.extend_from_slice(&output.data),
                Seen::Result(result) => panic!("it ended: {result:?}"),
                _ => {}
            }
            if said.windows(5).any(|part| part == b"ready") {
                return process;
            }
        }
        panic!("it never was ready")
    }

    pub(crate) fn write(&self, process: u32, text: &str) -> pb::WriteStdinRequest {
        use pb::write_stdin_request::Content;
        pb::WriteStdinRequest {
            session_id: self.session.clone(),
            process_id: process,
            turn_id: "turn".into(),
            content: Some(Content::Text(text.into())),
            ..Default::default()
        }
    }

    pub(crate) async fn send(&self, request: pb::WriteStdinRequest) -> Result<Run, Status> {
        let stream = self.exec.clone().write_stdin(request).await?.into_inner();
        collect(stream, |item| item.item.map(Into::into)).await
    }

    pub(crate) async fn process(&self, process: u32) -> Result<pb::Process, Status> {
        let request = pb::GetProcessRequest {
            session_id: self.session.clone(),
            process_id: process,
            ..Default::default()
        };
        Ok(self.exec.clone().get_process(request).await?.into_inner().process.unwrap())
    }

    pub(crate) fn attach_request(&self, process: u32) -> pb::AttachRequest {
        pb::AttachRequest { session_id: self.session.clone(), process_id: process, ..Default::default() }
    }

    pub(crate) async fn attach(
        &self,
        request: pb::AttachRequest,
    ) -> Result<Streaming<pb::AttachResponse>, Status> {
        Ok(self.exec.clone().attach(request).await?.into_inner())
    }

    pub(crate) async fn clean(&self) -> pb::CleanBackgroundTerminalsResponse {
        let request =
            pb::CleanBackgroundTerminalsRequest { session_id: self.session.clone(), ..Default::default() };
        self.sessions.clone().clean_background_terminals(request).await.unwrap().into_inner()
    }

    pub(crate) async fn interrupt(&self, turn: &str) -> pb::InterruptResponse {
        let request = pb::InterruptRequest { session_id: self.session.clone(), turn_id: turn.into() };
        self.sessions.clone().interrupt(request).await.unwrap().into_inner()
    }

    pub(crate) fn wait_request(
        &self,
        process: u32,
        condition: pb::wait_request::Condition,
    ) -> pb::WaitRequest {
        pb::WaitRequest {
            session_id: self.session.clone(),
            process_id: process,
            turn_id: "turn".into(),
            condition: Some(condition),
            ..Default::default()
        }
    }

    pub(crate) async fn wait(&self, request: pb::WaitRequest) -> Result<pb::WaitResponse, Status> {
        Ok(timeout(PATIENCE, self.exec.clone().wait(request)).await.unwrap()?.into_inner())
    }

    /// Waits for the end of a process.
    pub(crate) async fn ended(&self, process: u32) -> pb::WaitResponse {
        let condition = pb::wait_request::Condition::Closed(true);
        self.wait(self.wait_request(process, condition)).await.unwrap()
    }
}

/// One item of any stream.
#[derive(Debug)]
pub(crate) enum Seen {
    Output(pb::Output),
    Gap(pb::Gap),
    Keepalive,
    Draining,
    Pending(pb::ApprovalPending),
    Denied(pb::AttemptDenied),
    AttemptStarted(pb::AttemptStarted),
    Started(pb::Started),
    Result(Box<pb::ExecResult>),
    Attached(Box<pb::Attached>),
    Exited(pb::Exit),
    Closed(pb::Cursor),
    Committed(pb::StdinCommitted),
}

macro_rules! seen {
    ($item:path { $($rest:tt)* }) => {
        impl From<$item> for Seen {
            fn from(item: $item) -> Self {
                use $item as Item;
                match item {
                    Item::Output(output) => Self::Output(output),
                    Item::Gap(gap) => Self::Gap(gap),
                    Item::Keepalive(_) => Self::Keepalive,
                    Item::Draining(_) => Self::Draining,
                    $($rest)*
                }
            }
        }
    };
}

seen!(pb::exec_command_response::Item {
    Item::ApprovalPending(pending) => Self::Pending(pending),
    Item::AttemptDenied(denied) => Self::Denied(denied),
    Item::AttemptStarted(started) => Self::AttemptStarted(started),
    Item::Started(started) => Self::Started(started),
    Item::Result(result) => Self::Result(Box::new(result)),
});
seen!(pb::exec_to_completion_response::Item {
    Item::ApprovalPending(pending) => Self::Pending(pending),
    Item::AttemptDenied(denied) => Self::Denied(denied),
    Item::AttemptStarted(started) => Self::AttemptStarted(started),
    Item::Started(started) => Self::Started(started),
    Item::Result(result) => Self::Result(Box::new(result)),
});
seen!(pb::write_stdin_response::Item {
    Item::ApprovalPending(pending) => Self::Pending(pending),
    Item::Result(result) => Self::Result(Box::new(result)),
});
seen!(pb::attach_response::Item {
    Item::AttemptDenied(denied) => Self::Denied(denied),
    Item::Attached(attached) => Self::Attached(Box::new(attached)),
    Item::AttemptStarted(started) => Self::AttemptStarted(started),
    Item::Exited(exited) => Self::Exited(exited.exit.unwrap()),
    Item::Closed(closed) => Self::Closed(closed.end.unwrap()),
});
seen!(pb::interact_response::Item {
    Item::ApprovalPending(pending) => Self::Pending(pending),
    Item::AttemptDenied(denied) => Self::Denied(denied),
    Item::Attached(attached) => Self::Attached(Box::new(attached)),
    Item::AttemptStarted(started) => Self::AttemptStarted(started),
    Item::Exited(exited) => Self::Exited(exited.exit.unwrap()),
    Item::Closed(closed) => Self::Closed(closed.end.unwrap()),
    Item::StdinCommitted(committed) => Self::Committed(committed),
});

/// A whole stream of a call that collects output.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) items: Vec<Seen>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) gaps: Vec<pb::Gap>,
    pub(crate) result: pb::ExecResult,
}

impl Run {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub(crate) fn exit_code(&self) -> i32 {
        code(self.result.exit.as_ref())
    }

    pub(crate) fn process(&self) -> u32 {
        self.result.process_id.unwrap_or_else(|| panic!("it ended: {:?}", self.result))
    }
}

#[track_caller]
pub(crate) fn code(exit: Option<&pb::Exit>) -> i32 {
    match exit.and_then(|exit| exit.status.as_ref()) {
        Some(pb::exit::Status::Code(code)) => *code,
        other => panic!("no code: {other:?}"),
    }
}

/// The same for a stream that stays silent for longer.
pub(crate) async fn patiently(
    mut stream: Streaming<pb::ExecCommandResponse>,
    patience: Duration,
) -> Result<(), Status> {
    let end = async {
        while stream.message().await?.is_some() {}
        Ok(())
    };
    timeout(patience, end).await.unwrap()
}

/// Reads a stream to its end, and checks what every such stream promises: frames without holes but those told as gaps,
/// and one result, at the end.
pub(crate) async fn collect<T>(
    mut stream: Streaming<T>,
    item: impl Fn(T) -> Option<Seen>,
) -> Result<Run, Status> {
    let mut items = Vec::new();
    let (mut bytes, mut gaps, mut next, mut result) = (Vec::new(), Vec::new(), None, None);
    let mut attempt = 0;
    while let Some(message) = timeout(PATIENCE, stream.message()).await.unwrap()? {
        assert!(result.is_none(), "nothing comes after the result");
        match item(message).unwrap() {
            Seen::Output(output) => {
                if attempt != output.attempt {
                    // The log of an attempt begins anew.
                    (attempt, next) = (output.attempt, None);
                    bytes.clear();
                }
                assert!(next.is_none_or(|next| next == output.offset), "a hole before {}", output.offset);
                assert!(!output.data.is_empty() && output.data.len() <= 65_536);
                next = Some(output.offset + output.data.len() as u64);
                bytes.extend_from_slice(&output.data);
            }
            Seen::Gap(gap) => {
                assert!(next.is_none_or(|next| next == gap.start) && gap.end > gap.start, "{gap:?}");
                next = Some(gap.end);
                gaps.push(gap);
            }
            Seen::Result(end) => result = Some(*end),
            other => items.push(other),
        }
    }
    let result = result.unwrap_or_else(|| panic!("no result after {items:?}"));
    Ok(Run { items, bytes, gaps, result })
}

/// What a refusal says.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) reason: String,
    pub(crate) status: Status,
}

impl Refusal {
    pub(crate) fn fact(&self, key: &str) -> String {
        let info = self.status.get_details_error_info().unwrap();
        info.metadata.get(key).cloned().unwrap_or_else(|| panic!("no {key} in {info:?}"))
    }

    /// The field that a `BadRequest` names.
    pub(crate) fn field(&self) -> String {
        let request = self.status.get_details_bad_request();
        let request = request.unwrap_or_else(|| panic!("no field in {:?}", self.status));
        request.field_violations[0].field.clone()
    }
}

#[track_caller]
pub(crate) fn refusal<T: std::fmt::Debug>(answer: Result<T, Status>) -> Refusal {
    let status = answer.unwrap_err();
    let info = status.get_details_error_info().unwrap_or_else(|| panic!("no details: {status:?}"));
    assert_eq!(info.domain, "unified-exec");
    Refusal { code: status.code(), reason: info.reason, status }
}

#[track_caller]
pub(crate) fn assert_refused<T: std::fmt::Debug>(
    answer: Result<T, Status>,
    code: Code,
    reason: &str,
) -> Refusal {
    let refusal = refusal(answer);
    assert_eq!((refusal.code, refusal.reason.as_str()), (code, reason), "{:?}", refusal.status);
    refusal
}

pub(crate) fn with_timeout<T>(message: T, timeout: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("grpc-timeout", timeout.parse().unwrap());
    request
}
