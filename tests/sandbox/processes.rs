//! Other processes, the kernel's doors, and how children end.

use std::time::Duration;

use unified_exec::core::process::ExitStatus;
use unified_exec::core::signal::{Scope, Signal};
use unified_exec::core::spawn::Stdio;
use unified_exec::spawn::Options;

use crate::bench::{Bench, OPEN_DESCRIPTORS};
use crate::run::{Running, soon, vanishes};

const DENIED: &[&str] = &["Operation not permitted", "Permission denied", "No such process", "No such file"];
const PIPES: Stdio = Stdio::Pipes { stdin: false };

#[test]
fn nobody_outside_is_seen_signalled_or_read() {
    let bench = Bench::new();
    let me = std::process::id();
    for line in [
        format!("kill -0 {me}"),
        format!("cat /proc/{me}/environ"),
        format!("ls /proc/{me}/root/"),
        "cat /proc/1/environ".to_owned(),
        "ls /proc/1/root/ /proc/1/cwd/".to_owned(),
        "ls /proc/1/fd/ && cat /proc/1/mem".to_owned(),
        "kill -KILL 1; kill -STOP 1; kill -TERM 1; echo lives; false".to_owned(),
    ] {
        bench.sh(&bench.workspace(), &line).denied(&[DENIED, &["lives"]].concat());
    }
    let listed = bench.sh(&bench.workspace(), "ps -e -o pid= | wc -l").succeeded();
    assert!(listed.trim().parse::<u32>().unwrap() <= 5, "{listed}");
}

/// System calls by number, as `(name, arguments)`, that must fail; on x86-64 only, whose numbers these are.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_kernels_doors_are_closed() {
    let bench = Bench::new();
    for (name, call) in [
        ("unshare(NEWUSER)", "272, 0x10000000"),
        ("unshare(NEWNET)", "272, 0x40000000"),
        ("clone(NEWUSER)", "56, 0x10000011, 0, 0, 0, 0"),
        ("setns", "308, 0, 0"),
        ("mount", "165, 0, b'/', 0, 0x5000, 0"),
        ("umount2", "166, b'/', 2"),
        ("open_tree", "428, -100, b'/', 1"),
        ("open_by_handle_at", "304, 0, 0, 0"),
        ("bpf", "321, 0, 0, 0"),
        ("perf_event_open", "298, 0, 0, 0, 0, 0"),
        ("keyctl", "250, 0, 0"),
        ("add_key", "248, b'user', b'x', b'x', 1, -3"),
        ("userfaultfd", "323, 0"),
        ("kexec_load", "246, 0, 0, 0, 0"),
        ("init_module", "175, 0, 0, b''"),
    ] {
        let code = format!(
            "import ctypes, os\n\
             libc = ctypes.CDLL(None, use_errno=True)\n\
             if libc.syscall({call}) == -1: raise OSError(ctypes.get_errno(), '')\n"
        );
        bench.python(&bench.workspace(), &code).denied(&["[Errno 1]"]);
        println!("{name}: EPERM");
    }
}

