//! Whatever a session asks of others: the rules, a reviewer, the proxy of its children.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::{Driver, Happened, Identity, Notice, Notices};
use crate::core::approval::Question;
use crate::core::ids::{ApprovalId, AttemptNumber, CallId, ConnectionId, ProcessId};
use crate::core::limits::EVIDENCE_BYTES_MAX;
use crate::core::output::Segment;
use crate::core::policy::{Egress, Host};
use crate::core::session::{ConnectionRefused, Event, FeedEvent, FeedKind};
use crate::host::log::OutputLog;
use crate::host::ports::{Asked, Assessing, BoxFuture, Gate, GateAnswer};

/// What is waited for on behalf of a session.
#[derive(Debug, Default)]
pub(super) struct Pending {
    reviews: BTreeMap<ApprovalId, AbortHandle>,
    connections: BTreeMap<ConnectionId, oneshot::Sender<GateAnswer>>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        for review in self.reviews.values() {
            review.abort();
        }
    }
}

impl Driver {
    /// The owner's rules are those of the moment, before anything is decided by them.
    pub(super) fn look_at_owner_network(&mut self) {
        let rules = self.ports.rulebook.owner_network();
        if rules != self.owner_network {
            self.owner_network.clone_from(&rules);
            let rules = rules.map(|rules| rules.to_vec());
            self.session.on_event(self.clock.now(), Event::OwnerNetwork { rules });
            self.perform();
        }
    }

    /// What the rules say of a command; `None` if they take their time, and tell later.
    pub(super) fn assess(&self, process: ProcessId, argv: Vec<String>, cwd: String) -> Option<Event> {
        match self.ports.rulebook.assess(argv, cwd) {
            Assessing::Now(assessment) => Some(Event::Assessed { process, assessment }),
            Assessing::Later(assessing) => {
                let events = self.events.clone();
                tokio::spawn(async move {
                    let assessment = assessing.await;
                    events.send(Event::Assessed { process, assessment }.into()).await.ok();
                });
                None
            }
        }
    }

    /// Shows a question to the automatic reviewer, if there is one; people see it on the board.
    pub(super) fn ask(&mut self, question: Arc<Question>) {
        if !self.ports.reviewer.is_automatic() {
            return;
        }
        let approval = question.id.clone();
        let asked = Asked {
            session: self.identity.session.clone(),
            labels: Arc::clone(&self.identity.labels),
            question,
        };
        let (review, events, id) = (self.ports.reviewer.review(asked), self.events.clone(), approval.clone());
        let reviewing = tokio::spawn(async move {
            let review = review.await;
            events.send(Event::Reviewed { approval: id, review }.into()).await.ok();
        });
        self.pending.reviews.insert(approval, reviewing.abort_handle());
    }

    pub(super) fn unask(&mut self, approval: &ApprovalId) {
        if let Some(review) = self.pending.reviews.remove(approval) {
            review.abort();
        }
    }

    pub(super) fn allow_rule(&self, call: CallId, words: Vec<String>) {
        let (adding, events) = (self.ports.rulebook.allow(words), self.events.clone());
        tokio::spawn(async move {
            let result = adding.await.map_err(|error| error.to_string());
            events.send(Event::RuleAdded { call, result }.into()).await.ok();
        });
    }

    /// First and last output of an attempt, with everything in between left out.
    pub(super) fn excerpt(&self, process: ProcessId, attempt: AttemptNumber) -> Event {
        let output = self.held(process, attempt).map_or_else(Bytes::new, |held| ends_of(&held.log));
        Event::Excerpt { process, attempt, output }
    }

    pub(super) fn connecting(
        &mut self,
        process: ProcessId,
        connection: ConnectionId,
        (host, port): (Host, u16),
        reply: oneshot::Sender<GateAnswer>,
    ) -> Event {
        self.pending.connections.insert(connection, reply);
        Event::Connecting { process, connection, host: host.to_string(), port }
    }

