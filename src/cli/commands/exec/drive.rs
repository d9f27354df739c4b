//! One command from its start to its end: what it writes goes out, what the person does goes in.

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{input, signals};
use crate::cli::connect::Client;
use crate::cli::failure::Failure;
use crate::cli::output::{self, Sink};
use crate::cli::{exit, json, words};
use crate::grpc::pb;
use crate::grpc::pb::exec_command_response::Item;

/// A command that is about to run in the foreground.
#[derive(Debug)]
pub(super) struct Drive {
    pub(super) client: Client,
    pub(super) session: String,
    pub(super) sink: Sink,
    pub(super) tty: bool,
    pub(super) forwards_stdin: bool,
    pub(super) follows_size: bool,
}

/// The process as the tasks beside the stream see it.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) client: Client,
    pub(super) session: String,
    pub(super) tty: bool,
    /// Known once it runs.
    pub(super) process: watch::Receiver<Option<u32>>,
    /// Cancelled when the person will not wait any longer.
    pub(super) give_up: CancellationToken,
}

impl Drive {
    /// Runs it; answers with the exit code. No process of it lives on behind a failure.
    pub(super) async fn run(mut self, request: pb::ExecCommandRequest) -> Result<u8, Failure> {
        let (known, process) = watch::channel(None);
        let target = Target {
            client: self.client.clone(),
            session: self.session.clone(),
            tty: self.tty,
            process,
            give_up: CancellationToken::new(),
        };
        // Ended with this call: nobody types into what is over.
        let mut beside = JoinSet::new();
        beside.spawn(signals::forward(target.clone()));
        let code = tokio::select! {
            code = self.stream(request, &known, &target, &mut beside) => code,
            () = target.give_up.cancelled() => Ok(exit::SIGNAL_BASE + signals::INTERRUPT_NUMBER),
        };
        let process = *known.borrow();
        if let (Err(failure), Some(process_id)) = (&code, process) {
            tracing::debug!(?failure, "ends what nobody listens to any more");
            signals::terminate(&mut self.client, &self.session, process_id).await;
        }
        code
    }

    async fn stream(
        &mut self,
        request: pb::ExecCommandRequest,
        known: &watch::Sender<Option<u32>>,
        target: &Target,
        beside: &mut JoinSet<()>,
    ) -> Result<u8, Failure> {
        let mut items = self.client.exec.exec_command(request).await?.into_inner();
        while let Some(answer) = items.message().await? {
            match answer.item {
                Some(Item::Started(started)) => {
                    known.send_replace(Some(started.process_id));
                    self.started(&started, target, beside).await?;
                }
                Some(Item::Output(frame)) => self.sink.output(&frame).await?,
                Some(Item::Gap(gap)) => self.sink.gap(&gap).await?,
                Some(Item::ApprovalPending(asked)) => self.sink.asked(&asked).await?,
                Some(Item::AttemptDenied(denied)) => {
                    self.sink.item("attempt_denied", json::value("AttemptDenied", &denied)?).await?;
                    if !self.sink.is_json() {
                        let why = denied.evidence.as_ref().map_or_else(String::new, words::evidence);
                        output::note(&format!("{why}; it runs once more, without"));
                    }
                }
                Some(Item::Draining(_)) => output::note("the server shuts down and ends the command"),
                Some(Item::Result(result)) => return self.ended(&result).await,
                Some(Item::AttemptStarted(_) | Item::Keepalive(_)) | None => {}
            }
        }
        Err(Failure::new("the server ended the stream without a result"))
    }

    async fn started(
        &mut self,
        started: &pb::Started,
        target: &Target,
        beside: &mut JoinSet<()>,
    ) -> Result<(), Failure> {
        if self.forwards_stdin {
            beside.spawn(input::forward(target.clone(), started.process_id));
        }
        if self.follows_size {
            beside.spawn(signals::follow_size(target.clone(), started.process_id));
        }
        if self.sink.is_json() {
            let mut value = json::value("Started", started)?;
            value["session_id"] = self.session.clone().into();
            self.sink.item("started", value).await?;
        }
        Ok(())
    }

    async fn ended(&mut self, result: &pb::ExecResult) -> Result<u8, Failure> {
        if self.sink.is_json() {
            self.sink.item("result", json::value("ExecResult", result)?).await?;
        }
        match &result.exit {
            Some(end) => {
                if !self.sink.is_json() && tells(end.reason()) {
                    output::note(&format!("the command was {}", exit::words(end)));
                }
                Ok(exit::of(end))
            }
            // Interrupt kills nothing, so neither do we.
            None => {
                output::note("the wait was interrupted; in a session that goes on, so does the command");
                Ok(exit::FAILED)
            }
        }
    }
}

/// Whether the person should hear why it ended; the command itself tells nothing of these.
fn tells(reason: pb::ExitReason) -> bool {
    !matches!(
        reason,
        pb::ExitReason::Unspecified
            | pb::ExitReason::Exited
            | pb::ExitReason::Signalled
            | pb::ExitReason::Terminated
    )
}
