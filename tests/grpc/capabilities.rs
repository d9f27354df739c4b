//! What a server says it can do is what it can do.

use std::sync::Arc;

use unified_exec::core::approval::Review;
use unified_exec::core::policy::Rights;
use unified_exec::grpc::auth::Role;
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::environment_service_client::EnvironmentServiceClient;
use unified_exec::grpc::server::Edge;
use unified_exec::host::reviewers::Always;
use unified_exec::proxy::AllowListProxy;

use crate::support::{caller, server, server_with, settings};

async fn capabilities(edge: &Edge) -> pb::GetCapabilitiesResponse {
    let mut client = EnvironmentServiceClient::new(edge.channel(caller("me", Role::Agent)));
    client.get_capabilities(pb::GetCapabilitiesRequest::default()).await.unwrap().into_inner()
}

#[tokio::test]
async fn features_are_those_that_the_server_was_put_together_with() {
    let open = Rights::unrestricted();
    let (plain, _host) = server(settings(open.clone()), open.clone());
    let plain = capabilities(&plain).await;
    let has = |answer: &pb::GetCapabilitiesResponse, name: &str| {
        answer.features.iter().any(|feature| feature == name)
    };
    assert!(has(&plain, "approvals"));
    for absent in ["rules", "network_proxy", "strict_review"] {
        assert!(!has(&plain, absent), "{:?}", plain.features);
    }
    let works = |name: &str| {
        let found = plain.sandbox_backends.iter().find(|backend| backend.name == name).unwrap();
        assert_eq!(found.reason.is_empty(), found.state() == pb::BackendState::Available, "{found:?}");
        found.state() == pb::BackendState::Available
    };
    let bubblewrap = works("bubblewrap");
    assert_eq!(has(&plain, "sandbox"), bubblewrap || works("landlock"));
    let (full, _host) = server_with(settings(open.clone()), open, |_, ports| {
        ports.proxy = Arc::new(AllowListProxy::new());
        ports.reviewer = Arc::new(Always(Review::AskPerson));
    });
    let full = capabilities(&full).await;
    assert!(has(&full, "strict_review"));
    assert_eq!(has(&full, "network_proxy"), bubblewrap);
}
