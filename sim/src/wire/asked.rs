//! A step as a request of the wire.

use unified_exec::core::ids::ProcessId;
use unified_exec::grpc::pb;

use crate::scenario::{self, Additional, Scope, When};

fn millis(millis: Option<u64>) -> Option<u32> {
    millis.map(|millis| u32::try_from(millis).unwrap_or(u32::MAX))
}

fn turn(when: &When) -> String {
    when.turn.clone().unwrap_or_else(|| "t".into())
}

fn id(process: Option<ProcessId>) -> u32 {
    process.map_or(0, ProcessId::get)
}

fn command(when: &When) -> pb::Command {
    let (permissions, additional) = match &when.additional {
        Some(Additional { read, write, deny_read, network }) => (
            pb::SandboxPermissions::WithAdditionalPermissions,
            Some(pb::AdditionalPermissions {
                read: read.clone(),
                write: write.clone(),
                deny_read: deny_read.clone(),
                network: *network,
            }),
        ),
        None if when.escalate == Some(true) => (pb::SandboxPermissions::RequireEscalated, None),
        None => (pb::SandboxPermissions::UseDefault, None),
    };
    pb::Command {
        cmd: when.cmd.clone().unwrap_or_default(),
        sandbox_permissions: permissions.into(),
        additional_permissions: additional,
        justification: when.justification.clone().unwrap_or_default(),
        prefix_rule: when.propose.clone().unwrap_or_default(),
        kill_descendants_on_exit: when.kill_descendants_on_exit == Some(true),
        ..pb::Command::default()
    }
}

pub(super) fn exec(when: &When, session: String, request: String) -> pb::ExecCommandRequest {
    pb::ExecCommandRequest {
        session_id: session,
        turn_id: turn(when),
        request_id: request,
        command: Some(command(when)),
        tty: when.tty == Some(true),
        stdin: when.stdin == Some(true),
        yield_time_ms: millis(when.yield_ms),
        no_output_timeout_ms: millis(when.no_output_timeout).unwrap_or_default(),
        hard_timeout_ms: millis(when.hard_timeout).unwrap_or_default(),
        after_disconnect_timeout_ms: millis(when.after_disconnect).unwrap_or_default(),
        follow: when.mode == Some(scenario::Mode::Follow),
        ..pb::ExecCommandRequest::default()
    }
}

pub(super) fn one_shot(when: &When, session: String, request: String) -> pb::ExecToCompletionRequest {
    pb::ExecToCompletionRequest {
        session_id: session,
        turn_id: turn(when),
        request_id: request,
        command: Some(command(when)),
        timeout_ms: millis(when.timeout),
        ..pb::ExecToCompletionRequest::default()
    }
}

fn input(when: &When) -> Vec<u8> {
    when.input.as_deref().unwrap_or_default().repeat(when.times.unwrap_or(1)).into_bytes()
}

pub(super) fn write(when: &When, session: String, process: Option<ProcessId>) -> pb::WriteStdinRequest {
    pb::WriteStdinRequest {
        session_id: session,
        process_id: id(process),
        turn_id: turn(when),
        request_id: when.request.clone().unwrap_or_default(),
        content: Some(pb::write_stdin_request::Content::Input(input(when).into())),
        eof: when.eof == Some(true),
        offset: when.offset,
        yield_time_ms: millis(when.yield_ms),
        ..pb::WriteStdinRequest::default()
    }
}

/// A frame of a stream, with what opens the stream before it and the end of the input after it, as it is asked.
pub(super) fn frames(
    when: &When,
    session: String,
    process: Option<ProcessId>,
) -> Vec<pb::StreamStdinRequest> {
    use pb::stream_stdin_request::Item;
    let open = pb::StdinOpen {
        session_id: session,
        process_id: id(process),
        turn_id: turn(when),
        request_id: when.request.clone().unwrap_or_default(),
        offset: None,
    };
    let data = pb::StdinData { offset: when.offset, data: input(when).into() };
    let eof = (when.eof == Some(true)).then_some(Item::Eof(pb::StdinEof {}));
    let items = [Item::Open(open), Item::Data(data)].into_iter().chain(eof);
    items.map(|item| pb::StreamStdinRequest { item: Some(item) }).collect()
}

pub(super) fn wait(when: &When, session: String, process: Option<ProcessId>) -> pb::WaitRequest {
    use pb::wait_request::Condition;
    pb::WaitRequest {
        session_id: session,
        process_id: id(process),
        turn_id: turn(when),
        cursor: None,
        condition: match when.until {
            Some(scenario::Until::Exit) => Some(Condition::Exit(true)),
            Some(scenario::Until::Closed) => Some(Condition::Closed(true)),
            Some(scenario::Until::Output) => Some(Condition::Regex("(?s-u).".into())),
            None => None,
        },
        timeout_ms: millis(when.timeout),
    }
}

pub(super) fn attach(when: &When, session: String, process: Option<ProcessId>) -> pb::AttachRequest {
    pb::AttachRequest {
        session_id: session,
        process_id: id(process),
        turn_id: turn(when),
        ..pb::AttachRequest::default()
    }
}

pub(super) fn interrupt(when: &When, session: String) -> pb::InterruptRequest {
    pb::InterruptRequest { session_id: session, turn_id: turn(when) }
}

pub(super) fn clean(when: &When, session: String) -> pb::CleanBackgroundTerminalsRequest {
    pb::CleanBackgroundTerminalsRequest { session_id: session, turn_id: turn(when) }
}

pub(super) fn terminate(
    when: &When,
    session: String,
    process: Option<ProcessId>,
) -> pb::TerminateProcessRequest {
    pb::TerminateProcessRequest { session_id: session, process_id: id(process), turn_id: turn(when) }
}

pub(super) fn signal(when: &When, session: String, process: Option<ProcessId>) -> pb::SignalProcessRequest {
    pb::SignalProcessRequest {
        session_id: session,
        process_id: id(process),
        turn_id: turn(when),
        signal: when.signal.clone().unwrap_or_default(),
        scope: match when.scope {
            None | Some(Scope::Process) => pb::SignalScope::Process,
            Some(Scope::Group) => pb::SignalScope::Group,
            Some(Scope::Foreground) => pb::SignalScope::ForegroundGroup,
            Some(Scope::Tree) => pb::SignalScope::Tree,
        }
        .into(),
    }
}

pub(super) fn hold(when: &When, session: String) -> pb::HoldDeadlinesRequest {
    pb::HoldDeadlinesRequest {
        session_id: session,
        turn_id: turn(when),
        lease_id: when.lease.clone().unwrap_or_default(),
        duration_ms: millis(when.duration),
        reason: String::new(),
    }
}

pub(super) fn decide(when: &When, session: String, approval: String) -> pb::DecideApprovalRequest {
    use scenario::Verdict;
    let verdict = match when.verdict {
        None => pb::Verdict::Unspecified,
        Some(Verdict::Approve) => pb::Verdict::Approve,
        Some(Verdict::ApproveForSession) => pb::Verdict::ApproveForSession,
        Some(Verdict::ApproveAndAddRule) => pb::Verdict::ApproveAndAddRule,
        Some(Verdict::Decline) => pb::Verdict::Decline,
        Some(Verdict::AbortTurn) => pb::Verdict::AbortTurn,
    };
    pb::DecideApprovalRequest {
        approval_id: approval,
        session_id: session,
        digest: bytes::Bytes::new(),
        verdict: verdict.into(),
        text: when.text.clone().unwrap_or_default(),
        prefix_rule: when.rule.clone().unwrap_or_default(),
    }
}
