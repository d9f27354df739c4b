//! Input to a process that was launched under other permissions than those of now, on every way that input has.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::{ApprovalKind, Verdict};

use crate::asking::Asking;
use crate::support::{PATIENCE, Seen, assert_refused};

struct Scene {
    asking: Asking,
    process: u32,
}

impl Scene {
    /// A `cat` that was approved under full access, in a session that may write nothing any more.
    async fn set() -> Self {
        let asking = Asking::start().await;
        let mut request = asking.bench.cmd("cat");
        (request.stdin, request.yield_time_ms) = (true, Some(250));
        let process = asking.approved(request).await.process();
        let scene = Self { asking, process };
        let network = pb::NetworkPolicy { mode: pb::NetworkMode::On.into(), ..Default::default() };
        scene
            .narrow(pb::SandboxProfile {
                kind: pb::SandboxKind::ReadOnly.into(),
                network: Some(network),
                ..Default::default()
            })
            .await;
        scene
    }

    async fn narrow(&self, sandbox: pb::SandboxProfile) {
        let update = pb::UpdateSessionRequest {
            session_id: self.asking.bench.session.clone(),
            config: Some(pb::SessionConfig { sandbox: Some(sandbox), ..Default::default() }),
            update_mask: Some(prost_types::FieldMask { paths: vec!["sandbox".into()] }),
            policy_revision: 0,
        };
        self.asking.bench.sessions.clone().update_session(update).await.unwrap();
    }

