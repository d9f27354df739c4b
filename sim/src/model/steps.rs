//! What callers do, step by step.

use unified_exec::core::approval::Grant;
use unified_exec::core::ids::{ApprovalId, CallId, ProcessId};
use unified_exec::core::session::{Call, Decide, Event, Update};

use crate::call;
use crate::model::World;
use crate::run::{Missed, Step, Why};
use crate::scenario::service::rules;
use crate::scenario::{Op, When};
use crate::tell;
use crate::transcript::Word;

/// Calls that the world makes to know more have ids from here on.
const INTERNAL: u64 = 1 << 32;

impl World<'_> {
    /// A caller's step.
    pub(crate) fn step(&mut self, step: usize) {
        let scenario = self.scenario;
        let Some(when) = scenario.when.get(step).map(|when| when.get_ref()) else { return };
        self.steps.push(Step { t: self.now.as_nanos() / 1_000_000, step, line: self.lines.len() });
        let process = match &when.to {
            None => None,
            Some(name) => match self.starters.iter().find(|(_, starter)| starter == name) {
                Some((process, _)) => Some(*process),
                None => return self.missed.push(Missed { step, why: Why::NoProcess }),
            },
        };
        if self.session.is_over() && !matches!(when.op, Op::Disconnect | Op::OwnerNetwork) {
            let name = when.call.as_deref().unwrap_or("-");
            self.line(name.into(), "answer", tell::session_gone());
            return;
        }
        let call = match when.op {
            Op::Disconnect => return self.disconnect(when),
            Op::OwnerNetwork => {
                let rules = when.owner_network.as_ref().map(rules);
                return self.session.on_event(self.now, Event::OwnerNetwork { rules });
            }
            // Its id is known once the answer is there; `revoke` goes on then.
            Op::Revoke => {
                let id = CallId(INTERNAL + step as u64);
                return self.session.on_call(self.now, id, Call::Grants);
            }
            Op::Decide => self.decide(when, process),
            Op::Update => {
                let rights = when.set.clone().map(|set| set.of(self.session.view().rights));
                Some(Call::Update(Update { rights, ..Update::default() }))
            }
            _ => call::call(when, process),
        };
        if let Some(call) = call {
            self.ask(step, when, call);
        }
    }

    fn disconnect(&mut self, when: &When) {
        let Some(call) = when.call.as_ref().and_then(|name| self.calls.get(name.as_str())).copied() else {
            return;
        };
        self.waiting.remove(&call);
        self.dropped.insert(call);
        self.session.on_event(self.now, Event::CallDropped { call });
    }

    /// The latest question about a process, or the one of that number; one that never was is unknown to the session.
    fn decide(&self, when: &When, process: Option<ProcessId>) -> Option<Call> {
        let of = |(_, asked): &&(ApprovalId, ProcessId)| Some(*asked) == process;
        let asked = match when.question {
            Some(number) => number.checked_sub(1).and_then(|at| self.questions.get(at)),
            None => self.questions.iter().rev().find(of),
        };
        Some(Call::Decide(Decide {
            approval: asked.map_or_else(|| ApprovalId::new("never asked"), |(id, _)| id.clone()),
            verdict: call::verdict(when.verdict?),
            text: when.text.clone().unwrap_or_default(),
            rule: when.rule.clone().unwrap_or_default(),
            by: "person".into(),
        }))
    }

    /// An answer to a call that the world made for itself: the grants, of which a step revokes one.
    pub(crate) fn revoke(&mut self, internal: CallId, grants: &[Grant]) -> bool {
        let Some(step) = internal.0.checked_sub(INTERNAL).and_then(|step| usize::try_from(step).ok()) else {
            return false;
        };
        let scenario = self.scenario;
        let when = scenario.when.get(step).map(|when| when.get_ref());
        let number = when.and_then(|when| when.grant).and_then(|number| number.checked_sub(1));
        match (when, number.and_then(|at| grants.get(at))) {
            (Some(when), Some(grant)) => self.ask(step, when, Call::Revoke { grant: grant.id.clone() }),
            _ => self.missed.push(Missed { step, why: Why::NoGrant }),
        }
        true
    }

    fn ask(&mut self, step: usize, when: &When, call: Call) {
        let id = CallId(step as u64 + 1);
        let name = when.call.as_deref().map_or(Word::const_new("-"), Word::from);
        self.calls.insert(name.clone(), id);
        self.names.insert(id, name.clone());
        self.asking = name;
        self.waiting.insert(id);
        self.session.on_call(self.now, id, call);
    }
}
