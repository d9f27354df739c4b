//! Tier L2: a client of the wire, the product's gRPC edge and its host, in one runtime whose time is paused. What connects
//! client and edge is a link that can be slow, cut, or closed on one side.
//!
//! The lines are those of L1, as far as the wire tells; what it does not tell is `?`, which is equal to anything.

mod asked;
mod calls;
mod link;
mod refusal;
mod rights;
mod said;

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::AbortHandle;
use tonic::transport::Channel;
use unified_exec::core::ids::SessionId;
use unified_exec::core::policy::{ApprovalPolicy, Rights};
use unified_exec::core::time::Instant;
use unified_exec::grpc::auth::{Caller, Role};
use unified_exec::grpc::pb::session_service_client::SessionServiceClient;
use unified_exec::grpc::pb::{self, watch_session_response::Item};
use unified_exec::grpc::server::{Edge, EdgeOptions, SessionDefaults};
use unified_exec::host::{Owner, SessionHandle};

use crate::run::Run;
use crate::scenario::{Scenario, When};
use crate::stage::heard::Heard;
use crate::stage::{Callers, Director, Target, runtime, service};

/// Plays a scenario from its start to its end, with a scheduler of this seed.
pub(crate) fn play(scenario: &Scenario, seed: u64) -> Run {
    runtime::play(seed, playing(scenario))
}

async fn playing(scenario: &Scenario) -> Run {
    let (tell, heard) = mpsc::unbounded_channel();
    let (cast, host) = service::host(scenario, &tell);
    let settings = service::settings(scenario);
    let owner = Owner::new("sim");
    let Some(session) = host.create(owner.clone(), settings.clone()) else {
        return Run { broken: vec!["the host makes no session".into()], ..Run::default() };
    };
    // Under it, everything may be asked for.
    let unbounded = Rights { policy: ApprovalPolicy::OnRequest, ..Rights::unrestricted() };
    let defaults = SessionDefaults { settings, ceiling: unbounded.clone(), agent_ceiling: unbounded };
    let edge = Edge::new(host.clone(), EdgeOptions::new(defaults));
    let caller = Caller { owner, role: Role::Reviewer };
    let channel = link::connect(&edge, &caller);
    let clock = said::Clock {
        start: host.clock().to_wall(Instant::ZERO),
        window: scenario.service.limits().early_window,
    };
    let feed = tokio::spawn(watch(channel.clone(), session.id().clone(), clock, tell.clone()));
    let mut clients = Clients { channel, session: session.clone(), clock, tell, calls: BTreeMap::new() };
    let mut director = Director::new(scenario, &cast, heard);
    director.direct(&mut clients).await;
    let view = session.describe().await;
    let (live, questions) = view.map_or((0, 0), |view| (view.live, view.open_questions));
    let mut run = director.into_run(live, questions);
    feed.abort();
    drop((clients, session));
    edge.shutdown().await;
    drop(edge);
    service::shut_down(&cast, host, &mut run).await;
    run
}

/// Clients of the wire, a task for each call.
struct Clients {
    channel: Channel,
    /// For what a client would keep in mind: the rights that it changes.
    session: SessionHandle,
    clock: said::Clock,
    tell: UnboundedSender<Heard>,
    calls: BTreeMap<usize, AbortHandle>,
}

impl Callers for Clients {
    fn step(&mut self, step: usize, when: &When, target: Target) {
        let call = calls::Client {
            channel: self.channel.clone(),
            session: self.session.clone(),
            clock: self.clock,
            tell: self.tell.clone(),
            step,
            when: when.clone(),
        };
        self.calls.insert(step, tokio::spawn(call.make(target)).abort_handle());
    }

    fn drop_call(&mut self, step: usize, _: &When) {
        if let Some(call) = self.calls.remove(&step) {
            call.abort();
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        for call in self.calls.values() {
            call.abort();
        }
    }
}

/// Tells what the feed tells.
async fn watch(channel: Channel, session: SessionId, clock: said::Clock, tell: UnboundedSender<Heard>) {
    let request = pb::WatchSessionRequest {
        session_id: session.to_string(),
        after_sequence: Some(0),
        keepalive_interval_ms: 0,
    };
    let mut attempts = said::Attempts::default();
    let mut stream = match SessionServiceClient::new(channel).watch_session(request).await {
        Ok(response) => response.into_inner(),
        Err(status) => {
            tell.send(Heard::Broken(format!("the feed is refused: {status}"))).ok();
            return;
        }
    };
    loop {
        let heard = match stream.message().await {
            Ok(Some(pb::WatchSessionResponse { item: Some(Item::Event(event)) })) => {
                Heard::Event(said::event(event, clock, &mut attempts))
            }
            Ok(Some(pb::WatchSessionResponse { item: Some(Item::FeedGap(gap)) })) => {
                Heard::Broken(format!("the feed lost events {} to {}", gap.start, gap.end))
            }
            Ok(Some(_)) => continue,
            Ok(None) => return,
            Err(status) => Heard::Broken(format!("the feed broke: {status}")),
        };
        let over = matches!(heard, Heard::Broken(_));
        if tell.send(heard).is_err() || over {
            return;
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
