//! Terminals of confined commands: job control, sizes, input.

use unified_exec::core::command::TerminalSize;
use unified_exec::core::process::ExitStatus;
use unified_exec::core::spawn::Stdio;

use crate::bench::Bench;
use crate::run::Running;

fn on_terminal(bench: &Bench, argv: &[&str]) -> unified_exec::core::spawn::SpawnPlan {
    bench.plan(&bench.workspace(), argv, Stdio::Terminal(TerminalSize { rows: 30, cols: 100 }))
}

#[test]
fn an_interrupt_reaches_the_program_which_may_live_on() {
    let bench = Bench::new();
    let code = "import time\n\
                try: print('ready', flush=True); time.sleep(60)\n\
                except KeyboardInterrupt: print('interrupted', flush=True)\n\
                print(input('more? '))";
    let plan = on_terminal(&bench, &["/usr/bin/python3", "-c", code]);
    bench.block_on(async {
        let mut running = Running::new(bench.start(plan).await.unwrap());
        running.says("ready").await;
        running.write(b"\x03").await.unwrap();
        running.says("interrupted").await;
        running.says("more?").await;
        running.write(b"yes\r").await.unwrap();
        let seen = running.ended().await;
        assert_eq!(seen.exited.unwrap().status, ExitStatus::Code(0), "{}", seen.text());
    });
}

#[test]
fn jobs_are_stopped_and_come_back() {
    let bench = Bench::new();
    let plan = on_terminal(&bench, &["bash", "--norc", "--noprofile", "-i"]);
    bench.block_on(async {
        let mut running = Running::new(bench.start(plan).await.unwrap());
        running.write(b"PS1='$ '; echo up\"\"per\r").await.unwrap();
        running.says("upper").await;
        running.write(b"sleep 61\r").await.unwrap();
        running.says("sleep 61").await;
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        running.write(b"\x1a").await.unwrap();
        running.says("Stopped").await;
        running.write(b"jobs; kill %1; wait; echo go\"\"ne\r").await.unwrap();
        running.says("gone").await;
        running.write(b"exit 4\r").await.unwrap();
        assert_eq!(running.exited().await.status, ExitStatus::Code(4));
    });
}

#[test]
fn the_size_is_told_and_so_is_a_new_one() {
    let bench = Bench::new();
    let line = "trap 'stty size; exit' WINCH; stty size; while :; do sleep 0.05; done";
    let plan = on_terminal(&bench, &["bash", "-c", line]);
    bench.block_on(async {
        let running = Running::new(bench.start(plan).await.unwrap());
        running.says("30 100").await;
        running.control().resize(TerminalSize { rows: 41, cols: 123 }).unwrap();
        running.says("41 123").await;
        running.ended().await;
    });
}

#[test]
fn a_terminal_is_one_inside_too() {
    let bench = Bench::new();
    let plan =
        on_terminal(&bench, &["bash", "-c", "test -t 0 && test -t 1 && tty && echo x > /dev/tty && echo ok"]);
    let (ended, _) = bench.try_run(plan).unwrap();
    assert!(ended.succeeded().contains("ok"));
}
