//! The one task of a session: it takes calls and events, asks the core, and carries out the effects.
//!
//! It owns everything of the session: the core, the children's control handles, the logs, the callers to be
//! answered. It never waits for anything but its next input: starting, pumping and searching are tasks of their own.
//! At one instant events come before calls and calls before deadlines; `docs/determinism.md` tells why.

mod ask;
mod perform;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tracing::Span;

use super::board::Board;
use super::clock::Clock;
use super::feed::Feed;
use super::handle::Opened;
use super::log::OutputLog;
use super::ports::{Control, GateAnswer, SessionTelemetry, Spawned, Waiting};
use super::pump::{Order, PUMP_ORDERS_BOUND, Pump};
use super::registry::{Owner, Ports};
use super::stream::Update;
use crate::core::ids::{AttemptNumber, CallId, ConnectionId, ProcessId, SessionId};
use crate::core::output::Flow;
use crate::core::policy::{Host, NetworkRule};
use crate::core::session::{Call, Event, Session};
use crate::core::spawn::SpawnError;
use crate::core::time::Instant;

use ask::{Carrier, Pending};

/// Events that may wait for a driver; a pump that finds it full waits, and with it its child.
const EVENTS_BOUND: usize = 256;
/// Calls that may wait for a driver; a client that finds it full waits.
const CALLS_BOUND: usize = 64;
/// Inputs taken in one turn before deadlines are looked at again.
const INPUTS_PER_TURN: usize = 64;

/// Rounds of everybody who is ready to run that bring nothing new, before a deadline counts as alone at its instant: one
/// for those who were woken with it, one for those whom they woke.
const QUIET_ROUNDS: usize = 2;

/// What comes from the driver's own tasks.
#[derive(Debug)]
pub(super) enum Happened {
    /// Something the core wants to hear.
    Event(Event),
    /// A log has grown; how far is seen when it is looked at, however many pieces came.
    Grown { process: ProcessId, attempt: AttemptNumber },
    /// A child wants to connect.
    Connecting {
        process: ProcessId,
        connection: ConnectionId,
        to: (Host, u16),
        reply: oneshot::Sender<GateAnswer>,
    },
    /// A spawn has ended.
    Spawned { process: ProcessId, attempt: AttemptNumber, result: Result<Spawned, SpawnError>, at: Instant },
}

impl From<Event> for Happened {
    fn from(event: Event) -> Self {
        Self::Event(event)
    }
}

/// What comes from handles.
#[expect(clippy::large_enum_variant, reason = "moved once, from a channel to its handler")]
#[derive(Debug)]
pub(super) enum Asked {
    /// A call, where its updates go, and the span that it belongs to.
    Call { id: CallId, call: Call, flow: Flow, updates: mpsc::Sender<Update>, span: Span },
    /// The log and description of a process.
    Open { process: ProcessId, attempt: Option<AttemptNumber>, reply: oneshot::Sender<Option<Opened>> },
}

/// What the end of a call tells, from where nothing can wait: at most one of them for each call.
#[derive(Debug)]
pub(super) enum Notice {
    /// Its client went away before the answer.
    Dropped(CallId),
    /// Nobody waits for the answer to a connection any more.
    ConnectionGone(ConnectionId),
    /// Its stream carried output beyond what the core knew when it answered.
    Read { process: ProcessId, attempt: AttemptNumber, to: u64 },
}

/// Notices, until the driver hears of them.
#[derive(Debug, Default)]
pub(super) struct Notices {
    waiting: Mutex<Vec<Notice>>,
    some: Notify,
}

impl Notices {
    pub(super) fn push(&self, notice: Notice) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
        self.some.notify_one();
    }

    fn take(&self) -> Vec<Notice> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The ends of a driver that handles hold.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    pub(super) asked: mpsc::Sender<Asked>,
    pub(super) notices: Arc<Notices>,
    pub(super) feed: Arc<Feed>,
}

