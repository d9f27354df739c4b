//! What the service says, in the model's words.

use std::collections::BTreeMap;

use bytes::Bytes;
use unified_exec::core::approval::{Approval, Subject};
use unified_exec::core::ids::ProcessId;
use unified_exec::core::policy::Confinement;
use unified_exec::core::process::{self, EndReason, ExitStatus};
use unified_exec::core::session::{
    CallResult, ConditionEnd, ControlError, ControlFailure, DecideError, EndReport, HoldError,
    InterruptReport, NotApproved, ProcessView, SessionView, StartError, State, TargetError, UpdateError,
    WaitEnd, WaitResult, WriteError,
};
use unified_exec::core::time::Instant;
use unified_exec::host::CallError;
use unified_exec::host::stream::Refused;

use crate::picture::{self, About, Collected, End, Exit, Held, Output, Refusal, Reply, Stage, Status, Why};

/// What a call came to, as it came.
#[derive(Debug)]
pub(super) enum Seen {
    Result(Box<CallResult>, Bytes),
    Refused(Box<CallError<Refused>>),
    Wait(Result<WaitResult, CallError<TargetError>>),
    Control(Result<(), CallError<ControlError>>),
    Terminate(Result<EndReport, CallError<TargetError>>),
    Ended(Option<EndReport>),
    Interrupted(Option<InterruptReport>),
    Held(Result<Option<Instant>, CallError<HoldError>>),
    Decided(Box<Result<Approval, CallError<DecideError>>>),
    Updated(Box<Result<SessionView, CallError<UpdateError>>>),
}

type Ranks = BTreeMap<ProcessId, usize>;

fn millis(at: Instant) -> u64 {
    at.since(Instant::ZERO).as_millis() as u64
}

fn exit(exit: &process::Exit) -> Exit {
    Exit {
        status: match exit.status {
            ExitStatus::Code(code) => Status::Code(code),
            ExitStatus::Signal { number, .. } => Status::Signal(number),
        },
        why: match exit.reason {
            EndReason::Exited | EndReason::Signalled => Why::Itself,
            EndReason::Timeout(_) => Why::Timeout,
            EndReason::Cleaned => Why::Cleaned,
            EndReason::Terminated => Why::Terminated,
            EndReason::Interrupted => Why::Interrupted,
            EndReason::Disconnected => Why::Disconnected,
            EndReason::Pruned => Why::Pruned,
            other => panic!("nothing here ends a process by {other:?}"),
        },
        lifetime: exit.lifetime.as_millis() as u64,
    }
}

pub(super) fn process(view: &ProcessView) -> picture::Process {
    picture::Process {
        stage: match view.state {
            State::Reserved => panic!("rules that answer at once leave nothing reserved"),
            State::Asking => Stage::Asking,
            State::Starting => Stage::Starting,
            State::Running => Stage::Running,
            State::Stopping => Stage::Stopping,
            State::Draining => Stage::Draining,
            State::Ended => Stage::Ended,
        },
        attempts: view
            .attempts
            .iter()
            .map(|attempt| {
                let held = match attempt.confinement {
                    Confinement::Unrestricted => Held::Free,
                    Confinement::Bypassed => Held::Bypassed,
                    Confinement::External => Held::External,
                    Confinement::Profile(_) => Held::Sandboxed,
                };
                (held, attempt.output_end, attempt.outputs_closed)
            })
            .collect(),
        exit: view.exit.as_ref().map(exit),
        cursor: view.cursor,
        committed: view.stdin_committed,
        stdin_open: view.stdin_open,
        has_descendants: view.has_descendants,
    }
}

pub(super) fn question(asked: &Approval, ranks: &Ranks) -> picture::Question {
    let about = match &asked.question.subject {
        Subject::Command => About::Start,
        Subject::Retry { .. } => About::Retry,
        Subject::Input { .. } => About::Input,
        Subject::Connection { .. } => panic!("nobody connects here"),
    };
    picture::Question { process: ranks[&asked.question.process], about }
}

