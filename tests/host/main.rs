//! The host over real children: what its users see, without gRPC.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::sync::Arc;
use std::time::Duration;

use unified_exec::core::command::{Command, Defaults, EnvPolicy, EnvVar, Program, TerminalSize};
use unified_exec::core::ids::TurnId;
use unified_exec::core::limits::Limits;
use unified_exec::core::output::Flow;
use unified_exec::core::policy::Rights;
use unified_exec::core::process::ExitStatus;
use unified_exec::core::session::{Exec, Mode, WaitEnd, Write, WriteAnswer};
use unified_exec::core::spawn::ResourceLimits;
use unified_exec::host::clock::Clock;
use unified_exec::host::stream::{CallStream, Collected, Item, StreamOptions};
use unified_exec::host::{Host, Owner, Ports, SessionHandle, Settings};
use unified_exec::spawn::{LocalSpawner, Options};

fn host() -> (Host, SessionHandle) {
    let clock = Clock::start();
    let spawner = LocalSpawner::start(clock, Options::default()).unwrap();
    let host = Host::new(Ports::of(Arc::new(spawner)), clock, vec![EnvVar::new("PATH", "/usr/bin:/bin")], 1);
    let settings = Settings {
        defaults: Defaults {
            cwd: "/tmp".into(),
            shell: "bash".into(),
            allow_login: false,
            env: EnvPolicy::default(),
            inherited: host.inherited().to_vec(),
        },
        rights: Rights::unrestricted(),
        process_limits: ResourceLimits::default(),
        limits: Limits::default(),
        interactive: true,
    };
    let session = host.create(Owner::new("me"), settings).unwrap();
    (host, session)
}

fn exec(cmd: &str, terminal: bool) -> Exec {
    Exec::new(
        TurnId::new("t"),
        Command {
            program: Program::Shell { cmd: cmd.into(), shell: None, login: None },
            cwd: None,
            env: Vec::new(),
            terminal: terminal.then(TerminalSize::default),
            stdin: false,
            full_terminal: false,
        },
        Mode::Interactive { yield_time: None },
    )
}

async fn drain(mut stream: CallStream) -> (Vec<u8>, Collected) {
    let mut bytes = Vec::new();
    while let Some(item) = stream.next().await {
        match item.unwrap() {
            Item::Output { piece, .. } => bytes.extend_from_slice(&piece.data),
            Item::Result(result) => return (bytes, *result),
            Item::Gap { .. }
            | Item::Asking { .. }
            | Item::AttemptDenied { .. }
            | Item::AttemptStarted { .. }
            | Item::Started { .. } => {}
        }
    }
    panic!("a stream ends with a result")
}

const STREAM: StreamOptions = StreamOptions::new(Flow::Block, 10_000);

#[tokio::test]
async fn a_short_command_returns_its_output_and_its_code() {
    let (host, session) = host();
    for terminal in [false, true] {
        let (bytes, collected) =
            drain(session.exec(exec("echo hello; exit 3", terminal), STREAM).await).await;
        assert_eq!(bytes, if terminal { &b"hello\r\n"[..] } else { b"hello\n" });
        assert_eq!(collected.result.exit.unwrap().status, ExitStatus::Code(3));
        assert_eq!(collected.result.end, WaitEnd::Exited);
        assert!(collected.text.text.contains("Process exited with code 3"), "{}", collected.text.text);
    }
    host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repl_lives_on_and_answers_what_is_written_to_it() {
    let (host, session) = host();
    let mut start = exec("python3 -q", true);
    start.mode = Mode::Interactive { yield_time: Some(Duration::from_millis(1500)) };
    let (_, started) = drain(session.exec(start, STREAM).await).await;
    let process = started.result.live_process().unwrap();
    let write = Write {
        turn: TurnId::new("t2"),
        request: None,
        process,
        input: bytes::Bytes::from_static(b"6*7\n"),
        offset: None,
        eof: false,
        answer: WriteAnswer::Collect { yield_time: None },
    };
    let (bytes, answer) = drain(session.write(write, STREAM).await).await;
    assert!(String::from_utf8_lossy(&bytes).contains("42"), "{bytes:?}");
    assert_eq!(answer.result.stdin, Some((0, 4)));
    let report = session.clean().await.unwrap();
    assert_eq!(report.ended.len(), 1);
    host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_listing_arrives_whole() {
    let (host, session) = host();
    for (terminal, total) in [(false, 1_288_895), (true, 1_488_895)] {
        let (bytes, _) = drain(session.exec(exec("seq 1 200000", terminal), STREAM).await).await;
        assert_eq!(bytes.len(), total);
    }
    host.shutdown().await;
}
