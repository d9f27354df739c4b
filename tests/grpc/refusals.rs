//! Bad input of every kind: its documented status with details, and the server lives.

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message as _;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Request, Status};
use unified_exec::grpc::auth::Role;
use unified_exec::grpc::pb;

use crate::support::{Bench, Refusal, assert_refused, caller};

/// Sends bytes as they are.
#[derive(Clone, Copy, Debug, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let mut bytes = BytesMut::new();
        bytes.put(buffer);
        Ok(Some(bytes.freeze()))
    }
}

async fn raw(bench: &Bench, method: &'static str, message: impl Into<Bytes>) -> Result<Bytes, Status> {
    let mut client = tonic::client::Grpc::new(bench.edge.channel(caller("me", Role::Agent)));
    client.ready().await.unwrap();
    let path = http::uri::PathAndQuery::from_static(method);
    Ok(client.unary(Request::new(message.into()), path, Raw).await?.into_inner())
}

async fn refused(bench: &Bench, command: pb::Command, code: Code, reason: &str) -> Refusal {
    let request = pb::ExecCommandRequest { command: Some(command), ..bench.cmd("") };
    assert_refused(bench.run(request).await, code, reason)
}

fn argv(words: &[&str]) -> pb::Command {
    pb::Command { argv: words.iter().map(ToString::to_string).collect(), ..Default::default() }
}

fn cmd(line: &str) -> pb::Command {
    pb::Command { cmd: line.into(), ..Default::default() }
}

#[tokio::test]
async fn commands_that_cannot_run_say_why_and_leave_nothing_behind() {
    let bench = Bench::start().await;
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let script = script.to_str().unwrap();
    let found = refused(&bench, argv(&["/no/such"]), Code::NotFound, "PROGRAM_NOT_FOUND").await;
    assert_eq!(found.fact("path"), "/no/such");
    let found = refused(&bench, argv(&[script]), Code::NotFound, "INTERPRETER_NOT_FOUND").await;
    assert_eq!(found.fact("interpreter"), "/no/such/interpreter");
    refused(&bench, argv(&["/etc/passwd"]), Code::FailedPrecondition, "PROGRAM_NOT_EXECUTABLE").await;
    let found = refused(
        &bench,
        pb::Command { cwd: "/no/such".into(), ..cmd("true") },
        Code::NotFound,
        "CWD_NOT_FOUND",
    )
    .await;
    assert_eq!((found.fact("field"), found.fact("path")), ("command.cwd".into(), "/no/such".into()));
    refused(
        &bench,
        pb::Command { cwd: "/etc/passwd".into(), ..cmd("true") },
        Code::FailedPrecondition,
        "CWD_NOT_ACCESSIBLE",
    )
    .await;
    let found = refused(
        &bench,
        pb::Command { shell: "/no/such/bash".into(), ..cmd("true") },
        Code::NotFound,
        "SHELL_NOT_FOUND",
    )
    .await;
    assert_eq!(found.fact("path"), "/no/such/bash");
    let huge = refused(&bench, cmd(&"x".repeat(200_000)), Code::InvalidArgument, "ARGUMENTS_TOO_LARGE").await;
    assert!(huge.fact("bytes").parse::<u64>().unwrap() > 200_000);
    let list = pb::ListProcessesRequest {
        session_id: bench.session.clone(),
        include_ended: true,
        ..Default::default()
    };
    assert!(bench.exec.clone().list_processes(list).await.unwrap().into_inner().processes.is_empty());
}

