//! `SessionService`: each method decodes, calls a handle, and encodes.

use tonic::{Request, Response, Status};

use super::auth::{Caller, Role};
use super::convert::{self, Field};
use super::pb::session_service_server::SessionService;
use super::shared::{SESSIONS_PER_OWNER, Shared};
use super::stream::{Answers, Source, answers};
use super::{pb, place, status};
use crate::core::ids::SessionId;
use crate::core::policy::Network;
use crate::core::session::{Hold, SessionView, Update, UpdateError};
use crate::host::clock::Clock;
use crate::host::feed::{FeedReader, NextEvent};
use crate::host::{CallError, SessionHandle, Settings};

/// Changes of a session that come between a look and a change are looked at again, so often.
const UPDATE_TRIES: u32 = 16;
/// Longest lease, in milliseconds.
const HOLD_MS_MAX: u32 = 600_000;
/// Lease when the caller names no time, in milliseconds.
const HOLD_MS_DEFAULT: u32 = 60_000;
/// Longest reason of a lease.
const REASON_BYTES_MAX: usize = 1_024;

/// The service.
#[derive(Clone, Debug)]
pub(super) struct SessionApi {
    shared: Shared,
}

impl SessionApi {
    pub(super) const fn new(shared: Shared) -> Self {
        Self { shared }
    }

    async fn view(&self, session: &SessionHandle) -> Result<SessionView, Status> {
        session.describe().await.ok_or_else(|| status::session_not_found(session.id().as_str()))
    }

    fn to_wire(&self, session: &SessionHandle, view: &SessionView) -> pb::Session {
        let state = if view.closing { pb::SessionState::Closing } else { pb::SessionState::Open };
        let (first_sequence, last_sequence) = session.events();
        pb::Session {
            session_id: view.id.to_string(),
            owner: session.owner().as_str().to_owned(),
            state: state.into(),
            config: Some(convert::config_to_wire(&settings_of(view))),
            policy_revision: view.policy_revision,
            owner_network: owner_network(view),
            labels: session.labels().clone().into_iter().collect(),
            create_time: Some(convert::timestamp(self.shared.host.clock(), view.created_at)),
            live_processes: convert::count(view.live),
            open_approvals: convert::count(view.open_questions),
            first_sequence,
            last_sequence,
        }
    }

    /// What the caller asks, checked against what it may have and what there is.
    async fn settings(
        &self,
        caller: &Caller,
        wire: pb::SessionConfig,
        fields: &[Field],
        current: Settings,
    ) -> Result<Settings, Status> {
        let defaults = &self.shared.defaults;
        let asked_shell = !wire.shell.is_empty();
        let asked = convert::settings(wire, fields, current.clone(), &defaults.settings)?;
        // What cannot be honoured is refused first: that it may not be given would be no help.
        asked
            .rights
            .check(self.shared.host.ports().reviewer.is_automatic())
            .map_err(status::reviewer_missing)?;
        if let Some(field) = convert::widening(caller.role, &asked, &current, defaults) {
            return Err(status::widening(field, caller.role));
        }
        if fields.contains(&Field::Cwd) {
            place::check_cwd("config.cwd", &asked.defaults.cwd).await?;
        }
        if fields.contains(&Field::Shell) && asked_shell {
            place::check_shell("config.shell", &asked.defaults.shell, self.shared.host.inherited()).await?;
        }
        Ok(asked)
    }
}

fn owner_network(view: &SessionView) -> Option<pb::NetworkPolicy> {
    let rules = view.owner_network.clone()?;
    Some(convert::network_to_wire(&Network::Proxied { rules }))
}

fn settings_of(view: &SessionView) -> Settings {
    Settings {
        defaults: view.defaults.clone(),
        rights: view.rights.clone(),
        process_limits: view.process_limits,
        limits: view.limits.clone(),
        interactive: view.interactive,
    }
}

/// The change that takes a session to `asked`, in the fields of the mask only.
fn update(asked: Settings, fields: &[Field], revision: u64) -> Update {
    let named = |field| fields.contains(&field);
    let rights = named(Field::ApprovalPolicy) || named(Field::Sandbox);
    let limits = named(Field::Limits) || named(Field::TableFull) || named(Field::MinConfidence);
    Update {
        if_revision: Some(revision),
        cwd: named(Field::Cwd).then_some(asked.defaults.cwd),
        shell: named(Field::Shell).then_some(asked.defaults.shell),
        allow_login: named(Field::AllowLoginShell).then_some(asked.defaults.allow_login),
        env: named(Field::EnvPolicy).then_some(asked.defaults.env),
        rights: rights.then_some(asked.rights),
        interactive: named(Field::Interactive).then_some(asked.interactive),
        limits: limits.then_some(asked.limits),
        process_limits: named(Field::ProcessLimits).then_some(asked.process_limits),
    }
}

