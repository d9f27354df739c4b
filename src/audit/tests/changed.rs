//! The log as somebody changes it.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;

use super::{LARGE, Place, SMALL};
use crate::audit::head::HEAD;
use crate::audit::{Broken, Damage, OpenError, chain, verify};

#[tokio::test]
async fn a_file_taken_away_is_missed_wherever_it_was() {
    for taken in 0..3 {
        let place = Place::new();
        place.continued(SMALL, 12).await;
        let files = chain::files(&place.directory()).expect("listed");
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

/// A log over several files, to be changed.
fn written() -> (Place, Vec<PathBuf>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let place = Place::new();
    runtime.block_on(place.continued(SMALL, 8));
    let mut files: Vec<PathBuf> =
        chain::files(&place.directory()).expect("listed").into_iter().map(|(_, path)| path).collect();
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
