//! Starts that are refused, and the environment of those that are not.

use std::time::Duration;

use tonic::{Code, Status};
use unified_exec::grpc::pb;

use super::{Stage, code, on_terminal, output, short};
use crate::procfs::with_argument;
use crate::refusal::{matches, reason, show, words};

/// A start by the service's own shell and environment.
fn by_shell(stage: &Stage, cmd: &str) -> pb::ExecCommandRequest {
    let command = pb::Command { cmd: cmd.into(), login: Some(false), ..Default::default() };
    pb::ExecCommandRequest {
        session_id: stage.session.id.clone(),
        command: Some(command),
        ..Default::default()
    }
}

async fn refused(stage: &Stage, request: pb::ExecCommandRequest) -> Status {
    let listed = async || -> Vec<u32> {
        stage.session.list().await.iter().map(|process| process.process_id).collect()
    };
    let before = listed().await;
    let status = stage.session.run(request).await.unwrap_err();
    let after = listed().await;
    assert!(after.iter().all(|id| before.contains(id)), "left behind: {before:?}, then {after:?}");
    assert_eq!(code(&stage.session.sh("exit 5").await), Some(5), "the next one works");
    status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j06_a_bad_directory_is_named() {
    let stage = Stage::set().await;
    std::fs::write(stage.dir.path().join("file"), "").unwrap();
    let cases =
        [("/no/such/dir/qz", "CWD_NOT_FOUND"), ("missing", "CWD_NOT_FOUND"), ("file", "CWD_NOT_ACCESSIBLE")];
    for (cwd, wanted) in cases {
        let mut request = stage.session.line("echo hi");
        request.command.as_mut().unwrap().cwd = cwd.into();
        let status = refused(&stage, request).await;
        assert_eq!(reason(&status), wanted, "{}", show(&status));
        assert!(words(&status).contains(cwd), "{}", show(&status));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j09_a_line_that_is_too_long_is_told_its_bound() {
    let stage = Stage::set().await;
    let padded = |length: usize| format!("echo fits #{}", "p".repeat(length - 11));
    let result = stage.session.run(by_shell(&stage, &padded(131_071))).await.unwrap();
    assert_eq!((code(&result), output(&result)), (Some(0), "fits\n"));
    let status = refused(&stage, by_shell(&stage, &padded(131_072))).await;
    assert!(matches(&status, "Argument list too long"), "{}", show(&status));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j10_arguments_that_are_too_large_together_are_told_so() {
    let stage = Stage::set().await;
    let many = |count: usize, length: usize| vec!["x".repeat(length); count];
    let argv = [vec!["/bin/true".to_owned()], many(30, 100_000)].concat();
    let status = refused(&stage, stage.session.request(argv, Vec::new())).await;
    assert!(matches(&status, "Argument list too long"), "{}", show(&status));
    let env = (0..1000).map(|number| (format!("V{number}"), "x".repeat(3000))).collect();
    let status = refused(&stage, stage.session.request(vec!["/bin/true".into()], env)).await;
    assert_eq!(status.code(), Code::InvalidArgument, "{}", show(&status));
    assert_eq!(reason(&status), "ARGUMENTS_TOO_LARGE");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_j14_lines_that_are_none_are_refused() {
    let stage = Stage::set().await;
    for (cmd, word) in [("", "cmd"), ("echo a\0b", "cmd")] {
        let status = refused(&stage, by_shell(&stage, cmd)).await;
        assert_eq!((status.code(), reason(&status).as_str()), (Code::InvalidArgument, "INVALID_FIELD"));
        assert!(words(&status).contains(word), "{}", show(&status));
    }
    let result = stage.session.run(by_shell(&stage, "# just a remark")).await.unwrap();
    assert_eq!((code(&result), output(&result)), (Some(0), ""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m02_children_start_with_clean_signals_whatever_the_service_ignores() {
    let ignoring = "trap '' PIPE HUP INT QUIT TSTP TTOU; exec \"$@\"";
    let stage = Stage::set_by(ignoring).await;
    let session = &stage.session;
    let line = "exec grep -E '^Sig(Blk|Ign):' /proc/self/status";
    for request in [session.line(line), on_terminal(session.line(line))] {
        let result = session.run(request).await.unwrap();
        let plain = output(&result).replace('\r', "");
        assert_eq!(plain, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    }
    let id =
        session.run(short(on_terminal(session.line("sleep 8602.11")))).await.unwrap().process_id.unwrap();
    session.input(id, b"\x03").await.unwrap();
    let ended = session.wait(id, pb::wait_request::Condition::Exit(true), 1500).await.unwrap();
    assert_eq!(ended.exit.unwrap().shell_code, 130, "the interrupt key works");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m05_the_secrets_of_the_service_stay_with_it() {
    let stage = Stage::set_by("export SERVICE_TOKEN_QZ=fake HOME=/home/service; exec \"$@\"").await;
    let cmd = "env | grep -c SERVICE_TOKEN_QZ; echo PATH=$PATH HOME=$HOME";
    let cwd = stage.dir.path().display().to_string();
    let as_it_comes = pb::SessionConfig { cwd, ..Default::default() };
    let session = stage.session.client.session_with(as_it_comes.clone()).await;
    let request = pb::ExecCommandRequest { session_id: session.id.clone(), ..by_shell(&stage, cmd) };
    let result = session.run(request).await.unwrap();
    assert!(output(&result).starts_with("0\nPATH=/"), "{:?}", output(&result));
    assert!(output(&result).ends_with("HOME=/home/service\n"), "{:?}", output(&result));
    let all = pb::EnvPolicy {
        inherit: pb::EnvInherit::All.into(),
        default_excludes: Some(false),
        ..Default::default()
    };
    // More than the server gives by default is not the agent's to ask for.
    let request =
        stage.session.client.create_unasked(pb::SessionConfig { env_policy: Some(all), ..as_it_comes });
    assert_eq!(reason(&request.await.unwrap_err()), "WIDENING_DENIED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m06_a_profile_that_waits_holds_up_its_command_only() {
    let stage = Stage::set().await;
    std::fs::write(stage.dir.path().join(".bash_profile"), "sleep 8606.11\n").unwrap();
    let mut request = short(by_shell(&stage, "echo body"));
    let command = request.command.as_mut().unwrap();
    command.login = Some(true);
    let home = stage.dir.path().display().to_string().into_bytes().into();
    command.env = vec![
        pb::EnvVar { name: "HOME".into(), value: home },
        pb::EnvVar { name: "PATH".into(), value: "/usr/bin:/bin".into() },
    ];
    let result = stage.session.run(request).await.unwrap();
    assert!(result.process_id.is_some() && result.wall_time_ms < 1000, "{result:?}");
    stage.session.clean().await.unwrap();
    assert!(with_argument("8606.11").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f05_no_pager_waits_in_the_environment_that_the_service_gives() {
    let stage = Stage::set().await;
    let cmd = "export HOME=$PWD PATH=/usr/bin:/bin; git init -q . && git config user.email a@example.org && \
               git config user.name A && for i in $(seq -w 1 100); do git commit -q --allow-empty -m subject-0$i; \
               done; git log";
    let result = stage.session.run(on_terminal(by_shell(&stage, cmd))).await.unwrap();
    assert_eq!(code(&result), Some(0), "{:?}", output(&result));
    assert!(output(&result).contains("subject-0100") && output(&result).contains("subject-0001"));
    let waited = Duration::from_millis(result.wall_time_ms);
    assert!(waited < Duration::from_secs(8), "{waited:?}");
}
