//! All sessions of a host, by id; each belongs to an owner, and no owner sees another's.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Span;

use super::board::Board;
use super::clock::Clock;
use super::driver::{Driver, Identity};
use super::handle::SessionHandle;
use super::ports::{
    Audit, BoxFuture, Gate, Proxy, Read, Reviewer, Rulebook, SessionTelemetry, Spawner, Telemetry, Waiting,
};
use super::reviewers::People;
use super::rulebooks::NoRules;
use crate::core::command::{Defaults, EnvVar};
use crate::core::ids::{AttemptNumber, CallId, IdGenerator, ProcessId, SessionId};
use crate::core::limits::Limits;
use crate::core::policy::Rights;
use crate::core::process::EndReason;
use crate::core::session::{Call, Config, Effect, EndReport, Event, FeedEvent, Session};
use crate::core::spawn::ResourceLimits;
use crate::core::time::Instant;

/// The authenticated principal that sessions belong to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Arc<str>);

impl Owner {
    /// An owner of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// What a session is created with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What every command gets.
    pub defaults: Defaults,
    /// Policy and profile; must pass [`Rights::check`].
    pub rights: Rights,
    /// What each process may use.
    pub process_limits: ResourceLimits,
    /// Its bounds.
    pub limits: Limits,
    /// Whether processes may outlive their calls.
    pub interactive: bool,
}

/// What a host works with.
#[derive(Clone, Debug)]
pub struct Ports {
    /// Starts children.
    pub spawner: Arc<dyn Spawner>,
    /// Says what the rules say.
    pub rulebook: Arc<dyn Rulebook>,
    /// Looks at questions before people do.
    pub reviewer: Arc<dyn Reviewer>,
    /// Carries the connections of children whose network is proxied.
    pub proxy: Arc<dyn Proxy>,
    /// Keeps a record.
    pub audit: Arc<dyn Audit>,
    /// Makes traces and metrics.
    pub telemetry: Arc<dyn Telemetry>,
}

impl Ports {
    /// A spawner alone: no rules, no automatic reviewer, no proxy, no record, no telemetry.
    pub fn of(spawner: Arc<dyn Spawner>) -> Self {
        Self {
            spawner,
            rulebook: Arc::new(NoRules),
            reviewer: Arc::new(People),
            proxy: Arc::new(Nothing),
            audit: Arc::new(Nothing),
            telemetry: Arc::new(Nothing),
        }
    }
}

/// Carries no connection, keeps no record and sees nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nothing;

impl Proxy for Nothing {
    fn serve(&self, _: std::net::TcpListener, _: Arc<dyn Gate>) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }

    fn carries(&self) -> bool {
        false
    }
}

impl Audit for Nothing {
    fn record(&self, _: &SessionId, _: &Owner, _: &FeedEvent) {}
}

impl Telemetry for Nothing {
    fn session(&self, _: &SessionId, _: Duration) -> Box<dyn SessionTelemetry> {
        Box::new(Self)
    }

    fn read(&self, _: Read) {}
}

impl SessionTelemetry for Nothing {
    fn called(&mut self, _: Instant, _: CallId, _: &Call, _: &Span) {}

    fn happened(&mut self, _: Instant, _: &Event) {}

    fn effect(&mut self, _: Instant, _: &Effect) {}

    fn starting(&self, _: ProcessId, _: AttemptNumber) -> Span {
        Span::none()
    }

    fn turned(&mut self, _: Instant, _: Instant, _: Waiting) {}
}

/// Why there is no new session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The host takes nothing new any more.
    #[error("the server is shutting down")]
    Draining,
    /// The owner has as many as it may have.
    #[error("the owner has {limit} sessions, its limit; close one")]
    TooManySessions {
        /// The limit.
        limit: usize,
    },
}

/// A host: a spawner, a clock, and sessions. A cheap clone.
#[derive(Clone, Debug)]
pub struct Host(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ports: Ports,
    board: Arc<Board>,
    clock: Clock,
    /// The service's own environment, for sessions that inherit.
    inherited: Vec<EnvVar>,
    sessions: Mutex<BTreeMap<SessionId, SessionHandle>>,
    ids: Mutex<IdGenerator>,
    created: AtomicU64,
    draining: CancellationToken,
    drivers: TaskTracker,
}

impl Host {
    /// A host without sessions. All ids are drawn from `seed`.
    pub fn new(ports: Ports, clock: Clock, inherited: Vec<EnvVar>, seed: u64) -> Self {
        Self(Arc::new(Inner {
            ports,
            board: Arc::default(),
            clock,
            inherited,
            sessions: Mutex::new(BTreeMap::new()),
            ids: Mutex::new(IdGenerator::new(seed)),
            created: AtomicU64::new(0),
            draining: CancellationToken::new(),
            drivers: TaskTracker::new(),
        }))
    }

    fn sessions_now(&self) -> MutexGuard<'_, BTreeMap<SessionId, SessionHandle>> {
        self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The clock of everything in this host.
    pub fn clock(&self) -> Clock {
        self.0.clock
    }

