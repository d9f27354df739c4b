//! A process as it is, with what its logs hold.

use crate::core::session::ProcessView;
use crate::grpc::convert::{self, Held};
use crate::grpc::pb;
use crate::grpc::shared::Shared;
use crate::host::SessionHandle;

/// Describes a process; `descendants` are found by a walk through the system's processes.
pub(in crate::grpc) async fn describe(
    shared: &Shared,
    session: &SessionHandle,
    view: ProcessView,
    descendants: bool,
) -> pb::Process {
    let mut outputs = Vec::with_capacity(view.attempts.len());
    let mut alive = Vec::new();
    for attempt in &view.attempts {
        // A process that was forgotten since then is described without.
        let Some(opened) = session.open(view.id, Some(attempt.number)).await else { continue };
        let lost = opened.log.lost();
        let extent = opened.log.extent();
        let lost = if lost.is_empty() { (extent.end, extent.end) } else { (lost.start, lost.end) };
        outputs.push(Held { attempt: attempt.number, lost, end: extent.end, closed: extent.closed });
        if descendants && let Some(control) = opened.control {
            alive = control.descendants().await;
            alive.retain(|found| attempt.pid != Some(found.pid));
        }
    }
    convert::process(shared.host.clock(), session.id(), view, &outputs, alive)
}
