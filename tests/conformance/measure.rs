//! No cases: what a start and an idle child cost, printed beside the bare system.
//! `cargo test --release --features test-util --test conformance measure -- --ignored --nocapture --test-threads 1`

use std::time::Duration;

use unified_exec::core::command::TerminalSize;
use unified_exec::core::spawn::Stdio;
use unified_exec::host::clock::Clock;
use unified_exec::host::ports::Spawner;
use unified_exec::spawn::{LocalSpawner, Options, Trees};

use crate::run::{Kind, Running, plan};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(4)
        .enable_all()
        .build()
        .unwrap()
}

/// What a start costs when there was none for a while.
#[test]
#[ignore = "measures"]
fn starts_after_a_pause() {
    runtime().block_on(async {
        let mut rows = Vec::new();
        let spawner = LocalSpawner::start(Clock::start(), Options::default()).unwrap();
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_millis(120)).await;
            note(&mut rows, "bare", bare);
            tokio::time::sleep(Duration::from_millis(120)).await;
            let started = tokio::time::Instant::now();
            let child = spawner.spawn(plan(&["/bin/true"], Stdio::Pipes { stdin: false })).await.unwrap();
            add(&mut rows, "start", started.elapsed());
            child.exit.await;
            add(&mut rows, "start to exit", started.elapsed());
        }
        print("after a pause", rows);
    });
}

/// What a thousand idle terminals cost, and how long they take to come and go.
#[test]
#[ignore = "measures"]
fn a_thousand_terminals() {
    let memory = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<i64>().unwrap()
    };
    for trees in [Trees::Cgroups, Trees::ProcessTable] {
        runtime().block_on(async {
            let spawner = LocalSpawner::start(Clock::start(), Options { trees }).unwrap();
            let before = memory();
            let started = tokio::time::Instant::now();
            let mut children = Vec::new();
            for _ in 0..1_000 {
                let plan = plan(&["sh", "-c", "echo up; exec cat"], Kind::Terminal.stdio());
                children.push(Running::new(spawner.spawn(plan).await.unwrap()));
            }
            for child in &children {
                child.says("up").await;
            }
            let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
            println!(
                "{trees:?}: 1000 terminals up after {:?}, {threads} threads, {} KiB each",
                started.elapsed(),
                (memory() - before) / 1_000
            );
            let closing = tokio::time::Instant::now();
            for child in &children {
                child.control().kill_tree();
            }
            for child in &children {
                child.control().tree_gone().await;
            }
            println!("{trees:?}: all gone after {:?}", closing.elapsed());
        });
    }
}

/// What a start costs beside the bare system, one after the other, with little and with much memory.
#[test]
#[ignore = "measures"]
fn starts() {
    runtime().block_on(async {
        for mebibytes in [0_usize, 1024] {
            let ballast = vec![1_u8; mebibytes << 20];
            let mut rows: Vec<(&str, Vec<Duration>)> = Vec::new();
            let modes = [("cgroups", Trees::Cgroups), ("process table", Trees::ProcessTable)];
            let mut spawners = Vec::new();
            for (name, trees) in modes {
                spawners.push((name, LocalSpawner::start(Clock::start(), Options { trees }).unwrap()));
            }
            for _ in 0..300 {
                note(&mut rows, "bare", bare);
                for (name, spawner) in &spawners {
                    let kinds = [
                        ("pipes", Stdio::Pipes { stdin: false }),
                        ("terminal", Stdio::Terminal(TerminalSize::default())),
                    ];
                    for (kind, stdio) in kinds {
                        let started = tokio::time::Instant::now();
                        let child = spawner.spawn(plan(&["/bin/true"], stdio)).await.unwrap();
                        let spawned = started.elapsed();
                        child.exit.await;
                        let ended = started.elapsed();
                        let label = |what: &str| -> &'static str { format!("{name}, {kind}: {what}").leak() };
                        add(&mut rows, label("start"), spawned);
                        add(&mut rows, label("start to exit"), ended);
                    }
                }
            }
            print(&format!("with {} MiB", ballast.len() >> 20), rows);
        }
    });
}

fn print(title: &str, rows: Vec<(&'static str, Vec<Duration>)>) {
    println!("{title}:");
    for (name, mut times) in rows {
        times.sort();
        let micros = |at: usize| times[at].as_micros();
        println!(
            "  {name:<42} p50 {:>6} us  p99 {:>6} us",
            micros(times.len() / 2),
            micros(times.len() * 99 / 100)
        );
    }
}

fn add(rows: &mut Vec<(&'static str, Vec<Duration>)>, name: &'static str, time: Duration) {
    match rows.iter_mut().find(|(of, _)| *of == name) {
        Some((_, times)) => times.push(time),
        None => rows.push((name, vec![time])),
    }
}

fn note(rows: &mut Vec<(&'static str, Vec<Duration>)>, name: &'static str, act: impl FnOnce()) {
    let started = tokio::time::Instant::now();
    act();
    add(rows, name, started.elapsed());
}

#[expect(clippy::disallowed_methods, reason = "what the product is compared with")]
fn bare() {
    let status = std::process::Command::new("/bin/true").stdin(std::process::Stdio::null()).status().unwrap();
    assert!(status.success());
}
