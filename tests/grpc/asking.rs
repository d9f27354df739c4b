//! A server that asks before every command, an agent, and whoever answers.

use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use unified_exec::core::policy::{ApprovalPolicy, Rights};
use unified_exec::grpc::auth::Role;
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::Verdict;
use unified_exec::grpc::pb::approval_service_client::ApprovalServiceClient;
use unified_exec::grpc::pb::event::Kind;
use unified_exec::grpc::pb::watch_session_response::Item;

use crate::support::{Bench, PATIENCE, Run, Seen, caller, collect, server, settings};

/// No sandbox, and a question before every command.
pub(crate) fn asks_always() -> Rights {
    Rights { policy: ApprovalPolicy::UnlessTrusted, ..Rights::unrestricted() }
}

pub(crate) type Approvals = ApprovalServiceClient<Channel>;

/// An agent's bench, and a reviewer of another owner.
#[derive(Clone)]
pub(crate) struct Asking {
    pub(crate) bench: Bench,
    pub(crate) reviewer: Approvals,
}

/// A start that waits for an answer.
pub(crate) struct Waiting {
    pub(crate) stream: Streaming<pb::ExecCommandResponse>,
    pub(crate) question: pb::Approval,
}

impl Waiting {
    /// What the start comes to.
    pub(crate) async fn outcome(self) -> Result<Run, Status> {
        collect(self.stream, |item| item.item.map(Into::into)).await
    }
}

impl Asking {
    pub(crate) async fn start() -> Self {
        Self::on(Bench::on(server(settings(asks_always()), Rights::unrestricted())).await)
    }

    pub(crate) fn on(bench: Bench) -> Self {
        let reviewer = ApprovalServiceClient::new(bench.edge.channel(caller("somebody", Role::Reviewer)));
        Self { bench, reviewer }
    }

    /// The questions, as somebody of this name and role sees them.
    pub(crate) fn seen_by(&self, owner: &str, role: Role) -> Approvals {
        ApprovalServiceClient::new(self.bench.edge.channel(caller(owner, role)))
    }

    /// Starts something, which leads to a question first of all.
    pub(crate) async fn ask(&self, request: pb::ExecCommandRequest) -> Waiting {
        let mut stream = self.bench.exec.clone().exec_command(request).await.unwrap().into_inner();
        let first = timeout(PATIENCE, stream.message()).await.unwrap().unwrap().unwrap();
        let Seen::Pending(pending) = first.item.unwrap().into() else { panic!("nobody was asked") };
        let question = self.question(&pending.approval_id).await;
        assert_eq!((pending.reason, pending.expire_time), (question.reason.clone(), question.expire_time));
        Waiting { stream, question }
    }

    pub(crate) async fn question(&self, id: &str) -> pb::Approval {
        let request = pb::GetApprovalRequest { approval_id: id.into() };
        self.reviewer.clone().get_approval(request).await.unwrap().into_inner().approval.unwrap()
    }

    pub(crate) async fn decide(
        &self,
        question: &pb::Approval,
        verdict: Verdict,
    ) -> Result<pb::Approval, Status> {
        self.send(answer(question, verdict)).await
    }

    pub(crate) async fn send(&self, request: pb::DecideApprovalRequest) -> Result<pb::Approval, Status> {
        let decided = timeout(PATIENCE, self.reviewer.clone().decide_approval(request)).await.unwrap()?;
        Ok(decided.into_inner().approval.unwrap())
    }

    /// Starts something with the answer yes.
    pub(crate) async fn approved(&self, request: pb::ExecCommandRequest) -> Run {
        let waiting = self.ask(request).await;
        self.decide(&waiting.question, Verdict::Approve).await.unwrap();
        waiting.outcome().await.unwrap()
    }

    pub(crate) async fn open(&self) -> Vec<pb::Approval> {
        let request = pb::ListApprovalsRequest::default();
        self.reviewer.clone().list_approvals(request).await.unwrap().into_inner().approvals
    }

    /// Every process that the session knows of.
    pub(crate) async fn processes(&self) -> Vec<pb::Process> {
        let list = pb::ListProcessesRequest {
            session_id: self.bench.session.clone(),
            include_ended: true,
            ..Default::default()
        };
        self.bench.exec.clone().list_processes(list).await.unwrap().into_inner().processes
    }

    /// Everything that the feed tells up to now.
    pub(crate) async fn events(&self) -> Vec<pb::Event> {
        let request = pb::GetSessionRequest { session_id: self.bench.session.clone() };
        let mut sessions = self.bench.sessions.clone();
        let last = sessions.get_session(request).await.unwrap().into_inner().session.unwrap().last_sequence;
        let request = pb::WatchSessionRequest {
            session_id: self.bench.session.clone(),
            after_sequence: Some(0),
            ..Default::default()
        };
        let mut stream = sessions.watch_session(request).await.unwrap().into_inner();
        let mut events = Vec::new();
        while (events.len() as u64) < last {
            if let Some(Item::Event(event)) =
                timeout(PATIENCE, stream.message()).await.unwrap().unwrap().unwrap().item
            {
                events.push(event);
            }
        }
        events
    }

    /// The same by name, without output.
    pub(crate) async fn story(&self) -> Vec<String> {
        let told = self.events().await;
        told.iter().filter_map(|event| name(event.kind.as_ref().unwrap())).collect()
    }
}

/// The answer that whoever has seen this question would give.
pub(crate) fn answer(question: &pb::Approval, verdict: Verdict) -> pb::DecideApprovalRequest {
    pb::DecideApprovalRequest {
        approval_id: question.approval_id.clone(),
        session_id: question.session_id.clone(),
        digest: question.digest.clone(),
        verdict: verdict.into(),
        ..Default::default()
    }
}

fn name(kind: &Kind) -> Option<String> {
    let name = match kind {
        Kind::ApprovalRequested(_) => "approval_requested".into(),
        Kind::ApprovalDecided(approval) => {
            let state = approval.state().as_str_name().trim_start_matches("APPROVAL_STATE_");
            format!("approval_decided {}", state.to_lowercase())
        }
        Kind::StartRefused(refused) => format!("start_refused {}", refused.reason),
        Kind::AttemptStarted(started) => format!("attempt_started {}", started.attempt),
        Kind::AttemptDenied(denied) => format!("attempt_denied {}", denied.attempt),
        Kind::ProcessStarted(_) => "process_started".into(),
        Kind::ProcessExited(_) => "process_exited".into(),
        Kind::Interrupted(interrupted) => format!("interrupted {}", interrupted.approvals_withdrawn),
        Kind::Cleaned(_) => "cleaned".into(),
        Kind::PolicyChanged(changed) => format!("policy_changed {}", changed.fields.join(",")),
        _ => return None,
    };
    Some(name)
}
