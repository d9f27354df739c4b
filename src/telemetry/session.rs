//! What is measured of one session, from what goes into its core and comes out of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tracing::Span;

use super::meters::{Meters, label};
use super::spans::Spans;
use super::words;
use crate::core::ids::{ApprovalId, AttemptNumber, CallId, ProcessId, SessionId};
use crate::core::process::Evidence;
use crate::core::session::{Answer, Call, Effect, Event, FeedKind};
use crate::core::spawn::SpawnPlan;
use crate::core::time::Instant;
use crate::host::ports::{SessionTelemetry, Waiting};

/// The eyes on one session.
#[derive(Debug)]
pub(super) struct Observer {
    meters: Arc<Meters>,
    /// Absent where no traces are made.
    spans: Option<Spans>,
    window: Duration,
    questions: BTreeMap<ApprovalId, Instant>,
    processes: BTreeMap<ProcessId, Seen>,
}

/// What is remembered of a process.
#[derive(Debug)]
struct Seen {
    spawner: &'static str,
    sandboxed: bool,
    ordered_at: Instant,
    started_at: Option<Instant>,
    alive: bool,
    /// Output of the latest attempt, so far.
    attempt: AttemptNumber,
    output_end: u64,
}

impl Observer {
    pub(super) fn new(session: &SessionId, window: Duration, meters: Arc<Meters>, traces: bool) -> Self {
        meters.sessions.add(1, &[]);
        Self {
            meters,
            spans: traces.then(|| Spans::new(session.clone())),
            window,
            questions: BTreeMap::new(),
            processes: BTreeMap::new(),
        }
    }

    fn starting(&mut self, now: Instant, process: ProcessId, attempt: AttemptNumber, plan: &SpawnPlan) {
        let seen = Seen {
            spawner: words::spawner(&plan.stdio),
            sandboxed: plan.sandbox.is_some(),
            ordered_at: now,
            started_at: None,
            alive: false,
            attempt,
            output_end: 0,
        };
        self.processes.insert(process, seen);
    }

    fn started(&mut self, now: Instant, process: ProcessId, error: Option<&'static str>) {
        let Some(seen) = self.processes.get_mut(&process) else { return };
        let spawner = label("unified_exec.spawner", seen.spawner);
        let sandboxed = label("unified_exec.sandboxed", if seen.sandboxed { "true" } else { "false" });
        let took = now.since(seen.ordered_at).as_secs_f64();
        match error {
            Some(error) => self.meters.spawn.record(took, &[spawner, sandboxed, label("error.type", error)]),
            None => {
                self.meters.spawn.record(took, &[spawner.clone(), sandboxed]);
                self.meters.processes.add(1, &[spawner]);
                seen.started_at = Some(now);
                seen.alive = true;
            }
        }
    }

    fn died(&mut self, process: ProcessId) {
        if let Some(seen) = self.processes.get_mut(&process).filter(|seen| seen.alive) {
            seen.alive = false;
            self.meters.processes.add(-1, &[label("unified_exec.spawner", seen.spawner)]);
        }
    }

    fn output(&mut self, now: Instant, process: ProcessId, attempt: AttemptNumber, end: u64) {
        let Some(seen) = self.processes.get_mut(&process).filter(|seen| seen.attempt == attempt) else {
            return;
        };
        if let Some(started) = seen.started_at.filter(|_| seen.output_end == 0 && end > 0) {
            let took = now.since(started).as_secs_f64();
            self.meters.first_byte.record(took, &[label("unified_exec.spawner", seen.spawner)]);
        }
        self.meters.output.add(end.saturating_sub(seen.output_end), &[]);
        seen.output_end = seen.output_end.max(end);
    }

    fn denied(&self, evidence: &Evidence) {
        let phase = if evidence.early { "early" } else { "late" };
        self.meters.denials.add(
            1,
            &[
                label("unified_exec.confidence", words::confidence(evidence.confidence)),
                label("unified_exec.phase", phase),
            ],
        );
    }

    fn retried(&self, attempt: AttemptNumber, outcome: &'static str) {
        if attempt == AttemptNumber::SECOND {
            self.meters.retries.add(1, &[label("unified_exec.outcome", outcome)]);
        }
    }

