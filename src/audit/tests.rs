//! The log as it is written, and as somebody changes it.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

use super::head::HEAD;
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

#[tokio::test]
async fn what_was_recorded_is_there_in_order_and_whole() {
    let place = Place::of(3).await;
    let report = place.whole();
    assert_eq!((report.records, report.files, report.sequence, report.lost), (3, 1, 3, 0));
    assert!(report.first.is_some() && report.first <= report.last);
    for (index, record) in place.records(1).iter().enumerate() {
        assert_eq!(record["seq"], index as u64 + 1);
        assert_eq!(record["event"], index as u64 + 1);
        assert_eq!(
            (&record["kind"], &record["session"], &record["owner"]),
            (&"interrupted".into(), &"ses_1".into(), &"alice".into())
        );
    }
}

/// What docs/audit.md says, for whoever checks without us.
#[tokio::test]
async fn a_line_names_the_sha256_of_the_line_before() {
    use sha2::{Digest as _, Sha256};
    let place = Place::of(2).await;
    let text = place.text(1);
    let mut lines = text.lines();
    let (first, second) = (lines.next().expect("a line"), lines.next().expect("a line"));
    assert!(first.starts_with(&format!(r#"{{"seq":1,"prev":"{}","time":""#, "0".repeat(64))), "{first}");
    let digest: String = Sha256::digest(first.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(second.starts_with(&format!(r#"{{"seq":2,"prev":"{digest}","#)), "{second}");
}

#[tokio::test]
async fn only_its_user_can_read_it() {
    let place = Place::of(1).await;
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&place.directory()), 0o700);
    for file in [place.file(1), place.directory().join(HEAD), place.directory().join("lock")] {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    fs::set_permissions(place.directory(), fs::Permissions::from_mode(0o720)).expect("changed");
    assert!(matches!(place.open(LARGE, 4), Err(OpenError::Exposed { .. })));
}

#[tokio::test]
async fn a_restart_goes_on_with_the_chain() {
    let place = Place::of(2).await;
    place.continued(LARGE, 2).await;
    assert_eq!(place.whole().records, 4);
    assert_eq!(place.records(1)[3]["seq"], 4);
}

#[tokio::test]
async fn a_server_that_ended_before_its_first_record_leaves_a_whole_log() {
    let place = Place::of(0).await;
    assert_eq!((place.whole().records, place.whole().sequence), (0, 0));
    place.continued(LARGE, 1).await;
    assert_eq!(place.whole().records, 1);
}

#[tokio::test]
async fn a_second_writer_is_refused() {
    let place = Place::new();
    let _log = place.open(LARGE, 4).expect("opened");
    assert!(matches!(place.open(LARGE, 4), Err(OpenError::InUse { .. })));
}

#[tokio::test]
async fn full_files_are_followed_by_others_and_the_oldest_go() {
    let place = Place::new();
    let log = place.open(SMALL, 3).expect("opened");
    record(&log, 1..=20).await;
    let report = place.whole();
    assert_eq!((report.files, report.sequence), (3, 20));
    assert!(report.records < 20 && !place.file(1).exists(), "{report:?}");
    for (_, file) in super::chain::files(&place.directory()).expect("listed") {
        assert!(fs::metadata(&file).expect("there").len() <= SMALL, "{}", file.display());
    }
    place.close(log).await;
    let log = place.open(SMALL, 3).expect("opened again");
    record(&log, [21]).await;
    assert_eq!(place.whole().sequence, 21);
}

#[tokio::test]
async fn a_file_taken_away_is_missed_wherever_it_was() {
    for taken in 0..3 {
        let place = Place::new();
        place.continued(SMALL, 12).await;
        let files = super::chain::files(&place.directory()).expect("listed");
        assert!(files.len() > 3, "{files:?}");
        let at = [0, 1, files.len() - 1][taken];
        fs::remove_file(&files[at].1).expect("removed");
        let (_, _, damage) = place.broken();
        let expected = [Damage::Missing, Damage::Missing, Damage::Truncated][taken];
        assert_eq!(damage, expected, "file {at}");
    }
}

#[tokio::test]
async fn a_changed_record_is_named_whatever_of_it_was_changed() {
    for line in 1..=4 {
        let place = Place::of(4).await;
        place.rewrite(|lines| lines[line - 1] = lines[line - 1].replace("alice", "mallory"));
        place.broken_at(line as u64, Damage::Edited);
    }
    for line in 2..=4 {
        let place = Place::of(4).await;
        place.rewrite(|lines| lines[line - 1] = lines[line - 1].replace(r#""prev":""#, r#""prev":"0"#));
        place.broken_at(line as u64, Damage::Edited);
    }
}

#[tokio::test]
async fn a_record_taken_out_is_missed() {
    let place = Place::of(4).await;
    place.rewrite(|lines| drop(lines.remove(1)));
    place.broken_at(2, Damage::Missing);
}

#[tokio::test]
async fn records_in_another_order_are_found() {
    let place = Place::of(4).await;
    place.rewrite(|lines| lines.swap(1, 2));
    place.broken_at(2, Damage::Reordered);
    let place = Place::of(4).await;
    place.rewrite(|lines| lines.insert(3, lines[1].clone()));
    place.broken_at(4, Damage::Reordered);
}

#[tokio::test]
async fn an_end_that_was_cut_off_is_found() {
    for (kept, line) in [(2, 3), (0, 1)] {
        let place = Place::of(4).await;
        place.rewrite(|lines| lines.truncate(kept));
        place.broken_at(line, Damage::Truncated);
    }
    let place = Place::of(4).await;
    let text = place.text(1);
    fs::write(place.file(1), &text[..text.len() - 1]).expect("written");
    place.broken_at(4, Damage::Truncated);
}

#[tokio::test]
async fn what_is_told_beside_the_chain_cannot_be_taken_away_or_changed() {
    let place = Place::of(4).await;
    let head = place.directory().join(HEAD);
    let told = fs::read_to_string(&head).expect("read");
    for changed in [
        told.replace(r#""seq":4"#, r#""seq":3"#),
        told.replace(r#""begins":1"#, r#""begins":4"#),
        String::new(),
    ] {
        fs::write(&head, changed).expect("written");
        assert_eq!(place.broken(), (HEAD.to_owned(), 1, Damage::Edited));
    }
    fs::remove_file(&head).expect("removed");
    assert_eq!(place.broken(), (HEAD.to_owned(), 1, Damage::Missing));
}

#[tokio::test]
async fn a_restart_does_not_cover_up_what_was_cut_off() {
    let place = Place::of(4).await;
    place.rewrite(|lines| lines.truncate(2));
    place.continued(LARGE, 1).await;
    place.broken_at(3, Damage::Truncated);
    assert_eq!(place.records(1)[2]["facts"]["missing_records"], 2);

    let place = Place::of(4).await;
    place.rewrite(|lines| lines.truncate(2));
    fs::remove_file(place.directory().join(HEAD)).expect("removed");
    place.continued(LARGE, 1).await;
    place.broken_at(3, Damage::Truncated);

    let place = Place::of(4).await;
    fs::remove_file(place.file(1)).expect("removed");
    place.continued(LARGE, 1).await;
    place.broken_at(1, Damage::Truncated);
    assert_eq!(place.records(1)[0]["facts"]["missing_records"], 4);
}

#[tokio::test]
async fn a_line_that_a_crash_cut_short_is_dropped_and_told() {
    let place = Place::of(2).await;
    place.append(b"{\"seq\":3,\"pre");
    assert_eq!((place.whole().records, place.whole().unfinished), (2, 13));
    place.continued(LARGE, 1).await;
    assert_eq!((place.whole().records, place.whole().unfinished), (4, 0));
    let told = &place.records(1)[2];
    assert_eq!((&told["kind"], &told["facts"]["torn_bytes"]), (&"recovered".into(), &13.into()));
    assert_eq!(told["facts"]["torn_sha256"].as_str().map(str::len), Some(64));
}

#[tokio::test]
async fn a_crash_before_the_end_was_told_costs_nothing() {
    let place = Place::of(2).await;
    let behind = fs::read(place.directory().join(HEAD)).expect("read");
    place.continued(LARGE, 2).await;
    fs::write(place.directory().join(HEAD), behind).expect("written");
    assert_eq!(place.whole().records, 4);
    place.continued(LARGE, 1).await;
    assert_eq!(place.whole().records, 5, "nothing is to be told");
}

#[tokio::test]
async fn a_crash_between_two_files_costs_nothing() {
    let place = Place::of(2).await;
    fs::write(place.file(2), "").expect("written");
    assert_eq!(place.whole().records, 2);
    place.continued(LARGE, 1).await;
    assert_eq!((place.whole().records, place.records(2)[0]["seq"].as_u64()), (3, Some(3)));
}

#[tokio::test]
async fn what_is_no_log_or_was_changed_is_not_added_to() {
    let place = Place::of(1).await;
    fs::write(place.file(1), "not a record\n").expect("written");
    assert!(matches!(place.open(LARGE, 4), Err(OpenError::Damaged { .. })));
    assert_eq!(place.text(1), "not a record\n");
    let place = Place::of(2).await;
    place.rewrite(|lines| lines[1] = lines[1].replace("alice", "mallory"));
    assert!(matches!(place.open(LARGE, 4), Err(OpenError::Damaged { .. })));
}

#[tokio::test]
async fn there_is_no_log_where_there_is_none() {
    let place = Place::new();
    assert!(matches!(verify(&place.directory()), Err(Broken::System { .. })));
    fs::create_dir(place.directory()).expect("made");
    assert!(matches!(verify(&place.directory()), Err(Broken::Nothing { .. })));
}

#[tokio::test]
async fn what_cannot_wait_is_counted_and_told_where_it_would_have_stood() {
    let place = Place::new();
    let log = place.open(LARGE, 4).expect("opened");
    // The task does not run between these: nothing here waits.
    for number in 1..=10_000 {
        log.record(&SessionId::new("ses_1"), &Owner::new("alice"), &event(number));
    }
    log.flush().await;
    record(&log, [10_001]).await;
    let report = place.whole();
    assert!(report.lost > 0, "more than fits was recorded");
    let records = place.records(1);
    assert_eq!(records.len() as u64 - 1 + report.lost, 10_001);
    let gap = &records[records.len() - 2];
    assert_eq!((&gap["kind"], &gap["facts"]["lost_records"]), (&"gap".into(), &report.lost.into()));
    assert_eq!(records[records.len() - 3]["event"], 10_000 - report.lost);
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_is_written_when_it_can_be() {
    let place = Place::new();
    let log = place.open(SMALL, 100).expect("opened");
    record(&log, 1..=2).await;
    // A directory in the place of the next file: as a full disk, it lets nothing be written there.
    fs::create_dir(place.file(2)).expect("made");
    record(&log, 3..=8).await;
    let before = place.records(1).len() as u64;
    assert!(before < 8, "the rest is for the next file");
    fs::remove_dir(place.file(2)).expect("removed");
    log.flush().await;
    let report = place.whole();
    assert_eq!((report.records, report.lost), (8, 0));
}

#[tokio::test]
async fn a_log_can_be_checked_while_it_is_written() {
    let place = Place::new();
    let log = place.open(4_096, 4).expect("opened");
    let directory = place.directory();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let checking = tokio::task::spawn_blocking(move || {
        let mut checks = 0;
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            verify(&directory).expect("whole at every moment");
            checks += 1;
        }
        checks
    });
    for round in 0..200 {
        record(&log, round * 10..round * 10 + 10).await;
    }
    drop(stop);
    assert!(checking.await.expect("checked") > 0);
}

/// A log over several files, to be changed.
fn written() -> (Place, Vec<PathBuf>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let place = Place::new();
    runtime.block_on(place.continued(SMALL, 8));
    let mut files: Vec<PathBuf> =
        super::chain::files(&place.directory()).expect("listed").into_iter().map(|(_, path)| path).collect();
    files.push(place.directory().join(HEAD));
    (place, files)
}

#[test]
fn every_single_byte_counts() {
    let (place, files) = written();
    let whole: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).expect("read")).collect();
    proptest!(ProptestConfig::with_cases(600), |(file in 0..files.len(), at: prop::sample::Index, xor in 1..=255_u8)| {
        let mut bytes = whole[file].clone();
        let at = at.index(bytes.len());
        bytes[at] ^= xor;
        fs::write(&files[file], &bytes).expect("written");
        let found = verify(&place.directory());
        fs::write(&files[file], &whole[file]).expect("written");
        prop_assert!(found.is_err(), "{} at {at}: {:#x}", files[file].display(), bytes[at]);
    });
    place.whole();
}

#[test]
fn every_byte_taken_out_put_in_or_cut_off_counts() {
    let (place, files) = written();
    let whole: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).expect("read")).collect();
    proptest!(ProptestConfig::with_cases(300), |(file in 0..files.len(), at: prop::sample::Index, how in 0..3, byte: u8)| {
        let mut bytes = whole[file].clone();
        let at = at.index(bytes.len());
        match how {
            0 => drop(bytes.remove(at)),
            1 => bytes.insert(at, byte),
            _ => bytes.truncate(at),
        }
        fs::write(&files[file], &bytes).expect("written");
        let found = verify(&place.directory());
        fs::write(&files[file], &whole[file]).expect("written");
        prop_assert!(found.is_err() || bytes == whole[file], "{} at {at}, {how}", files[file].display());
    });
}