    /// What it works with.
    pub fn ports(&self) -> &Ports {
        &self.0.ports
    }

    /// The questions of all its sessions.
    pub fn board(&self) -> &Board {
        &self.0.board
    }

    /// Whether descendants of its children are held together by cgroups.
    pub fn uses_cgroups(&self) -> bool {
        self.0.ports.spawner.uses_cgroups()
    }

    /// The service's own environment.
    pub fn inherited(&self) -> &[EnvVar] {
        &self.0.inherited
    }

    /// A number that no other one drawn from this host's seed is likely to be.
    pub fn draw(&self) -> u64 {
        self.0.ids.lock().unwrap_or_else(PoisonError::into_inner).seed()
    }

    /// Creates a session of `owner`; `None` while the host drains.
    pub fn create(&self, owner: Owner, settings: Settings) -> Option<SessionHandle> {
        self.create_within(owner, settings, BTreeMap::new(), usize::MAX).ok()
    }

    /// Creates a session of `owner`, who may have `sessions_max`.
    pub fn create_within(
        &self,
        owner: Owner,
        settings: Settings,
        labels: BTreeMap<String, String>,
        sessions_max: usize,
    ) -> Result<SessionHandle, CreateError> {
        let (id, seed) = {
            let mut ids = self.0.ids.lock().unwrap_or_else(PoisonError::into_inner);
            (SessionId::new(ids.session_id()), ids.seed())
        };
        let owner_network = self.0.ports.rulebook.owner_network();
        let config = Config {
            id: id.clone(),
            defaults: settings.defaults,
            rights: settings.rights,
            process_limits: settings.process_limits,
            owner_network: owner_network.as_ref().map(|rules| rules.to_vec()),
            automatic_reviewer: self.0.ports.reviewer.is_automatic(),
            limits: settings.limits,
            interactive: settings.interactive,
            seed,
        };
        let session = Session::new(config, self.0.clock.now());
        let mut sessions = self.sessions_now();
        if self.0.draining.is_cancelled() {
            return Err(CreateError::Draining);
        }
        if sessions.values().filter(|session| *session.owner() == owner).count() >= sessions_max {
            return Err(CreateError::TooManySessions { limit: sessions_max });
        }
        let labels = Arc::new(labels);
        let identity = Identity {
            session: id.clone(),
            owner: owner.clone(),
            labels: Arc::clone(&labels),
            board: Arc::clone(&self.0.board),
        };
        let (driver, lines) =
            Driver::new(session, identity, self.0.clock, self.0.ports.clone(), owner_network);
        let number = self.0.created.fetch_add(1, Ordering::Relaxed) + 1;
        let handle = SessionHandle::new(id.clone(), owner, number, labels, lines);
        sessions.insert(id, handle.clone());
        drop(sessions);
        self.0.drivers.spawn(driver.run());
        Ok(handle)
    }

    /// A session, if it is `owner`'s.
    pub fn session(&self, owner: &Owner, id: &SessionId) -> Option<SessionHandle> {
        self.sessions_now().get(id).filter(|session| session.owner() == owner).cloned()
    }

    /// A session, whoever owns it: for reviewers, who see all of them.
    pub fn any_session(&self, id: &SessionId) -> Option<SessionHandle> {
        self.sessions_now().get(id).cloned()
    }

    /// The sessions of `owner`, oldest first.
    pub fn sessions(&self, owner: &Owner) -> Vec<SessionHandle> {
        let mut sessions: Vec<SessionHandle> =
            self.sessions_now().values().filter(|session| session.owner() == owner).cloned().collect();
        sessions.sort_by_key(SessionHandle::number);
        sessions
    }

    /// The sessions of every owner, oldest first: for reviewers, who see all of them.
    pub fn all_sessions(&self) -> Vec<SessionHandle> {
        let mut sessions: Vec<SessionHandle> = self.sessions_now().values().cloned().collect();
        sessions.sort_by_key(SessionHandle::number);
        sessions
    }

    /// Ends every process of a session, then forgets it.
    pub async fn close(&self, session: &SessionHandle) -> EndReport {
        let report = session.close(EndReason::SessionClosed).await.unwrap_or_default();
        self.sessions_now().remove(session.id());
        report
    }

    /// Resolves when the host starts to drain: streams then tell their clients.
    pub fn draining(&self) -> CancellationToken {
        self.0.draining.clone()
    }

    /// Drains: creates no more sessions, ends every process, and resolves when all drivers have ended.
    pub async fn shutdown(&self) {
        self.0.draining.cancel();
        let sessions: Vec<SessionHandle> = std::mem::take(&mut *self.sessions_now()).into_values().collect();
        let closing: Vec<_> = sessions
            .into_iter()
            .map(|session| tokio::spawn(async move { session.close(EndReason::ServerShutdown).await }))
            .collect();
        for closed in closing {
            // A session that is over already has nothing to end.
            closed.await.ok();
        }
        self.0.drivers.close();
        self.0.drivers.wait().await;
    }
}
