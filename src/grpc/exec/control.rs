//! Signals and sizes.

use tonic::Status;

use crate::core::command::TerminalSize;
use crate::core::ids::ProcessId;
use crate::core::signal::{Scope, Signal};
use crate::grpc::shared::Shared;
use crate::grpc::{convert, pb, status};
use crate::host::SessionHandle;

/// The signal of a name.
pub(super) fn named(field: &str, name: &str) -> Result<Signal, Status> {
    if name.is_empty() {
        return Ok(convert::invalid(field, "is required; give a name such as TERM, or a number")?);
    }
    convert::id(field, name)?;
    Signal::parse(name).ok_or_else(|| status::unknown_signal(field, name))
}

/// Whom a signal reaches; `unsaid` if nothing was said.
pub(super) fn scope(wire: i32, unsaid: Scope) -> convert::Valid<Scope> {
    match pb::SignalScope::try_from(wire) {
        Ok(pb::SignalScope::Unspecified) => Ok(unsaid),
        Ok(pb::SignalScope::Process) => Ok(Scope::Process),
        Ok(pb::SignalScope::Group) => Ok(Scope::Group),
        Ok(pb::SignalScope::ForegroundGroup) => Ok(Scope::Foreground),
        Ok(pb::SignalScope::Tree) => Ok(Scope::Tree),
        Err(_) => convert::invalid("scope", format!("{wire} is no value of SignalScope")),
    }
}

/// Sends a signal, and says whom it was sent to.
pub(in crate::grpc) async fn signal(
    shared: &Shared,
    session: &SessionHandle,
    wire: &pb::SignalProcessRequest,
) -> Result<pb::SignalProcessResponse, Status> {
    let process = convert::process_id(wire.process_id)?;
    convert::turn(&wire.turn_id)?;
    let signal = named("signal", &wire.signal)?;
    let scope = scope(wire.scope, Scope::Group)?;
    // Before it is sent: those whom it ends are not found any more.
    let os_pids = reached(session, process, scope).await;
    send(shared, session, process, signal, scope).await?;
    Ok(pb::SignalProcessResponse { signal: signal.to_string(), number: signal.number(), os_pids })
}

pub(super) async fn send(
    shared: &Shared,
    session: &SessionHandle,
    process: ProcessId,
    signal: Signal,
    scope: Scope,
) -> Result<(), Status> {
    let sent = session.signal(process, signal, scope).await;
    sent.map_err(|error| shared.place(session).call(error, |place, error| place.control(process, error)))
}

async fn reached(session: &SessionHandle, process: ProcessId, scope: Scope) -> Vec<u32> {
    let Some(opened) = session.open(process, None).await else { return Vec::new() };
    let Some(control) = opened.control else { return Vec::new() };
    let leader = opened.view.attempts.last().and_then(|attempt| attempt.pid);
    let alive = leader.filter(|_| opened.view.exit.is_none());
    match scope {
        // The leader of its session leads its group.
        Scope::Process | Scope::Group => alive.into_iter().collect(),
        Scope::Foreground => control.foreground().or(alive).into_iter().collect(),
        Scope::Tree => {
            let mut pids: Vec<u32> = alive.into_iter().collect();
            pids.extend(control.descendants().await.into_iter().map(|found| found.pid));
            pids.sort_unstable();
            pids.dedup();
            pids
        }
    }
}

/// Sets the size of a terminal.
pub(in crate::grpc) async fn resize(
    shared: &Shared,
    session: &SessionHandle,
    process: ProcessId,
    size: TerminalSize,
) -> Result<(), Status> {
    let resized = session.resize(process, size).await;
    resized.map_err(|error| shared.place(session).call(error, |place, error| place.control(process, error)))
}
