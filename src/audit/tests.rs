//! The log as it is written, and as somebody changes it.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{AuditLog, Break, OpenError, Options, verify};
use crate::core::approval::{Approval, Permissions, Question, State, Subject};
use crate::core::ids::{ApprovalId, ProcessId, SessionId, TurnId};
use crate::core::policy::Profile;
use crate::core::session::{FeedEvent, FeedKind};
use crate::host::Owner;
use crate::host::clock::Clock;
use crate::host::ports::Audit as _;

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().expect("a directory"))
    }

    fn directory(&self) -> PathBuf {
        self.0.path().join("audit")
    }

    fn open(&self, rotate_bytes: u64, keep_files: usize) -> Result<AuditLog, OpenError> {
        AuditLog::open(Options { directory: self.directory(), rotate_bytes, keep_files }, Clock::start())
    }

    /// A log of this many records, closed.
    async fn of(count: u64) -> Self {
        let place = Self::new();
        let log = place.open(1 << 20, 4).expect("opened");
        record(&log, 1..=count).await;
        place.close(log).await;
        place
    }

    fn file(&self, number: u64) -> PathBuf {
        super::chain::file(&self.directory(), number)
    }

    fn lines(&self, number: u64) -> Vec<String> {
        fs::read_to_string(self.file(number)).expect("read").lines().map(str::to_owned).collect()
    }

    fn rewrite(&self, lines: &[String]) {
        fs::write(self.file(1), lines.iter().map(|line| format!("{line}\n")).collect::<String>())
            .expect("written");
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
}

fn event(sequence: u64, kind: FeedKind) -> FeedEvent {
    FeedEvent { sequence, at: Clock::start().now(), turn: None, request: None, kind }
}

async fn record(log: &AuditLog, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        let kind = FeedKind::Interrupted { turn: TurnId::new("turn"), waits: 1, withdrawn: 0 };
        log.record(&SessionId::new("ses_1"), &Owner::new("alice"), &event(number, kind));
    }
    log.flush().await;
}

fn broken_at(place: &Place) -> (u64, String) {
    match verify(&place.directory()) {
        Err(Break::Line { line, what, .. }) => (line, what),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_was_recorded_is_there_in_order_and_whole() {
    let place = Place::of(3).await;
    let report = verify(&place.directory()).expect("whole");
    assert_eq!((report.records, report.files), (3, 1));
    assert!(report.first.is_some() && report.first <= report.last);
    for (index, line) in place.lines(1).iter().enumerate() {
        let record: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(record["seq"], index as u64 + 1);
        assert_eq!(record["event"], index as u64 + 1);
        assert_eq!(
            (&record["kind"], &record["session"], &record["owner"]),
            (&"interrupted".into(), &"ses_1".into(), &"alice".into())
        );
    }
}

#[tokio::test]
async fn only_its_user_can_read_it() {
    let place = Place::of(1).await;
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&place.directory()), 0o700);
    assert_eq!(mode(&place.file(1)), 0o600);
}

#[tokio::test]
async fn a_restart_goes_on_with_the_chain() {
    let place = Place::of(2).await;
    let log = place.open(1 << 20, 4).expect("opened again");
    record(&log, 1..=2).await;
    assert_eq!(verify(&place.directory()).expect("whole").records, 4);
}

#[tokio::test]
async fn a_second_writer_is_refused() {
    let place = Place::new();
    let _log = place.open(1 << 20, 4).expect("opened");
    assert!(matches!(place.open(1 << 20, 4), Err(OpenError::InUse { .. })));
}

#[tokio::test]
async fn full_files_are_followed_by_others_and_the_oldest_go() {
    let place = Place::new();
    let log = place.open(600, 3).expect("opened");
    for number in 1..=20 {
        record(&log, [number]).await;
    }
    let report = verify(&place.directory()).expect("whole");
    assert_eq!(report.files, 3);
    assert!(report.records < 20 && !place.file(1).exists(), "{report:?}");
    place.close(log).await;
    let log = place.open(600, 3).expect("opened again");
    record(&log, [21]).await;
    verify(&place.directory()).expect("whole over restarts and files");
    let middle = super::chain::files(&place.directory()).expect("listed")[1].1.clone();
    fs::remove_file(middle).expect("removed");
    let (line, what) = broken_at(&place);
    assert!(line == 1 && what.contains("follows record"), "{what}");
}

#[tokio::test]
async fn a_changed_record_is_found() {
    let place = Place::of(4).await;
    let mut lines = place.lines(1);
    lines[1] = lines[1].replace("alice", "mallory");
    place.rewrite(&lines);
    assert_eq!(broken_at(&place), (3, "the record before it was changed".to_owned()));
}

