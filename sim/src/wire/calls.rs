//! One step of a caller, over the wire.

use tokio::sync::mpsc::UnboundedSender;
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use unified_exec::core::ids::ProcessId;
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::approval_service_client::ApprovalServiceClient;
use unified_exec::grpc::pb::exec_service_client::ExecServiceClient;
use unified_exec::grpc::pb::session_service_client::SessionServiceClient;
use unified_exec::grpc::server::Edge;
use unified_exec::host::{Followed, SessionHandle};

use super::{asked, refusal, rights, said};
use crate::run::{Missed, Why};
use crate::scenario::{Mode, Op, When};
use crate::stage::heard::Heard;
use crate::stage::received::Received;
use crate::stage::{Process, Reads, Target, reads, request_of};
use crate::tell::{Keys, session_gone};

/// Who makes one call.
pub(super) struct Client {
    pub(super) channel: Channel,
    pub(super) edge: Edge,
    pub(super) reads: Reads,
    pub(super) session: SessionHandle,
    pub(super) clock: said::Clock,
    pub(super) tell: UnboundedSender<Heard>,
    pub(super) step: usize,
    pub(super) when: When,
}

/// What a stream of a start or a write carries.
enum Carried {
    Output(pb::Output),
    Gap(pb::Gap),
    Started(u32),
    Result(Box<pb::ExecResult>),
    Other,
}

macro_rules! carried {
    ($response:ident, $items:ident $(, $started:ident)?) => {
        impl From<pb::$response> for Carried {
            fn from(response: pb::$response) -> Self {
                use pb::$items::Item;
                match response.item {
                    Some(Item::Output(output)) => Self::Output(output),
                    Some(Item::Gap(gap)) => Self::Gap(gap),
                    $(Some(Item::$started(started)) => Self::Started(started.process_id),)?
                    Some(Item::Result(result)) => Self::Result(Box::new(result)),
                    _ => Self::Other,
                }
            }
        }
    };
}

carried!(ExecCommandResponse, exec_command_response, Started);
carried!(ExecToCompletionResponse, exec_to_completion_response, Started);
carried!(WriteStdinResponse, write_stdin_response);

impl Client {
    /// Makes the call, and tells what it came to.
    pub(super) async fn make(self, target: Target) {
        let process = match &target.process {
            Process::None => None,
            Process::Known(process) => Some(*process),
            Process::Of(request) => match self.started(request).await {
                Some(process) => Some(process),
                None => return self.missed(Why::NoProcess),
            },
        };
        match self.asked(process, &target).await {
            Ok(Some((started, keys))) => {
                self.say(Heard::Answer { step: self.step, process: started, keys });
            }
            Ok(None) => {}
            Err(status) => {
                let mut keys = refusal::refusal(&status);
                // A question of a session that is over is as unknown as one that never was.
                if self.when.op == Op::Decide && self.session.describe().await.is_none() {
                    keys = session_gone();
                }
                self.say(Heard::Answer { step: self.step, process: None, keys });
            }
        }
    }

    fn say(&self, heard: Heard) {
        // Nobody listens once the scenario is over.
        self.tell.send(heard).ok();
    }

    fn missed(&self, why: Why) {
        self.say(Heard::Missed(Missed { step: self.step, why }));
    }

    fn session(&self) -> String {
        self.session.id().to_string()
    }

    fn exec_client(&self) -> ExecServiceClient<Channel> {
        ExecServiceClient::new(self.channel.clone())
    }

    fn session_client(&self) -> SessionServiceClient<Channel> {
        SessionServiceClient::new(self.channel.clone())
    }

    fn approval_client(&self) -> ApprovalServiceClient<Channel> {
        ApprovalServiceClient::new(self.channel.clone())
    }

