//! Events of a session's feed, on the way out.

use super::approval::approval;
use super::command::LOCAL;
use super::process::{attempt_denied, attempt_started, evidence};
use super::{exit, timestamp};
use crate::core::ids::{AttemptNumber, ProcessId, RequestId, SessionId, TurnId};
use crate::core::session::{FeedEvent, FeedKind};
use crate::core::spawn::SpawnError;
use crate::grpc::pb;
use crate::grpc::status::{Place, reason_of};
use crate::host::clock::Clock;
use pb::event::Kind;

/// An event.
pub(in crate::grpc) fn event(clock: Clock, session: &SessionId, event: &FeedEvent) -> pb::Event {
    let (process, attempt, kind) = kind(clock, session, event);
    let turn = match &event.kind {
        FeedKind::Interrupted { turn, .. } => Some(turn),
        _ => event.turn.as_ref(),
    };
    pb::Event {
        sequence: event.sequence,
        time: Some(timestamp(clock, event.at)),
        turn_id: turn.map(TurnId::to_string).unwrap_or_default(),
        request_id: event.request.as_ref().map(RequestId::to_string).unwrap_or_default(),
        process_id: process.map_or(0, ProcessId::get),
        attempt: attempt.map_or(0, |attempt| u32::from(attempt.get())),
        kind: Some(kind),
    }
}

type About = (Option<ProcessId>, Option<AttemptNumber>, Kind);

fn kind(clock: Clock, session: &SessionId, event: &FeedEvent) -> About {
    match &event.kind {
        FeedKind::ApprovalRequested(asked) => {
            let requested = Kind::ApprovalRequested(approval(clock, session, asked));
            (Some(asked.question.process), None, requested)
        }
        FeedKind::ApprovalDecided(asked) => {
            let decided = Kind::ApprovalDecided(approval(clock, session, asked));
            (Some(asked.question.process), None, decided)
        }
        FeedKind::StartRefused { process, argv, error } => {
            let status = Place { clock, session }.start((**error).clone(), false);
            let refused = pb::StartRefused {
                argv: argv.clone(),
                reason: reason_of(&status),
                message: status.message().to_owned(),
            };
            (Some(*process), None, Kind::StartRefused(refused))
        }
        FeedKind::AttemptStarted { process, attempt } => {
            let started = Kind::AttemptStarted(attempt_started(clock, attempt));
            (Some(*process), Some(attempt.number), started)
        }
        FeedKind::AttemptDenied { process, attempt } => {
            (Some(*process), Some(attempt.number), Kind::AttemptDenied(attempt_denied(clock, attempt)))
        }
        FeedKind::SpawnFailed { process, attempt, error } => {
            let failed = pb::SpawnFailed { failure: Some(spawn_failure(error)) };
            (Some(*process), Some(*attempt), Kind::SpawnFailed(failed))
        }
        FeedKind::ProcessStarted { process, argv, cwd, terminal, stdin, one_shot } => {
            let started = pb::ProcessStarted {
                argv: argv.clone(),
                cwd: cwd.clone(),
                environment_id: LOCAL.to_owned(),
                tty: *terminal,
                stdin_open: *stdin,
                one_shot: *one_shot,
            };
            (Some(*process), None, Kind::ProcessStarted(started))
        }
        FeedKind::Output { process, attempt, from, to } => {
            let appended = pb::OutputAppended { start: *from, end: *to };
            (Some(*process), Some(*attempt), Kind::Output(appended))
        }
        FeedKind::OutputEventsEnded { process, limit } => {
            (Some(*process), None, Kind::OutputEventsEnded(pb::OutputEventsEnded { limit: *limit }))
        }
        FeedKind::StdinWritten { process, from, to, eof, incomplete } => {
            let written = pb::StdinWritten { start: *from, end: *to, eof: *eof, incomplete: *incomplete };
            (Some(*process), None, Kind::StdinWritten(written))
        }
        FeedKind::ProcessExited { process, exit: end, evidence: sign } => {
            let exited =
                pb::ProcessExited { exit: Some(exit(clock, end)), evidence: sign.as_ref().map(evidence) };
            (Some(*process), None, Kind::ProcessExited(exited))
        }
        FeedKind::OutputsClosed { process, attempt, end } => {
            (Some(*process), Some(*attempt), Kind::OutputsClosed(pb::OutputsClosed { end: *end }))
        }
        FeedKind::ProcessRemoved { process, pruned } => {
            let reason = if *pruned { pb::RemoveReason::Pruned } else { pb::RemoveReason::Ended };
            (Some(*process), None, Kind::ProcessRemoved(pb::ProcessRemoved { reason: reason.into() }))
        }
        FeedKind::Interrupted { waits, withdrawn, .. } => {
            let interrupted = pb::Interrupted { waits_ended: *waits, approvals_withdrawn: *withdrawn };
            (None, None, Kind::Interrupted(interrupted))
        }
        FeedKind::Cleaned { ended, survivors } => {
            (None, None, Kind::Cleaned(pb::Cleaned { ended: *ended, survivors: *survivors }))
        }
        FeedKind::PolicyChanged { revision, fields } => {
            let fields = fields.iter().map(ToString::to_string).collect();
            (None, None, Kind::PolicyChanged(pb::PolicyChanged { policy_revision: *revision, fields }))
        }
    }
}

/// Why an attempt could not be started.
fn spawn_failure(error: &SpawnError) -> pb::SpawnFailure {
    use pb::SpawnFailureKind as Of;
    let (kind, path) = match error {
        SpawnError::ProgramMissing { program } => (Of::ProgramNotFound, program.as_str()),
        SpawnError::ProgramDenied { program } | SpawnError::ProgramFormat { program } => {
            (Of::ProgramNotExecutable, program.as_str())
        }
        SpawnError::InterpreterMissing { interpreter, .. } => (Of::InterpreterNotFound, interpreter.as_str()),
        SpawnError::CwdMissing { path } => (Of::CwdNotFound, path.as_str()),
        SpawnError::CwdDenied { path, .. } => (Of::CwdNotAccessible, path.as_str()),
        SpawnError::TooLarge { program, .. } => (Of::ArgumentsTooLarge, program.as_str()),
        SpawnError::Exhausted { .. } => (Of::Exhausted, ""),
        SpawnError::SandboxUnavailable { .. } | SpawnError::LimitUnenforceable { .. } => (Of::Sandbox, ""),
        SpawnError::System { path, .. } => (Of::Other, path.as_str()),
    };
    pb::SpawnFailure { kind: kind.into(), path: path.to_owned(), message: error.to_string() }
}