#[tokio::test]
async fn a_changed_last_record_is_found() {
    let place = Place::of(4).await;
    let mut lines = place.lines(1);
    lines[3] = lines[3].replace("alice", "mallory");
    place.rewrite(&lines);
    assert!(broken_at(&place).1.contains("last record was changed"));
}

#[tokio::test]
async fn a_record_taken_out_is_found() {
    let place = Place::of(4).await;
    let mut lines = place.lines(1);
    lines.remove(1);
    place.rewrite(&lines);
    assert_eq!(broken_at(&place), (2, "record 3 follows record 1".to_owned()));
}

#[tokio::test]
async fn records_in_another_order_are_found() {
    let place = Place::of(4).await;
    let mut lines = place.lines(1);
    lines.swap(1, 2);
    place.rewrite(&lines);
    assert_eq!(broken_at(&place).0, 2);
}

#[tokio::test]
async fn an_end_that_was_cut_off_is_found() {
    let place = Place::of(4).await;
    place.rewrite(&place.lines(1)[..2]);
    assert!(matches!(verify(&place.directory()), Err(Break::CutOff { ends: 2, written: 4 })));
    place.rewrite(&[]);
    assert!(matches!(verify(&place.directory()), Err(Break::CutOff { ends: 0, written: 4 })));
}

#[tokio::test]
async fn a_line_that_a_crash_cut_short_is_dropped_and_told() {
    let place = Place::of(2).await;
    let mut file = OpenOptions::new().append(true).open(place.file(1)).expect("there");
    file.write_all(b"{\"seq\":3,\"pre").expect("written");
    assert_eq!(broken_at(&place), (3, "the line has no end".to_owned()));
    let log = place.open(1 << 20, 4).expect("opened again");
    record(&log, [3]).await;
    assert_eq!(verify(&place.directory()).expect("whole").records, 4);
    let told: serde_json::Value = serde_json::from_str(&place.lines(1)[2]).expect("JSON");
    assert_eq!((&told["kind"], &told["facts"]["torn_bytes"]), (&"recovered".into(), &13.into()));
}

#[tokio::test]
async fn a_file_that_is_no_log_is_not_added_to() {
    let place = Place::of(1).await;
    fs::write(place.file(1), "not a record\n").expect("written");
    assert!(matches!(place.open(1 << 20, 4), Err(OpenError::Damaged { .. })));
    assert_eq!(place.lines(1), ["not a record"]);
}

#[tokio::test]
async fn what_cannot_wait_is_counted_and_told() {
    let place = Place::new();
    let log = place.open(1 << 30, 4).expect("opened");
    // The task does not run between these: nothing here waits.
    for number in 1..=10_000 {
        let kind = FeedKind::Interrupted { turn: TurnId::new("turn"), waits: 1, withdrawn: 0 };
        log.record(&SessionId::new("ses_1"), &Owner::new("alice"), &event(number, kind));
    }
    log.flush().await;
    let report = verify(&place.directory()).expect("whole");
    let lines = place.lines(1);
    let gaps: Vec<serde_json::Value> = lines
        .iter()
        .filter(|line| line.contains(r#""kind":"gap""#))
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let lost: u64 = gaps.iter().filter_map(|gap| gap["facts"]["lost_records"].as_u64()).sum();
    assert!(lost > 0, "more than fits was recorded");
    assert_eq!(report.records - gaps.len() as u64 + lost, 10_000);
}

#[tokio::test]
async fn input_is_kept_as_its_length_only() {
    let place = Place::new();
    let log = place.open(1 << 20, 4).expect("opened");
    let question = Question {
        id: ApprovalId::new("apr_1"),
        process: ProcessId::new(1_007).expect("a number"),
        turn: TurnId::new("turn"),
        request: None,
        subject: Subject::Input { input: "hunter2".into(), eof: false },
        argv: vec!["bash".to_owned()],
        cwd: "/".to_owned(),
        environment: String::new(),
        tty: true,
        permissions: Permissions::Default,
        profile: Profile::full_access(),
        justification: String::new(),
        reason: "stdin is reviewed".to_owned(),
        rule: None,
        proposed_rule: Vec::new(),
        strict: false,
        policy_revision: 1,
        allowed: Vec::new(),
        asked_at: Clock::start().now(),
        expires_at: None,
    };
    let approval = Box::new(Approval { question, state: State::Open });
    log.record(
        &SessionId::new("ses_1"),
        &Owner::new("alice"),
        &event(1, FeedKind::ApprovalRequested(approval)),
    );
    log.flush().await;
    let line = place.lines(1).concat();
    let record: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(record["facts"]["about"], serde_json::json!({ "kind": "input", "bytes": 7, "eof": false }));
    assert!(!line.contains("hunter2"), "{line}");
}