#[test]
fn who_may_not_become_another_is_told_so_by_the_usual_error() {
    let bench = Bench::new();
    // Neither of those who run the tests.
    for call in [
        "setuid(3)",
        "setgid(3)",
        "setreuid(-1, 3)",
        "setresgid(-1, 3, -1)",
        "chown('own', 3, -1)",
        "chown('own', -1, 3)",
        "lchown('own', 3, 3)",
        "fchown(os.open('own', os.O_RDONLY), 3, -1)",
        "chroot('/')",
    ] {
        let code = format!("import os; open('own', 'w'); os.{call}");
        bench.python(&bench.workspace(), &code).denied(&["[Errno 1]"]);
    }
    let code = "import os; open('own', 'w'); os.setuid(os.getuid()); os.setresgid(-1, os.getgid(), -1)\n\
                os.chown('own', os.getuid(), -1); os.chown('own', -1, os.getgid())\n";
    bench.python(&bench.workspace(), code).succeeded();
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_call_of_a_foreign_architecture_is_death_by_its_signal() {
    let bench = Bench::new();
    let sys = ExitStatus::Signal { number: 31, core_dumped: false };
    let x32 = "import ctypes; ctypes.CDLL(None).syscall(0x40000000 + 39)";
    let ended = bench.python(&bench.workspace(), x32);
    assert!(matches!(ended.status, ExitStatus::Signal { number: 31, .. }), "{:?} {sys:?}", ended.status);
    // `mov eax, 20; int 0x80; ret`: getpid by the door of 32-bit programs.
    let i386 = "import ctypes, mmap\n\
                m = mmap.mmap(-1, 4096, prot=7); m.write(bytes.fromhex('b814000000cd80c3'))\n\
                ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()\n";
    let ended = bench.python(&bench.workspace(), i386);
    assert!(matches!(ended.status, ExitStatus::Signal { number: 31, .. }), "{ended:?}");
}

#[test]
fn debuggers_work_on_their_own_children() {
    let bench = Bench::new();
    let ended = bench.sh(
        &bench.workspace(),
        "command -v strace >/dev/null || exit 77; strace -o log true && grep -q exit log",
    );
    if ended.status == ExitStatus::Code(77) {
        return println!("not probed here: strace is not installed");
    }
    ended.succeeded();
}

#[test]
fn a_child_inherits_its_three_descriptors_and_no_privilege() {
    let bench = Bench::new();
    assert_eq!(bench.python(&bench.workspace(), OPEN_DESCRIPTORS).succeeded(), "[0, 1, 2]\n");
    let status = bench.sh(&bench.workspace(), "cat /proc/self/status").succeeded();
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000"] {
        assert!(status.contains(line), "{line}: {status}");
    }
    let environment =
        bench.sh(&bench.workspace(), "env -0 | tr '\\0' '\\n' | cut -d= -f1 | sort").succeeded();
    for name in environment.lines() {
        assert!(
            ["HOME", "LC_ALL", "PATH", "PWD", "SHLVL", "_", "OLDPWD"].contains(&name)
                || name.contains("UNIFIED_EXEC"),
            "{name}"
        );
    }
}

#[test]
fn a_start_that_fails_says_why_as_without_a_sandbox() {
    use unified_exec::core::spawn::SpawnError;
    let bench = Bench::new();
    bench.write("ws/no-interpreter", "#!/no/such\n");
    bench.write("ws/plain", "echo by the shell $1\n");
    bench.write("ws/binary", "\u{7f}ELF");
    for name in ["no-interpreter", "plain", "binary"] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(bench.ws().join(name), mode).unwrap();
    }
    let fails = |program: &str| bench.try_run(bench.plan(&bench.workspace(), &[program], PIPES)).unwrap_err();
    let name = |program: &str| program.to_owned();
    assert_eq!(fails("/no/such"), SpawnError::ProgramMissing { program: name("/no/such") });
    assert_eq!(fails("/etc/passwd"), SpawnError::ProgramDenied { program: name("/etc/passwd") });
    let missing =
        SpawnError::InterpreterMissing { program: name("./no-interpreter"), interpreter: name("/no/such") };
    assert_eq!(fails("./no-interpreter"), missing);
    assert_eq!(fails("./binary"), SpawnError::ProgramFormat { program: name("./binary") });
    assert_eq!(bench.run(&bench.workspace(), &["./plain", "x"]).succeeded(), "by the shell x\n");
    let mut elsewhere = bench.plan(&bench.workspace(), &["true"], PIPES);
    elsewhere.cwd = "/no/such".to_owned();
    assert_eq!(bench.try_run(elsewhere).unwrap_err(), SpawnError::CwdMissing { path: name("/no/such") });
}

