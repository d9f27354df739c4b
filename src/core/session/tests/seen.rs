//! What can be seen of a session: answers, progress, what was done to processes, the feed.

use super::bench::Bench;
use crate::core::ids::{CallId, ProcessId};
use crate::core::session::*;

impl Bench {
    pub(super) fn answers(&self, call: CallId) -> Vec<&Answer> {
        self.effects
            .iter()
            .filter_map(|(_, effect)| match effect {
                Effect::Reply { call: to, answer } if *to == call => Some(answer),
                _ => None,
            })
            .collect()
    }

    pub(super) fn answer(&self, call: CallId) -> &Answer {
        match self.answers(call)[..] {
            [answer] => answer,
            ref others => panic!("{call:?} has {} answers: {others:?}", others.len()),
        }
    }

    pub(super) fn waits(&self, call: CallId) -> bool {
        self.answers(call).is_empty()
    }

    pub(super) fn result(&self, call: CallId) -> &CallResult {
        match self.answer(call) {
            Answer::Exec(Ok(result)) | Answer::Write(Ok(result)) => result,
            other => panic!("{call:?} was answered {other:?}"),
        }
    }

    pub(super) fn start_error(&self, call: CallId) -> &StartError {
        match self.answer(call) {
            Answer::Exec(Err(error)) => error,
            other => panic!("{call:?} was answered {other:?}"),
        }
    }

    pub(super) fn write_error(&self, call: CallId) -> &WriteError {
        match self.answer(call) {
            Answer::Write(Err(error)) => error,
            other => panic!("{call:?} was answered {other:?}"),
        }
    }

    pub(super) fn wait_end(&self, call: CallId) -> ConditionEnd {
        match self.answer(call) {
            Answer::Wait(Ok(result)) => result.end,
            other => panic!("{call:?} was answered {other:?}"),
        }
    }

    pub(super) fn report(&self, call: CallId) -> &EndReport {
        match self.answer(call) {
            Answer::Ended(report) | Answer::Terminate(Ok(report)) => report,
            other => panic!("{call:?} was answered {other:?}"),
        }
    }

    pub(super) fn process_of(&self, call: CallId) -> ProcessId {
        let about = self.progress(call).into_iter().find_map(|progress| match progress {
            Progress::Collecting { process, .. } => Some(*process),
            Progress::Asking { question } => Some(question.process),
            _ => None,
        });
        about.expect("the call collects, or waits for an answer")
    }

    pub(super) fn progress(&self, call: CallId) -> Vec<&Progress> {
        self.effects
            .iter()
            .filter_map(|(_, effect)| match effect {
                Effect::Progress { call: to, progress } if *to == call => Some(progress),
                _ => None,
            })
            .collect()
    }

    pub(super) fn view(&mut self, process: ProcessId) -> Option<ProcessView> {
        let call = self.call(Call::Get { process });
        match self.answer(call) {
            Answer::Process(Ok(view)) => Some((**view).clone()),
            Answer::Process(Err(_)) => None,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn state(&mut self, process: ProcessId) -> Option<State> {
        self.view(process).map(|view| view.state)
    }

    pub(super) fn spawns(&self) -> usize {
        self.effects.iter().filter(|(_, effect)| matches!(effect, Effect::Spawn { .. })).count()
    }

    /// Deliveries begun: their number, text, and whether they end the input.
    pub(super) fn writes(&self, process: ProcessId) -> Vec<(u64, String, bool)> {
        self.effects
            .iter()
            .filter_map(|(_, effect)| match effect {
                Effect::Write { process: to, write, data, eof } if *to == process => {
                    Some((write.0, String::from_utf8_lossy(data).into_owned(), *eof))
                }
                _ => None,
            })
            .collect()
    }

    pub(super) fn stops(&self) -> usize {
        self.effects.iter().filter(|(_, effect)| matches!(effect, Effect::StopWrite { .. })).count()
    }

    /// What was done to a process to make it stop: `1000 TERM Tree`, `2000 KILL`, `4000 survey`.
    pub(super) fn blows(&self, process: ProcessId) -> Vec<String> {
        self.effects
            .iter()
            .filter_map(|(at, effect)| {
                let blow = match effect {
                    Effect::Signal { process: to, signal, scope, .. } if *to == process => {
                        format!("{} {scope:?}", signal.name())
                    }
                    Effect::KillTree { process: to } if *to == process => "KILL".into(),
                    Effect::Survey { process: to } if *to == process => "survey".into(),
                    _ => return None,
                };
                Some(format!("{} {blow}", at.as_nanos() / 1_000_000))
            })
            .collect()
    }

    pub(super) fn signals_sent(&self) -> usize {
        self.effects
            .iter()
            .filter(|(_, effect)| matches!(effect, Effect::Signal { .. } | Effect::KillTree { .. }))
            .count()
    }

    /// The feed, as `150 process_exited code=0`; `0 output 0..5`.
    pub(super) fn feed(&self) -> Vec<String> {
        let events = self.effects.iter().filter_map(|(_, effect)| match effect {
            Effect::Publish(event) => Some(event),
            _ => None,
        });
        events.map(|event| format!("{} {}", event.at.as_nanos() / 1_000_000, told(&event.kind))).collect()
    }

    /// Times in the feed at which an event of this name came.
    pub(super) fn told(&self, name: &str) -> Vec<String> {
        self.feed().into_iter().filter(|line| line.split(' ').nth(1) == Some(name)).collect()
    }
}

fn stands(state: &crate::core::approval::State) -> &'static str {
    use crate::core::approval::State;
    match state {
        State::Open => "open",
        State::Decided(decision) if decision.verdict.approves() => "approved",
        State::Decided(_) => "declined",
        State::ReviewFailed { .. } => "review_failed",
        State::Expired { .. } => "expired",
        State::Withdrawn { .. } => "withdrawn",
    }
}

fn told(kind: &FeedKind) -> String {
    match kind {
        FeedKind::ApprovalRequested(approval) => format!("approval_requested {}", approval.question.reason),
        FeedKind::ApprovalDecided(approval) => format!("approval_decided {}", stands(&approval.state)),
        FeedKind::StartRefused { error, .. } => format!("start_refused {error}"),
        FeedKind::AttemptStarted { attempt, .. } => format!("attempt_started {}", attempt.number.get()),
        FeedKind::AttemptDenied { .. } => "attempt_denied".into(),
        FeedKind::SpawnFailed { .. } => "spawn_failed".into(),
        FeedKind::ProcessStarted { .. } => "process_started".into(),
        FeedKind::Output { from, to, .. } => format!("output {from}..{to}"),
        FeedKind::OutputEventsEnded { .. } => "output_events_ended".into(),
        FeedKind::StdinWritten { from, to, eof, .. } => {
            format!("stdin_written {from}..{to}{}", if *eof { " eof" } else { "" })
        }
        FeedKind::ProcessExited { exit, .. } => {
            format!("process_exited {} {:?}", exit.shell_code(), exit.reason)
        }
        FeedKind::OutputsClosed { end, .. } => format!("outputs_closed {end}"),
        FeedKind::ProcessRemoved { pruned, .. } => format!("process_removed pruned={pruned}"),
        FeedKind::Interrupted { turn, waits, .. } => format!("interrupted {turn} {waits}"),
        FeedKind::Cleaned { ended, survivors } => format!("cleaned {ended} {survivors}"),
        FeedKind::PolicyChanged { revision, .. } => format!("policy_changed {revision}"),
    }
}
