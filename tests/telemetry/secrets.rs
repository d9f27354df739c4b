//! Nothing that is secret is in what the service tells of itself: planted on every way in, looked for on every way out.

use unified_exec::grpc::pb;

use crate::collector::Collector;
use crate::server::Server;

#[tokio::test]
async fn no_planted_secret_comes_out() {
    let (collector, address) = Collector::start().await;
    let options = [
        "--otlp",
        &format!("http://{address}"),
        "--metrics",
        "127.0.0.1:0",
        "--log",
        "trace",
        "--log-format",
        "json",
    ];
    let server = Server::start(&options, &[("SERVICE_API_KEY", "secret-of-the-service")]).await;
    let session = server.careful_session().await;
    let mut exec = server.exec().await;
    let command = pb::Command {
        argv: ["sh", "-c", "echo $0; read line; echo $line; env; exit 7", "secret-argument"]
            .map(str::to_owned)
            .to_vec(),
        env: vec![pb::EnvVar { name: "TOKEN".into(), value: b"secret-variable".to_vec().into() }],
        sandbox_permissions: pb::SandboxPermissions::RequireEscalated.into(),
        justification: "secret-justification".into(),
        ..Default::default()
    };
    let request = pb::ExecCommandRequest {
        session_id: session.clone(),
        command: Some(command),
        stdin: true,
        yield_time_ms: Some(250),
        ..Default::default()
    };
    let (answers, ()) = tokio::join!(exec.exec_command(request), server.approve_next());
    let mut answers = answers.unwrap().into_inner();
    let mut process_id = None;
    let mut output = Vec::new();
    while let Some(answer) = answers.message().await.unwrap() {
        match answer.item {
            Some(pb::exec_command_response::Item::Result(result)) => process_id = result.process_id,
            Some(pb::exec_command_response::Item::Output(frame)) => output.extend_from_slice(&frame.data),
            _ => {}
        }
    }
    assert!(String::from_utf8_lossy(&output).contains("secret-argument"), "it is a command that tells");
    let write = pb::WriteStdinRequest {
        session_id: session,
        process_id: process_id.expect("it reads"),
        content: Some(pb::write_stdin_request::Content::Text("secret-input\n".to_owned())),
        ..Default::default()
    };
    // It runs without its sandbox, so that input to it is reviewed.
    let (answers, ()) = tokio::join!(exec.write_stdin(write), server.approve_next());
    let mut answers = answers.unwrap().into_inner();
    while answers.message().await.unwrap().is_some() {}
    let log = server.end().await;
    let told = collector.everything();
    assert!(told.contains("ExecService/ExecCommand") && log.contains("ExecService/ExecCommand"));
    for secret in [
        "secret-argument",
        "secret-variable",
        "secret-input",
        "secret-justification",
        "secret-of-the-service",
    ] {
        assert!(!told.contains(secret), "{secret} is exported");
        assert!(!log.contains(secret), "{secret} is logged: {log}");
    }
}