#[tokio::test]
async fn fields_that_cannot_be_are_named() {
    let bench = Bench::start().await;
    let var =
        |name: &str, value: &str| pb::EnvVar { name: name.into(), value: value.as_bytes().to_vec().into() };
    let cases = [
        (pb::Command::default(), "command.cmd"),
        (pb::Command { cmd: "true".into(), ..argv(&["true"]) }, "command.argv"),
        (pb::Command { shell: "sh".into(), ..argv(&["true"]) }, "command.shell"),
        (pb::Command { shell: "fish".into(), ..cmd("true") }, "command.shell"),
        (pb::Command { login: Some(true), ..cmd("true") }, "command.login"),
        (cmd("a\0b"), "command.cmd"),
        (argv(&["a\0b"]), "command.argv"),
        (argv(&[""]), "command.argv"),
        (pb::Command { cwd: "a\0b".into(), ..cmd("true") }, "command.cwd"),
        (pb::Command { env: vec![var("A=B", "x")], ..cmd("true") }, "command.env[0].name"),
        (pb::Command { env: vec![var("A", "x"), var("", "x")], ..cmd("true") }, "command.env[1].name"),
        (pb::Command { env: vec![var("A", "x"), var("A", "y")], ..cmd("true") }, "command.env[1].name"),
        (pb::Command { env: vec![var("A", "x\0")], ..cmd("true") }, "command.env[0].value"),
        (pb::Command { env: vec![var("A", &"x".repeat(131_070))], ..cmd("true") }, "command.env[0]"),
        (pb::Command { env: vec![pb::EnvVar::default(); 1_025], ..cmd("true") }, "command.env"),
        (pb::Command { sandbox_permissions: 9, ..cmd("true") }, "command.sandbox_permissions"),
        (pb::Command { justification: "please".into(), ..cmd("true") }, "command.justification"),
    ];
    for (command, field) in cases {
        let found = refused(&bench, command, Code::InvalidArgument, "INVALID_FIELD").await;
        assert_eq!((found.field().as_str(), found.fact("field").as_str()), (field, field));
    }
    let requests = [
        (pb::ExecCommandRequest { command: None, ..bench.cmd("") }, "command"),
        (pb::ExecCommandRequest { session_id: String::new(), ..bench.cmd("true") }, "session_id"),
        (pb::ExecCommandRequest { session_id: "x".repeat(129), ..bench.cmd("true") }, "session_id"),
        (pb::ExecCommandRequest { turn_id: "x".repeat(129), ..bench.cmd("true") }, "turn_id"),
        (pb::ExecCommandRequest { request_id: "x".repeat(129), ..bench.cmd("true") }, "request_id"),
        (pb::ExecCommandRequest { flow: 7, ..bench.cmd("true") }, "flow"),
        (
            pb::ExecCommandRequest { terminal_size: Some(pb::TerminalSize::default()), ..bench.cmd("true") },
            "terminal_size",
        ),
        (
            pb::ExecCommandRequest {
                tty: true,
                terminal_size: Some(pb::TerminalSize { rows: 1, cols: 65_536 }),
                ..bench.cmd("true")
            },
            "terminal_size.cols",
        ),
    ];
    for (request, field) in requests {
        assert_eq!(
            assert_refused(bench.run(request).await, Code::InvalidArgument, "INVALID_FIELD").field(),
            field
        );
    }
}

#[tokio::test]
async fn what_nobody_may_be_asked_for_and_what_cannot_be_held_is_refused() {
    let bench = Bench::start().await;
    let escalated =
        pb::Command { sandbox_permissions: pb::SandboxPermissions::RequireEscalated.into(), ..cmd("true") };
    refused(&bench, escalated, Code::PermissionDenied, "ESCALATION_FORBIDDEN").await;
    let limits = Some(pb::ResourceLimits { max_pids: Some(3), ..Default::default() });
    let limited =
        pb::ExecCommandRequest { command: Some(pb::Command { limits, ..cmd("true") }), ..bench.cmd("") };
    // Where the controller is delegated, it holds.
    match bench.run(limited).await {
        Ok(run) => assert_eq!(run.result.attempts[0].enforced.as_ref().unwrap().limits[0].name, "max_pids"),
        refused => {
            let found = assert_refused(refused, Code::FailedPrecondition, "LIMIT_UNENFORCEABLE");
            assert_eq!(found.fact("limit"), "max_pids");
        }
    }
    let elsewhere = pb::Command { environment_id: "moon".into(), ..cmd("true") };
    refused(&bench, elsewhere, Code::NotFound, "ENVIRONMENT_NOT_FOUND").await;
    for unknown in ["/unified_exec.v1.ExecService/Dance", "/unified_exec.v1.ReviewerService/Review"] {
        let unknown = raw(&bench, unknown, Bytes::new()).await;
        assert_refused(unknown, Code::Unimplemented, "NOT_IMPLEMENTED");
    }
}

fn additional(more: pb::AdditionalPermissions) -> pb::Command {
    pb::Command {
        sandbox_permissions: pb::SandboxPermissions::WithAdditionalPermissions.into(),
        additional_permissions: Some(more),
        ..cmd("true")
    }
}

