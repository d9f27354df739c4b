//! The log that is being written: whoever records never waits, one task has it written.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::{Value, json};

use super::queue::{Lost, Queue};
use super::record::facts;
use super::writer::Writer;
use crate::core::ids::{RequestId, SessionId, TurnId};
use crate::core::session::FeedEvent;
use crate::host::Owner;
use crate::host::clock::Clock;
use crate::host::ports::Audit;

/// What comes within this time is written and synced as one: a sync for each record would cost a start a quarter of its time.
const GATHER: Duration = Duration::from_millis(5);

/// After a failure to write, this long until it is tried again: a full disk is not emptied by trying.
const RETRY: Duration = Duration::from_secs(1);

/// Where the log is, and how much of it stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// A directory, made with mode 0700 if it is not there; only this log's.
    pub directory: PathBuf,
    /// A file is followed by another before it grows beyond this many bytes; a single record may be larger.
    pub rotate_bytes: u64,
    /// Files that stay, at least 1; the oldest goes.
    pub keep_files: usize,
    /// Whether records are on the disk, and not only with the system, before more are written: they survive a power
    /// failure then. Nobody waits for it.
    pub fsync: bool,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another server writes there.
    #[error("another server keeps its audit log in {}", directory.display())]
    InUse {
        /// Where.
        directory: PathBuf,
    },
    /// Others could write there too.
    #[error("{} can be written by other users, who could change the record; `chmod 700` it, or name another", directory.display())]
    Exposed {
        /// Where.
        directory: PathBuf,
    },
    /// What is there is no log, or was changed.
    #[error("{}: {what}; `uexec audit verify` tells more, and the directory can be moved away", file.display())]
    Damaged {
        /// Which file.
        file: PathBuf,
        /// How.
        what: &'static str,
    },
    /// The system would not.
    #[error("{}: {source}", path.display())]
    System {
        /// On what.
        path: PathBuf,
        /// Its words.
        source: io::Error,
    },
}

/// The log. A cheap clone; what is recorded is written also after the last one is dropped, while the runtime lives.
#[derive(Clone, Debug)]
pub struct AuditLog {
    queue: Arc<Open>,
    clock: Clock,
}

/// Closes the queue when nobody can record any more.
#[derive(Debug)]
struct Open(Arc<Queue>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl AuditLog {
    /// Opens the log, goes on after its last line, and starts the task that writes. Blocks for the time of reading one
    /// file; must be called within a runtime.
    pub fn open(options: Options, clock: Clock) -> Result<Self, OpenError> {
        let (writer, recovered) = Writer::open(options)?;
        let queue = Arc::new(Queue::default());
        let log = Self { queue: Arc::new(Open(Arc::clone(&queue))), clock };
        if let Some(recovered) = recovered {
            tracing::warn!(%recovered, "the audit log does not end as it was left");
            log.add(Record { kind: "recovered", facts: recovered, ..Record::default() });
        }
        tokio::spawn(write_all(writer, queue, clock));
        Ok(log)
    }

    /// Resolves when everything recorded so far is written, or could not be.
    pub async fn flush(&self) {
        self.queue.0.flush().await;
    }

    fn add(&self, record: Record<'_>) {
        let time = now(self.clock);
        let rendered = Record { time: &time, ..record }.render();
        self.queue.0.push(rendered, &time);
    }
}

impl Audit for AuditLog {
    fn record(&self, session: &SessionId, owner: &Owner, event: &FeedEvent) {
        let Some((kind, facts)) = facts(event) else { return };
        self.add(Record {
            kind,
            session: Some(session.as_str()),
            owner: Some(owner.as_str()),
            event: Some(event.sequence),
            turn: event.turn.as_ref().map(TurnId::as_str),
            request: event.request.as_ref().map(RequestId::as_str),
            facts,
            ..Record::default()
        });
    }
}

/// A record without its place in the chain, in the order of its keys.
#[derive(Debug, Default, Serialize)]
struct Record<'a> {
    time: &'a str,
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<&'a str>,
    facts: Value,
}

impl Record<'_> {
    /// Without the opening brace: sequence and hash go there.
    fn render(&self) -> String {
        // Strings, numbers and maps with strings for keys cannot fail.
        let mut text = serde_json::to_string(self).unwrap_or_default();
        if !text.is_empty() {
            text.remove(0);
        }
        text
    }
}

/// Lives until nobody records any more, and all of it is written or cannot be.
async fn write_all(mut writer: Writer, queue: Arc<Queue>, clock: Clock) {
    let mut trouble = Trouble::default();
    loop {
        queue.arrival().await;
        tokio::select! {
            () = tokio::time::sleep(GATHER) => {}
            () = queue.pressed() => {}
        }
        let Some(taken) = queue.take().await else { return };
        let mut flushes = taken.flushes;
        let mut records = taken.records;
        records.extend(taken.lost.map(|lost| gap(&lost, clock)));
        loop {
            // Of these, not everything is in our hands.
            let late = queue.take_flushes();
            let result;
            (writer, records, result) = match append(writer, records).await {
                Some(written) => written,
                None => return queue.abandon(),
            };
            let failed = trouble.tell(result);
            if failed {
                flushes.extend(late);
            } else {
                queue.give_back(late);
            }
            for done in flushes.drain(..) {
                // Whoever waited may have stopped waiting.
                done.send(()).ok();
            }
            if !failed {
                break;
            }
            if queue.is_closed() {
                let records = records.len();
                if records > 0 {
                    tracing::error!(records, "the end of the audit log could not be written");
                }
                return queue.abandon();
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                () = queue.pressed() => {}
            }
        }
    }
}

/// Writes on a thread that may block; answers with what is not written. `None` if the runtime is ending, or the writer
/// has a defect.
async fn append(
    mut writer: Writer,
    mut records: VecDeque<String>,
) -> Option<(Writer, VecDeque<String>, io::Result<()>)> {
    let written = tokio::task::spawn_blocking(move || {
        let result = writer.append(&mut records);
        (writer, records, result)
    });
    written.await.inspect_err(|error| tracing::error!(%error, "the audit log is not written any more")).ok()
}

/// What goes wrong, told once until it is another thing or over.
#[derive(Debug, Default)]
struct Trouble(Option<io::ErrorKind>);

impl Trouble {
    /// Whether it failed.
    fn tell(&mut self, result: io::Result<()>) -> bool {
        let kind = result.as_ref().err().map(io::Error::kind);
        match &result {
            Err(error) if kind != self.0 => {
                tracing::error!(%error, "the audit log cannot be written; it is tried again, and what is lost will be told");
            }
            Ok(()) if self.0.is_some() => tracing::info!("the audit log can be written again"),
            _ => {}
        }
        self.0 = kind;
        result.is_err()
    }
}

fn gap(lost: &Lost, clock: Clock) -> String {
    let facts = json!({ "lost_records": lost.records, "since": lost.since });
    Record { time: &now(clock), kind: "gap", facts, ..Record::default() }.render()
}

fn now(clock: Clock) -> String {
    rfc3339(clock.to_wall(clock.now()))
}

/// RFC 3339, in UTC.
fn rfc3339(time: SystemTime) -> String {
    prost_types::Timestamp::from(time).to_string()
}
