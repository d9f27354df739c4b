//! Tier L1: the product's host with all its tasks, over a spawner whose children play the scenario, in virtual time.

mod calls;

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use unified_exec::core::session::FeedKind;
use unified_exec::host::feed::{FeedReader, NextEvent};
use unified_exec::host::{Host, Owner, SessionHandle};

use crate::run::Run;
use crate::scenario::{How, Scenario, When};
use crate::stage::heard::{Event, Heard};
use crate::stage::{Callers, Director, Target, runtime, service};
use crate::tell;

/// Plays a scenario from its start to its end, with a scheduler of this seed.
pub(crate) fn play(scenario: &Scenario, seed: u64) -> Run {
    runtime::play(seed, playing(scenario))
}

async fn playing(scenario: &Scenario) -> Run {
    let (tell, heard) = mpsc::unbounded_channel();
    let (cast, host) = service::host(scenario, &tell);
    let Some(session) = host.create(Owner::new("sim"), service::settings(scenario)) else {
        return Run { broken: vec!["the host makes no session".into()], ..Run::default() };
    };
    let window = scenario.service.limits().early_window;
    let feed = tokio::spawn(follow(session.watch(Some(0)), window, tell.clone()));
    let mut clients = Clients { host: host.clone(), session: session.clone(), tell, calls: BTreeMap::new() };
    let mut director = Director::new(scenario, &cast, heard);
    director.direct(&mut clients).await;
    let view = session.describe().await;
    let (live, questions) = view.map_or((0, 0), |view| (view.live, view.open_questions));
    let mut run = director.into_run(live, questions);
    feed.abort();
    drop((clients, session));
    service::shut_down(&cast, host, &mut run).await;
    run
}

/// Clients that hold a session's handle, a task for each call.
pub(crate) struct Clients {
    pub(crate) host: Host,
    pub(crate) session: SessionHandle,
    pub(crate) tell: UnboundedSender<Heard>,
    pub(crate) calls: BTreeMap<usize, (AbortHandle, watch::Sender<bool>)>,
}

impl Callers for Clients {
    fn step(&mut self, step: usize, when: &When, target: Target) {
        let (control, reads) = watch::channel(true);
        let call = calls::Client {
            reads,
            host: self.host.clone(),
            session: self.session.clone(),
            tell: self.tell.clone(),
            step,
            when: when.clone(),
        };
        let task = tokio::spawn(call.make(target)).abort_handle();
        self.calls.insert(step, (task, control));
    }

    fn drop_call(&mut self, step: usize, _: How) {
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
pub(crate) async fn follow(mut feed: FeedReader, window: Duration, tell: UnboundedSender<Heard>) {
    loop {
        let heard = match feed.next().await {
            NextEvent::Event(event) => {
                let (process, kind, keys) = tell::event(&event.kind, window);
                let request = event.request.as_ref().map(ToString::to_string);
                let asked = tell::question(&event.kind).map(|asked| (asked.id.clone(), asked.process));
                let closed = match &event.kind {
                    FeedKind::OutputsClosed { attempt, end, .. } => Some((attempt.get(), *end)),
                    _ => None,
                };
                Heard::Event(Event { process, request, kind, keys, asked, closed })
            }
            NextEvent::Gap { from, to } => Heard::Broken(format!("the feed lost events {from} to {to}")),
            NextEvent::Ended => return,
        };
        if tell.send(heard).is_err() {
            return;
        }
    }
}