    async fn question(&self) -> pb::Approval {
        let asked = async {
            loop {
                if let Some(question) = self.asking.open().await.pop() {
                    return question;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, asked).await.unwrap()
    }

    async fn committed(&self) -> u64 {
        self.asking.bench.process(self.process).await.unwrap().stdin_committed
    }
}

#[tokio::test]
async fn a_write_waits_for_its_answer_and_delivers_what_was_judged() {
    let scene = Scene::set().await;
    let write = scene.asking.bench.write(scene.process, "judged\n");
    let mut stream = scene.asking.bench.exec.clone().write_stdin(write).await.unwrap().into_inner();
    let first = timeout(PATIENCE, stream.message()).await.unwrap().unwrap().unwrap();
    let Seen::Pending(pending) = first.item.unwrap().into() else { panic!("nobody was asked") };
    let question = scene.asking.question(&pending.approval_id).await;
    assert_eq!((question.kind(), &question.input[..]), (ApprovalKind::Stdin, &b"judged\n"[..]));
    assert!(!question.input_eof && question.process_id == scene.process);
    assert_eq!(question.profile.as_ref().unwrap().kind(), pb::SandboxKind::FullAccess);
    assert_eq!(scene.committed().await, 0);
    // Looking is no input.
    let poll = scene.asking.bench.process(scene.process).await.unwrap();
    assert_eq!(poll.phase(), pb::ProcessPhase::Running);
    scene.asking.decide(&question, Verdict::Approve).await.unwrap();
    let run = crate::support::collect(stream, |item| item.item.map(Into::into)).await.unwrap();
    assert_eq!((run.text().as_str(), run.result.stdin_end), ("judged\n", Some(7)));
}

#[tokio::test]
async fn what_is_declined_or_cannot_be_judged_is_not_delivered() {
    let scene = Scene::set().await;
    let bench = &scene.asking.bench;
    let writing = tokio::spawn({
        let (bench, write) = (bench.clone(), bench.write(scene.process, "rm -rf /\n"));
        async move { bench.send(write).await }
    });
    let question = scene.question().await;
    scene.asking.decide(&question, Verdict::Decline).await.unwrap();
    assert_refused(writing.await.unwrap(), Code::PermissionDenied, "APPROVAL_DECLINED");
    let large = bench.send(bench.write(scene.process, &"x".repeat(8_000))).await;
    let refused = assert_refused(large, Code::InvalidArgument, "STDIN_REVIEW_TOO_LARGE");
    assert_eq!(refused.fact("limit"), "8000");
    let null = bench.send(bench.write(scene.process, "a\0b")).await;
    assert_refused(null, Code::InvalidArgument, "STDIN_REVIEW_NUL");
    assert_eq!(scene.committed().await, 0);
    assert!(scene.asking.open().await.is_empty(), "nobody was asked");

    // The policy changes while the question is open: its ticket is for something else.
    let writing = tokio::spawn({
        let (bench, write) = (bench.clone(), bench.write(scene.process, "x\n"));
        async move { bench.send(write).await }
    });
    scene.question().await;
    scene
        .narrow(pb::SandboxProfile {
            kind: pb::SandboxKind::ReadOnly.into(),
            deny_read: vec!["/etc/shadow".into()],
            ..Default::default()
        })
        .await;
    let stale = assert_refused(writing.await.unwrap(), Code::Aborted, "TICKET_STALE");
    assert_eq!(stale.fact("process_id"), scene.process.to_string());
    let refused = bench.send(bench.write(scene.process, "x\n")).await;
    assert_refused(refused, Code::FailedPrecondition, "NEW_TERMINAL_REQUIRED");
    assert_eq!(scene.committed().await, 0);
}

#[tokio::test]
async fn streamed_input_is_not_acknowledged_while_its_question_is_open() {
    use pb::stream_stdin_request::Item;
    let scene = Scene::set().await;
    let open = pb::StdinOpen {
        session_id: scene.asking.bench.session.clone(),
        process_id: scene.process,
        turn_id: "turn".into(),
        ..Default::default()
    };
    let data = |text: &str| Item::Data(pb::StdinData { offset: None, data: text.as_bytes().to_vec().into() });
    let items = [Item::Open(open), data("one\n"), data("two\n")];
    let messages = items.map(|item| pb::StreamStdinRequest { item: Some(item) });
    let streaming = tokio::spawn({
        let mut exec = scene.asking.bench.exec.clone();
        async move { exec.stream_stdin(tokio_stream::iter(messages)).await }
    });
    for (text, committed) in [("one\n", 0), ("two\n", 4)] {
        let question = scene.question().await;
        assert_eq!(&question.input[..], text.as_bytes(), "one frame at a time");
        assert_eq!(scene.committed().await, committed);
        assert!(!streaming.is_finished());
        scene.asking.decide(&question, Verdict::Approve).await.unwrap();
    }
    let answer = streaming.await.unwrap().unwrap().into_inner();
    assert_eq!((answer.committed, answer.eof), (8, false));
}

#[tokio::test]
async fn an_interaction_is_told_of_the_question_and_goes_on_beside_it() {
    use pb::interact_request::Item;
    let scene = Scene::set().await;
    let (messages, stream) = mpsc::channel(4);
    let send = async |item: Item| {
        messages.send(pb::InteractRequest { item: Some(item) }).await.unwrap();
    };
    send(Item::Open(pb::InteractOpen {
        session_id: scene.asking.bench.session.clone(),
        process_id: scene.process,
        turn_id: "turn".into(),
        ..Default::default()
    }))
    .await;
    let mut exec = scene.asking.bench.exec.clone();
    let mut interaction = exec.interact(ReceiverStream::new(stream)).await.unwrap().into_inner();
    send(Item::Stdin(pb::StdinData { offset: None, data: b"held\n".to_vec().into() })).await;
    let id = loop {
        match next(&mut interaction).await {
            Seen::Pending(pending) => break pending.approval_id,
            Seen::Committed(committed) => panic!("{committed:?}"),
            _ => {}
        }
    };
    let quiet = timeout(Duration::from_millis(100), interaction.message()).await;
    assert!(quiet.is_err(), "nothing is acknowledged: {quiet:?}");
    scene.asking.decide(&scene.asking.question(&id).await, Verdict::Approve).await.unwrap();
    let (mut committed, mut said) = (0, Vec::new());
    while committed == 0 || said.is_empty() {
        match next(&mut interaction).await {
            Seen::Committed(told) => committed = told.offset,
            Seen::Output(output) => said.extend_from_slice(&output.data),
            _ => {}
        }
    }
    assert_eq!((committed, &said[..]), (5, &b"held\n"[..]));
}

async fn next(stream: &mut Streaming<pb::InteractResponse>) -> Seen {
    let seen: Seen =
        timeout(PATIENCE, stream.message()).await.unwrap().unwrap().unwrap().item.unwrap().into();
    assert!(!matches!(seen, Seen::Keepalive), "nothing comes");
    seen
}