/// What is held of an attempt.
#[derive(Debug)]
struct Held {
    number: AttemptNumber,
    log: Arc<OutputLog>,
    grown: Arc<AtomicBool>,
    /// Absent until the child has been started, and again once there is nothing left of it.
    running: Option<Running>,
    outputs_closed: bool,
    tree_gone: bool,
    /// Carries its connections, if its network is proxied.
    carrier: Option<Carrier>,
}

/// Who a session is, to others.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) session: SessionId,
    pub(super) owner: Owner,
    pub(super) labels: Arc<BTreeMap<String, String>>,
    pub(super) board: Arc<Board>,
}

#[derive(Debug)]
struct Running {
    control: Arc<dyn Control>,
    orders: mpsc::Sender<Order>,
}

#[derive(Debug)]
struct Caller {
    flow: Flow,
    updates: mpsc::Sender<Update>,
}

/// The task.
#[derive(Debug)]
pub(super) struct Driver {
    session: Session,
    identity: Identity,
    clock: Clock,
    ports: Ports,
    telemetry: Box<dyn SessionTelemetry>,
    /// The owner's rules for connections that the session knows of.
    owner_network: Option<Arc<[NetworkRule]>>,
    rules_changed: Option<watch::Receiver<()>>,
    pending: Pending,
    /// Counts the connections of its children.
    connections: Arc<AtomicU64>,
    events: mpsc::Sender<Happened>,
    happened: mpsc::Receiver<Happened>,
    asked: mpsc::Receiver<Asked>,
    notices: Arc<Notices>,
    feed: Arc<Feed>,
    callers: BTreeMap<CallId, Caller>,
    processes: BTreeMap<ProcessId, Vec<Held>>,
    watches: BTreeMap<CallId, AbortHandle>,
}

#[expect(clippy::large_enum_variant, reason = "moved once, from a channel to its handler")]
enum Turn {
    Happened(Happened),
    Asked(Asked),
    Noticed,
    RulesChanged,
    Deadline,
    /// Every handle is gone.
    Over,
}

impl Driver {
    pub(super) fn new(
        session: Session,
        identity: Identity,
        clock: Clock,
        ports: Ports,
        owner_network: Option<Arc<[NetworkRule]>>,
    ) -> (Self, Lines) {
        let (events, happened) = mpsc::channel(EVENTS_BOUND);
        let (asked_tx, asked) = mpsc::channel(CALLS_BOUND);
        let notices = Arc::new(Notices::default());
        let feed = Arc::new(Feed::new(clock, Arc::clone(&ports.telemetry)));
        let lines = Lines { asked: asked_tx, notices: Arc::clone(&notices), feed: Arc::clone(&feed) };
        let early_window = session.view().limits.early_window;
        let telemetry = ports.telemetry.session(&identity.session, early_window);
        let (callers, processes, watches) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let rules_changed = ports.rulebook.changes();
        let driver = Self {
            session,
            identity,
            clock,
            ports,
            telemetry,
            owner_network,
            rules_changed,
            pending: Pending::default(),
            connections: Arc::default(),
            events,
            happened,
            asked,
            notices,
            feed,
            callers,
            processes,
            watches,
        };
        (driver, lines)
    }

    /// Runs until the session has been closed and every call is answered, or every handle is gone. Whatever of the
    /// children is still alive then dies with the handles on it.
    pub(super) async fn run(mut self) {
        while !self.session.is_over() {
            let turn = self.next().await;
            let began = self.clock.now();
            let waited = Waiting { calls: self.asked.len(), events: self.happened.len() };
            match turn {
                Turn::Happened(happened) => self.on_happened(happened),
                Turn::Asked(asked) => self.on_asked(asked),
                Turn::Noticed => {
                    for notice in self.notices.take() {
                        self.on_notice(notice);
                    }
                }
                Turn::RulesChanged => self.look_at_owner_network(),
                Turn::Deadline => {}
                Turn::Over => break,
            }
            for _ in 0..INPUTS_PER_TURN {
                let Ok(happened) = self.happened.try_recv() else { break };
                self.on_happened(happened);
            }
            if self.is_due() {
                self.let_others_go_first().await;
                self.look_at_owner_network();
                self.session.on_deadline(self.clock.now());
                self.perform();
            }
            self.telemetry.turned(began, self.clock.now(), waited);
        }
        self.feed.end();
        self.identity.board.forget(&self.identity.session);
        for watch in self.watches.values() {
            watch.abort();
        }
    }

