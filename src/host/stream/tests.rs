use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::*;
use crate::core::command::{Command, Program};
use crate::core::ids::{SessionId, TurnId};
use crate::core::output::Stream;
use crate::core::policy::Confinement;
use crate::core::session::{Exec, Mode};
use crate::core::spawn::Enforced;
use crate::core::time::Instant;
use crate::host::Owner;
use crate::host::driver::{Asked, Lines};
use crate::host::handle::SessionHandle;

const OPTIONS: StreamOptions = StreamOptions::new(Flow::DropWithGap, 1_000);

fn echo() -> Exec {
    let command = Command {
        program: Program::Argv(vec!["echo".into()]),
        cwd: None,
        env: Vec::new(),
        terminal: None,
        stdin: false,
        full_terminal: false,
    };
    Exec::new(TurnId::new("t"), command, Mode::Interactive { yield_time: None })
}

fn started(number: AttemptNumber) -> Update {
    let attempt = AttemptView {
        number,
        pid: None,
        confinement: Confinement::Unrestricted,
        enforced: Enforced::default(),
        started_at: Instant::ZERO,
        output_end: 0,
        outputs_closed: false,
        exit: None,
        evidence: None,
    };
    Update::AttemptStarted { process: process(), attempt }
}

fn process() -> ProcessId {
    ProcessId::new(ProcessId::MIN).unwrap()
}

/// Word that an attempt's output, which is there already, belongs to the call.
fn collecting(attempt: AttemptNumber, text: &'static str) -> Update {
    let log = Arc::new(OutputLog::new());
    log.append(Stream::Stdout, Bytes::from_static(text.as_bytes()));
    Update::Collecting { process: process(), attempt, reader: log.reader(0, Flow::DropWithGap) }
}

/// The stream of a start, and the driver's end of it.
async fn start() -> (CallStream, mpsc::Sender<Update>) {
    let (asked, mut calls) = mpsc::channel(1);
    let lines = Lines { asked, notices: Arc::default(), feed: Arc::default() };
    let handle = SessionHandle::new(SessionId::new("s"), Owner::new("o"), 1, BTreeMap::new().into(), lines);
    let stream = handle.exec(echo(), OPTIONS).await;
    match calls.recv().await {
        Some(Asked::Call { updates, .. }) => (stream, updates),
        other => panic!("{other:?}"),
    }
}

fn denied() -> Update {
    let Update::AttemptStarted { process, attempt } = started(AttemptNumber::FIRST) else { unreachable!() };
    Update::AttemptDenied { process, attempt }
}

async fn started_once(text: &'static str) -> (CallStream, mpsc::Sender<Update>) {
    let (stream, updates) = start().await;
    let start = Update::Started { process: process(), argv: vec!["echo".into()], cwd: "/".into() };
    for update in [collecting(AttemptNumber::FIRST, text), started(AttemptNumber::FIRST), start] {
        updates.send(update).await.unwrap();
    }
    (stream, updates)
}

/// Words for what comes, until nothing more does.
async fn seen(stream: &mut CallStream) -> Vec<String> {
    let mut seen = Vec::new();
    while let Some(item) = next(stream).await {
        seen.push(match item {
            Item::Output { piece, .. } => String::from_utf8(piece.data.to_vec()).unwrap(),
            Item::AttemptDenied { .. } => "(denied)".into(),
            Item::AttemptStarted { attempt, .. } => format!("(attempt {})", attempt.number.get()),
            Item::Result(_) => {
                seen.push("(result)".into());
                break;
            }
            _ => continue,
        });
    }
    seen
}

async fn next(stream: &mut CallStream) -> Option<Item> {
    let item = timeout(Duration::from_secs(60), stream.next()).await.ok()?;
    Some(item.unwrap().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_start_is_told_before_its_output_however_fast_the_child_is() {
    let (mut stream, updates) = start().await;
    let (first, second) = (AttemptNumber::FIRST, AttemptNumber::SECOND);
    updates.send(collecting(first, "one")).await.unwrap();
    assert!(next(&mut stream).await.is_none(), "nobody knows yet whose output it is");
    updates.send(started(first)).await.unwrap();
    assert!(matches!(next(&mut stream).await, Some(Item::AttemptStarted { .. })));
    assert!(next(&mut stream).await.is_none());
    let argv = vec!["echo".to_owned()];
    updates.send(Update::Started { process: process(), argv, cwd: "/".into() }).await.unwrap();
    assert!(matches!(next(&mut stream).await, Some(Item::Started { .. })));
    assert!(matches!(next(&mut stream).await, Some(Item::Output { piece, .. }) if piece.data == "one"));
    updates.send(collecting(second, "two")).await.unwrap();
    assert!(next(&mut stream).await.is_none(), "the second attempt is told of as well");
    updates.send(started(second)).await.unwrap();
    assert!(matches!(next(&mut stream).await, Some(Item::AttemptStarted { .. })));
    assert!(matches!(next(&mut stream).await, Some(Item::Output { piece, .. }) if piece.data == "two"));
}

/// A client that is slower than the retry misses nothing of what was denied.
#[tokio::test(start_paused = true)]
async fn output_of_the_first_attempt_comes_before_word_of_the_second() {
    let (mut stream, updates) = started_once("denied").await;
    for update in [denied(), collecting(AttemptNumber::SECOND, "done"), started(AttemptNumber::SECOND)] {
        updates.send(update).await.unwrap();
    }
    assert_eq!(seen(&mut stream).await, ["(attempt 1)", "denied", "(denied)", "(attempt 2)", "done"]);
}

/// When there is no second attempt after all, the answer is about the first one, whose output came already.
#[tokio::test(start_paused = true)]
async fn output_is_handed_out_once_although_the_second_attempt_does_not_start() {
    let (mut stream, updates) = started_once("denied").await;
    assert_eq!(seen(&mut stream).await, ["(attempt 1)", "denied"]);
    let Update::Collecting { reader, .. } = collecting(AttemptNumber::SECOND, "") else { unreachable!() };
    let second = Update::Collecting { process: process(), attempt: AttemptNumber::SECOND, reader };
    let log = Arc::new(OutputLog::new());
    log.append(Stream::Stdout, Bytes::from_static(b"denied"));
    log.close();
    let result = CallResult {
        process: process(),
        end: crate::core::session::WaitEnd::Exited,
        exit: None,
        attempts: Vec::new(),
        evidence: None,
        wall_time: Duration::ZERO,
        paused: Duration::ZERO,
        attempt: AttemptNumber::FIRST,
        from: 0,
        next: 6,
        outputs_closed: true,
        stdin: None,
        chunk_id: "000000".into(),
        output_tokens_max: 1_000,
    };
    let answer = Update::Answer { answer: Box::new(Answer::Exec(Ok(result))), log: Some(log) };
    for update in [denied(), second, answer] {
        updates.send(update).await.unwrap();
    }
    assert_eq!(seen(&mut stream).await, ["(denied)", "(result)"]);
}
