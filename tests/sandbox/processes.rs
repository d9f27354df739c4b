//! Other processes, the kernel's doors, and how the end of a confined command is told.

use std::process::{Command, Stdio as ProcessStdio};

use unified_exec::core::process::ExitStatus;
use unified_exec::core::signal::{Scope, Signal};
use unified_exec::core::spawn::Stdio;

use crate::bench::Bench;
use crate::run::{Running, soon, vanishes};

const REFUSED: &[&str] = &["not permitted", "Permission denied", "No such process", "No such file"];

/// A process outside, of the same user, with a secret in its environment.
struct Outsider(std::process::Child);

impl Outsider {
    fn start() -> Self {
        let child = Command::new("sleep")
            .arg("600")
            .env("SECRET", "of the outside")
            .stdin(ProcessStdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Outsider {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn processes_outside_can_be_neither_seen_nor_touched() {
    let bench = Bench::new();
    let outsider = Outsider::start();
    let pid = outsider.0.id();
    let text = bench.sh(&bench.workspace(), "ls -d /proc/[0-9]* | wc -l; ps ax -o args").succeeded();
    assert!(!text.contains("sleep 600"), "{text}");
    for line in [
        format!("kill -0 {pid}"),
        format!("kill -9 {pid}"),
        format!("test \"$(tr '\\0' '\\n' < /proc/{pid}/environ | grep SECRET)\" = 'SECRET=of the outside'"),
        format!("ls /proc/{pid}/root/"),
        format!("cat /proc/{pid}/mem > /dev/null"),
    ] {
        let ended = bench.sh(&bench.workspace(), &line);
        // Numbers mean other processes inside; the one that this number may mean there is no sleep.
        assert_ne!(
            (ended.status, line.contains("kill")),
            (ExitStatus::Code(0), true),
            "{line}: {}",
            ended.text
        );
        assert!(!ended.text.contains("of the outside"), "{line}: {}", ended.text);
    }
    assert!(std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().starts_with("sleep"));
}

#[test]
fn the_environment_of_the_service_is_not_seen() {
    let bench = Bench::new();
    let text = bench.sh(&bench.workspace(), "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'").text;
    assert!(!text.contains("CARGO_MANIFEST_DIR"), "{text}");
}

#[test]
fn the_doors_of_the_kernel_are_closed() {
    let bench = Bench::new();
    for line in [
        "unshare -rm true",
        "unshare -n true",
        "mount -t tmpfs none /mnt",
        "umount /proc",
        "mount -o remount,rw /",
        "nsenter -t 1 -m true",
        "chroot / true",
        "swapon /dev/null",
        "sysctl -w kernel.hostname=x",
        "dmesg > /dev/null && false",
        "mknod dev c 1 3 && cat dev",
    ] {
        let ended = bench.sh(&bench.workspace(), line);
        assert_ne!(ended.status, ExitStatus::Code(0), "{line} was let through: {}", ended.text);
    }
    for (name, number) in [("bpf", 321), ("keyctl", 250), ("userfaultfd", 323), ("perf_event_open", 298)] {
        let code = format!(
            "import ctypes, os\n\
             libc = ctypes.CDLL(None, use_errno=True)\n\
             print(libc.syscall({number}, 0, 0, 0, 0, 0), os.strerror(ctypes.get_errno()))"
        );
        let text = bench.python(&bench.workspace(), &code).succeeded();
        assert!(text.starts_with("-1 "), "{name} came to {text}");
    }
}

#[test]
fn typing_into_a_terminal_is_closed() {
    let bench = Bench::new();
    let code = "import fcntl, termios\nfcntl.ioctl(0, termios.TIOCSTI, b'x')";
    let plan = bench.plan(
        &bench.workspace(),
        &["/usr/bin/python3", "-c", code],
        Stdio::Terminal(unified_exec::core::command::TerminalSize::default()),
    );
    let (ended, _) = bench.try_run(plan).unwrap();
    ended.denied(REFUSED);
}

#[test]
fn privileges_are_gone_and_cannot_come_back() {
    let bench = Bench::new();
    let text = bench
        .sh(&bench.workspace(), "grep -E 'NoNewPrivs|CapEff|CapPrm|Seccomp:' /proc/self/status")
        .succeeded();
    assert!(text.contains("NoNewPrivs:\t1") && text.contains("Seccomp:\t2"), "{text}");
    let effective = text.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
    // CAP_DAC_OVERRIDE at most: root writes what others own in the workspace.
    assert!(u64::from_str_radix(effective, 16).unwrap() & !0b10 == 0, "{text}");
}

#[test]
fn the_end_is_told_as_it_was() {
    let bench = Bench::new();
    for (line, status) in [
        ("exit 3", ExitStatus::Code(3)),
        ("kill -TERM $$", ExitStatus::Signal { number: 15, core_dumped: false }),
        ("kill -KILL $$", ExitStatus::Signal { number: 9, core_dumped: false }),
        ("ulimit -c 0; kill -SYS $$", ExitStatus::Signal { number: 31, core_dumped: false }),
        ("exit 159", ExitStatus::Code(159)),
    ] {
        assert_eq!(bench.sh(&bench.workspace(), line).status, status, "{line}");
    }
}

#[test]
fn a_command_that_is_told_to_end_has_its_grace() {
    let bench = Bench::new();
    let line = "trap 'echo ending; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let plan = bench.plan(&bench.workspace(), &["bash", "-c", line], Stdio::Pipes { stdin: false });
    bench.block_on(async {
        let running = Running::new(bench.start(plan).await.unwrap());
        running.says("ready").await;
        running.control().signal(Signal::TERM, Scope::Tree).unwrap();
        let seen = running.ended().await;
        assert_eq!(seen.exited.unwrap().status, ExitStatus::Code(5));
        assert!(seen.text().contains("ending"), "{}", seen.text());
    });
}

#[test]
fn descendants_outlive_a_natural_end_and_die_with_the_tree() {
    let bench = Bench::new();
    let line = "setsid sleep 612 >/dev/null 2>&1 & exit 0";
    let plan = bench.plan(&bench.workspace(), &["bash", "-c", line], Stdio::Pipes { stdin: false });
    bench.block_on(async {
        let running = Running::new(bench.start(plan).await.unwrap());
        assert_eq!(running.exited().await.status, ExitStatus::Code(0));
        let left = soon("the survivor", async {
            loop {
                let left = running.control().descendants().await;
                if left.iter().any(|one| one.name.contains("sleep")) {
                    return left;
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
        .await;
        assert!(
            left.iter().all(|one| !one.name.contains("bwrap") && !one.name.contains("uexec")),
            "{left:?}"
        );
        running.control().kill_tree();
        soon("the end of the tree", running.control().tree_gone()).await;
        for one in left {
            vanishes(one.pid).await;
        }
    });
}
