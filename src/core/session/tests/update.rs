//! Changes of a session.

use super::*;
use crate::core::policy::{ReviewerMissing, Rights};
use crate::core::session::*;

fn update(bench: &mut Bench, update: Update) -> Result<u64, UpdateError> {
    let call = bench.call(Call::Update(update));
    match bench.answer(call) {
        Answer::Updated(updated) => updated.clone().map(|view| view.policy_revision),
        other => panic!("{other:?}"),
    }
}

fn to(cwd: &str) -> Update {
    Update { cwd: Some(cwd.into()), ..Update::default() }
}

#[test]
fn a_directory_in_which_terminals_live_is_not_left() {
    let mut bench = Bench::new();
    bench.running(shell());
    let (_, one) = bench.running(shell().tty());
    let starting = bench.exec(shell().tty());
    let mut by = vec![one, bench.process_of(starting)];
    by.sort();
    assert_eq!(update(&mut bench, to("/other")), Err(UpdateError::CwdHeld { by: by.clone() }));
    assert_eq!(update(&mut bench, to("/work")), Ok(1), "it stays where it is");
    bench.spawned(bench.process_of(starting));
    for process in by {
        bench.finishes(process, 0);
    }
    assert_eq!(update(&mut bench, to("/other")), Ok(2));
    assert_eq!(bench.told("policy_changed").len(), 1);
    let (_, next) = bench.running(shell());
    assert_eq!(bench.view(next).unwrap().cwd, "/other");
}

#[test]
fn a_relative_directory_is_refused() {
    let mut bench = Bench::new();
    assert!(matches!(update(&mut bench, to("other")), Err(UpdateError::Invalid(_))));
}

#[test]
fn a_change_for_another_revision_is_refused() {
    let mut bench = Bench::new();
    assert_eq!(update(&mut bench, to("/a")), Ok(2));
    let stale = Update { if_revision: Some(1), ..to("/b") };
    assert_eq!(update(&mut bench, stale), Err(UpdateError::RevisionChanged { in_force: 2, asked: 1 }));
    let fresh = Update { if_revision: Some(2), ..to("/b") };
    assert_eq!(update(&mut bench, fresh), Ok(3));
}

#[test]
fn rights_that_cannot_be_honoured_are_refused_and_nothing_else_changes() {
    let mut bench = Bench::without_reviewer();
    let rights = Rights { strict_review: true, ..Rights::unrestricted() };
    let asked = Update { rights: Some(rights), ..to("/other") };
    assert_eq!(update(&mut bench, asked), Err(ReviewerMissing.into()));
    assert_eq!(bench.session.view().defaults.cwd, "/work");
    assert!(bench.told("policy_changed").is_empty());
}

#[test]
fn a_closing_session_is_not_changed() {
    let mut bench = Bench::new();
    bench.running(shell());
    bench.call(Call::Close { reason: crate::core::process::EndReason::SessionClosed });
    assert_eq!(update(&mut bench, to("/other")), Err(UpdateError::Closing));
}
