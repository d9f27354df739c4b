//! The real server: the built binary on a runtime directory of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::{Child, Command};
use tonic::transport::{Channel, Endpoint};

use unified_exec::grpc::pb::approval_service_client::ApprovalServiceClient;

use crate::client::Client;
use crate::procfs;

/// A running server. Ends with this value.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    runtime: TempDir,
    /// Whose it is, if it is not ours.
    pub(crate) user: Option<u32>,
}

fn runtime_directory() -> TempDir {
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().prefix("uxrun.").permissions(private).tempdir().unwrap()
}

/// The id of the user and group that own nothing.
const NOBODY: u32 = 65_534;

impl Server {
    /// Starts it as it is.
    pub(crate) async fn start() -> Self {
        let runtime = runtime_directory();
        let mut command = Command::new(env!("CARGO_BIN_EXE_uexec"));
        command.args(Self::arguments(runtime.path()));
        Self::spawn(command, runtime).await
    }

    /// Starts it, as root, as the user nobody.
    pub(crate) async fn start_as_nobody() -> Self {
        let runtime = runtime_directory();
        std::os::unix::fs::chown(runtime.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        let mut command = Command::new("/usr/bin/setpriv");
        let user = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".into()];
        command.args(user).arg(env!("CARGO_BIN_EXE_uexec")).args(Self::arguments(runtime.path()));
        let mut server = Self::spawn(command, runtime).await;
        server.user = Some(NOBODY);
        server
    }

    /// Starts it on a runtime directory that was used before.
    pub(crate) async fn start_on(runtime: TempDir) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_uexec"));
        command.args(Self::arguments(runtime.path()));
        Self::spawn(command, runtime).await
    }

    /// Starts it from a shell line, in which `"$@"` stands for the server; the line must `exec` it.
    pub(crate) async fn start_by(line: &str) -> Self {
        let runtime = runtime_directory();
        let mut command = Command::new("/bin/bash");
        command.args(["-c", line, "bash", env!("CARGO_BIN_EXE_uexec")]);
        command.args(Self::arguments(runtime.path()));
        Self::spawn(command, runtime).await
    }

    fn arguments(runtime: &Path) -> Vec<String> {
        vec![
            "serve".into(),
            "--allow-full-access".into(),
            "--runtime-dir".into(),
            runtime.display().to_string(),
        ]
    }

    async fn spawn(mut command: Command, runtime: TempDir) -> Self {
        let log = if std::env::var_os("SERVER_LOG").is_some() { Stdio::inherit() } else { Stdio::null() };
        // The rules of whoever runs the tests are no part of them, nor are they readable for another user.
        let child = command
            .env("HOME", runtime.path())
            .env_remove("XDG_CONFIG_HOME")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let server = Self { child, runtime, user: None };
        let up = procfs::until(Duration::from_secs(20), || server.socket("agent").exists()).await;
        assert!(up, "the server did not come up");
        server
    }

    fn socket(&self, role: &str) -> PathBuf {
        self.runtime.path().join(format!("{role}.sock"))
    }

    /// A client of its own connection.
    pub(crate) async fn client(&self) -> Client {
        Client::new(self.channel("agent").await)
    }

    /// Somebody who answers questions.
    pub(crate) async fn reviewer(&self) -> ApprovalServiceClient<Channel> {
        ApprovalServiceClient::new(self.channel("reviewer").await)
    }

    async fn channel(&self, role: &str) -> Channel {
        let address = format!("unix:{}", self.socket(role).display());
        // A small window: what a client has not asked for yet is not sent ahead, so that a call whose stream is left
        // unread holds its process back.
        let endpoint = Endpoint::from_shared(address.clone()).unwrap().initial_stream_window_size(65_535);
        let mut tries = 0;
        loop {
            match endpoint.connect().await {
                Ok(channel) => return channel,
                Err(error) if tries == 50 => panic!("cannot connect to {address}: {error}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
            tries += 1;
        }
    }

    /// How it ended, if it is gone though nobody here stopped it.
    pub(crate) fn lost(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(format!(
            "the server is gone: {status}; its runtime directory exists: {}",
            self.runtime.path().exists()
        ))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Kills it without a chance to tidy up; gives back what it leaves.
    pub(crate) async fn kill(mut self) -> TempDir {
        self.child.kill().await.unwrap();
        self.runtime
    }
}
