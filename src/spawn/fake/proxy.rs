//! Connections of fake children: their gates are asked, and nothing is carried.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::core::policy::Host;
use crate::core::spawn::SpawnError;
use crate::host::ports::{BoxFuture, Gate, GateAnswer, Proxy};

/// What a child's request for a connection came to.
#[derive(Clone, Debug)]
pub struct Connected {
    /// The child's process, as its environment names it.
    pub process: String,
    /// Where to.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What the gate said.
    pub answer: GateAnswer,
}

/// Asks the gates of fake children, and tells what came of it. No connection is ever made: a listener only names the
/// child that it belongs to.
#[derive(Clone, Debug)]
pub struct FakeProxy {
    askers: Askers,
    tell: mpsc::UnboundedSender<Connected>,
}

/// Requests of children, by the port of the listener that stands for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Askers(Arc<Mutex<BTreeMap<u16, Asked>>>);

#[derive(Debug)]
struct Asked {
    process: String,
    requests: mpsc::UnboundedReceiver<(String, u16)>,
}

/// Where a child asks.
#[derive(Debug)]
pub(super) struct Asker(mpsc::UnboundedSender<(String, u16)>);

impl Asker {
    pub(super) fn ask(&self, host: String, port: u16) {
        // Nobody carries the connections of a child that is being ended.
        self.0.send((host, port)).ok();
    }
}

impl Askers {
    /// A listener for a child of `process`, and where the child asks.
    pub(super) fn listen(&self, process: &str) -> Result<(TcpListener, Asker), SpawnError> {
        let exhausted = |error: std::io::Error| SpawnError::Exhausted {
            resource: "sockets",
            reason: format!("a fake child has no listener: {error}"),
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(exhausted)?;
        let port = listener.local_addr().map_err(exhausted)?.port();
        let (ask, requests) = mpsc::unbounded_channel();
        let asked = Asked { process: process.to_owned(), requests };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(port, asked);
        Ok((listener, Asker(ask)))
    }

    fn take(&self, listener: &TcpListener) -> Option<Asked> {
        let port = listener.local_addr().ok()?.port();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&port)
    }

    /// Asks for these children's gates, and tells what they say.
    pub(super) fn proxy(&self) -> (FakeProxy, mpsc::UnboundedReceiver<Connected>) {
        let (tell, told) = mpsc::unbounded_channel();
        (FakeProxy { askers: self.clone(), tell }, told)
    }
}

impl Proxy for FakeProxy {
    fn serve(&self, listener: TcpListener, gate: Arc<dyn Gate>) -> BoxFuture<()> {
        let (asked, tell) = (self.askers.take(&listener), self.tell.clone());
        Box::pin(async move {
            let Some(Asked { process, mut requests }) = asked else {
                return tracing::error!("this listener belongs to no fake child");
            };
            let mut asking = JoinSet::new();
            while let Some((host, port)) = requests.recv().await {
                let (process, tell) = (process.clone(), tell.clone());
                let answering = match Host::parse(&host) {
                    Ok(parsed) => gate.open(parsed, port),
                    Err(error) => {
                        let answer = GateAnswer::Refused { reason: error.to_string() };
                        Box::pin(std::future::ready(answer))
                    }
                };
                asking.spawn(async move {
                    let answer = answering.await;
                    // Nobody may be listening.
                    tell.send(Connected { process, host, port, answer }).ok();
                });
            }
            // The child asks no more; what it asked is answered, or dropped with all of this.
            while asking.join_next().await.is_some() {}
            drop(listener);
        })
    }
}
