//! The log as it is written, and as somebody changes it.

mod changed;
mod kept;
mod written;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use super::{AuditLog, Broken, Damage, OpenError, Options, Report, verify};
use crate::core::ids::{SessionId, TurnId};
use crate::core::session::{FeedEvent, FeedKind};
use crate::host::Owner;
use crate::host::clock::Clock;
use crate::host::ports::Audit as _;

/// More than any test writes.
const LARGE: u64 = 1 << 30;
/// A few records.
const SMALL: u64 = 700;

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().expect("a directory"))
    }

    fn directory(&self) -> PathBuf {
        self.0.path().join("audit")
    }

    fn open(&self, rotate_bytes: u64, keep_files: usize) -> Result<AuditLog, OpenError> {
        let options = Options { directory: self.directory(), rotate_bytes, keep_files, fsync: true };
        AuditLog::open(options, Clock::start())
    }

    /// A log of this many records, closed.
    async fn of(count: u64) -> Self {
        let place = Self::new();
        place.continued(LARGE, count).await;
        place
    }

    /// One more life of a server, with this many records.
    async fn continued(&self, rotate_bytes: u64, count: u64) {
        let log = self.open(rotate_bytes, 100).expect("opened");
        record(&log, 1..=count).await;
        self.close(log).await;
    }

    fn file(&self, number: u64) -> PathBuf {
        super::chain::file(&self.directory(), number)
    }

    fn text(&self, number: u64) -> String {
        fs::read_to_string(self.file(number)).expect("read")
    }

    fn records(&self, number: u64) -> Vec<Value> {
        self.text(number).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Changes the lines of the first file.
    fn rewrite(&self, change: impl FnOnce(&mut Vec<String>)) {
        let mut lines = self.text(1).lines().map(str::to_owned).collect();
        change(&mut lines);
        fs::write(self.file(1), lines.iter().map(|line| format!("{line}\n")).collect::<String>())
            .expect("written");
    }

    fn append(&self, bytes: &[u8]) {
        let mut file = OpenOptions::new().append(true).open(self.file(1)).expect("there");
        file.write_all(bytes).expect("written");
    }

    /// The lock goes with the task, which ends some time after the last handle.
    async fn close(&self, log: AuditLog) {
        log.flush().await;
        drop(log);
        let lock = OpenOptions::new().write(true).open(self.directory().join("lock")).expect("there");
        while rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            tokio::task::yield_now().await;
        }
    }

    #[track_caller]
    fn whole(&self) -> Report {
        verify(&self.directory()).expect("whole")
    }

    #[track_caller]
    fn broken(&self) -> (String, u64, Damage) {
        match verify(&self.directory()) {
            Err(Broken::Break { file, line, damage, .. }) => {
                (file.file_name().expect("a name").to_string_lossy().into_owned(), line, damage)
            }
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn broken_at(&self, line: u64, damage: Damage) {
        assert_eq!(self.broken(), ("audit-00000001.jsonl".to_owned(), line, damage));
    }
}

fn event(number: u64) -> FeedEvent {
    let kind = FeedKind::Interrupted { turn: TurnId::new("turn"), waits: 1, withdrawn: 0 };
    FeedEvent { sequence: number, at: Clock::start().now(), turn: None, request: None, kind }
}

async fn record(log: &AuditLog, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        log.record(&SessionId::new("ses_1"), &Owner::new("alice"), &event(number));
    }
    log.flush().await;
}
