//! The log that is being written: one task adds to one file, whoever records never waits.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::chain::{HEAD, ORIGIN, file, files, hash};
use super::record::facts;
use crate::core::ids::SessionId;
use crate::core::session::FeedEvent;
use crate::host::Owner;
use crate::host::clock::Clock;
use crate::host::ports::Audit;

/// Records that may wait to be written; what comes beyond is counted and told as a gap.
const QUEUE_BOUND: usize = 8_192;
/// Records written in one go.
const BATCH: usize = 512;
/// After a failure to write, this long until it is tried again: a full disk is not emptied by trying.
const RETRY: Duration = Duration::from_secs(1);

/// Where the log is, and how much of it stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// A directory, made with mode 0700 if it is not there; only this log's.
    pub directory: PathBuf,
    /// A file that has grown to this many bytes is followed by another.
    pub rotate_bytes: u64,
    /// Files that stay, at least 1; the oldest goes.
    pub keep_files: usize,
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
    /// What is there is no log, or was damaged.
    #[error("{}: {what}; `uexec audit verify` tells more, and the directory can be moved away", file.display())]
    Damaged {
        /// Which file.
        file: PathBuf,
        /// How.
        what: String,
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

/// The log. A cheap clone.
#[derive(Clone, Debug)]
pub struct AuditLog {
    orders: mpsc::Sender<Order>,
    lost: Arc<AtomicU64>,
    clock: Clock,
}

#[derive(Debug)]
enum Order {
    Add(Value),
    Flush(oneshot::Sender<()>),
}

impl AuditLog {
    /// Opens the log, goes on after its last line, and starts the task that writes. Blocks for the time of reading one
    /// file; must be called within a runtime.
    pub fn open(options: Options, clock: Clock) -> Result<Self, OpenError> {
        let (writer, torn) = Writer::open(options)?;
        let (orders, queue) = mpsc::channel(QUEUE_BOUND);
        let lost = Arc::new(AtomicU64::new(0));
        let log = Self { orders, lost: Arc::clone(&lost), clock };
        if torn > 0 {
            log.add(json!({ "kind": "recovered", "facts": { "torn_bytes": torn } }));
        }
        tokio::spawn(write_all(writer, queue, lost, clock));
        Ok(log)
    }

    /// Resolves when everything recorded so far is written, or could not be.
    pub async fn flush(&self) {
        let (done, told) = oneshot::channel();
        if self.orders.send(Order::Flush(done)).await.is_ok() {
            told.await.ok();
        }
    }

    fn add(&self, mut record: Value) {
        if let Value::Object(map) = &mut record {
            map.insert("time".to_owned(), rfc3339(self.clock.to_wall(self.clock.now())).into());
        }
        if self.orders.try_send(Order::Add(record)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Audit for AuditLog {
    fn record(&self, session: &SessionId, owner: &Owner, event: &FeedEvent) {
        let Some((kind, facts)) = facts(event) else { return };
        self.add(json!({
            "kind": kind,
            "session": session.as_str(),
            "owner": owner.as_str(),
            "event": event.sequence,
            "turn": event.turn.as_ref().map(|turn| turn.as_str()),
            "request": event.request.as_ref().map(|request| request.as_str()),
            "facts": facts,
        }));
    }
}

/// Lives as long as anybody records.
async fn write_all(mut writer: Writer, mut queue: mpsc::Receiver<Order>, lost: Arc<AtomicU64>, clock: Clock) {
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, BATCH).await > 0 {
        let mut records = Vec::new();
        let mut flushes = Vec::new();
        for order in batch.drain(..) {
            match order {
                Order::Add(record) => records.push(record),
                Order::Flush(done) => flushes.push(done),
            }
        }
        let gone = lost.swap(0, Ordering::Relaxed);
        if gone > 0 {
            let time = rfc3339(clock.to_wall(clock.now()));
            records.push(json!({ "kind": "gap", "time": time, "facts": { "lost_records": gone } }));
        }
        writer = add_to(writer, records, &lost).await;
        for done in flushes {
            done.send(()).ok();
        }
    }
}

/// Writes on a thread that may block. What cannot be written is lost, which the next record that can be tells.
async fn add_to(writer: Writer, records: Vec<Value>, lost: &Arc<AtomicU64>) -> Writer {
    let counting = Arc::clone(lost);
    let mut writer = writer;
    let written = tokio::task::spawn_blocking(move || {
        let count = records.len() as u64;
        let result = writer.add(records);
        if result.is_err() {
            counting.fetch_add(count, Ordering::Relaxed);
        }
        (writer, result)
    });
    match written.await {
        Ok((writer, Ok(()))) => writer,
        Ok((writer, Err(error))) => {
            tracing::error!(%error, "the audit log cannot be written; what is lost will be told");
            tokio::time::sleep(RETRY).await;
            writer
        }
        // The runtime is ending, or the writer has a defect: nothing more is written.
        Err(_) => std::future::pending().await,
    }
}

/// The end of the chain, and the file it is in.
#[derive(Debug)]
struct Writer {
    options: Options,
    number: u64,
    file: File,
    length: u64,
    sequence: u64,
    last: String,
    /// Held as long as the log is open.
    _lock: File,
}

impl Writer {
    /// Goes on after the last whole line; answers how many bytes of an unfinished one were cut off.
    fn open(options: Options) -> Result<(Self, u64), OpenError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::System { path, source }
        };
        let directory = options.directory.clone();
        if let Err(error) = fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory) {
            return Err(at(&directory)(error));
        }
        let lock_path = directory.join("lock");
        let lock =
            private().create(true).truncate(false).write(true).open(&lock_path).map_err(at(&lock_path))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(OpenError::InUse { directory });
        }
        let (number, path) =
            files(&directory).map_err(at(&directory))?.pop().unwrap_or_else(|| (1, file(&directory, 1)));
        let file = private().create(true).append(true).read(true).open(&path).map_err(at(&path))?;
        let end = End::of(&file).map_err(at(&path))?;
        if end.torn > 0 {
            file.set_len(end.whole).map_err(at(&path))?;
        }
        let (sequence, last) = match end.last {
            None => head(&directory).unwrap_or_else(|| (0, ORIGIN.to_owned())),
            Some(line) => match serde_json::from_slice::<Value>(&line).ok().and_then(|it| it["seq"].as_u64())
            {
                Some(sequence) => (sequence, hash(&line)),
                None => {
                    return Err(OpenError::Damaged {
                        file: path,
                        what: "its last line is no record".to_owned(),
                    });
                }
            },
        };
        let writer = Self { options, number, file, length: end.whole, sequence, last, _lock: lock };
        Ok((writer, end.torn))
    }

    fn add(&mut self, records: Vec<Value>) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let (mut sequence, mut last) = (self.sequence, self.last.clone());
        let mut bytes = Vec::new();
        for mut record in records {
            sequence += 1;
            if let Value::Object(map) = &mut record {
                map.insert("seq".to_owned(), sequence.into());
                map.insert("prev".to_owned(), last.into());
            }
            let line = serde_json::to_vec(&record).map_err(io::Error::other)?;
            last = hash(&line);
            bytes.extend_from_slice(&line);
            bytes.push(b'\n');
        }
        if self.length > 0 && self.length + bytes.len() as u64 > self.options.rotate_bytes {
            self.rotate()?;
        }
        if let Err(error) = self.file.write_all(&bytes) {
            // A part of it may be there: the chain goes on after what was whole.
            self.file.set_len(self.length).ok();
            return Err(error);
        }
        self.length += bytes.len() as u64;
        (self.sequence, self.last) = (sequence, last);
        if let Err(error) = self.tell_head() {
            // What was recorded is there; only a cut at its end would not be noticed.
            tracing::warn!(%error, "the end of the audit log cannot be told");
        }
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let next = file(&self.options.directory, self.number + 1);
        self.file = private().create_new(true).append(true).open(next)?;
        (self.number, self.length) = (self.number + 1, 0);
        let files = files(&self.options.directory)?;
        let excess = files.len().saturating_sub(self.options.keep_files.max(1));
        files.into_iter().take(excess).try_for_each(|(_, path)| fs::remove_file(path))
    }

    /// Where the chain ends, beside it: whole or not at all.
    fn tell_head(&self) -> io::Result<()> {
        let path = self.options.directory.join(HEAD);
        let fresh = self.options.directory.join(".head");
        let mut file = private().create(true).truncate(true).write(true).open(&fresh)?;
        file.write_all(json!({ "seq": self.sequence, "hash": self.last }).to_string().as_bytes())?;
        fs::rename(fresh, path)
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Where the chain ended, as it was told beside it.
pub(super) fn head(directory: &Path) -> Option<(u64, String)> {
    let told: Value = serde_json::from_slice(&fs::read(directory.join(HEAD)).ok()?).ok()?;
    Some((told["seq"].as_u64()?, told["hash"].as_str()?.to_owned()))
}

/// What the last file ends with.
struct End {
    last: Option<Vec<u8>>,
    /// Bytes of whole lines.
    whole: u64,
    /// Bytes after the last whole line.
    torn: u64,
}

impl End {
    fn of(file: &File) -> io::Result<Self> {
        let mut reader = BufReader::new(file);
        let mut end = Self { last: None, whole: 0, torn: 0 };
        loop {
            let mut line = Vec::new();
            let length = reader.read_until(b'\n', &mut line)? as u64;
            match line.pop() {
                None => return Ok(end),
                Some(b'\n') => {
                    end.whole += length;
                    end.last = Some(line);
                }
                Some(_) => {
                    end.torn = length;
                    return Ok(end);
                }
            }
        }
    }
}

/// RFC 3339, in UTC.
fn rfc3339(time: SystemTime) -> String {
    prost_types::Timestamp::from(time).to_string()
}
