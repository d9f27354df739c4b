//! `grpc.health.v1` for the whole server: its services share one fate, so one bit answers for all of them.

use std::pin::Pin;

use futures_util::{Stream, StreamExt as _, future, stream};
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::status;

/// Turns the health of a server.
#[derive(Debug)]
pub(super) struct Switch(watch::Sender<ServingStatus>);

impl Switch {
    /// From now on the server says that it serves no more.
    pub(super) fn stop_serving(&self) {
        self.0.send_replace(ServingStatus::NotServing);
    }
}

/// A healthy server that knows these services. Its watches end with `closing`.
pub(super) fn service(
    services: &'static [&'static str],
    closing: CancellationToken,
) -> (Switch, HealthServer<impl Health>) {
    let (switch, serving) = watch::channel(ServingStatus::Serving);
    (Switch(switch), HealthServer::new(OneBit { services, serving, closing }))
}

struct OneBit {
    services: &'static [&'static str],
    serving: watch::Receiver<ServingStatus>,
    closing: CancellationToken,
}

impl OneBit {
    /// The empty name is the server.
    fn knows(&self, service: &str) -> bool {
        service.is_empty() || self.services.contains(&service)
    }
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl Health for OneBit {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if !self.knows(&request.get_ref().service) {
            return Err(status::service_unknown());
        }
        Ok(Response::new(answer(*self.serving.borrow())))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let changes: Self::WatchStream = if self.knows(&request.get_ref().service) {
            Box::pin(WatchStream::new(self.serving.clone()).map(|status| Ok(answer(status))))
        } else {
            // The standard wants a stream here too: the service might be added later.
            let unknown = stream::once(future::ready(Ok(answer(ServingStatus::ServiceUnknown))));
            Box::pin(unknown.chain(stream::pending()))
        };
        let closing = self.closing.clone();
        Ok(Response::new(Box::pin(changes.take_until(closing.cancelled_owned()))))
    }
}