    /// The process that a request has started.
    async fn started(&self, request: &str) -> Option<ProcessId> {
        let list = pb::ListProcessesRequest {
            session_id: self.session(),
            include_ended: true,
            ..pb::ListProcessesRequest::default()
        };
        let listed = self.exec_client().list_processes(list).await.ok()?.into_inner();
        let found = listed.processes.iter().find(|process| process.request_id == request)?;
        let process = ProcessId::new(found.process_id)?;
        self.say(Heard::Started { process, request: request.to_owned() });
        Some(process)
    }

    /// `None` if there is nothing to tell.
    async fn asked(
        &self,
        process: Option<ProcessId>,
        target: &Target,
    ) -> Result<Option<(Option<ProcessId>, Keys)>, Status> {
        let (when, session) = (&self.when, self.session());
        let keys = match when.op {
            Op::Exec => {
                let request = request_of(self.step, when);
                return if when.mode == Some(Mode::OneShot) {
                    let asked = asked::one_shot(when, session, request);
                    let stream = self.exec_client().exec_to_completion(asked).await?.into_inner();
                    self.read(stream, None).await
                } else {
                    let asked = asked::exec(when, session, request);
                    let stream = self.exec_client().exec_command(asked).await?.into_inner();
                    self.read(stream, None).await
                };
            }
            Op::Write if when.frame == Some(true) => {
                let frames = asked::frames(when, session, process);
                self.exec_client().stream_stdin(tokio_stream::iter(frames)).await?;
                said::delivered()
            }
            Op::Write | Op::Poll => {
                let asked = asked::write(when, session, process);
                let stream = self.exec_client().write_stdin(asked).await?.into_inner();
                return self.read(stream, process).await;
            }
            Op::Wait => {
                let asked = asked::wait(when, session, process);
                said::waited(self.exec_client().wait(asked).await?.get_ref())
            }
            Op::Attach => {
                let asked = asked::attach(when, session, process);
                let mut stream = self.exec_client().attach(asked).await?.into_inner();
                while stream.message().await?.is_some() {}
                let Some(process) = process else { return Ok(None) };
                // The stream ends with the outputs; that the process is forgotten, for which the answer stands, is known
                // to the session only.
                let mut following = self.session.follow(process).await;
                while !matches!(following.next().await, Followed::Over(_)) {}
                vec![("end", "done".into())]
            }
            Op::Interrupt => {
                let report =
                    self.session_client().interrupt(asked::interrupt(when, session)).await?.into_inner();
                vec![
                    ("waits", report.waits_ended.to_string().into()),
                    ("alive", report.alive_process_ids.len().to_string().into()),
                    ("one_shots", report.one_shot_process_ids.len().to_string().into()),
                    ("withdrawn", report.approvals_withdrawn.to_string().into()),
                ]
            }
            Op::Clean => {
                let asked = asked::clean(when, session);
                let report = self.session_client().clean_background_terminals(asked).await?.into_inner();
                said::ended(report.ended.len(), report.survivors.len())
            }
            Op::Close => {
                let asked = pb::CloseSessionRequest { session_id: session };
                let report = self.session_client().close_session(asked).await?.into_inner();
                said::ended(report.ended.len(), report.survivors.len())
            }
            Op::Terminate => {
                let asked = asked::terminate(when, session, process);
                let report = self.exec_client().terminate_process(asked).await?.into_inner();
                said::ended(report.ended.len(), report.survivors.len())
            }
            Op::Signal => {
                self.exec_client().signal_process(asked::signal(when, session, process)).await?;
                vec![("end", "done".into())]
            }
            Op::Hold => {
                let held =
                    self.session_client().hold_deadlines(asked::hold(when, session)).await?.into_inner();
                said::held(held.expire_time.as_ref(), self.clock)
            }
            Op::Decide => {
                let approval = target.approval.as_ref().map(ToString::to_string).unwrap_or_default();
                let mut client = self.approval_client();
                let asked = pb::GetApprovalRequest { approval_id: approval.clone() };
                let digest =
                    client.get_approval(asked).await?.into_inner().approval.unwrap_or_default().digest;
                let decide = pb::DecideApprovalRequest { digest, ..asked::decide(when, session, approval) };
                let decided = client.decide_approval(decide).await?.into_inner();
                said::state(&decided.approval.unwrap_or_default())
            }
            Op::Update => {
                let Some(view) = self.session.describe().await else {
                    return Ok(Some((None, session_gone())));
                };
                let set = when.set.clone().unwrap_or_default();
                let asked = pb::UpdateSessionRequest {
                    session_id: session,
                    config: Some(rights::config(set.of(view.rights))),
                    update_mask: Some(prost_types::FieldMask {
                        paths: vec!["approval_policy".into(), "sandbox".into()],
                    }),
                    policy_revision: 0,
                };
                let updated = self.session_client().update_session(asked).await?.into_inner();
                let revision = updated.session.unwrap_or_default().policy_revision;
                vec![("revision", revision.to_string().into())]
            }
            Op::Revoke => return self.revoke(session).await,
            Op::Drain => {
                self.edge.shutdown().await;
                vec![("end", "done".into())]
            }
            Op::Disconnect | Op::Stall | Op::Resume | Op::OwnerNetwork => return Ok(None),
        };
        Ok(Some((None, keys)))
    }

