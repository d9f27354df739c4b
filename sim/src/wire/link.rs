//! What lies between a client and the edge.

use std::future::ready;

use hyper_util::rt::TokioIo;
use tokio::io::duplex;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;
use unified_exec::grpc::auth::Caller;
use unified_exec::grpc::server::Edge;

/// Bytes on the way, in each direction.
const BYTES: usize = 64 * 1024;

/// A client over a link of its own.
pub(super) fn connect(edge: &Edge, caller: &Caller) -> Channel {
    let (edge, caller) = (edge.clone(), caller.clone());
    let connect = move |_: Uri| {
        let (client, server) = duplex(BYTES);
        edge.serve_io(server, caller.clone());
        ready(Ok::<_, std::io::Error>(TokioIo::new(client)))
    };
    // The address only fills a header.
    Endpoint::from_static("http://sim").connect_with_connector_lazy(service_fn(connect))
}
