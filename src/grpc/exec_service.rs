//! `ExecService`: each method decodes, calls a handle, and encodes.

use std::marker::PhantomData;

use tonic::{Request, Response, Status, Streaming};

use super::convert;
use super::exec::{
    Attached, Attaching, Collecting, FromCall, Reading, control, describe, interact, read, stdin,
};
use super::pb::exec_service_server::ExecService;
use super::shared::Shared;
use super::stream::{Answers, answers};
use super::{pb, status};
use crate::core::command::Program;
use crate::core::session::{Exec, ProcessView};
use crate::host::SessionHandle;
use crate::host::stream::StreamOptions;

/// The service.
#[derive(Clone, Debug)]
pub(super) struct ExecApi {
    shared: Shared,
}

impl ExecApi {
    pub(super) const fn new(shared: Shared) -> Self {
        Self { shared }
    }

    async fn start<R: FromCall>(
        &self,
        session: &SessionHandle,
        exec: Exec,
        options: StreamOptions,
        keepalive: u32,
    ) -> Result<Response<Answers<R>>, Status> {
        self.shared.admit_work()?;
        let terms = self.shared.terms(convert::keepalive(keepalive))?;
        let shell = matches!(exec.command.program, Program::Shell { .. });
        let stream = session.exec(exec, options).await;
        let (clock, session) = (self.shared.host.clock(), session.id().clone());
        let source = Collecting { stream, clock, session, shell, response: PhantomData };
        Ok(Response::new(answers(source, terms)))
    }
}

#[tonic::async_trait]
impl ExecService for ExecApi {
    type ExecCommandStream = Answers<pb::ExecCommandResponse>;
    type WriteStdinStream = Answers<pb::WriteStdinResponse>;
    type ExecToCompletionStream = Answers<pb::ExecToCompletionResponse>;
    type AttachStream = Answers<pb::AttachResponse>;
    type InteractStream = Answers<pb::InteractResponse>;

    async fn exec_command(
        &self,
        request: Request<pb::ExecCommandRequest>,
    ) -> Result<Response<Self::ExecCommandStream>, Status> {
        let session = self.shared.named(&request, &request.get_ref().session_id)?;
        let wire = request.into_inner();
        let options = convert::stream_options(wire.flow, wire.stream_output, wire.max_output_tokens)?;
        let keepalive = wire.keepalive_interval_ms;
        self.start(&session, convert::exec(wire)?, options, keepalive).await
    }

    async fn exec_to_completion(
        &self,
        request: Request<pb::ExecToCompletionRequest>,
    ) -> Result<Response<Self::ExecToCompletionStream>, Status> {
        let session = self.shared.named(&request, &request.get_ref().session_id)?;
        let wire = request.into_inner();
        let options = convert::stream_options(wire.flow, wire.stream_output, wire.max_output_tokens)?;
        let keepalive = wire.keepalive_interval_ms;
        self.start(&session, convert::one_shot(wire)?, options, keepalive).await
    }

    async fn write_stdin(
        &self,
        request: Request<pb::WriteStdinRequest>,
    ) -> Result<Response<Self::WriteStdinStream>, Status> {
        let session = self.shared.named(&request, &request.get_ref().session_id)?;
        let wire = request.into_inner();
        let options = convert::stream_options(wire.flow, wire.stream_output, wire.max_output_tokens)?;
        let keepalive = convert::keepalive(wire.keepalive_interval_ms);
        let write = convert::write(wire)?;
        self.shared.admit_work()?;
        let terms = self.shared.terms(keepalive)?;
        let stream = session.write(write, options).await;
        let (clock, session) = (self.shared.host.clock(), session.id().clone());
        let source = Collecting { stream, clock, session, shell: false, response: PhantomData };
        Ok(Response::new(answers(source, terms)))
    }

    async fn stream_stdin(
        &self,
        request: Request<Streaming<pb::StreamStdinRequest>>,
    ) -> Result<Response<pb::StreamStdinResponse>, Status> {
        stdin::stream(&self.shared, request).await.map(Response::new)
    }

    async fn attach(
        &self,
        request: Request<pb::AttachRequest>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let session = self.shared.named(&request, &request.get_ref().session_id)?;
        let wire = request.into_inner();
        let process = convert::process_id(wire.process_id)?;
        convert::turn(&wire.turn_id)?;
        let reading = Reading::new(wire.cursor, wire.from_end, wire.flow, wire.max_frame_bytes)?;
        let terms = self.shared.terms(convert::keepalive(wire.keepalive_interval_ms))?;
        let attached = Attached::open(self.shared.clone(), session, process, reading).await?;
        Ok(Response::new(answers(Attaching(attached), terms)))
    }

