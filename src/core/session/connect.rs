//! Connections of processes whose network is proxied: let through, refused, or held until somebody has answered. An
//! answer never touches the file system.

use std::sync::Arc;

use super::questions::{Matter, Purpose, connection_key};
use super::{ConnectionRefused, Effect, Session};
use crate::core::approval::{Permissions, Subject};
use crate::core::ids::{ConnectionId, ProcessId};
use crate::core::limits::CONNECTIONS_HELD_MAX;
use crate::core::orchestrate::allows;
use crate::core::policy::{Egress, Host, Network, NetworkDecision, Profile};
use crate::core::time::Instant;

impl Session {
    pub(super) fn on_connecting(
        &mut self,
        now: Instant,
        id: ProcessId,
        connection: ConnectionId,
        host: String,
        port: u16,
    ) {
        let Some((profile, egress)) = self.egress_of(id) else {
            return self.connect(connection, Err(ConnectionRefused::Gone));
        };
        // A name that cannot be one is let through by no rule.
        let decision = Host::parse(&host).map_or(NetworkDecision::Deny, |host| egress.decide(&host, port));
        let profile = profile.clone();
        let granted = decision == NetworkDecision::Ask
            && !self.rights.strict_review
            && self.questions.spares(&connection_key(&host, port));
        match decision {
            NetworkDecision::Deny => {
                self.connect(connection, Err(ConnectionRefused::Denied { host, port }));
            }
            NetworkDecision::Allow => self.let_through(id, connection),
            NetworkDecision::Ask if granted => self.let_through(id, connection),
            NetworkDecision::Ask if !allows(&self.rights.policy, |granular| granular.network) => {
                self.connect(connection, Err(ConnectionRefused::NobodyAsked { host, port }));
            }
            NetworkDecision::Ask => self.ask_about_connection(now, id, connection, profile, (host, port)),
        }
    }

    /// The profile that a process, or what is left of it, runs under, and the rules for its connections: its own are frozen, the owner's
    /// are those of now. Rules that cannot be read let nothing through.
    fn egress_of(&self, id: ProcessId) -> Option<(&Profile, Arc<Egress>)> {
        let process = self.processes.get(&id).filter(|process| !process.is_gone())?;
        let profile = process.attempt()?.confinement.profile()?;
        match &profile.network {
            Network::Proxied { rules } => {
                let egress = Egress::new(rules, self.owner_network.as_deref()).ok()?;
                Some((profile, Arc::new(egress)))
            }
            Network::Off | Network::On => None,
        }
    }

    fn ask_about_connection(
        &mut self,
        now: Instant,
        id: ProcessId,
        connection: ConnectionId,
        profile: Profile,
        (host, port): (String, u16),
    ) {
        if self.questions.connections_of(id) >= CONNECTIONS_HELD_MAX {
            let limit = CONNECTIONS_HELD_MAX;
            return self.connect(connection, Err(ConnectionRefused::TooMany { limit }));
        }
        if self.questions.join_connection(id, (&host, port), connection) {
            return;
        }
        let Some(process) = self.processes.get(&id) else { return };
        let matter = Matter {
            purpose: Purpose::Connection(vec![connection]),
            subject: Subject::Connection { host: host.clone(), port },
            turn: process.turn.clone(),
            request: process.request.clone(),
            permissions: Permissions::Default,
            profile,
            reason: format!("no rule says whether it may connect to {host}:{port}"),
            rule: None,
            strict: false,
        };
        if self.ask(now, id, matter).is_err() {
            self.connect(connection, Err(ConnectionRefused::NotApproved { host, port }));
        }
    }

    /// The answer that connections waited for.
    pub(super) fn answer_connections(
        &mut self,
        connections: &[ConnectionId],
        (subject, id): (&Subject, ProcessId),
        approved: bool,
    ) {
        for connection in connections {
            match subject {
                _ if approved => self.let_through(id, *connection),
                Subject::Connection { host, port } => {
                    let refused = ConnectionRefused::NotApproved { host: host.clone(), port: *port };
                    self.connect(*connection, Err(refused));
                }
                Subject::Command | Subject::Retry { .. } | Subject::Input { .. } => {}
            }
        }
    }

    fn let_through(&mut self, id: ProcessId, connection: ConnectionId) {
        let answer = match self.egress_of(id) {
            Some((_, egress)) => Ok(egress),
            None => Err(ConnectionRefused::Gone),
        };
        self.connect(connection, answer);
    }

    fn connect(&mut self, connection: ConnectionId, answer: Result<Arc<Egress>, ConnectionRefused>) {
        self.effects.push_back(Effect::Connect { connection, answer });
    }

    /// The client of a connection that waits has gone; if it was the last one, nobody needs the answer.
    pub(super) fn on_connection_gone(&mut self, now: Instant, connection: ConnectionId) {
        if let Some(question) = self.questions.leave_connection(connection) {
            self.withdraw(now, &question);
        }
    }
}
