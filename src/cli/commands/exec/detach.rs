//! A command that is let go: it lives on in a session where it can be found again.

use std::path::Path;

use super::{Args, created};
use crate::cli::args::Global;
use crate::cli::connect::Client;
use crate::cli::failure::Failure;
use crate::cli::output::{self, Sink};
use crate::cli::session::{FOR_DETACHED, LABEL};
use crate::cli::{exit, json, session as sessions};
use crate::grpc::pb;
use crate::grpc::pb::exec_command_response::Item;

/// The session of all processes that were let go, so that there is one to find them in.
pub(super) async fn session(client: &mut Client, args: &Args) -> Result<String, Failure> {
    let known = sessions::all(client).await?;
    let ours = |session: &pb::Session| session.labels.get(LABEL).is_some_and(|made| made == FOR_DETACHED);
    match known.into_iter().find(ours) {
        Some(session) if args.sandbox.is_none() => Ok(session.session_id),
        _ => created(
            client
                .session
                .create_session(args.session(FOR_DETACHED, client.same_machine))
                .await?
                .into_inner(),
        ),
    }
}

/// Starts it, and says which process it is.
pub(super) async fn start(
    mut client: Client,
    global: &Global,
    args: &Args,
    session: String,
) -> Result<u8, Failure> {
    let mut request = args.request(session.clone());
    if let Some(command) = &mut request.command
        && client.same_machine
        && args.session.named().is_none()
    {
        command.cwd = here_joined(&command.cwd);
    }
    let mut items = client.exec.exec_command(request).await?.into_inner();
    let mut sink = Sink::new(global.json);
    let mut process_id = None;
    while let Some(item) = items.message().await? {
        match item.item {
            Some(Item::Started(started)) => process_id = Some(started.process_id),
            Some(Item::ApprovalPending(asked)) => sink.asked(&asked).await?,
            Some(Item::Result(result)) => {
                if let Some(end) = &result.exit {
                    output::note(&format!("it has {} already", exit::words(end)));
                }
            }
            _ => {}
        }
    }
    let process_id =
        process_id.ok_or_else(|| Failure::new("the server did not say which process it started"))?;
    if global.json {
        json::print(&serde_json::json!({ "session_id": session, "process_id": process_id }))?;
    } else {
        output::print(&format!("{process_id}\n"))?;
    }
    Ok(exit::OK)
}

/// The session of detached processes may have been made elsewhere: relative paths start where we are.
fn here_joined(cwd: &str) -> String {
    let Ok(here) = std::env::current_dir() else { return cwd.to_owned() };
    here.join(Path::new(cwd))
        .to_str()
        .map_or_else(|| cwd.to_owned(), |dir| dir.trim_end_matches('/').to_owned())
}
