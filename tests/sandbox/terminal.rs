//! Terminals and job control under the sandbox.

use unified_exec::core::command::TerminalSize;
use unified_exec::core::process::ExitStatus;
use unified_exec::core::signal::{Scope, Signal};
use unified_exec::core::spawn::Stdio;

use crate::bench::Bench;
use crate::run::Running;

const TERMINAL: Stdio = Stdio::Terminal(TerminalSize { rows: 24, cols: 80 });

async fn shell(bench: &Bench) -> Running {
    let plan = bench.plan(&bench.workspace(), &["bash", "--norc", "--noprofile", "-i"], TERMINAL);
    let mut child = Running::new(bench.start(plan).await.unwrap());
    child.write(b"PS1='ready> '\n").await.unwrap();
    child.says("\nready> ").await;
    child
}

#[test]
fn a_program_handles_control_c_itself() {
    let bench = Bench::new();
    bench.block_on(async {
        // One long sleep would miss a signal that comes between its last look and its beginning.
        let code = "import time\ntry:\n  print('up', flush=True)\n  while True: time.sleep(0.05)\n\
                    except KeyboardInterrupt: print('interrupted'); raise SystemExit(3)\n";
        let plan = bench.plan(&bench.workspace(), &["/usr/bin/python3", "-c", code], TERMINAL);
        let mut child = Running::new(bench.start(plan).await.unwrap());
        child.says("up").await;
        assert_eq!(child.control().foreground(), child.pid, "the command is in the foreground");
        child.write(b"\x03").await.unwrap();
        let seen = child.ended().await;
        assert!(seen.text().contains("interrupted"), "{}", seen.text());
        assert_eq!(seen.exited.unwrap().status, ExitStatus::Code(3));
    });
}

#[test]
fn jobs_are_stopped_and_continued() {
    let bench = Bench::new();
    bench.block_on(async {
        let mut child = shell(&bench).await;
        child.write(b"sh -c 'echo st''arted; sleep 1000; true'\n").await.unwrap();
        child.says("started").await;
        // A shell that is stopped in the middle of a vfork cannot tell.
        crate::run::soon("the job", async {
            while child.control().descendants().await.iter().all(|member| member.name != "sleep") {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
        .await;
        child.write(b"\x1a").await.unwrap();
        child.says("Stopped").await;
        child.write(b"fg >/dev/null\n").await.unwrap();
        // The job is in the foreground again once the shell is not.
        let pid = child.pid.unwrap();
        crate::run::soon("the job", async {
            while child.control().foreground() == Some(pid) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
        .await;
        child.control().signal(Signal::INT, Scope::Foreground).unwrap();
        child.write(b"echo ba''ck:$?\n").await.unwrap();
        child.says("back:130").await;
        child.write(b"exit 4\n").await.unwrap();
        assert_eq!(child.exited().await.status, ExitStatus::Code(4));
    });
}

#[test]
fn a_new_size_is_seen_and_told() {
    let bench = Bench::new();
    bench.block_on(async {
        let line = "trap 'stty size; exit' WINCH; stty size; echo up; while :; do sleep 0.05; done";
        let plan = bench.plan(&bench.workspace(), &["bash", "-c", line], TERMINAL);
        let child = Running::new(bench.start(plan).await.unwrap());
        let seen = child.says("up").await;
        assert!(seen.text().contains("24 80"), "{}", seen.text());
        child.control().resize(TerminalSize { rows: 40, cols: 100 }).unwrap();
        child.says("40 100").await;
    });
}

#[test]
fn the_terminal_has_a_name_and_is_the_controlling_one() {
    let bench = Bench::new();
    bench.block_on(async {
        let line = "tty; echo through > /dev/tty; ps -o pid=,pgid=,sid= -p $$; echo $$";
        let plan = bench.plan(&bench.workspace(), &["bash", "-c", line], TERMINAL);
        let text = Running::new(bench.start(plan).await.unwrap()).ended().await.text();
        assert!(text.contains("/dev/console") && text.contains("through"), "{text}");
    });
}

#[test]
fn terminals_can_be_opened_inside() {
    let bench = Bench::new();
    let code = "import pty, os; a, b = pty.openpty(); os.write(b, b'x'); assert os.read(a, 1) == b'x'; print(os.ttyname(b))";
    assert!(bench.python(&bench.workspace(), code).succeeded().contains("/dev/pts/"));
}

#[test]
fn nothing_can_be_typed_into_a_terminal() {
    let bench = Bench::new();
    bench.block_on(async {
        let code = "import fcntl, termios\n\
                    for request in [termios.TIOCSTI, 0x541c]:\n\
                    \x20   for word in [request, request | 1 << 32]:\n\
                    \x20       try: fcntl.ioctl(0, word & 0xffffffff, b'x'); print('typed')\n\
                    \x20       except OSError as error: print(error.errno)\n";
        let plan = bench.plan(&bench.workspace(), &["/usr/bin/python3", "-c", code], TERMINAL);
        let text = Running::new(bench.start(plan).await.unwrap()).ended().await.text();
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["1"; 4], "EPERM");
    });
}
