//! `ApprovalService`: whoever answers the questions. A reviewer sees those of every session, an agent those of its own
//! sessions; that an agent decides nothing is settled before any handler, in [`super::auth`].

use std::collections::VecDeque;

use subtle::ConstantTimeEq as _;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tonic::{Request, Response, Status};

use super::auth::{Caller, Role};
use super::convert::{self, invalid};
use super::pb::approval_service_server::ApprovalService;
use super::pb::watch_approvals_response::Item;
use super::shared::Shared;
use super::status::Place;
use super::stream::{Answers, Source, answers};
use super::{pb, status};
use crate::core::approval::{State, Verdict};
use crate::core::ids::{ApprovalId, GrantId, SessionId};
use crate::core::session::Decide;
use crate::host::board::{Change, Posted};

/// The service.
#[derive(Clone, Debug)]
pub(super) struct ApprovalApi {
    shared: Shared,
}

impl ApprovalApi {
    pub(super) const fn new(shared: Shared) -> Self {
        Self { shared }
    }

    /// Which questions a caller wants and may see: of one session, or all.
    fn scope(&self, caller: &Caller, session: &str) -> Result<Scope, Status> {
        let session = match session {
            "" => None,
            id => Some(self.shared.visible(caller, id)?.id().clone()),
        };
        Ok(Scope { caller: caller.clone(), session })
    }

    /// A question that the caller may see.
    fn posted(&self, caller: &Caller, id: &str) -> Result<Posted, Status> {
        let id = convert::required_id("approval_id", id)?;
        let scope = Scope { caller: caller.clone(), session: None };
        let found = self.shared.host.board().find(&ApprovalId::new(id)).filter(|posted| scope.holds(posted));
        found.ok_or_else(|| status::approval_not_found(id))
    }

    fn to_wire(&self, posted: &Posted) -> pb::Approval {
        convert::approval(self.shared.host.clock(), &posted.session, &posted.approval)
    }
}

/// Which questions somebody wants and may see.
#[derive(Clone, Debug)]
struct Scope {
    caller: Caller,
    session: Option<SessionId>,
}

impl Scope {
    fn holds(&self, posted: &Posted) -> bool {
        let visible = self.caller.role >= Role::Reviewer || posted.owner == self.caller.owner;
        visible && self.session.as_ref().is_none_or(|session| posted.session == *session)
    }
}

#[tonic::async_trait]
impl ApprovalService for ApprovalApi {
    type WatchApprovalsStream = Answers<pb::WatchApprovalsResponse>;

    async fn watch_approvals(
        &self,
        request: Request<pb::WatchApprovalsRequest>,
    ) -> Result<Response<Self::WatchApprovalsStream>, Status> {
        let wire = request.get_ref();
        let scope = self.scope(Caller::of(&request)?, &wire.session_id)?;
        let terms = self.shared.terms(convert::keepalive(wire.keepalive_interval_ms))?;
        let watching = Watching::new(self.shared.clone(), scope);
        Ok(Response::new(answers(watching, terms)))
    }

    async fn list_approvals(
        &self,
        request: Request<pb::ListApprovalsRequest>,
    ) -> Result<Response<pb::ListApprovalsResponse>, Status> {
        let caller = Caller::of(&request)?;
        let wire = request.get_ref();
        let scope = self.scope(caller, &wire.session_id)?;
        let closed = if wire.include_closed { "closed" } else { "" };
        let list = ["ListApprovals", caller.owner.as_str(), caller.role.as_str(), &wire.session_id, closed];
        let page = convert::page(&list, wire.page_size, &wire.page_token)?;
        let wanted = |posted: &Posted| {
            scope.holds(posted) && (wire.include_closed || posted.approval.state == State::Open)
        };
        let all = self.shared.host.board().all().into_iter().filter(wanted).collect();
        let (posted, next_page_token) = page.cut(all, |posted| (posted.number, 0));
        let approvals = posted.iter().map(|posted| self.to_wire(posted)).collect();
        Ok(Response::new(pb::ListApprovalsResponse { approvals, next_page_token }))
    }

    async fn get_approval(
        &self,
        request: Request<pb::GetApprovalRequest>,
    ) -> Result<Response<pb::GetApprovalResponse>, Status> {
        let posted = self.posted(Caller::of(&request)?, &request.get_ref().approval_id)?;
        Ok(Response::new(pb::GetApprovalResponse { approval: Some(self.to_wire(&posted)) }))
    }

    async fn decide_approval(
        &self,
        request: Request<pb::DecideApprovalRequest>,
    ) -> Result<Response<pb::DecideApprovalResponse>, Status> {
        let caller = Caller::of(&request)?.clone();
        caller.require(Role::Reviewer)?;
        let wire = request.into_inner();
        let verdict = verdict(wire.verdict)?;
        let text = convert::bounded("text", &wire.text, convert::WORDS_BYTES_MAX)?.to_owned();
        let rule = convert::rule_words("prefix_rule", wire.prefix_rule)?;
        if verdict != Verdict::ApproveAndAddRule && !rule.is_empty() {
            return Ok(invalid("prefix_rule", "has a meaning only with APPROVE_AND_ADD_RULE")?);
        }
        let session = convert::session_id(&wire.session_id)?;
        let posted = self.posted(&caller, &wire.approval_id)?;
        if posted.session.as_str() != session {
            return Err(status::approval_not_found(&wire.approval_id));
        }
        let digest = convert::digest(&posted.session, &posted.approval.question);
        if !bool::from(digest[..].ct_eq(&wire.digest)) {
            return Err(status::digest_mismatch(&wire.approval_id));
        }
        let handle = self.shared.visible(&caller, session)?;
        let by = caller.owner.as_str().to_owned();
        let approval = posted.approval.question.id.clone();
        let decided = handle.decide(Decide { approval, verdict, text, rule, by }).await;
        let place = Place { clock: self.shared.host.clock(), session: handle.id() };
        let approval = decided.map_err(|error| place.call(error, Place::decide))?;
        let approval = convert::approval(self.shared.host.clock(), handle.id(), &approval);
        Ok(Response::new(pb::DecideApprovalResponse { approval: Some(approval) }))
    }

