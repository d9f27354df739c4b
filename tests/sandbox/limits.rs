//! What a child may use, as far as this machine can hold it.

use std::time::Duration;

use unified_exec::core::process::ExitStatus;
use unified_exec::core::spawn::{LimitMechanism, ResourceLimits, SpawnError, Stdio};

use crate::bench::Bench;
use crate::run::{Running, soon};

fn limited(
    limits: ResourceLimits,
    line: &str,
) -> Result<(crate::bench::Ended, Vec<&'static str>), SpawnError> {
    let bench = Bench::new();
    let mut plan = bench.plan(&bench.workspace(), &["bash", "-c", line], Stdio::Pipes { stdin: false });
    plan.limits = limits;
    let (ended, enforced) = bench.try_run(plan)?;
    Ok((ended, enforced.limits.iter().map(|limit| limit.name).collect()))
}

#[test]
fn processor_time_files_and_their_size_are_bounded() {
    let limits = ResourceLimits { open_files_max: Some(64), ..ResourceLimits::default() };
    let (ended, told) = limited(limits, "ulimit -n").unwrap();
    assert_eq!((ended.succeeded().trim(), &told[..]), ("64", &["open_files"][..]));
    let limits = ResourceLimits { file_size_bytes: Some(4096), ..ResourceLimits::default() };
    let (ended, _) = limited(limits, "head -c 8192 /dev/zero > big; stat -c %s big").unwrap();
    assert!(ended.text.contains("4096"), "{}", ended.text);
    let limits = ResourceLimits { cpu_time: Some(Duration::from_millis(1)), ..ResourceLimits::default() };
    let (ended, _) = limited(limits, "while :; do :; done").unwrap();
    assert!(matches!(ended.status, ExitStatus::Signal { number: 24 | 9, .. }), "{:?}", ended.status);
}

#[test]
fn memory_is_bounded() {
    let limits = ResourceLimits { memory_bytes: Some(256 * 1024 * 1024), ..ResourceLimits::default() };
    let line = "exec /usr/bin/python3 -c 'x = bytearray(1 << 30); print(\"GOT IT\")'";
    match limited(limits, line) {
        Ok((ended, told)) => {
            assert_eq!(told, ["memory_bytes"]);
            assert_ne!(ended.status, ExitStatus::Code(0), "{}", ended.text);
            assert!(!ended.text.contains("GOT IT"));
        }
        Err(error) => println!("not probed here: {error}"),
    }
}

#[test]
fn a_fork_bomb_leaves_the_server_responsive() {
    let bench = Bench::new();
    let line = "bomb() { bomb | bomb & }; bomb; sleep 60";
    let mut plan = bench.plan(&bench.workspace(), &["bash", "-c", line], Stdio::Pipes { stdin: false });
    plan.limits = ResourceLimits { pids_max: Some(64), ..ResourceLimits::default() };
    bench.block_on(async {
        let spawned = match bench.start(plan).await {
            Ok(spawned) => spawned,
            Err(error) => return println!("not probed here: {error}"),
        };
        let by = spawned.enforced.limits[0].by;
        assert!(matches!(by, LimitMechanism::Cgroup | LimitMechanism::Rlimit));
        let bomb = Running::new(spawned);
        tokio::time::sleep(Duration::from_millis(500)).await;
        let other = bench.plan(&bench.workspace(), &["echo", "still here"], Stdio::Pipes { stdin: false });
        let started = tokio::time::Instant::now();
        let seen = Running::new(bench.start(other).await.unwrap()).ended().await;
        assert!(seen.text().contains("still here"));
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
        bomb.control().kill_tree();
        soon("the end of the bomb", bomb.control().tree_gone()).await;
    });
}
