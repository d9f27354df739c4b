//! The services of the contract, put together.

use tonic::service::Routes;

use super::approval_service::ApprovalApi;
use super::environment_service::EnvironmentApi;
use super::exec_service::ExecApi;
use super::pb::approval_service_server::ApprovalServiceServer;
use super::pb::environment_service_server::EnvironmentServiceServer;
use super::pb::exec_service_server::ExecServiceServer;
use super::pb::session_service_server::SessionServiceServer;
use super::server::SessionDefaults;
use super::session_service::SessionApi;
use super::shared::Shared;
use super::trace::Traced;
use crate::host::Host;

/// Adds the services of `host`, whose callers the door has put into their requests.
pub(super) fn add(routes: Routes, host: &Host, defaults: &SessionDefaults) -> Routes {
    let shared = Shared::new(host.clone(), defaults.clone());
    routes
        .add_service(Traced(SessionServiceServer::new(SessionApi::new(shared.clone()))))
        .add_service(Traced(ExecServiceServer::new(ExecApi::new(shared.clone()))))
        .add_service(Traced(EnvironmentServiceServer::new(EnvironmentApi::new(shared.clone()))))
        .add_service(Traced(ApprovalServiceServer::new(ApprovalApi::new(shared))))
}