    /// The kept approval of that number is taken back.
    async fn revoke(&self, session: String) -> Result<Option<(Option<ProcessId>, Keys)>, Status> {
        let asked = pb::ListGrantsRequest { session_id: session.clone(), ..pb::ListGrantsRequest::default() };
        let grants = self.approval_client().list_grants(asked).await?.into_inner().grants;
        let number = self.when.grant.and_then(|number| number.checked_sub(1));
        let Some(grant) = number.and_then(|at| grants.get(at)) else {
            self.missed(Why::NoGrant);
            return Ok(None);
        };
        let asked = pb::RevokeGrantRequest { session_id: session, grant_id: grant.grant_id.clone() };
        let revoked = self.approval_client().revoke_grant(asked).await.is_ok();
        Ok(Some((None, vec![("revoked", revoked.to_string().into())])))
    }

    /// Reads a stream to its end, as a client does. `process` is known unless the call starts it.
    async fn read<R: Into<Carried>>(
        &self,
        mut stream: Streaming<R>,
        process: Option<ProcessId>,
    ) -> Result<Option<(Option<ProcessId>, Keys)>, Status> {
        let call = self.when.call.clone().unwrap_or_default();
        let mut reading = Reading { received: Received::of(call), tell: &self.tell };
        let received = &mut reading.received;
        received.process = process;
        let attempt = |attempt: u32| u8::try_from(attempt).unwrap_or(u8::MAX);
        let mut client = self.reads.clone();
        loop {
            reads(&mut client).await;
            let Some(response) = stream.message().await? else { break };
            match response.into() {
                Carried::Output(output) => {
                    received.piece(attempt(output.attempt), output.offset, output.data);
                }
                Carried::Gap(gap) => received.gap(attempt(gap.attempt), gap.start, gap.end),
                Carried::Started(process) => received.process = ProcessId::new(process),
                Carried::Result(result) => {
                    let of = result.process_id.and_then(ProcessId::new).or(received.process);
                    let (start, next) = (result.start.unwrap_or_default(), result.next.unwrap_or_default());
                    received.answered(of, attempt(start.attempt), start.offset, next.offset);
                    let one_shot = self.when.mode == Some(Mode::OneShot);
                    let started = of.filter(|_| self.when.op == Op::Exec);
                    return Ok(Some((started, said::result(&result, one_shot))));
                }
                Carried::Other => {}
            }
        }
        self.say(Heard::Broken(format!("step {}: the stream ends without an answer", self.step + 1)));
        Ok(None)
    }
}

/// Tells what was received also when the client goes away.
struct Reading<'a> {
    received: Received,
    tell: &'a UnboundedSender<Heard>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.tell.send(Heard::Received(std::mem::take(&mut self.received))).ok();
    }
}
