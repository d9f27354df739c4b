//! `uexec events`: what happens in a session.

use crate::cli::args::Global;
use crate::cli::failure::Failure;
use crate::cli::output::{self, Sink};
use crate::cli::session::SessionArg;
use crate::cli::{exit, json, words};
use crate::grpc::pb;
use crate::grpc::pb::event::Kind;
use crate::grpc::pb::watch_session_response::Item;

/// Watch what happens in a session
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// Begin after this event; 0 begins with the oldest that is kept [default: with what comes]
    #[arg(long, value_name = "SEQUENCE")]
    after: Option<u64>,
}

/// Watches until the session is closed.
pub(crate) async fn run(global: &Global, args: Args) -> Result<u8, Failure> {
    let mut client = global.connect().await?;
    let session_id = args.session.resolve(&mut client).await?;
    let request =
        pb::WatchSessionRequest { session_id, after_sequence: args.after, keepalive_interval_ms: 0 };
    let mut items = client.session.watch_session(request).await?.into_inner();
    let mut sink = Sink::new(global.json);
    while let Some(answer) = items.message().await? {
        match answer.item {
            Some(Item::Event(event)) if sink.is_json() => {
                sink.item("event", json::value("Event", &event)?).await?;
            }
            Some(Item::Event(event)) => output::print(&line(&event))?,
            Some(Item::FeedGap(gap)) => {
                sink.item("feed_gap", json::value("FeedGap", &gap)?).await?;
                output::note(&format!("events {} to {} are no longer kept", gap.start, gap.end));
            }
            Some(Item::Draining(_)) => output::note("the server shuts down"),
            Some(Item::Keepalive(_)) | None => {}
        }
    }
    Ok(exit::OK)
}

/// `17 2026-01-01T00:00:00Z 1234 process_exited exited with code 0`
fn line(event: &pb::Event) -> String {
    let time = event.time.as_ref().map_or_else(String::new, prost_types::Timestamp::to_string);
    let process = if event.process_id == 0 { "-".to_owned() } else { event.process_id.to_string() };
    let (kind, facts) = event.kind.as_ref().map_or(("unknown", String::new()), told);
    let line = format!("{} {time} {process} {kind} {facts}", event.sequence);
    words::shown(line.trim_end()) + "\n"
}

/// ` by uid:1000: not today`
fn by(decision: &pb::Decision) -> String {
    let text = if decision.text.is_empty() { String::new() } else { format!(": {}", decision.text) };
    format!(" by {}{text}", decision.decided_by)
}

fn told(kind: &Kind) -> (&'static str, String) {
    let ended = |exit: &Option<pb::Exit>| exit.as_ref().map_or_else(String::new, exit::words);
    match kind {
        Kind::ApprovalRequested(asked) => {
            let kind = words::name(asked.kind().as_str_name(), "APPROVAL_KIND_");
            ("approval_requested", format!("{} {kind}: {}", asked.approval_id, asked.reason))
        }
        Kind::ApprovalDecided(asked) => {
            let state = words::name(asked.state().as_str_name(), "APPROVAL_STATE_");
            let by = asked.decision.as_ref().map_or_else(String::new, by);
            ("approval_decided", format!("{} {state}{by}", asked.approval_id))
        }
        Kind::StartRefused(refused) => ("start_refused", format!("{}: {}", refused.reason, refused.message)),
        Kind::AttemptStarted(started) => {
            let held = started.enforced.as_ref().map_or_else(String::new, words::held);
            ("attempt_started", format!("{} pid {} {held}", started.attempt, started.os_pid))
        }
        Kind::AttemptDenied(denied) => {
            ("attempt_denied", denied.evidence.as_ref().map_or_else(String::new, words::evidence))
        }
        Kind::SpawnFailed(failed) => (
            "spawn_failed",
            failed.failure.as_ref().map_or_else(String::new, |failure| failure.message.clone()),
        ),
        Kind::ProcessStarted(started) => ("process_started", words::command(&started.argv)),
        Kind::Output(range) => ("output", format!("{}..{}", range.start, range.end)),
        Kind::StdinWritten(range) => ("stdin_written", format!("{}..{}", range.start, range.end)),
        Kind::ProcessExited(exited) => ("process_exited", ended(&exited.exit)),
        Kind::OutputsClosed(closed) => ("outputs_closed", format!("at {}", closed.end)),
        Kind::ProcessRemoved(removed) => {
            ("process_removed", words::name(removed.reason().as_str_name(), "REMOVE_REASON_"))
        }
        Kind::Interrupted(interrupted) => ("interrupted", format!("{} waits", interrupted.waits_ended)),
        Kind::Cleaned(cleaned) => ("cleaned", format!("{} processes", cleaned.ended)),
        Kind::PolicyChanged(changed) => ("policy_changed", changed.fields.join(", ")),
        Kind::OutputEventsEnded(ended) => ("output_events_ended", format!("after {}", ended.limit)),
    }
}