    fn is_due(&self) -> bool {
        let now = self.clock.now();
        self.session.next_deadline().is_some_and(|due| due <= now)
    }

    /// What has happened, and what was asked, by the instant of a deadline comes before it: a child that ends at that
    /// instant is ready to be heard of, but whoever hears of it and tells may not have had a turn yet.
    async fn let_others_go_first(&mut self) {
        let mut quiet = 0;
        for _ in 0..INPUTS_PER_TURN {
            tokio::task::yield_now().await;
            quiet = if self.take_what_is_ready() { 0 } else { quiet + 1 };
            if quiet == QUIET_ROUNDS {
                return;
            }
        }
    }

    /// Takes inputs that are there already, in the order of [`Self::next`]; answers whether there were any.
    fn take_what_is_ready(&mut self) -> bool {
        let mut took = false;
        for _ in 0..INPUTS_PER_TURN {
            let notices = self.notices.take();
            if let Ok(happened) = self.happened.try_recv() {
                self.on_happened(happened);
            } else if notices.is_empty() {
                let Ok(asked) = self.asked.try_recv() else { break };
                self.on_asked(asked);
            }
            for notice in notices {
                self.on_notice(notice);
            }
            took = true;
        }
        took
    }

    async fn next(&mut self) -> Turn {
        let due = self.session.next_deadline().map(|due| self.clock.to_tokio(due));
        tokio::select! {
            // Events first: what happened by now is known before anybody is answered. Notices before calls: what a
            // client has read, or left, is known before what it asks next.
            biased;
            Some(happened) = self.happened.recv() => Turn::Happened(happened),
            () = changed(&mut self.rules_changed) => Turn::RulesChanged,
            () = self.notices.some.notified() => Turn::Noticed,
            asked = self.asked.recv() => asked.map_or(Turn::Over, Turn::Asked),
            () = sleep_until(due) => Turn::Deadline,
        }
    }

    fn on_happened(&mut self, happened: Happened) {
        let event = match happened {
            Happened::Event(event) => Some(event),
            Happened::Connecting { process, connection, to, reply } => {
                Some(self.connecting(process, connection, to, reply))
            }
            Happened::Grown { process, attempt } => self.look_at_log(process, attempt),
            Happened::Spawned { process, attempt, result, at } => {
                self.on_spawned(process, attempt, result, at)
            }
        };
        if let Some(event) = event {
            // An end may be judged, and a review may be the last word.
            self.look_at_owner_network();
            self.let_go(&event);
            self.tell(event);
            self.perform();
        }
    }

    /// What has wholly ended is remembered, but holds no descriptors: they go with its handles.
    fn let_go(&mut self, event: &Event) {
        let (process, attempt) = match event {
            Event::Closed { process, attempt, .. } | Event::TreeGone { process, attempt } => {
                (process, attempt)
            }
            _ => return,
        };
        let attempts = self.processes.get_mut(process);
        let Some(held) = attempts.and_then(|held| held.iter_mut().find(|held| held.number == *attempt))
        else {
            return;
        };
        held.outputs_closed |= matches!(event, Event::Closed { .. });
        held.tree_gone |= matches!(event, Event::TreeGone { .. });
        if held.outputs_closed && held.tree_gone {
            held.running = None;
            held.carrier = None;
        }
    }

    fn on_notice(&mut self, notice: Notice) {
        let event = match notice {
            Notice::Dropped(call) => {
                self.callers.remove(&call);
                Event::CallDropped { call }
            }
            Notice::ConnectionGone(connection) => self.connection_gone(connection),
            Notice::Read { process, attempt, to } => Event::Read { process, attempt, to },
        };
        self.tell(event);
        self.perform();
    }

