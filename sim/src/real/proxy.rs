//! The product's proxy, which tells what became of each connection that a child asked for. Names resolve to nothing: no
//! scenario needs a network.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;
use unified_exec::core::policy::Host;
use unified_exec::host::ports::{BoxFuture, Gate, GateAnswer, Proxy};
use unified_exec::proxy::{AllowListProxy, Resolve};
use unified_exec::spawn::fake::Connected;

use super::spawner::RealSpawner;
use crate::stage::heard::Heard;
use crate::stage::service;

/// See the module.
#[derive(Debug)]
pub(crate) struct TellingProxy {
    inner: AllowListProxy,
    spawner: RealSpawner,
    tell: UnboundedSender<Heard>,
}

impl TellingProxy {
    pub(crate) fn new(spawner: RealSpawner, tell: UnboundedSender<Heard>) -> Self {
        Self { inner: AllowListProxy::with_resolver(Arc::new(Nowhere)), spawner, tell }
    }
}

impl Proxy for TellingProxy {
    fn serve(&self, listener: TcpListener, gate: Arc<dyn Gate>) -> BoxFuture<()> {
        let process = self.spawner.process_of(&listener);
        self.inner.serve(listener, Arc::new(TellingGate { inner: gate, process, tell: self.tell.clone() }))
    }
}

#[derive(Debug)]
struct TellingGate {
    inner: Arc<dyn Gate>,
    process: String,
    tell: UnboundedSender<Heard>,
}

impl Gate for TellingGate {
    fn open(&self, host: Host, port: u16) -> BoxFuture<GateAnswer> {
        let (process, tell, asked) = (self.process.clone(), self.tell.clone(), host.to_string());
        let opening = self.inner.open(host, port);
        Box::pin(async move {
            let answer = opening.await;
            let connected = Connected { process, host: asked, port, answer: answer.clone() };
            // Nobody listens once the scenario is over.
            tell.send(service::connection(connected)).ok();
            answer
        })
    }
}

#[derive(Debug)]
struct Nowhere;

impl Resolve for Nowhere {
    fn resolve(&self, name: String) -> BoxFuture<io::Result<Vec<IpAddr>>> {
        let error = io::Error::new(io::ErrorKind::NotFound, format!("{name}: scenarios have no network"));
        Box::pin(std::future::ready(Err(error)))
    }
}