#[tonic::async_trait]
impl SessionService for SessionApi {
    type WatchSessionStream = Answers<pb::WatchSessionResponse>;

    async fn create_session(
        &self,
        request: Request<pb::CreateSessionRequest>,
    ) -> Result<Response<pb::CreateSessionResponse>, Status> {
        let caller = Caller::of(&request)?.clone();
        self.shared.admit_work()?;
        let wire = request.into_inner();
        let labels = convert::check_labels(wire.labels)?;
        let fields = Field::ALL.map(|(_, field)| field);
        let default = self.shared.defaults.settings.clone();
        let settings = self.settings(&caller, wire.config.unwrap_or_default(), &fields, default).await?;
        let created = self.shared.host.create_within(caller.owner, settings, labels, SESSIONS_PER_OWNER);
        let session = created.map_err(status::create)?;
        let view = self.view(&session).await?;
        let session = Some(self.to_wire(&session, &view));
        Ok(Response::new(pb::CreateSessionResponse { session }))
    }

    async fn get_session(
        &self,
        request: Request<pb::GetSessionRequest>,
    ) -> Result<Response<pb::GetSessionResponse>, Status> {
        let session = self.shared.overseen(&request, &request.get_ref().session_id)?;
        let view = self.view(&session).await?;
        let session = Some(self.to_wire(&session, &view));
        Ok(Response::new(pb::GetSessionResponse { session }))
    }

    async fn list_sessions(
        &self,
        request: Request<pb::ListSessionsRequest>,
    ) -> Result<Response<pb::ListSessionsResponse>, Status> {
        let caller = Caller::of(&request)?;
        let wire = request.get_ref();
        let list = ["ListSessions", caller.owner.as_str(), caller.role.as_str()];
        let page = convert::page(&list, wire.page_size, &wire.page_token)?;
        let all = match caller.role {
            Role::Agent => self.shared.host.sessions(&caller.owner),
            Role::Reviewer => self.shared.host.all_sessions(),
        };
        let (handles, next_page_token) = page.cut(all, |session| (session.number(), 0));
        let mut sessions = Vec::with_capacity(handles.len());
        for handle in handles {
            // One that has just been closed is no session any more.
            if let Some(view) = handle.describe().await {
                sessions.push(self.to_wire(&handle, &view));
            }
        }
        Ok(Response::new(pb::ListSessionsResponse { sessions, next_page_token }))
    }

    async fn update_session(
        &self,
        request: Request<pb::UpdateSessionRequest>,
    ) -> Result<Response<pb::UpdateSessionResponse>, Status> {
        let session = self.shared.overseen(&request, &request.get_ref().session_id)?;
        let caller = Caller::of(&request)?.clone();
        let pb::UpdateSessionRequest { config, update_mask, policy_revision, .. } = request.into_inner();
        let fields = convert::mask(update_mask)?;
        let config = config.unwrap_or_default();
        let mut tries = 0;
        loop {
            let current = self.view(&session).await?;
            let revision = if policy_revision == 0 { current.policy_revision } else { policy_revision };
            let asked = self.settings(&caller, config.clone(), &fields, settings_of(&current)).await?;
            tries += 1;
            match session.update(update(asked, &fields, revision)).await {
                Ok(view) => {
                    let session = Some(self.to_wire(&session, &view));
                    return Ok(Response::new(pb::UpdateSessionResponse { session }));
                }
                Err(CallError::Refused(UpdateError::RevisionChanged { .. }))
                    if policy_revision == 0 && tries < UPDATE_TRIES => {}
                Err(error) => return Err(self.shared.place(&session).call(error, status::Place::update)),
            }
        }
    }

    async fn close_session(
        &self,
        request: Request<pb::CloseSessionRequest>,
    ) -> Result<Response<pb::CloseSessionResponse>, Status> {
        let session = self.shared.overseen(&request, &request.get_ref().session_id)?;
        let host = self.shared.host.clone();
        // A caller that goes away does not stop it.
        let closing = tokio::spawn(async move { host.close(&session).await });
        let report = closing.await.unwrap_or_default();
        let ended = convert::ended(self.shared.host.clock(), &report);
        Ok(Response::new(pb::CloseSessionResponse { ended, survivors: convert::survivors(report) }))
    }