    fn tell(&mut self, event: Event) {
        let now = self.clock.now();
        self.telemetry.happened(now, &event);
        self.session.on_event(now, event);
    }

    fn look_at_log(&self, process: ProcessId, attempt: AttemptNumber) -> Option<Event> {
        let held = self.held(process, attempt)?;
        // Before the look: what comes after it is told anew.
        held.grown.store(false, Ordering::Release);
        Some(Event::Output { process, attempt, end: held.log.end() })
    }

    /// A child that nobody knows any more dies here, with its handles.
    fn on_spawned(
        &mut self,
        process: ProcessId,
        attempt: AttemptNumber,
        result: Result<Spawned, SpawnError>,
        at: Instant,
    ) -> Option<Event> {
        let events = self.events.clone();
        self.held(process, attempt)?;
        let spawned = match result {
            Ok(spawned) => spawned,
            Err(error) => {
                // Nothing was said in it: what is read is the attempt before, if there was one.
                if let Some(attempts) = self.processes.get_mut(&process) {
                    // Whoever has opened it already need not wait for anything.
                    attempts.iter().filter(|held| held.number == attempt).for_each(|held| held.log.close());
                    attempts.retain(|held| held.number != attempt || attempt == AttemptNumber::FIRST);
                }
                return Some(Event::SpawnFailed { process, attempt, error });
            }
        };
        let carrier = spawned.proxy.map(|listener| self.carry(process, listener));
        let held = self.processes.get_mut(&process)?.iter_mut().find(|held| held.number == attempt)?;
        held.carrier = carrier;
        let (orders, on_orders) = mpsc::channel(PUMP_ORDERS_BOUND);
        held.running = Some(Running { control: Arc::clone(&spawned.control), orders });
        let pump =
            Pump { process, attempt, log: Arc::clone(&held.log), grown: Arc::clone(&held.grown), events };
        tokio::spawn(pump.run(spawned.output, spawned.stdin, spawned.exit, spawned.control, on_orders));
        Some(Event::Spawned { process, attempt, pid: spawned.pid, enforced: spawned.enforced, at })
    }

    fn on_asked(&mut self, asked: Asked) {
        match asked {
            Asked::Call { id, call, flow, updates, span } => {
                self.look_at_owner_network();
                // Its client may have gone while it waited here, before anybody could hear of it.
                let gone = updates.is_closed();
                self.callers.insert(id, Caller { flow, updates });
                let now = self.clock.now();
                self.telemetry.called(now, id, &call, &span);
                self.session.on_call(now, id, call);
                if gone {
                    self.tell(Event::CallDropped { call: id });
                }
            }
            Asked::Open { process, attempt, reply } => {
                // A caller that is gone does not want it any more.
                reply.send(self.open(process, attempt)).ok();
            }
        }
        self.perform();
    }

    fn open(&self, process: ProcessId, attempt: Option<AttemptNumber>) -> Option<Opened> {
        let view = self.session.process(process)?;
        let attempts = self.processes.get(&process)?;
        let held = match attempt {
            Some(number) => attempts.iter().find(|held| held.number == number)?,
            None => attempts.last()?,
        };
        Some(Opened {
            view,
            attempt: held.number,
            log: Arc::clone(&held.log),
            control: held.running.as_ref().map(|running| Arc::clone(&running.control)),
        })
    }

    fn held(&self, process: ProcessId, attempt: AttemptNumber) -> Option<&Held> {
        self.processes.get(&process)?.iter().find(|held| held.number == attempt)
    }

    fn latest(&self, process: ProcessId) -> Option<&Held> {
        self.processes.get(&process)?.last()
    }

    fn running(&self, process: ProcessId) -> Option<&Running> {
        self.latest(process)?.running.as_ref()
    }
}

/// Resolves when it is told that rules may have changed.
async fn changed(rules: &mut Option<watch::Receiver<()>>) {
    if let Some(changes) = rules
        && changes.changed().await.is_ok()
    {
        return;
    }
    // Whoever could change them is gone.
    *rules = None;
    std::future::pending().await
}

async fn sleep_until(due: Option<tokio::time::Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