#[tokio::test]
async fn permissions_rules_and_limits_that_cannot_be_are_named() {
    let bench = Bench::start().await;
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let more = pb::AdditionalPermissions::default;
    let limits = |limits| pb::Command { limits: Some(limits), ..cmd("true") };
    let none = pb::ResourceLimits::default;
    let field = |name: &str| format!("command.additional_permissions{name}");
    let cases = [
        (additional(more()), field("")),
        (pb::Command { additional_permissions: None, ..additional(more()) }, field("")),
        (pb::Command { sandbox_permissions: 0, ..additional(more()) }, field("")),
        (additional(pb::AdditionalPermissions { read: words(&["/a", "b"]), ..more() }), field(".read[1]")),
        (additional(pb::AdditionalPermissions { read: words(&["/a/*"]), ..more() }), field(".read[0]")),
        (additional(pb::AdditionalPermissions { write: words(&["/a/../b"]), ..more() }), field(".write[0]")),
        (additional(pb::AdditionalPermissions { write: words(&["/a\0"]), ..more() }), field(".write[0]")),
        (additional(pb::AdditionalPermissions { write: vec!["/a".into(); 65], ..more() }), field(".write")),
        (
            additional(pb::AdditionalPermissions {
                write: vec![format!("/{}", "x".repeat(4_096))],
                ..more()
            }),
            field(".write[0]"),
        ),
        (
            additional(pb::AdditionalPermissions { deny_read: words(&["*.key"]), ..more() }),
            field(".deny_read[0]"),
        ),
        (pb::Command { justification: "x".repeat(4_097), ..cmd("true") }, "command.justification".into()),
        (pb::Command { prefix_rule: vec!["ls".into(); 65], ..cmd("true") }, "command.prefix_rule".into()),
        (pb::Command { prefix_rule: words(&["ls", ""]), ..cmd("true") }, "command.prefix_rule[1]".into()),
        (pb::Command { prefix_rule: words(&["l\0s"]), ..cmd("true") }, "command.prefix_rule[0]".into()),
        (
            pb::Command { prefix_rule: vec!["x".repeat(1_025)], ..cmd("true") },
            "command.prefix_rule[0]".into(),
        ),
        (
            limits(pb::ResourceLimits { memory_bytes: Some(1), ..none() }),
            "command.limits.memory_bytes".into(),
        ),
        (limits(pb::ResourceLimits { max_pids: Some(0), ..none() }), "command.limits.max_pids".into()),
        (limits(pb::ResourceLimits { cpu_time_ms: Some(0), ..none() }), "command.limits.cpu_time_ms".into()),
        (limits(pb::ResourceLimits { open_files: Some(15), ..none() }), "command.limits.open_files".into()),
    ];
    for (command, field) in cases {
        let found = refused(&bench, command, Code::InvalidArgument, "INVALID_FIELD").await;
        assert_eq!(found.field(), field, "{:?}", found.status);
    }
}

#[tokio::test]
async fn ids_that_never_were_and_ids_that_are_dead_are_told_apart() {
    let bench = Bench::start().await;
    let elsewhere = Bench { session: "ses_nothing".into(), ..bench.clone() };
    let found =
        assert_refused(elsewhere.run(elsewhere.cmd("true")).await, Code::NotFound, "SESSION_NOT_FOUND");
    assert_eq!(found.fact("session_id"), "ses_nothing");
    for (process, field) in
        [(0, "process_id"), (999, "process_id"), (100_000, "process_id"), (u32::MAX, "process_id")]
    {
        assert_eq!(
            assert_refused(bench.process(process).await, Code::InvalidArgument, "INVALID_FIELD").field(),
            field
        );
    }
    let run = bench.run(bench.cmd("exit 9")).await.unwrap();
    assert_eq!(run.exit_code(), 9);
    let list = pb::ListProcessesRequest {
        session_id: bench.session.clone(),
        include_ended: true,
        ..Default::default()
    };
    let dead = bench.exec.clone().list_processes(list).await.unwrap().into_inner().processes[0].process_id;
    let never = if dead == 5_000 { 5_001 } else { 5_000 };
    let found = assert_refused(bench.process(never).await, Code::NotFound, "PROCESS_NOT_FOUND");
    assert_eq!(
        (found.fact("process_id"), found.fact("session_id")),
        (never.to_string(), bench.session.clone())
    );
    assert_refused(bench.send(bench.write(never, "x")).await, Code::NotFound, "PROCESS_NOT_FOUND");
    assert_refused(bench.attach(bench.attach_request(never)).await, Code::NotFound, "PROCESS_NOT_FOUND");
    let found =
        assert_refused(bench.send(bench.write(dead, "x")).await, Code::FailedPrecondition, "PROCESS_ENDED");
    assert_eq!((found.fact("code"), found.fact("exit_reason")), ("9".into(), "EXITED".into()));
    let signal = |process, name: &str| pb::SignalProcessRequest {
        session_id: bench.session.clone(),
        process_id: process,
        signal: name.into(),
        ..Default::default()
    };
    let mut client = bench.exec.clone();
    assert_refused(
        client.signal_process(signal(dead, "TERM")).await,
        Code::FailedPrecondition,
        "PROCESS_ENDED",
    );
    assert_refused(client.signal_process(signal(never, "TERM")).await, Code::NotFound, "PROCESS_NOT_FOUND");
    let found = assert_refused(
        client.signal_process(signal(dead, "SIGNOPE")).await,
        Code::InvalidArgument,
        "UNKNOWN_SIGNAL",
    );
    assert_eq!(found.fact("signal"), "SIGNOPE");
    let resize = pb::ResizeTerminalRequest {
        session_id: bench.session.clone(),
        process_id: dead,
        size: Some(pb::TerminalSize { rows: 1, cols: 1 }),
        ..Default::default()
    };
    assert_refused(client.resize_terminal(resize).await, Code::FailedPrecondition, "PROCESS_ENDED");
}