    pub(super) fn connect(
        &mut self,
        connection: ConnectionId,
        answer: Result<Arc<Egress>, ConnectionRefused>,
    ) {
        let Some(reply) = self.pending.connections.remove(&connection) else { return };
        let answer = match answer {
            Ok(egress) => GateAnswer::Allowed(egress),
            Err(refused) => GateAnswer::Refused { reason: refused.to_string() },
        };
        // Whoever asked may have gone by now.
        reply.send(answer).ok();
    }

    pub(super) fn connection_gone(&mut self, connection: ConnectionId) -> Event {
        self.pending.connections.remove(&connection);
        Event::ConnectionGone { connection }
    }

    /// Appends to the feed; what is kept elsewhere goes there first, so that nobody hears of what is not kept.
    pub(super) fn publish(&self, event: FeedEvent) {
        self.ports.audit.record(&self.identity.session, &self.identity.owner, &event);
        if let FeedKind::ApprovalRequested(approval) | FeedKind::ApprovalDecided(approval) = &event.kind {
            let Identity { session, owner, board, .. } = &self.identity;
            board.post(session.clone(), owner.clone(), Arc::new((**approval).clone()));
        }
        self.feed.publish(event);
    }

    /// Carries the connections of a child; ends with what is held of its attempt.
    pub(super) fn carry(&self, process: ProcessId, listener: std::net::TcpListener) -> Carrier {
        let gate = ChildGate {
            process,
            events: self.events.clone(),
            notices: Arc::clone(&self.notices),
            connections: Arc::clone(&self.connections),
        };
        let serving = self.ports.proxy.serve(listener, Arc::new(gate));
        Carrier(tokio::spawn(serving).abort_handle())
    }
}

/// The task that carries a child's connections; they end when this is dropped.
#[derive(Debug)]
pub(super) struct Carrier(AbortHandle);

impl Drop for Carrier {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn ends_of(log: &OutputLog) -> Bytes {
    let (end, most) = (log.end(), EVIDENCE_BYTES_MAX as u64);
    let head = log.snapshot(0, end.min(most));
    let tail = log.snapshot(end.saturating_sub(most).max(most.min(end)), end);
    let mut output = Vec::new();
    for segment in head.into_iter().chain(tail) {
        match segment {
            Segment::Bytes(bytes) => output.extend_from_slice(&bytes),
            // A line that is cut must not run into another one.
            Segment::Gap(_) => output.push(b'\n'),
        }
    }
    output.into()
}

/// Where the proxy asks about the connections of one child: its session decides.
#[derive(Debug)]
struct ChildGate {
    process: ProcessId,
    events: mpsc::Sender<Happened>,
    notices: Arc<Notices>,
    connections: Arc<AtomicU64>,
}

impl Gate for ChildGate {
    fn open(&self, host: Host, port: u16) -> BoxFuture<GateAnswer> {
        let connection = ConnectionId(self.connections.fetch_add(1, Ordering::Relaxed) + 1);
        let (process, events) = (self.process, self.events.clone());
        let waits = Waits { connection, notices: Arc::clone(&self.notices), answered: false };
        Box::pin(async move {
            let mut waits = waits;
            let (reply, answer) = oneshot::channel();
            let asked = Happened::Connecting { process, connection, to: (host, port), reply };
            let gone = || GateAnswer::Refused { reason: ConnectionRefused::Gone.to_string() };
            if events.send(asked).await.is_err() {
                return gone();
            }
            let answer = answer.await.unwrap_or_else(|_| gone());
            waits.answered = true;
            answer
        })
    }
}

/// Tells the driver when nobody waits for the answer to a connection any more.
#[derive(Debug)]
struct Waits {
    connection: ConnectionId,
    notices: Arc<Notices>,
    answered: bool,
}

impl Drop for Waits {
    fn drop(&mut self) {
        if !self.answered {
            self.notices.push(Notice::ConnectionGone(self.connection));
        }
    }
}
