//! What a child must not inherit from the server, however the server itself was started; and what a server that was killed
//! must not leave. Each case starts this test program again, in the state it is about, to play one of the helpers.

use std::time::Duration;

use unified_exec::core::command::EnvVar;
use unified_exec::core::spawn::Stdio;
use unified_exec::host::clock::Clock;
use unified_exec::host::ports::Spawner;
use unified_exec::spawn::{LocalSpawner, Options};

use crate::run::{Running, plan, vanishes};
use crate::subject::{Subject, over};

over! {
    play,
    real = PIPES
    => {
        signals_are_at_their_defaults_whatever_the_server_inherited,
        a_child_gets_the_limit_of_files_that_the_server_was_started_with,
        a_server_that_was_killed_leaves_nothing_to_the_next,
    }
}

const LEFT: &str = "CONFORMANCE_LEFT";
/// Set for a run of this program that plays a helper; without it the helpers have nothing to do.
const HELPER: &str = "CONFORMANCE_HELPER";

fn this_program() -> String {
    std::env::current_exe().unwrap().to_str().unwrap().to_owned()
}

fn helper(name: &str) -> String {
    format!("env {HELPER}=1 {} --exact inherited::{name} --nocapture", this_program())
}

/// Runs `part` if this program was started to play a helper.
fn play_helper(part: impl Future<Output = ()>) {
    if std::env::var_os(HELPER).is_some() {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
            .block_on(part);
    }
}

async fn signals_are_at_their_defaults_whatever_the_server_inherited(subject: Subject) {
    let code = "import os, signal, sys\n\
                for s in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGUSR1, 40):\n    \
                    signal.signal(s, signal.SIG_IGN)\n\
                signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR2, signal.SIGINT, 41])\n\
                os.execvp(sys.argv[1], sys.argv[1:])";
    let helper = helper("helper_shows_the_signals_of_a_child");
    let mut argv = vec!["python3", "-c", code];
    argv.extend(helper.split(' '));
    let child = subject.spawner.spawn(plan(&argv, Stdio::Pipes { stdin: false })).await.unwrap();
    let text = Running::new(child).ended().await.text();
    let shown = |of: &str, field: &str| {
        let mark = format!("{of} {field}:");
        let line = text.lines().find_map(|line| line.strip_prefix(&mark).map(str::trim));
        u64::from_str_radix(line.unwrap_or_else(|| panic!("no {mark} in {text}")), 16).unwrap()
    };
    assert_ne!(
        (shown("server", "SigBlk"), shown("server", "SigIgn")),
        (0, 0),
        "the helper had inherited some"
    );
    for field in ["SigBlk", "SigIgn"] {
        assert_eq!(shown("child", field), 0, "{field} of {text}");
    }
}

#[test]
fn helper_shows_the_signals_of_a_child() {
    play_helper(async {
        let spawner = LocalSpawner::start(Clock::start(), Options::default()).unwrap();
        let child = plan(&["grep", "^Sig", "/proc/self/status"], Stdio::Pipes { stdin: false });
        let seen = Running::new(spawner.spawn(child).await.unwrap()).ended().await;
        let server = std::fs::read_to_string("/proc/self/status").unwrap();
        server.lines().filter(|line| line.starts_with("Sig")).for_each(|line| println!("server {line}"));
        seen.text().lines().for_each(|line| println!("child {line}"));
    });
}

async fn a_child_gets_the_limit_of_files_that_the_server_was_started_with(subject: Subject) {
    let line = format!("ulimit -Sn 256; exec {}", helper("helper_shows_the_limits_of_a_child"));
    let child =
        subject.spawner.spawn(plan(&["sh", "-c", &line], Stdio::Pipes { stdin: false })).await.unwrap();
    let text = Running::new(child).ended().await.text();
    assert!(text.contains("child has 256"), "{text}");
    assert!(text.contains("server has more: true"), "{text}");
}

#[test]
fn helper_shows_the_limits_of_a_child() {
    play_helper(async {
        let spawner = LocalSpawner::start(Clock::start(), Options::default()).unwrap();
        let line = "sleep 0.3; echo child has $(ulimit -Sn)";
        let child = plan(&["sh", "-c", line], Stdio::Pipes { stdin: false });
        let seen = Running::new(spawner.spawn(child).await.unwrap()).ended().await;
        println!("{}", seen.text());
        let own = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        println!("server has more: {}", own.is_none_or(|own| own > 256));
    });
}

async fn a_server_that_was_killed_leaves_nothing_to_the_next(subject: Subject) {
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "until grep -q unified-exec /proc/self/cgroup; do sleep 0.01; done; {}; {}; echo both have run",
        helper("helper_is_killed_and_leaves_a_child"),
        helper("helper_starts_where_another_was_killed")
    );
    let mut outer = plan(&["sh", "-c", &line], Stdio::Pipes { stdin: false });
    let left = folder.path().join("left");
    std::sync::Arc::make_mut(&mut outer.env).push(EnvVar::new(LEFT, left.to_str().unwrap().to_owned()));
    let child = Running::new(subject.spawner.spawn(outer).await.unwrap());
    let text = child.ended().await.text();
    assert!(text.contains("both have run") && text.contains("it is gone"), "{text}");
    assert!(!text.contains("FAILED"), "{text}");
}

#[test]
fn helper_is_killed_and_leaves_a_child() {
    play_helper(async {
        let spawner = LocalSpawner::start(Clock::start(), Options::default()).unwrap();
        let child = plan(&["sleep", "1000"], Stdio::Pipes { stdin: false });
        let child = spawner.spawn(child).await.unwrap();
        let pid = child.pid.unwrap();
        std::fs::write(std::env::var(LEFT).unwrap(), pid.to_string()).unwrap();
        // It is placed after the answer. Before that, nothing says whose it is.
        let mine = format!("-{}-", std::process::id());
        while !std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap().contains(&mine) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
        tokio::time::sleep(Duration::from_secs(1000)).await;
    });
}

#[test]
fn helper_starts_where_another_was_killed() {
    play_helper(async {
        let left: u32 = std::fs::read_to_string(std::env::var(LEFT).unwrap()).unwrap().parse().unwrap();
        assert!(std::path::Path::new(&format!("/proc/{left}")).exists(), "nothing was left to be ended");
        let _spawner = LocalSpawner::start(Clock::start(), Options::default()).unwrap();
        vanishes(left).await;
        println!("it is gone");
    });
}
