//! `ApprovalService` in a version without approvals: every method says so.

use tonic::{Request, Response, Status};

use super::pb::approval_service_server::ApprovalService;
use super::stream::Answers;
use super::{pb, status};

/// The service.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoApprovals;

fn refusal() -> Status {
    status::not_implemented(
        "approvals",
        "approvals are not available yet; no session of this version asks anything",
    )
}

macro_rules! refuse {
    ($($method:ident($request:ident) -> $response:ty;)+) => {
        #[tonic::async_trait]
        impl ApprovalService for NoApprovals {
            type WatchApprovalsStream = Answers<pb::WatchApprovalsResponse>;

            $(async fn $method(&self, _: Request<pb::$request>) -> Result<Response<$response>, Status> {
                Err(refusal())
            })+
        }
    };
}

refuse! {
    watch_approvals(WatchApprovalsRequest) -> Self::WatchApprovalsStream;
    list_approvals(ListApprovalsRequest) -> pb::ListApprovalsResponse;
    get_approval(GetApprovalRequest) -> pb::GetApprovalResponse;
    decide_approval(DecideApprovalRequest) -> pb::DecideApprovalResponse;
    list_grants(ListGrantsRequest) -> pb::ListGrantsResponse;
    revoke_grant(RevokeGrantRequest) -> pb::RevokeGrantResponse;
}