    async fn list_grants(
        &self,
        request: Request<pb::ListGrantsRequest>,
    ) -> Result<Response<pb::ListGrantsResponse>, Status> {
        let wire = request.get_ref();
        let session = self.shared.overseen(&request, &wire.session_id)?;
        let page = convert::page(&["ListGrants", &wire.session_id], wire.page_size, &wire.page_token)?;
        let gone = || status::session_not_found(session.id().as_str());
        let all = session.grants().await.ok_or_else(gone)?.into_iter().zip(0_u32..).collect();
        let (page, next_page_token) = page.cut(all, |(grant, at)| (grant.at.as_nanos(), *at));
        let clock = self.shared.host.clock();
        let grants = page.iter().map(|(grant, _)| convert::grant(clock, session.id(), grant)).collect();
        Ok(Response::new(pb::ListGrantsResponse { grants, next_page_token }))
    }

    async fn revoke_grant(
        &self,
        request: Request<pb::RevokeGrantRequest>,
    ) -> Result<Response<pb::RevokeGrantResponse>, Status> {
        let caller = Caller::of(&request)?;
        caller.require(Role::Reviewer)?;
        let wire = request.get_ref();
        let session = self.shared.visible(caller, &wire.session_id)?;
        let id = convert::required_id("grant_id", &wire.grant_id)?;
        let revoked = session.revoke(GrantId::new(id)).await.ok_or_else(|| status::grant_not_found(id))?;
        let grant = convert::grant(self.shared.host.clock(), session.id(), &revoked);
        Ok(Response::new(pb::RevokeGrantResponse { grant: Some(grant) }))
    }
}

fn verdict(wire: i32) -> Result<Verdict, Status> {
    Ok(match convert::known("verdict", wire)? {
        pb::Verdict::Unspecified => return Ok(invalid("verdict", "is required")?),
        pb::Verdict::Approve => Verdict::Approve,
        pb::Verdict::ApproveForSession => Verdict::ApproveForSession,
        pb::Verdict::ApproveAndAddRule => Verdict::ApproveAndAddRule,
        pb::Verdict::Decline => Verdict::Decline,
        pb::Verdict::AbortTurn => Verdict::AbortTurn,
    })
}

/// A watcher of questions.
#[derive(Debug)]
struct Watching {
    shared: Shared,
    scope: Scope,
    /// What is still to be sent of the snapshot.
    snapshot: VecDeque<Posted>,
    /// How many were sent of it; absent once that has been told.
    sent: Option<u32>,
    changes: broadcast::Receiver<Change>,
}

impl Watching {
    fn new(shared: Shared, scope: Scope) -> Self {
        let (open, changes) = shared.host.board().watch();
        let mut watching = Self { shared, scope, snapshot: VecDeque::new(), sent: None, changes };
        watching.begin(open);
        watching
    }

    fn begin(&mut self, open: Vec<Posted>) {
        self.snapshot = open.into_iter().filter(|posted| self.scope.holds(posted)).collect();
        self.sent = Some(0);
    }

    /// What is still to be told of the snapshot.
    fn rest_of_snapshot(&mut self) -> Option<Item> {
        let Some(posted) = self.snapshot.pop_front() else {
            return self.sent.take().map(|count| Item::SnapshotDone(pb::SnapshotDone { count }));
        };
        self.sent = self.sent.map(|sent| sent + 1);
        Some(self.to_wire(&posted))
    }

    fn to_wire(&self, posted: &Posted) -> Item {
        let clock = self.shared.host.clock();
        Item::Approval(convert::approval(clock, &posted.session, &posted.approval))
    }

    async fn next_item(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.rest_of_snapshot() {
                return Some(item);
            }
            match self.changes.recv().await {
                Ok(Change::Posted(posted)) if self.scope.holds(&posted) => {
                    return Some(self.to_wire(&posted));
                }
                Ok(Change::SessionOver(session)) if self.scope.session.as_ref() == Some(&session) => {
                    return None;
                }
                Ok(_) => {}
                // A watcher that was too slow has missed changes: it sees what is open now, and goes on from there.
                Err(RecvError::Lagged(_)) => {
                    let (open, changes) = self.shared.host.board().watch();
                    self.changes = changes;
                    self.begin(open);
                    // The session may have gone among what was missed.
                    let session = self.scope.session.as_ref();
                    if session.is_some_and(|id| self.shared.host.any_session(id).is_none()) {
                        return None;
                    }
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

impl Source for Watching {
    type Item = pb::WatchApprovalsResponse;
    const ENDS_AT_DRAIN: bool = true;

    async fn next(&mut self) -> Option<Result<pb::WatchApprovalsResponse, Status>> {
        let item = self.next_item().await?;
        Some(Ok(pb::WatchApprovalsResponse { item: Some(item) }))
    }
}