pub(super) fn reply(seen: Option<&Seen>, hung_up: bool, ranks: &Ranks) -> Option<Reply> {
    if hung_up {
        return Some(Reply::HungUp);
    }
    Some(match seen? {
        Seen::Result(result, output) => Reply::Result(collected(result, output)),
        Seen::Refused(refused) => Reply::Refused(refused_call(refused)),
        Seen::Wait(Ok(result)) => Reply::Condition(match result.end {
            ConditionEnd::Met(_) => picture::ConditionEnd::Met,
            ConditionEnd::Ended => picture::ConditionEnd::Ended,
            ConditionEnd::TimedOut => picture::ConditionEnd::TimedOut,
            ConditionEnd::Interrupted => picture::ConditionEnd::Interrupted,
            ConditionEnd::Lost { .. } => panic!("nothing is lost of short outputs"),
        }),
        Seen::Control(Ok(())) => Reply::Done,
        Seen::Control(Err(CallError::Refused(error))) => Reply::Refused(match error {
            ControlError::Target(error) => target(error),
            ControlError::Starting { .. } => Refusal::Starting,
            ControlError::Failed(ControlFailure::Gone) => Refusal::Gone,
            ControlError::Failed(other) => panic!("a signal failed: {other}"),
        }),
        Seen::Terminate(Ok(report)) | Seen::Ended(Some(report)) => Reply::Gone(gone(report, ranks)),
        Seen::Wait(Err(CallError::Refused(error))) | Seen::Terminate(Err(CallError::Refused(error))) => {
            Reply::Refused(target(error))
        }
        Seen::Interrupted(Some(report)) => Reply::Interrupted {
            waits: report.waits,
            withdrawn: report.withdrawn,
            alive: sorted(&report.alive, ranks),
            one_shots: sorted(&report.one_shots, ranks),
        },
        Seen::Held(Ok(until)) => Reply::Held(until.map(millis)),
        Seen::Decided(decided) => match &**decided {
            Ok(_) => Reply::Done,
            Err(CallError::Refused(error)) => Reply::Refused(match error {
                DecideError::Unknown { .. } => Refusal::Unknown,
                DecideError::NotOpen { .. } => Refusal::NotOpen,
                DecideError::NotAllowed { .. } => Refusal::NotAllowed,
                DecideError::RuleEmpty => Refusal::NoRule,
                other => panic!("an answer was refused: {other}"),
            }),
            Err(CallError::SessionGone) => return None,
        },
        Seen::Updated(updated) => match &**updated {
            Ok(_) => Reply::Done,
            Err(CallError::Refused(error)) => Reply::Refused(match error {
                UpdateError::RevisionChanged { .. } => Refusal::RevisionChanged,
                UpdateError::CwdHeld { .. } => Refusal::CwdHeld,
                other => panic!("a change was refused: {other}"),
            }),
            Err(CallError::SessionGone) => return None,
        },
        other => panic!("{other:?}"),
    })
}

fn collected(result: &CallResult, output: &Bytes) -> Collected {
    Collected {
        end: match result.end {
            WaitEnd::Exited => End::Exited,
            WaitEnd::Yielded => End::Yielded,
            WaitEnd::Interrupted => End::Interrupted,
            WaitEnd::OneShotInterrupted => End::OneShotInterrupted,
            WaitEnd::Delivered => End::Delivered,
        },
        exit: result.exit.as_ref().map(exit),
        denied: result.evidence.is_some(),
        attempt: result.attempt.get() as usize,
        from: result.from,
        next: result.next,
        stdin: result.stdin,
        output: Output(output.clone()),
        alive: result.live_process().is_some(),
    }
}

fn refused_call(refused: &CallError<Refused>) -> Refusal {
    match refused {
        CallError::Refused(Refused::Start(error)) => match error {
            StartError::Forbidden(_) => Refusal::Forbidden,
            StartError::NotApproved(error) => not_approved(error),
            StartError::Spawn(_) => Refusal::SpawnFailed,
            StartError::TableFull { .. } => Refusal::TableFull,
            StartError::Cancelled => Refusal::Cancelled,
            other => panic!("a start was refused: {other}"),
        },
        CallError::Refused(Refused::Write(error)) => match error {
            WriteError::Target(error) => target(error),
            WriteError::NoStdin { .. } => Refusal::NoStdin,
            WriteError::StdinEnded { .. } => Refusal::StdinEnded,
            WriteError::NotStarted { .. } => Refusal::NotStarted,
            WriteError::NewTerminal { .. } => Refusal::NewTerminal,
            WriteError::Forbidden { .. } => Refusal::Forbidden,
            WriteError::ReviewTooLarge { .. } => Refusal::TooLarge,
            WriteError::ReviewNul { .. } => Refusal::Nul,
            WriteError::NotApproved(error) => not_approved(error),
            other => panic!("a write was refused: {other}"),
        },
        CallError::SessionGone => panic!("the session is gone"),
    }
}

const fn not_approved(error: &NotApproved) -> Refusal {
    match error {
        NotApproved::Declined { .. } | NotApproved::ReviewFailed { .. } => Refusal::Declined,
        NotApproved::TurnAborted { .. } => Refusal::Aborted,
        NotApproved::Expired { .. } => Refusal::Expired,
        NotApproved::Stale { .. } => Refusal::Stale,
    }
}

const fn target(error: &TargetError) -> Refusal {
    match error {
        TargetError::Unknown { .. } => Refusal::Unknown,
        TargetError::Gone { .. } => Refusal::Gone,
    }
}

fn sorted(ids: &[ProcessId], ranks: &Ranks) -> Vec<usize> {
    let mut sorted: Vec<usize> = ids.iter().map(|id| ranks[id]).collect();
    sorted.sort_unstable();
    sorted
}

fn gone(report: &EndReport, ranks: &Ranks) -> Vec<usize> {
    assert!(report.survivors.is_empty(), "everybody here can be killed: {report:?}");
    sorted(&report.ended.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ranks)
}
