//! A process of a case: started by ExecCommand, read by Attach from its first byte to its end.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tonic::{Status, Streaming};
use unified_exec::grpc::pb;

use crate::client::Session;

/// What the reader has seen so far.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) output: Vec<u8>,
    pub(crate) exit: Option<(pb::Exit, Instant)>,
    pub(crate) closed: bool,
    /// What must not happen to a reader that blocks: gaps, offsets that do not join, a broken stream.
    pub(crate) problem: Option<String>,
}

/// What ExecCommand answered.
#[derive(Debug)]
pub(crate) struct Returned {
    pub(crate) result: pb::ExecResult,
    pub(crate) output: Vec<u8>,
    pub(crate) after: Duration,
}

/// A started process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) id: u32,
    pub(crate) os_pid: u32,
    pub(crate) tty: bool,
    pub(crate) stdin: bool,
    pub(crate) started: Instant,
    pub(crate) seen: watch::Receiver<Seen>,
    call: tokio::task::JoinHandle<Result<Returned, String>>,
    reader: tokio::task::JoinHandle<()>,
}

impl Process {
    /// Starts it. The call is not read on before the reader is attached, and both block the process, so that nothing
    /// is lost between them.
    pub(crate) async fn start(session: &Session, request: pb::ExecCommandRequest) -> Result<Self, Status> {
        use pb::exec_command_response::Item;
        let started = Instant::now();
        let (tty, stdin) = (request.tty, request.stdin);
        let request = pb::ExecCommandRequest { flow: pb::Flow::Block.into(), ..request };
        let mut stream = session.client.exec.clone().exec_command(request).await?.into_inner();
        let mut os_pid = 0;
        let id = loop {
            match stream.message().await?.and_then(|message| message.item) {
                Some(Item::AttemptStarted(attempt)) => os_pid = attempt.os_pid,
                Some(Item::Started(started)) => break started.process_id,
                Some(Item::Keepalive(_)) => {}
                other => return Err(Status::unknown(format!("{other:?} came instead of `started`"))),
            }
        };
        let (seen, reader) = attach(session, id).await?;
        let call = tokio::spawn(finish(stream, started));
        Ok(Self { id, os_pid, tty, stdin, started, seen, call, reader })
    }

    /// Waits for something to be seen.
    pub(crate) async fn sees(&mut self, within: Duration, holds: impl FnMut(&Seen) -> bool) -> bool {
        timeout(within, self.seen.wait_for(holds)).await.is_ok_and(|seen| seen.is_ok())
    }

    /// Stops reading, so that the process may be evicted from a full table. Says whether it was still read.
    pub(crate) fn detach(&self) -> bool {
        let read = !self.reader.is_finished();
        self.reader.abort();
        read
    }

    /// The last bytes, for messages.
    pub(crate) fn tail(&self) -> String {
        let seen = self.seen.borrow();
        let from = seen.output.len().saturating_sub(400);
        format!("{:?}", String::from_utf8_lossy(&seen.output[from..]))
    }

    /// What ExecCommand answered, once it did.
    pub(crate) async fn returned(&mut self) -> Result<Returned, String> {
        match timeout(Duration::from_secs(40), &mut self.call).await {
            Ok(Ok(returned)) => returned,
            Ok(Err(error)) => Err(format!("the call's task failed: {error}")),
            Err(_) => Err("ExecCommand did not return within 40 s".into()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.call.abort();
    }
}

async fn finish(
    mut stream: Streaming<pb::ExecCommandResponse>,
    started: Instant,
) -> Result<Returned, String> {
    use pb::exec_command_response::Item;
    let mut output = Vec::new();
    loop {
        match stream.message().await.map_err(|status| format!("ExecCommand failed: {status}"))? {
            None => return Err("ExecCommand ended without a result".into()),
            Some(message) => match message.item {
                Some(Item::Output(frame)) => output.extend_from_slice(&frame.data),
                Some(Item::Gap(gap)) => {
                    return Err(format!("ExecCommand has a gap although it blocks: {gap:?}"));
                }
                Some(Item::Result(result)) => {
                    let after = started.elapsed();
                    return match stream.message().await {
                        Ok(None) => Ok(Returned { result, output, after }),
                        more => Err(format!("after the result came {more:?}")),
                    };
                }
                _ => {}
            },
        }
    }
}

async fn attach(
    session: &Session,
    process_id: u32,
) -> Result<(watch::Receiver<Seen>, tokio::task::JoinHandle<()>), Status> {
    use pb::attach_response::Item;
    let request = pb::AttachRequest {
        session_id: session.id.clone(),
        process_id,
        cursor: Some(pb::Cursor { attempt: 0, offset: 0 }),
        flow: pb::Flow::Block.into(),
        ..Default::default()
    };
    let mut stream = session.client.exec.clone().attach(request).await?.into_inner();
    match stream.message().await?.and_then(|message| message.item) {
        Some(Item::Attached(_)) => {}
        other => return Err(Status::unknown(format!("{other:?} came instead of `attached`"))),
    }
    let (news, seen) = watch::channel(Seen::default());
    let reader = tokio::spawn(async move {
        loop {
            let problem = match stream.message().await {
                Ok(Some(message)) => match message.item {
                    Some(Item::Output(frame)) => take(&news, &frame),
                    Some(Item::Exited(pb::Exited { exit: Some(exit) })) => {
                        news.send_modify(|seen| seen.exit = Some((exit, Instant::now())));
                        None
                    }
                    Some(Item::Closed(closed)) => {
                        news.send_modify(|seen| seen.closed = true);
                        let end = closed.end.map(|end| end.offset);
                        let length = news.borrow().output.len() as u64;
                        (end != Some(length)).then(|| format!("closed at {end:?} after {length} bytes"))
                    }
                    Some(Item::Keepalive(_)) => None,
                    other => Some(format!("unexpected on Attach: {other:?}")),
                },
                Ok(None) => {
                    let seen = news.borrow();
                    let complete = seen.closed && seen.exit.is_some();
                    drop(seen);
                    if !complete {
                        let problem = "Attach ended with OK before exited and closed".to_owned();
                        news.send_modify(|seen| seen.problem = Some(problem));
                    }
                    return;
                }
                Err(status) => {
                    news.send_modify(|seen| seen.problem = Some(format!("Attach failed: {status}")));
                    return;
                }
            };
            if problem.is_some() {
                // The first one is the cause of the others.
                news.send_modify(|seen| seen.problem = seen.problem.take().or(problem));
            }
        }
    });
    Ok((seen, reader))
}

fn take(news: &watch::Sender<Seen>, frame: &pb::Output) -> Option<String> {
    let mut problem = None;
    news.send_modify(|seen| {
        let expected = seen.output.len() as u64;
        if frame.offset != expected {
            problem = Some(format!("a frame at {} came where {expected} was expected", frame.offset));
        }
        seen.output.extend_from_slice(&frame.data);
    });
    problem
}