    async fn watch_session(
        &self,
        request: Request<pb::WatchSessionRequest>,
    ) -> Result<Response<Self::WatchSessionStream>, Status> {
        let session = self.shared.overseen(&request, &request.get_ref().session_id)?;
        let wire = request.get_ref();
        let (_, last) = session.events();
        if let Some(after) = wire.after_sequence.filter(|after| *after > last) {
            return Err(status::sequence_out_of_range(after, last));
        }
        let terms = self.shared.terms(convert::keepalive(wire.keepalive_interval_ms))?;
        let events = session.watch(wire.after_sequence);
        Ok(Response::new(answers(
            Watching { events, clock: self.shared.host.clock(), session: session.id().clone() },
            terms,
        )))
    }

    async fn hold_deadlines(
        &self,
        request: Request<pb::HoldDeadlinesRequest>,
    ) -> Result<Response<pb::HoldDeadlinesResponse>, Status> {
        let session = self.shared.named(&request, &request.get_ref().session_id)?;
        let wire = request.into_inner();
        convert::turn(&wire.turn_id)?;
        convert::id("lease_id", &wire.lease_id)?;
        convert::bounded("reason", &wire.reason, REASON_BYTES_MAX)?;
        let duration = wire.duration_ms.unwrap_or(HOLD_MS_DEFAULT);
        if duration > HOLD_MS_MAX {
            return Ok(convert::invalid("duration_ms", format!("{duration} is above {HOLD_MS_MAX}"))?);
        }
        let lease = match (wire.lease_id.is_empty(), duration) {
            (true, 0) => return Ok(convert::invalid("lease_id", "is required to give a lease back")?),
            (true, _) => format!("lease_{:016x}", self.shared.host.draw()),
            (false, _) => wire.lease_id,
        };
        tracing::debug!(%lease, turn = %wire.turn_id, reason = %wire.reason, duration, "deadlines are held");
        let held = session.hold(Hold { lease: lease.clone(), duration: convert::millis(duration) }).await;
        let until = held.map_err(|error| self.shared.place(&session).call(error, status::Place::hold))?;
        let expire_time = until.map(|until| convert::timestamp(self.shared.host.clock(), until));
        Ok(Response::new(pb::HoldDeadlinesResponse { lease_id: lease, expire_time }))
    }

    async fn interrupt(
        &self,
        request: Request<pb::InterruptRequest>,
    ) -> Result<Response<pb::InterruptResponse>, Status> {
        let session = self.shared.overseen(&request, &request.get_ref().session_id)?;
        let turn = convert::turn(&request.get_ref().turn_id)?;
        let Some(report) = session.interrupt(turn).await else {
            return Err(status::session_not_found(session.id().as_str()));
        };
        Ok(Response::new(pb::InterruptResponse {
            waits_ended: report.waits,
            approvals_withdrawn: report.withdrawn,
            alive_process_ids: report.alive.into_iter().map(|process| process.get()).collect(),
            one_shot_process_ids: report.one_shots.into_iter().map(|process| process.get()).collect(),
        }))
    }

    async fn clean_background_terminals(
        &self,
        request: Request<pb::CleanBackgroundTerminalsRequest>,
    ) -> Result<Response<pb::CleanBackgroundTerminalsResponse>, Status> {
        let session = self.shared.overseen(&request, &request.get_ref().session_id)?;
        let turn = convert::turn(&request.get_ref().turn_id)?;
        tracing::debug!(session = %session.id(), ?turn, "a session is cleaned");
        let Some(report) = session.clean().await else {
            return Err(status::session_not_found(session.id().as_str()));
        };
        let ended = convert::ended(self.shared.host.clock(), &report);
        let survivors = convert::survivors(report);
        Ok(Response::new(pb::CleanBackgroundTerminalsResponse { ended, survivors }))
    }
}

/// A watcher of a session.
#[derive(Debug)]
struct Watching {
    events: FeedReader,
    clock: Clock,
    session: SessionId,
}

impl Source for Watching {
    type Item = pb::WatchSessionResponse;
    const ENDS_AT_DRAIN: bool = true;

    async fn next(&mut self) -> Option<Result<pb::WatchSessionResponse, Status>> {
        use pb::watch_session_response::Item;
        let item = match self.events.next().await {
            NextEvent::Event(event) => Item::Event(convert::event(self.clock, &self.session, &event)),
            NextEvent::Gap { from, to } => Item::FeedGap(pb::FeedGap { start: from, end: to }),
            NextEvent::Ended => return None,
        };
        Some(Ok(pb::WatchSessionResponse { item: Some(item) }))
    }
}