    async fn interact(
        &self,
        request: Request<Streaming<pb::InteractRequest>>,
    ) -> Result<Response<Self::InteractStream>, Status> {
        interact::open(&self.shared, request).await.map(Response::new)
    }

    async fn read_output(
        &self,
        request: Request<pb::ReadOutputRequest>,
    ) -> Result<Response<pb::ReadOutputResponse>, Status> {
        let session = self.shared.overseen(&request, &request.get_ref().session_id)?;
        read::read_output(&self.shared, &session, request.into_inner()).await.map(Response::new)
    }

    async fn wait(&self, request: Request<pb::WaitRequest>) -> Result<Response<pb::WaitResponse>, Status> {
        let session = self.shared.named(&request, &request.get_ref().session_id)?;
        read::wait(&self.shared, &session, request.into_inner()).await.map(Response::new)
    }

    async fn signal_process(
        &self,
        request: Request<pb::SignalProcessRequest>,
    ) -> Result<Response<pb::SignalProcessResponse>, Status> {
        let session = self.shared.named(&request, &request.get_ref().session_id)?;
        control::signal(&self.shared, &session, &request.into_inner()).await.map(Response::new)
    }

    async fn resize_terminal(
        &self,
        request: Request<pb::ResizeTerminalRequest>,
    ) -> Result<Response<pb::ResizeTerminalResponse>, Status> {
        let session = self.shared.named(&request, &request.get_ref().session_id)?;
        let wire = request.into_inner();
        let process = convert::process_id(wire.process_id)?;
        convert::turn(&wire.turn_id)?;
        let Some(size) = wire.size else { return Ok(convert::invalid("size", "is required")?) };
        let size = convert::terminal_size("size", size)?;
        control::resize(&self.shared, &session, process, size).await?;
        Ok(Response::new(pb::ResizeTerminalResponse { size: Some(convert::size(size)) }))
    }

    async fn terminate_process(
        &self,
        request: Request<pb::TerminateProcessRequest>,
    ) -> Result<Response<pb::TerminateProcessResponse>, Status> {
        let session = self.shared.overseen(&request, &request.get_ref().session_id)?;
        let wire = request.into_inner();
        let process = convert::process_id(wire.process_id)?;
        convert::turn(&wire.turn_id)?;
        let report = session.terminate(process).await;
        let report =
            report.map_err(|error| self.shared.place(&session).call(error, status::Place::target))?;
        let ended = convert::ended(self.shared.host.clock(), &report);
        Ok(Response::new(pb::TerminateProcessResponse { ended, survivors: convert::survivors(report) }))
    }

    async fn get_process(
        &self,
        request: Request<pb::GetProcessRequest>,
    ) -> Result<Response<pb::GetProcessResponse>, Status> {
        let session = self.shared.overseen(&request, &request.get_ref().session_id)?;
        let wire = request.into_inner();
        let process = convert::process_id(wire.process_id)?;
        convert::turn(&wire.turn_id)?;
        let view = session.process(process).await;
        let view = view.map_err(|error| self.shared.place(&session).call(error, status::Place::target))?;
        let process = describe(&self.shared, &session, view, true).await;
        Ok(Response::new(pb::GetProcessResponse { process: Some(process) }))
    }

    async fn list_processes(
        &self,
        request: Request<pb::ListProcessesRequest>,
    ) -> Result<Response<pb::ListProcessesResponse>, Status> {
        let session = self.shared.overseen(&request, &request.get_ref().session_id)?;
        let wire = request.into_inner();
        convert::turn(&wire.turn_id)?;
        let which = if wire.include_ended { "all" } else { "live" };
        let page = convert::page(
            &["ListProcesses", session.id().as_str(), which],
            wire.page_size,
            &wire.page_token,
        )?;
        let Some(mut views) = session.processes(wire.include_ended).await else {
            return Err(status::session_not_found(session.id().as_str()));
        };
        let key = |view: &ProcessView| (view.created_at.as_nanos(), view.id.get());
        views.sort_by_key(key);
        let (views, next_page_token) = page.cut(views, key);
        let mut processes = Vec::with_capacity(views.len());
        for view in views {
            processes.push(describe(&self.shared, &session, view, wire.include_descendants).await);
        }
        Ok(Response::new(pb::ListProcessesResponse { processes, next_page_token }))
    }
}
