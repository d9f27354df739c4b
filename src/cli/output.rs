//! Where output goes: the command's bytes to the streams they came from, ours to wherever people look.

use std::io::{self, IsTerminal as _, Write as _};

use tokio::io::AsyncWriteExt as _;

use super::failure::Failure;
use super::{exit, json, words};
use crate::grpc::pb;

/// Code of a writer whose reader has gone, as if SIGPIPE had ended it.
pub(super) const BROKEN_PIPE: u8 = exit::SIGNAL_BASE + 13;

/// Prints text to stdout.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(write_failed)
}

/// Tells something to people, on stderr. If nobody listens there, nobody needs to know.
pub(super) fn note(text: &str) {
    // A terminal may be in raw mode, where a new line alone does not begin at the left.
    let end = if io::stderr().is_terminal() { "\r\n" } else { "\n" };
    write!(io::stderr().lock(), "uexec: {}{end}", words::shown_lines(text, end)).ok();
}

/// Tells several lines to people, below one that says what they are.
pub(super) fn block(title: &str, lines: &str) {
    note(&lines.lines().fold(format!("{title}:"), |text, line| text + "\n  " + line));
}

/// Output that cannot be written.
pub(super) fn write_failed(error: io::Error) -> Failure {
    let failure = Failure::new(format!("cannot write output: {error}"));
    if error.kind() == io::ErrorKind::BrokenPipe { failure.quiet(BROKEN_PIPE) } else { failure }
}

/// Writes a command's output as it comes, each stream to its own.
#[derive(Debug)]
pub(super) struct Sink {
    stdout: tokio::io::Stdout,
    stderr: tokio::io::Stderr,
    json: bool,
}

impl Sink {
    /// A sink that writes bytes, or JSON lines.
    pub(super) fn new(json: bool) -> Self {
        Self { stdout: tokio::io::stdout(), stderr: tokio::io::stderr(), json }
    }

    /// Whether JSON lines are wanted.
    pub(super) const fn is_json(&self) -> bool {
        self.json
    }

    /// Writes a frame, and returns when it is out.
    pub(super) async fn output(&mut self, frame: &pb::Output) -> Result<(), Failure> {
        if self.json {
            return self.line(&serde_json::json!({ "output": json::output(frame)? })).await;
        }
        let written = match frame.stream() {
            pb::Stream::Stderr => write(&mut self.stderr, &frame.data).await,
            _ => write(&mut self.stdout, &frame.data).await,
        };
        written.map_err(write_failed)
    }

    /// Tells about bytes that are lost.
    pub(super) async fn gap(&mut self, gap: &pb::Gap) -> Result<(), Failure> {
        if self.json {
            return self.line(&serde_json::json!({ "gap": json::value("Gap", gap)? })).await;
        }
        note(&format!(
            "{} bytes are no longer retained (offsets {} to {})",
            gap.end - gap.start,
            gap.start,
            gap.end
        ));
        Ok(())
    }

    /// Tells that somebody is asked, and how to answer.
    pub(super) async fn asked(&mut self, pending: &pb::ApprovalPending) -> Result<(), Failure> {
        if self.json {
            return self.item("approval_pending", json::value("ApprovalPending", pending)?).await;
        }
        let (id, reason) = (&pending.approval_id, &pending.reason);
        note(&format!("waiting for approval {id}: {reason} (uexec approvals approve {id})"));
        Ok(())
    }

    /// Writes an item of the stream that only programs care for.
    pub(super) async fn item(&mut self, name: &str, value: serde_json::Value) -> Result<(), Failure> {
        if !self.json {
            return Ok(());
        }
        let line: serde_json::Map<String, serde_json::Value> =
            [(name.to_owned(), value)].into_iter().collect();
        self.line(&line.into()).await
    }

    /// Writes bytes that are no frame, such as what puts a terminal in order again.
    pub(super) async fn raw(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        write(&mut self.stdout, bytes).await.map_err(write_failed)
    }

    async fn line(&mut self, value: &serde_json::Value) -> Result<(), Failure> {
        write(&mut self.stdout, format!("{value}\n").as_bytes()).await.map_err(write_failed)
    }
}

/// Flushed each time: the order between stdout and stderr is the order of the log.
async fn write(to: &mut (impl tokio::io::AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}
