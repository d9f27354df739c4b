//! Tier L2: a client of the wire, the product's gRPC edge and its host, in one runtime whose time is paused. What connects
//! client and edge is a link that can be slow, cut, or closed on one side.
//!
//! The lines are those of L1, as far as the wire tells; what it does not tell is `?`, which is equal to anything.

mod asked;
mod calls;
mod link;
mod refusal;
mod rights;
pub(crate) mod said;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::watch;
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

use self::link::Link;
use crate::run::Run;
use crate::scenario::{How, Scenario, When};
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
    let delay = Duration::from_millis(scenario.link.delay);
    let link = Link::new(&edge, &caller, delay, false);
    let clock = said::Clock {
        start: host.clock().to_wall(Instant::ZERO),
        window: scenario.service.limits().early_window,
    };
    let feed = tokio::spawn(follow(link.channel(), session.id().clone(), clock, tell.clone()));
    let mut clients = Clients {
        edge: edge.clone(),
        caller,
        delay,
        link,
        session: session.clone(),
        clock,
        tell,
        calls: BTreeMap::new(),
        own: BTreeMap::new(),
        alone: alone(scenario),
    };
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

/// Calls whose clients lose their connections: each has one of its own.
fn alone(scenario: &Scenario) -> BTreeSet<String> {
    let whens = scenario.when.iter().map(|when| when.get_ref());
    let lost = whens.filter(|when| !matches!(when.how, None | Some(How::Drop)));
    lost.filter_map(|when| when.call.clone()).collect()
}

/// Clients of the wire, a task for each call.
struct Clients {
    edge: Edge,
    caller: Caller,
    delay: Duration,
    /// What all calls share whose clients do not lose their connections.
    link: Link,
    /// For what a client would keep in mind: the rights that it changes.
    session: SessionHandle,
    clock: said::Clock,
    tell: UnboundedSender<Heard>,
    calls: BTreeMap<usize, (AbortHandle, watch::Sender<bool>)>,
    own: BTreeMap<usize, Link>,
    alone: BTreeSet<String>,
}

impl Callers for Clients {
    fn step(&mut self, step: usize, when: &When, target: Target) {
        let (control, reads) = watch::channel(true);
        let channel = if when.call.as_ref().is_some_and(|call| self.alone.contains(call)) {
            let link = Link::new(&self.edge, &self.caller, self.delay, true);
            let channel = link.channel();
            self.own.insert(step, link);
            channel
        } else {
            self.link.channel()
        };
        let call = calls::Client {
            reads,
            channel,
            edge: self.edge.clone(),
            session: self.session.clone(),
            clock: self.clock,
            tell: self.tell.clone(),
            step,
            when: when.clone(),
        };
        let task = tokio::spawn(call.make(target)).abort_handle();
        self.calls.insert(step, (task, control));
    }

    fn drop_call(&mut self, step: usize, how: How) {
        match (how, self.own.get(&step)) {
            // The service must find out by itself; the client's own end is not heard of.
            (How::Silent | How::Cut | How::HalfClose, Some(link)) => link.fail(how),
            (How::Leave, Some(_)) => drop(self.own.remove(&step)),
            _ => {}
        }
        if let Some((call, _)) = self.calls.remove(&step) {
            call.abort();
        }
    }

    fn read(&mut self, step: usize, reads: bool) {
        if let Some((_, control)) = self.calls.get(&step) {
            control.send_replace(reads);
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        for (call, _) in self.calls.values() {
            call.abort();
        }
    }
}

/// Tells what the feed tells.
async fn follow(channel: Channel, session: SessionId, clock: said::Clock, tell: UnboundedSender<Heard>) {
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
