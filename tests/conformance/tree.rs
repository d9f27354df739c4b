//! Who belongs to a child, and that all of them are reached.

use std::time::Duration;

use unified_exec::core::signal::{Scope, Signal};
use unified_exec::host::ports::ControlError;
use unified_exec::spawn::fake::Script;

use crate::run::{soon, vanishes};
use crate::subject::{Subject, What, over_local, what};

over_local! {
    play,
    a_program_that_starts_itself_anew_is_killed,
    a_term_to_the_tree_reaches_who_left_the_group,
    a_stopped_member_hears_a_term,
    a_group_is_reached_after_its_leader_has_gone,
    a_group_without_members_is_gone,
    who_drops_the_marks_is_still_reached,
    two_trees_are_not_confused,
    who_forks_at_once_is_in_the_tree,
}

fn program(line: impl Into<String>) -> What {
    what(line, Script::new())
}

fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

/// The numbers that `text` names after `key=`.
fn numbers(text: &str, key: &str) -> Vec<u32> {
    let mark = format!("{key}=");
    text.split_whitespace().filter_map(|word| word.strip_prefix(&mark)?.parse().ok()).collect()
}

async fn a_program_that_starts_itself_anew_is_killed(subject: Subject) {
    let lines = [
        "while :; do sleep 0.01 & wait; done",
        // Each generation leaves its parent and its session, and is gone soon after.
        "f() { setsid sh -c 'sleep 0.02; exec sh -c \"$0\" \"$0\" &' \"$1\" & }; \
         L='sleep 0.02; setsid sh -c \"$0\" \"$0\" & exit 0'; setsid sh -c \"$L\" \"$L\" & sleep 1000",
    ];
    for line in lines {
        let child = subject.run(&program(line)).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        child.control().kill_tree();
        child.exited().await;
        soon("the tree", child.control().tree_gone()).await;
        assert!(child.control().descendants().await.is_empty());
    }
}

async fn a_term_to_the_tree_reaches_who_left_the_group(subject: Subject) {
    let line = "setsid sh -c 'trap \"echo other heard; exit\" TERM; echo other up; while :; do sleep 0.05; done' & \
                trap 'echo leader heard; wait; exit 0' TERM; while :; do sleep 0.05; done";
    let child = subject.run(&program(line)).await;
    child.says("other up").await;
    child.control().signal(Signal::TERM, Scope::Tree).unwrap();
    child.says("other heard").await;
    child.says("leader heard").await;
    child.control().kill_tree();
    soon("the tree", child.control().tree_gone()).await;
}

async fn a_stopped_member_hears_a_term(subject: Subject) {
    let line = "setsid sh -c 'echo pid=$$; exec sleep 1000' & sleep 0.1; echo up; exec sleep 1000";
    let child = subject.run(&program(line)).await;
    let pid = numbers(&child.says("up").await.text(), "pid")[0];
    child.control().signal(Signal::STOP, Scope::Tree).unwrap();
    soon("the stop", async {
        while !std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    child.control().signal(Signal::TERM, Scope::Tree).unwrap();
    assert_eq!(child.exited().await.status.shell_code(), 143);
    soon("the tree", child.control().tree_gone()).await;
}

async fn a_group_is_reached_after_its_leader_has_gone(subject: Subject) {
    let line = "(trap '' HUP; echo pid=$(sh -c 'echo $PPID'); exec sleep 1000) & sleep 0.2; echo up; exit 0";
    let child = subject.run(&program(line)).await;
    let pid = numbers(&child.says("up").await.text(), "pid")[0];
    child.exited().await;
    assert!(lives(pid));
    assert_eq!(child.control().signal(Signal::TERM, Scope::Process), Err(ControlError::Gone));
    child.control().signal(Signal::TERM, Scope::Group).unwrap();
    soon("the tree", child.control().tree_gone()).await;
    vanishes(pid).await;
}

async fn a_group_without_members_is_gone(subject: Subject) {
    let line = "setsid sleep 1000 >/dev/null 2>&1 </dev/null & sleep 0.1; exit 0";
    let child = subject.run(&program(line)).await;
    child.exited().await;
    let listed = child.control().descendants().await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    // With a cgroup the answer is exact; without, it is what is known of the whole tree.
    match child.control().signal(Signal::TERM, Scope::Group) {
        Err(ControlError::Gone) | Ok(()) => {}
        other => panic!("{other:?}"),
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(lives(listed[0].pid), "it has left the group");
    child.control().kill_tree();
    soon("the tree", child.control().tree_gone()).await;
}

async fn who_drops_the_marks_is_still_reached(subject: Subject) {
    let line = "env -i /bin/sh -c 'exec /bin/sleep 1000' >/dev/null 2>&1 & \
                ( env -i PATH=/usr/bin:/bin sh -c 'trap \"\" HUP; sleep 1001 & exit 0' >/dev/null 2>&1 & ) ; \
                sleep 0.3; echo up; exit 0";
    let child = subject.run(&program(line)).await;
    child.says("up").await;
    child.exited().await;
    child.control().kill_tree();
    soon("the tree", child.control().tree_gone()).await;
    assert!(child.control().descendants().await.is_empty());
}

async fn two_trees_are_not_confused(subject: Subject) {
    let line = "setsid sleep 1000 & sleep 0.1; echo up; exec sleep 1000";
    let (first, second) = (subject.run(&program(line)).await, subject.run(&program(line)).await);
    first.says("up").await;
    second.says("up").await;
    first.control().kill_tree();
    soon("the tree", first.control().tree_gone()).await;
    assert_eq!(second.control().descendants().await.len(), 1);
    assert!(second.seen().exited.is_none());
}

async fn who_forks_at_once_is_in_the_tree(subject: Subject) {
    // Forks as its first act, in as many processes as it can, while the server is still placing it.
    let code = "import os, time\n\
                for _ in range(6):\n    os.fork()\n\
                time.sleep(1000)";
    for _ in 0..5 {
        let plan = crate::run::plan(&["python3", "-S", "-E", "-c", code], subject.kind.stdio());
        let child = crate::run::Running::new(subject.spawner.spawn(plan).await.unwrap());
        soon("the forks", async {
            while child.control().descendants().await.len() < 63 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        let listed = child.control().descendants().await;
        child.control().kill_tree();
        soon("the tree", child.control().tree_gone()).await;
        for member in listed {
            vanishes(member.pid).await;
        }
    }
}
