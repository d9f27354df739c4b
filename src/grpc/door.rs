//! Where every request of a connection comes in: judged, bounded, and only then handed to a service.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as _;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::StdError;
use tonic::service::Routes;
use tower::Service;

use super::auth::{Access, Entry};
use super::guard::{BoundedMessages, Bounds, Guarded};
use super::status;

/// Largest request message. Every gRPC client's own default for what it receives, so nobody is surprised.
pub(super) const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The services as one connection sees them. A cheap clone.
#[derive(Clone, Debug)]
pub(super) struct Door {
    routes: Routes,
    access: Arc<Access>,
    entry: Arc<Entry>,
    usage: Usage,
}

/// Whether any call has come through a door.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage(Arc<AtomicBool>);

impl Usage {
    pub(super) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Resolves after this time if no call has come by then, else never.
    pub(super) async fn none_for(&self, time: Duration) {
        tokio::time::sleep(time).await;
        if self.any() {
            std::future::pending().await
        }
    }
}

impl Door {
    pub(super) fn new(routes: Routes, access: Arc<Access>, entry: Entry) -> Self {
        Self { routes, access, entry: Arc::new(entry), usage: Usage::default() }
    }

    pub(super) fn usage(&self) -> Usage {
        self.usage.clone()
    }
}

impl<B> Service<Request<B>> for Door
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        self.usage.0.store(true, Ordering::Relaxed);
        if let Err(refusal) = self.access.admit(&self.entry, &mut request) {
            return Box::pin(async move { Ok(refusal.into_http()) });
        }
        let request = request.map(|body| Body::new(BoundedMessages::new(Body::new(body), MESSAGE_BYTES_MAX)));
        let mut routes = self.routes.clone();
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            let mut bounds = Bounds::of(&request);
            let response = match bounds.answer(async move { routes.call(request).await }).await {
                Ok(Ok(response)) => response,
                Ok(Err(never)) => match never {},
                Err(end) => return Ok(end.into_http()),
            };
            if response.body().is_end_stream() {
                return Ok(with_details(response, &path));
            }
            Ok(response.map(|body| Body::new(Guarded::new(body, bounds))))
        })
    }
}

/// tonic's own refusals (no such method, a broken request) carry no details; ours do.
fn with_details(mut response: Response<Body>, path: &str) -> Response<Body> {
    let bare = Status::from_header_map(response.headers()).filter(|status| status.details().is_empty());
    if let Some(status) = bare.and_then(|status| status::undetailed(&status, path)) {
        // What cannot be written as headers stays as it was.
        status.add_header(response.headers_mut()).ok();
    }
    response
}