    fn published(&mut self, now: Instant, kind: &FeedKind) {
        match kind {
            FeedKind::ApprovalRequested(approval) => {
                self.questions.insert(approval.question.id.clone(), now);
                self.meters.approvals_open.add(1, &[]);
            }
            FeedKind::ApprovalDecided(approval) => {
                let Some(asked) = self.questions.remove(&approval.question.id) else { return };
                self.meters.approvals_open.add(-1, &[]);
                self.meters.approval.record(
                    now.since(asked).as_secs_f64(),
                    &[
                        label("unified_exec.approval.kind", words::subject(&approval.question.subject)),
                        label("unified_exec.approval.state", words::decided(&approval.state)),
                    ],
                );
            }
            FeedKind::StartRefused { error, .. } => {
                self.meters.starts_refused.add(1, &[label("error.type", words::start_error(error))]);
            }
            FeedKind::AttemptStarted { process, attempt } => {
                self.started(now, *process, None);
                self.retried(attempt.number, "started");
            }
            FeedKind::SpawnFailed { process, attempt, error } => {
                self.started(now, *process, Some(words::spawn_error(error)));
                self.retried(*attempt, "failed");
            }
            FeedKind::AttemptDenied { process, attempt } => {
                self.died(*process);
                attempt.evidence.iter().for_each(|evidence| self.denied(evidence));
            }
            FeedKind::ProcessExited { process, exit, evidence } => {
                self.died(*process);
                self.meters.exits.add(1, &[label("unified_exec.end", words::end_reason(exit.reason))]);
                evidence.iter().for_each(|evidence| self.denied(evidence));
            }
            FeedKind::StdinWritten { from, to, .. } => self.meters.input.add(to.saturating_sub(*from), &[]),
            FeedKind::ProcessRemoved { process, pruned } => {
                if *pruned {
                    self.meters.prunes.add(1, &[]);
                } else {
                    self.processes.remove(process);
                }
            }
            FeedKind::ProcessStarted { .. }
            | FeedKind::Output { .. }
            | FeedKind::OutputEventsEnded { .. }
            | FeedKind::OutputsClosed { .. }
            | FeedKind::Interrupted { .. }
            | FeedKind::Cleaned { .. }
            | FeedKind::PolicyChanged { .. } => {}
        }
    }

    fn answered(&self, now: Instant, answer: &Answer) {
        if let Answer::Exec(Ok(result)) | Answer::Write(Ok(result)) = answer
            && let Some(exit) = &result.exit
        {
            self.meters.exit_to_result.record(now.since(exit.at).as_secs_f64(), &[]);
        }
    }
}

impl SessionTelemetry for Observer {
    fn called(&mut self, _: Instant, id: CallId, call: &Call, parent: &Span) {
        if let Some(spans) = &mut self.spans {
            spans.called(id, call, parent);
        }
    }

    fn happened(&mut self, now: Instant, event: &Event) {
        match event {
            Event::Output { process, attempt, end } | Event::Closed { process, attempt, end } => {
                self.output(now, *process, *attempt, *end);
            }
            Event::CallDropped { call } => {
                if let Some(spans) = &mut self.spans {
                    spans.dropped(*call);
                }
            }
            _ => {}
        }
    }

    fn effect(&mut self, now: Instant, effect: &Effect) {
        match effect {
            Effect::Spawn { process, attempt, plan } => self.starting(now, *process, *attempt, plan),
            Effect::Publish(event) => self.published(now, &event.kind),
            Effect::Reply { answer, .. } => self.answered(now, answer),
            Effect::Forget { process } => {
                self.died(*process);
                self.processes.remove(process);
            }
            Effect::Connect { answer, .. } => {
                let outcome = if answer.is_ok() { "allowed" } else { "refused" };
                self.meters.connections.add(1, &[label("unified_exec.outcome", outcome)]);
            }
            _ => {}
        }
        if let Some(spans) = &mut self.spans {
            spans.effect(now, effect, self.window);
        }
    }

    fn starting(&self, process: ProcessId, _: AttemptNumber) -> Span {
        self.spans.as_ref().map_or_else(Span::none, |spans| spans.start_of(process))
    }

    fn turned(&mut self, began: Instant, now: Instant, waited: Waiting) {
        self.meters.turn.record(now.since(began).as_secs_f64(), &[]);
        for (queue, waited) in [("calls", waited.calls), ("events", waited.events)] {
            let waited = u64::try_from(waited).unwrap_or(u64::MAX);
            self.meters.queued.record(waited, &[label("unified_exec.queue", queue)]);
        }
        if let Some(spans) = &mut self.spans {
            spans.turned(now);
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.meters.sessions.add(-1, &[]);
        let open = i64::try_from(self.questions.len()).unwrap_or(i64::MAX);
        self.meters.approvals_open.add(-open, &[]);
        let processes: Vec<ProcessId> = self.processes.keys().copied().collect();
        processes.into_iter().for_each(|process| self.died(process));
    }
}
