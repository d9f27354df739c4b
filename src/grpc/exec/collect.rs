//! The streams of starts and writes: what a call that collects output sees.

use tonic::Status;

use crate::core::approval::Question;
use crate::core::ids::SessionId;
use crate::grpc::status::Place;
use crate::grpc::stream::{Signs, Source};
use crate::grpc::{convert, pb};
use crate::host::clock::Clock;
use crate::host::stream::{CallStream, Item};

/// An item of such a stream.
#[derive(Debug)]
pub(in crate::grpc) enum CallItem {
    ApprovalPending(pb::ApprovalPending),
    Output(pb::Output),
    Gap(pb::Gap),
    AttemptDenied(pb::AttemptDenied),
    AttemptStarted(pb::AttemptStarted),
    Started(pb::Started),
    Result(Box<pb::ExecResult>),
}

/// A response that carries such items; `None` if it has no place for one.
pub(in crate::grpc) trait FromCall: Signs + Send + Sized + 'static {
    fn from_call(item: CallItem) -> Option<Self>;
}

macro_rules! start_response {
    ($response:ident, $item:path) => {
        impl FromCall for pb::$response {
            fn from_call(item: CallItem) -> Option<Self> {
                use $item as Wire;
                let item = match item {
                    CallItem::Output(output) => Wire::Output(output),
                    CallItem::Gap(gap) => Wire::Gap(gap),
                    CallItem::ApprovalPending(pending) => Wire::ApprovalPending(pending),
                    CallItem::AttemptDenied(denied) => Wire::AttemptDenied(denied),
                    CallItem::AttemptStarted(started) => Wire::AttemptStarted(started),
                    CallItem::Started(started) => Wire::Started(started),
                    CallItem::Result(result) => Wire::Result(*result),
                };
                Some(Self { item: Some(item) })
            }
        }
    };
}

start_response!(ExecCommandResponse, pb::exec_command_response::Item);
start_response!(ExecToCompletionResponse, pb::exec_to_completion_response::Item);

impl FromCall for pb::WriteStdinResponse {
    fn from_call(item: CallItem) -> Option<Self> {
        use pb::write_stdin_response::Item as Wire;
        let item = match item {
            CallItem::Output(output) => Wire::Output(output),
            CallItem::Gap(gap) => Wire::Gap(gap),
            CallItem::ApprovalPending(pending) => Wire::ApprovalPending(pending),
            CallItem::Result(result) => Wire::Result(*result),
            // The process has been there for long.
            CallItem::AttemptDenied(_) | CallItem::AttemptStarted(_) | CallItem::Started(_) => return None,
        };
        Some(Self { item: Some(item) })
    }
}

/// A call under way, as `R`.
#[derive(Debug)]
pub(in crate::grpc) struct Collecting<R> {
    pub(in crate::grpc) stream: CallStream,
    pub(in crate::grpc) clock: Clock,
    pub(in crate::grpc) session: SessionId,
    /// Whether the program to be started is a shell.
    pub(in crate::grpc) shell: bool,
    pub(in crate::grpc) response: std::marker::PhantomData<fn() -> R>,
}

impl<R: FromCall> Source for Collecting<R> {
    type Item = R;
    const ENDS_AT_DRAIN: bool = false;

    async fn next(&mut self) -> Option<Result<R, Status>> {
        loop {
            let item = match self.stream.next().await? {
                Ok(item) => item,
                Err(error) => {
                    let place = Place { clock: self.clock, session: &self.session };
                    return Some(Err(place.collecting(error, self.shell)));
                }
            };
            if let Some(response) = R::from_call(to_wire(self.clock, item)) {
                return Some(Ok(response));
            }
        }
    }
}

/// Tells a caller what is asked on its behalf.
pub(in crate::grpc) fn approval_pending(clock: Clock, question: &Question) -> pb::ApprovalPending {
    pb::ApprovalPending {
        approval_id: question.id.to_string(),
        reason: question.reason.clone(),
        expire_time: convert::expiry(clock, question),
    }
}

fn to_wire(clock: Clock, item: Item) -> CallItem {
    match item {
        Item::Asking { question } => CallItem::ApprovalPending(approval_pending(clock, &question)),
        Item::AttemptDenied { attempt, .. } => {
            CallItem::AttemptDenied(convert::attempt_denied(clock, &attempt))
        }
        Item::AttemptStarted { attempt, .. } => {
            CallItem::AttemptStarted(convert::attempt_started(clock, &attempt))
        }
        Item::Started { process, argv, cwd } => {
            CallItem::Started(pb::Started { process_id: process.get(), argv, cwd })
        }
        Item::Output { attempt, piece } => CallItem::Output(convert::output(attempt, piece)),
        Item::Gap { attempt, gap } => CallItem::Gap(convert::gap(attempt, gap)),
        Item::Result(collected) => CallItem::Result(Box::new(convert::exec_result(clock, *collected))),
    }
}
