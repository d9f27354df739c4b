//! What many children leave: no zombie, no descriptor, no cgroup, no thread. These cases count what the whole process
//! has, so nothing else runs beside them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use unified_exec::core::spawn::{SpawnError, SpawnPlan};
use unified_exec::spawn::fake::Script;

use crate::run::{PATIENCE, Running, plan, soon};
use crate::subject::{Subject, over_local, what};

over_local! {
    play_alone,
    two_hundred_programs_leave_nothing,
    failed_starts_leave_nothing,
    starts_that_nobody_waits_for_leave_nothing,
    orphans_leave_no_zombie,
    idle_children_cost_no_thread,
    want_of_descriptors_is_told_and_leaves_nothing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Count {
    children: BTreeSet<u32>,
    descriptors: usize,
    cgroups: usize,
}

fn count() -> Count {
    let me = std::process::id();
    let mut children = BTreeSet::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let listed = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.extend(listed.split_whitespace().map(|pid| pid.parse::<u32>().unwrap()));
    }
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let outer = PathBuf::from("/sys/fs/cgroup/unified").read_dir().into_iter().flatten().flatten();
    let outer = outer.filter(|entry| {
        entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with("unified-exec-") && name.contains(&format!("-{me}-")))
    });
    let cgroups = outer
        .flat_map(|entry| entry.path().read_dir().into_iter().flatten().flatten())
        .filter(|entry| entry.path().is_dir());
    Count { children, descriptors, cgroups: cgroups.count() }
}

/// A count that has come to rest: what an earlier case has dropped is still being cleared away.
async fn settled() -> Count {
    let mut last = count();
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = count();
        if now == last {
            return now;
        }
        last = now;
    }
}

/// Waits until nothing is left beyond `before`.
async fn nothing_left_since(before: &Count) {
    let started = tokio::time::Instant::now();
    loop {
        let now = count();
        let new: Vec<_> = now.children.difference(&before.children).collect();
        if new.is_empty() && now.descriptors <= before.descriptors && now.cgroups <= before.cgroups {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "left since {before:?}: {now:?}, new children {new:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn two_hundred_programs_leave_nothing(subject: Subject) {
    let before = settled().await;
    for _ in 0..50 {
        let starts: Vec<_> =
            (0..4).map(|_| subject.spawner.spawn(plan(&["true"], subject.kind.stdio()))).collect();
        for start in starts {
            Running::new(start.await.unwrap()).ended().await;
        }
    }
    nothing_left_since(&before).await;
}

async fn failed_starts_leave_nothing(subject: Subject) {
    let before = settled().await;
    let large = "x".repeat(131_072);
    for _ in 0..20 {
        let stdio = subject.kind.stdio();
        let missing_directory = SpawnPlan { cwd: "/no/such".to_owned(), ..plan(&["true"], stdio) };
        let failing = [
            plan(&["no-such-program"], stdio),
            plan(&["/etc/passwd"], stdio),
            plan(&["true", &large], stdio),
            missing_directory,
        ];
        for plan in failing {
            assert!(subject.spawner.spawn(plan).await.is_err());
        }
    }
    nothing_left_since(&before).await;
}

async fn starts_that_nobody_waits_for_leave_nothing(subject: Subject) {
    let before = settled().await;
    for round in 0..40 {
        let start = subject.spawner.spawn(plan(&["sleep", "1000"], subject.kind.stdio()));
        let _ = tokio::time::timeout(Duration::from_micros(round * 50), start).await;
    }
    nothing_left_since(&before).await;
}

async fn orphans_leave_no_zombie(subject: Subject) {
    let before = settled().await;
    let line = "i=0; while [ $i -lt 40 ]; do ( sleep 0.0$i & ) ; ( setsid sleep 0.0$i & ) ; i=$((i+1)); done";
    let children =
        [subject.run(&what(line, Script::new())).await, subject.run(&what(line, Script::new())).await];
    for child in &children {
        child.exited().await;
        soon("the tree", child.control().tree_gone()).await;
    }
    drop(children);
    nothing_left_since(&before).await;
}

async fn idle_children_cost_no_thread(subject: Subject) {
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let (before, others) = (settled().await, threads());
    let mut children = Vec::new();
    for _ in 0..100 {
        children.push(subject.run(&what("echo up; exec cat", Script::new())).await);
    }
    for child in &children {
        child.says("up").await;
    }
    // The four threads that may block; tokio lets them go when they are idle.
    assert!(threads() <= others + 4, "{} threads, and {others} before", threads());
    drop(children);
    nothing_left_since(&before).await;
}

async fn want_of_descriptors_is_told_and_leaves_nothing(subject: Subject) {
    let before = settled().await;
    let full = getrlimit(Resource::Nofile);
    let (mut refused, mut started) = (0, 0);
    for spare in 0..24 {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64 - 1;
        setrlimit(Resource::Nofile, Rlimit { current: Some(open + spare), ..full }).unwrap();
        let answer = subject.spawner.spawn(plan(&["true"], subject.kind.stdio())).await;
        setrlimit(Resource::Nofile, full).unwrap();
        match answer {
            Ok(spawned) => {
                started += 1;
                Running::new(spawned).ended().await;
            }
            Err(SpawnError::Exhausted { resource: "descriptors", .. }) => refused += 1,
            Err(other) => panic!("with {spare} to spare: {other:?}"),
        }
        nothing_left_since(&before).await;
    }
    assert!(refused >= 3 && started >= 3, "{refused} refused, {started} started");
}
