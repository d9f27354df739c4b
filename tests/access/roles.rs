//! An agent never decides about itself.

use tonic::Code;
use tonic::transport::Channel;
use unified_exec::grpc::auth::Role;
use unified_exec::grpc::listen::RuntimeDirectory;
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::approval_service_client::ApprovalServiceClient;

use crate::support::{assert_status, bearer, edge, on_tcp, plain, unix};

fn approvals(channel: Channel) -> ApprovalServiceClient<Channel> {
    ApprovalServiceClient::new(channel)
}

#[tokio::test]
async fn deciding_and_revoking_is_denied_to_an_agent_before_anything_else_is_looked_at() {
    let edge = edge();
    let mut client = approvals(plain(on_tcp(&edge).await));
    let decide = client.decide_approval(bearer(pb::DecideApprovalRequest::default(), "a")).await;
    assert_status(decide, Code::PermissionDenied, "ROLE_REQUIRED");
    let revoke = client.revoke_grant(bearer(pb::RevokeGrantRequest::default(), "a")).await;
    assert_status(revoke, Code::PermissionDenied, "ROLE_REQUIRED");
    // The reviewer's request is looked at, and an agent may read.
    let decide = client.decide_approval(bearer(pb::DecideApprovalRequest::default(), "r")).await;
    assert_status(decide, Code::InvalidArgument, "INVALID_FIELD");
    client.list_approvals(bearer(pb::ListApprovalsRequest::default(), "a")).await.unwrap();
}

#[tokio::test]
async fn a_unix_socket_gives_its_role_whatever_the_client_claims() {
    let edge = edge();
    let directory = tempfile::tempdir().unwrap();
    let runtime = RuntimeDirectory::open(&directory.path().join("run")).unwrap();
    for role in [Role::Agent, Role::Reviewer] {
        edge.serve_unix(runtime.bind(role).unwrap());
    }
    let decide = async |role, claim: &str| {
        let mut client = approvals(unix(&runtime.socket_path(role)));
        client.decide_approval(bearer(pb::DecideApprovalRequest::default(), claim)).await
    };
    assert_status(decide(Role::Agent, "r").await, Code::PermissionDenied, "ROLE_REQUIRED");
    assert_status(decide(Role::Reviewer, "a").await, Code::InvalidArgument, "INVALID_FIELD");
}
