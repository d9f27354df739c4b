//! What a script cannot say: the service points of the cases, by the case's name.

mod input;
mod life;
mod output;
mod sandbox;
mod start;
mod upkeep;

use tempfile::TempDir;
use tokio::sync::MutexGuard;
use unified_exec::grpc::pb;

use crate::ALONE;
use crate::client::Session;
use crate::server::Server;

/// A server, a directory and a session there, for one test at a time.
struct Stage {
    session: Session,
    dir: TempDir,
    server: Server,
    _alone: MutexGuard<'static, ()>,
}

impl Stage {
    async fn set() -> Self {
        let alone = ALONE.lock().await;
        Self::on(alone, Server::start().await).await
    }

    /// On a server that a shell line starts, see [`Server::start_by`].
    async fn set_by(line: &str) -> Self {
        let alone = ALONE.lock().await;
        Self::on(alone, Server::start_by(line).await).await
    }

    async fn on(alone: MutexGuard<'static, ()>, server: Server) -> Self {
        let dir = tempfile::Builder::new().prefix("uxcase.").tempdir().unwrap();
        let session = server.client().await.session(dir.path()).await;
        Self { session, dir, server, _alone: alone }
    }
}

/// The output in a result's text for a model, without its header lines.
fn output(result: &pb::ExecResult) -> &str {
    let text = &result.text.as_ref().unwrap().text;
    text.split_once("Output:\n").map_or("", |(_, output)| output)
}

fn code(result: &pb::ExecResult) -> Option<i32> {
    result.exit.as_ref().map(|exit| exit.shell_code)
}

/// A start that returns after the shortest wait.
fn short(request: pb::ExecCommandRequest) -> pb::ExecCommandRequest {
    pb::ExecCommandRequest { yield_time_ms: Some(250), ..request }
}

/// A start on a terminal.
fn on_terminal(request: pb::ExecCommandRequest) -> pb::ExecCommandRequest {
    pb::ExecCommandRequest { tty: true, ..request }
}
