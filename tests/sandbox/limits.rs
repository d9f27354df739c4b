//! Resource limits: in force, reported as they are, or refused.

use std::time::Duration;

use unified_exec::core::policy::Profile;
use unified_exec::core::process::ExitStatus;
use unified_exec::core::spawn::{
    EnforcedLimit, LimitMechanism, ResourceLimits, SpawnError, SpawnPlan, Stdio,
};

use crate::bench::{Bench, Ended, OPEN_DESCRIPTORS, is_root};
use crate::run::{Running, soon};

const NONE: ResourceLimits = ResourceLimits {
    memory_bytes: None,
    pids_max: None,
    cpu_time: None,
    open_files_max: None,
    file_size_bytes: None,
};

fn limited(bench: &Bench, profile: &Profile, limits: ResourceLimits, line: &str) -> SpawnPlan {
    SpawnPlan { limits, ..bench.plan(profile, &["bash", "-c", line], Stdio::Pipes { stdin: false }) }
}

/// Runs under a limit with and without a sandbox: it must be in force, and said to be.
fn both(limits: ResourceLimits, name: &str, value: u64, line: &str) -> Vec<Ended> {
    let bench = Bench::new();
    [bench.workspace(), Profile::full_access()]
        .iter()
        .map(|profile| {
            let (ended, enforced) = bench.try_run(limited(&bench, profile, limits, line)).unwrap();
            let [EnforcedLimit { name: told, value: so_much, .. }] = enforced.limits[..] else {
                panic!("{enforced:?}")
            };
            assert_eq!((told, so_much), (name, value));
            ended
        })
        .collect()
}

#[test]
fn memory_is_bounded() {
    let bytes = 512 << 20;
    let line = "/usr/bin/python3 -c 'x = bytearray(1 << 30)'";
    for ended in both(ResourceLimits { memory_bytes: Some(bytes), ..NONE }, "memory_bytes", bytes, line) {
        ended.denied(&["MemoryError"]);
    }
}

#[test]
fn processor_time_is_bounded_and_tells_by_its_signal() {
    let limits = ResourceLimits { cpu_time: Some(Duration::from_millis(500)), ..NONE };
    for ended in both(limits, "cpu_time_ms", 1000, "while :; do :; done") {
        assert!(matches!(ended.status, ExitStatus::Signal { number: 24, .. }), "{ended:?}");
    }
}

#[test]
fn open_files_are_bounded() {
    for ended in
        both(ResourceLimits { open_files_max: Some(17), ..NONE }, "open_files", 17, "ulimit -n; ulimit -Hn")
    {
        assert_eq!(ended.succeeded(), "17\n17\n");
    }
}

#[test]
fn files_are_bounded() {
    let limits = ResourceLimits { file_size_bytes: Some(4096), ..NONE };
    for ended in both(limits, "file_size_bytes", 4096, "head -c 8192 /dev/zero > file; wc -c < file") {
        assert!(ended.text.contains("4096"), "{ended:?}");
    }
}

#[test]
fn a_fork_bomb_is_held_or_refused() {
    let bench = Bench::new();
    let limits = ResourceLimits { pids_max: Some(40), ..NONE };
    // Bounded by itself, so that a limit that does not hold cannot take the machine along.
    let bomb = "import os, time\n\
                try:\n\
                \x20   for n in range(200):\n\
                \x20       if os.fork() == 0: time.sleep(1000)\n\
                except BlockingIOError: print('held after', n, flush=True)\n\
                time.sleep(1000)\n";
    let mut plan = limited(&bench, &bench.workspace(), limits, "");
    plan.argv = ["/usr/bin/python3", "-c", bomb].map(str::to_owned).to_vec();
    bench.block_on(async {
        match bench.start(plan).await {
            Err(error) => {
                assert!(matches!(error, SpawnError::LimitUnenforceable { limit: "max_pids", .. }), "{error}");
                assert!(is_root(), "an ordinary user's namespace has its own count: {error}");
                println!("not probed here: {error}");
            }
            Ok(spawned) => {
                let told = EnforcedLimit { name: "max_pids", value: 40, by: LimitMechanism::Rlimit };
                assert_eq!(spawned.enforced.limits, [told]);
                let child = Running::new(spawned);
                child.says("held after 39").await;
                assert_eq!(child.control().descendants().await.len(), 39, "and the command itself");
                // The service starts others meanwhile.
                let other = bench.plan(&bench.workspace(), &["true"], Stdio::Pipes { stdin: false });
                Running::new(bench.start(other).await.unwrap()).ended().await;
                child.control().kill_tree();
                soon("the tree", child.control().tree_gone()).await;
            }
        }
    });
}

#[test]
fn processes_outside_of_a_namespace_cannot_be_counted() {
    let bench = Bench::new();
    let limits = ResourceLimits { pids_max: Some(40), ..NONE };
    let refused = bench.try_run(limited(&bench, &Profile::full_access(), limits, "true"));
    if let Err(refused) = refused {
        assert!(matches!(refused, SpawnError::LimitUnenforceable { limit: "max_pids", .. }), "{refused}");
    } else {
        println!("not probed here: this service has the controller `pids`");
    }
}

#[test]
fn a_limited_child_inherits_nothing_and_fails_like_any_other() {
    let bench = Bench::new();
    let limits = ResourceLimits { open_files_max: Some(64), ..NONE };
    let line = &format!("/usr/bin/python3 -c '{OPEN_DESCRIPTORS}'; grep SigBlk /proc/self/status");
    let (ended, _) = bench.try_run(limited(&bench, &Profile::full_access(), limits, line)).unwrap();
    assert_eq!(ended.succeeded(), "[0, 1, 2]\nSigBlk:\t0000000000000000\n");
    let mut plan = limited(&bench, &Profile::full_access(), limits, "");
    plan.argv = vec!["no-such-program".to_owned()];
    let missing = SpawnError::ProgramMissing { program: "no-such-program".to_owned() };
    assert_eq!(bench.try_run(plan).unwrap_err(), missing);
}
