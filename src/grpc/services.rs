//! The services of the contract, put together.

use std::sync::Arc;

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
use super::trace::{Methods, RpcTelemetry, Traced};
use crate::host::Host;

/// Adds the services of `host`, whose callers the door has put into their requests.
pub(super) fn add(
    routes: Routes,
    host: &Host,
    defaults: &SessionDefaults,
    telemetry: &Arc<dyn RpcTelemetry>,
) -> Routes {
    fn traced<S>(service: S, telemetry: &Arc<dyn RpcTelemetry>) -> Traced<S> {
        Traced { service, methods: Methods::of_contract(), telemetry: Arc::clone(telemetry) }
    }
    let shared = Shared::new(host.clone(), defaults.clone());
    routes
        .add_service(traced(SessionServiceServer::new(SessionApi::new(shared.clone())), telemetry))
        .add_service(traced(ExecServiceServer::new(ExecApi::new(shared.clone())), telemetry))
        .add_service(traced(EnvironmentServiceServer::new(EnvironmentApi::new(shared.clone())), telemetry))
        .add_service(traced(ApprovalServiceServer::new(ApprovalApi::new(shared)), telemetry))
}