#[tokio::test]
async fn signals_and_sizes_reach_a_terminal() {
    let bench = Bench::start().await;
    let mut start = bench.cmd("trap 'stty size; exit 3' TERM; echo ready; while :; do sleep 0.05; done");
    start.tty = true;
    let process = bench.start_ready(start).await;
    let size = pb::TerminalSize { rows: 7, cols: 0 };
    let resize = pb::ResizeTerminalRequest {
        session_id: bench.session.clone(),
        process_id: process,
        size: Some(size),
        ..Default::default()
    };
    let mut client = bench.exec.clone();
    let resized = client.resize_terminal(resize).await.unwrap().into_inner();
    assert_eq!(resized.size, Some(pb::TerminalSize { rows: 7, cols: 80 }));
    let signal = pb::SignalProcessRequest {
        session_id: bench.session.clone(),
        process_id: process,
        signal: "sigterm".into(),
        scope: pb::SignalScope::Process.into(),
        ..Default::default()
    };
    let sent = client.signal_process(signal).await.unwrap().into_inner();
    assert_eq!((sent.signal.as_str(), sent.number, sent.os_pids.len()), ("SIGTERM", 15, 1));
    assert_eq!(sent.os_pids[0], bench.process(process).await.unwrap().os_pid);
    let ended = bench.ended(process).await;
    assert_eq!(ended.exit.unwrap().shell_code, 3);
    let run = bench.send(bench.write(process, "")).await.unwrap();
    assert!(run.text().contains("7 80"), "{}", run.text());
}

#[tokio::test]
async fn messages_that_are_none_and_messages_that_are_too_large_are_the_senders_mistake() {
    let bench = Bench::start().await;
    let method = "/unified_exec.v1.ExecService/ExecCommand";
    let junk = raw(&bench, method, vec![0xff, 0xff, 0xff]).await;
    assert_refused(junk, Code::InvalidArgument, "INVALID_FIELD");
    // A string that is no UTF-8, deep inside: field 4 (command), field 1 (cmd).
    let mut message =
        pb::ExecCommandRequest { session_id: bench.session.clone(), ..Default::default() }.encode_to_vec();
    message.extend([0x22, 4, 0x0a, 2, 0xff, 0xfe]);
    let found = assert_refused(raw(&bench, method, message).await, Code::InvalidArgument, "INVALID_FIELD");
    assert_eq!(found.field(), "command.cmd");
    let large = pb::WriteStdinRequest { ..bench.write(5_000, &"x".repeat(10 * 1024 * 1024)) };
    let found = assert_refused(bench.send(large).await, Code::ResourceExhausted, "MESSAGE_TOO_LARGE");
    assert_eq!(found.fact("limit"), "4194304");
    let process = bench.start_ready(bench.cmd("echo ready; sleep 60")).await;
    let large = bench.write(process, &"x".repeat(2_097_153));
    assert_eq!(
        assert_refused(bench.send(large).await, Code::InvalidArgument, "INVALID_FIELD").field(),
        "text"
    );
    // And the server lives.
    assert_eq!(bench.run(bench.cmd("echo alive")).await.unwrap().text(), "alive\n");
}
