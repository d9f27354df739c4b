//! What all services share: the host, what sessions may be given, and the bound on open streams.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Request, Status};

use super::auth::{Caller, Role};
use super::server::SessionDefaults;
use super::stream::Terms;
use super::{convert, status};
use crate::core::ids::{ProcessId, SessionId};
use crate::core::session::ControlError;
use crate::host::{Host, Opened, SessionHandle};

/// Sessions of one owner: far beyond what agents open, and each costs a task and a feed.
pub(super) const SESSIONS_PER_OWNER: usize = 1_024;
/// Streams and waits of a server at once: a terminal each for ten thousand watchers, and room for calls.
pub(super) const STREAMS_MAX: usize = 16_384;

/// A cheap clone of what services work on.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) host: Host,
    pub(super) defaults: Arc<SessionDefaults>,
    streams: Arc<Semaphore>,
}

impl Shared {
    pub(super) fn new(host: Host, defaults: SessionDefaults) -> Self {
        Self { host, defaults: Arc::new(defaults), streams: Arc::new(Semaphore::new(STREAMS_MAX)) }
    }

    /// The session that a request is about, if it is its caller's own.
    pub(super) fn named<T>(&self, request: &Request<T>, session: &str) -> Result<SessionHandle, Status> {
        self.session(Caller::of(request)?, session)
    }

    /// The session that a request looks at, changes or stops: its caller's own, or to a reviewer any.
    pub(super) fn overseen<T>(&self, request: &Request<T>, session: &str) -> Result<SessionHandle, Status> {
        self.visible(Caller::of(request)?, session)
    }

    /// A session of the caller.
    pub(super) fn session(&self, caller: &Caller, id: &str) -> Result<SessionHandle, Status> {
        let id = convert::session_id(id)?;
        self.found(id, self.host.session(&caller.owner, &SessionId::new(id)))
    }

    /// A session that the caller may see: its own, or to a reviewer any.
    pub(super) fn visible(&self, caller: &Caller, id: &str) -> Result<SessionHandle, Status> {
        if caller.role < Role::Reviewer {
            return self.session(caller, id);
        }
        let id = convert::session_id(id)?;
        self.found(id, self.host.any_session(&SessionId::new(id)))
    }

    fn found(&self, id: &str, session: Option<SessionHandle>) -> Result<SessionHandle, Status> {
        session.ok_or_else(|| {
            // A server that shuts down has put its sessions away already.
            if self.host.draining().is_cancelled() {
                status::draining()
            } else {
                status::session_not_found(id)
            }
        })
    }

    /// Refuses new work on a server that shuts down.
    pub(super) fn admit_work(&self) -> Result<(), Status> {
        if self.host.draining().is_cancelled() { Err(status::draining()) } else { Ok(()) }
    }

    /// A place among the open streams and waits, until it is dropped.
    pub(super) fn stream(&self) -> Result<OwnedSemaphorePermit, Status> {
        Arc::clone(&self.streams).try_acquire_owned().map_err(|_| status::too_many_streams(STREAMS_MAX))
    }

    /// How a long stream of this call is to be run.
    pub(super) fn terms(&self, keepalive: Duration) -> Result<Terms, Status> {
        let draining = self.host.draining();
        Ok(Terms { keepalive, draining, clock: self.host.clock(), permit: self.stream()? })
    }

    /// The words of errors about a session.
    pub(super) fn place<'a>(&self, session: &'a SessionHandle) -> status::Place<'a> {
        status::Place { clock: self.host.clock(), session: session.id() }
    }

    /// Opens a process for reading; attempt 0 is the latest.
    pub(super) async fn open(
        &self,
        session: &SessionHandle,
        process: ProcessId,
        attempt: u32,
    ) -> Result<Opened, Status> {
        let number = match attempt {
            0 => None,
            attempt => match crate::core::ids::AttemptNumber::new(attempt) {
                Some(number) => Some(number),
                None => return Err(self.missing(session, process, attempt).await),
            },
        };
        match session.open(process, number).await {
            Some(opened) => Ok(opened),
            None => Err(self.missing(session, process, attempt).await),
        }
    }

    /// Whether it is the attempt that is missing, or the process, or the session.
    async fn missing(&self, session: &SessionHandle, process: ProcessId, attempt: u32) -> Status {
        let place = self.place(session);
        match session.process(process).await {
            // A question about it is open: it has no output yet.
            Ok(_) if attempt == 0 => place.control(process, ControlError::Starting { process }),
            Ok(_) => place.attempt_not_found(process, attempt),
            Err(error) => place.call(error, status::Place::target),
        }
    }
}