#[test]
fn a_term_leaves_time_to_tidy_up() {
    let bench = Bench::new();
    let line =
        "trap 'echo tidying; sleep 0.3; echo tidied; exit 7' TERM; echo up; while :; do sleep 0.05; done";
    for scope in [Scope::Process, Scope::Group, Scope::Tree] {
        bench.block_on(async {
            let plan = bench.plan(&bench.workspace(), &["bash", "-c", line], PIPES);
            let child = Running::new(bench.start(plan).await.unwrap());
            child.says("up").await;
            child.control().signal(Signal::TERM, scope).unwrap();
            let seen = child.ended().await;
            assert!(seen.text().contains("tidied"), "{scope:?}: {}", seen.text());
            assert_eq!(seen.exited.unwrap().status, ExitStatus::Code(7), "{scope:?}");
        });
    }
}

#[test]
fn descendants_live_on_after_a_natural_exit_and_are_ended_with_the_tree() {
    let bench = Bench::new();
    bench.block_on(async {
        let line = "setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo up";
        let plan = bench.plan(&bench.workspace(), &["bash", "-c", line], PIPES);
        let child = Running::new(bench.start(plan).await.unwrap());
        assert_eq!(child.exited().await.status, ExitStatus::Code(0));
        let listed = child.control().descendants().await;
        assert_eq!(listed.len(), 1, "{listed:?}");
        let early = tokio::time::timeout(Duration::from_millis(300), child.control().tree_gone()).await;
        assert!(early.is_err(), "it lives on");
        child.control().signal(Signal::USR1, Scope::Group).unwrap();
        child.control().kill_tree();
        soon("the tree", child.control().tree_gone()).await;
        vanishes(listed[0].pid).await;
    });
}

/// Makes this test the service that is killed, at work in this directory: it starts a child, says its number, and waits.
const VICTIM_VARIABLE: &str = "UEXEC_TEST_VICTIM";

#[test]
fn a_service_that_is_killed_takes_its_children_along() {
    if let Some(home) = std::env::var_os(VICTIM_VARIABLE) {
        let bench = Bench::within(home.as_ref(), Options::default());
        return bench.block_on(async {
            let line = "trap '' TERM HUP; setsid sleep 1000 & sleep 1000";
            let plan = bench.plan(&bench.workspace(), &["bash", "-c", line], PIPES);
            let child = Running::new(bench.start(plan).await.unwrap());
            println!("victim {}", child.pid.unwrap());
            child.ended().await;
        });
    }
    // It cannot tidy up itself.
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut service = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::a_service_that_is_killed_takes_its_children_along", "--nocapture"])
        .env(VICTIM_VARIABLE, home.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let said = std::io::BufReader::new(service.stdout.take().unwrap());
    let pid = std::io::BufRead::lines(said)
        .map_while(Result::ok)
        .find_map(|line| line.split("victim ").nth(1)?.trim().parse().ok())
        .unwrap();
    service.kill().unwrap();
    service.wait().unwrap();
    Bench::new().block_on(vanishes(pid));
}

#[test]
fn what_a_child_used_is_told() {
    let bench = Bench::new();
    bench.block_on(async {
        let line = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let plan = bench.plan(&bench.workspace(), &["bash", "-c", line], PIPES);
        let child = Running::new(bench.start(plan).await.unwrap());
        let usage = child.exited().await.usage.unwrap();
        assert!(usage.user > Duration::from_millis(20), "{usage:?}");
    });
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
fn input_flows_through_pipes() {
    let bench = Bench::new();
    bench.block_on(async {
        let plan = bench.plan(&bench.workspace(), &["cat"], Stdio::Pipes { stdin: true });
        let mut child = Running::new(bench.start(plan).await.unwrap());
        child.write(b"a line\n").await.unwrap();
        child.says("a line").await;
        child.stdin = None;
        assert_eq!(child.ended().await.exited.unwrap().status, ExitStatus::Code(0));
    });
}
