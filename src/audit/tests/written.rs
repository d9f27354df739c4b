//! The log as it is written, over restarts, files, crashes and trouble.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{LARGE, Place, SMALL, event, record};
use crate::audit::head::HEAD;
use crate::audit::{OpenError, chain, verify};
use crate::core::ids::SessionId;
use crate::host::Owner;
use crate::host::ports::Audit as _;

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
    for (_, file) in chain::files(&place.directory()).expect("listed") {
        assert!(fs::metadata(&file).expect("there").len() <= SMALL, "{}", file.display());
    }
    place.close(log).await;
    let log = place.open(SMALL, 3).expect("opened again");
    record(&log, [21]).await;
    assert_eq!(place.whole().sequence, 21);
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
