//! The contract, sentence by sentence.

use std::time::Duration;

use bytes::Bytes;
use unified_exec::core::command::TerminalSize;
use unified_exec::core::output::Stream;
use unified_exec::core::process::ExitStatus;
use unified_exec::core::signal::{Scope, Signal};
use unified_exec::core::spawn::SpawnError;
use unified_exec::host::ports::{ControlError, Eof};
use unified_exec::spawn::fake::{Act, Fork, Script};

use crate::run::{Kind, Running, plan, soon, vanishes};
use crate::subject::{Subject, What, over_all, what};

over_all! {
    the_order_of_each_stream_is_kept,
    the_last_bytes_of_a_fast_exit_arrive,
    a_program_that_closes_its_output_lives_on,
    the_exit_tells_the_code_and_the_moment,
    a_death_by_signal_tells_the_signal,
    a_signal_that_is_ignored_leaves_kill,
    a_kill_may_be_repeated_and_is_safe_after_the_exit,
    a_kill_reaches_the_group_and_whoever_left_it,
    descendants_are_listed_until_they_are_gone,
    a_tree_is_gone_only_with_its_last_member,
    the_exit_is_told_while_a_descendant_holds_the_output,
    what_is_written_is_read,
    a_large_input_waits_for_a_late_reader,
    the_end_of_input_is_told,
    writing_after_the_end_is_a_broken_pipe,
    resizing_after_the_exit_is_a_typed_error,
    resizing_needs_a_terminal,
    a_signal_to_nobody_says_so,
    dropping_every_handle_kills_and_reaps,
    dropping_the_control_alone_kills,
    dropping_a_start_midway_leaves_nothing,
    unread_output_blocks_the_child_and_not_memory,
    a_missing_program_is_told,
    a_sandbox_that_cannot_be_enforced_is_refused,
}

const MOMENT: Duration = Duration::from_millis(5);

fn lives() -> What {
    what("echo up; exec sleep 1000", Script::new().says(MOMENT, "up\n"))
}

async fn the_order_of_each_stream_is_kept(subject: Subject) {
    let mut script = Script::new();
    for number in 1..=2_000 {
        script = script
            .at_once(Act::Out(Stream::Stdout, Bytes::from(format!("{number}\n"))))
            .at_once(Act::Out(Stream::Stderr, Bytes::from(format!("e{number}\n"))));
    }
    let line = "i=1; while [ $i -le 2000 ]; do echo $i; echo e$i >&2; i=$((i+1)); done";
    let seen = subject.run(&what(line, script.exits(MOMENT, 0))).await.ended().await;
    let lines = |text: Vec<u8>| {
        let text = String::from_utf8(text).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let numbers = |prefix: &str| (1..=2_000).map(|number| format!("{prefix}{number}")).collect::<Vec<_>>();
    match subject.kind {
        Kind::Pipes => {
            assert_eq!(lines(seen.of(Stream::Stdout)), numbers(""));
            assert_eq!(lines(seen.of(Stream::Stderr)), numbers("e"));
        }
        Kind::Terminal => {
            let both: Vec<String> =
                (1..=2_000).flat_map(|number| [format!("{number}"), format!("e{number}")]).collect();
            assert_eq!(lines(seen.of(Stream::Terminal)), both);
        }
    }
}

async fn the_last_bytes_of_a_fast_exit_arrive(subject: Subject) {
    for _ in 0..200 {
        let program =
            what("printf x; exit 7", Script::new().says(Duration::ZERO, "x").exits(Duration::ZERO, 7));
        let seen = subject.run(&program).await.ended().await;
        assert_eq!(seen.text(), "x");
        assert_eq!(seen.exited.unwrap().status, ExitStatus::Code(7));
    }
}

async fn a_program_that_closes_its_output_lives_on(subject: Subject) {
    let script =
        Script::new().says(MOMENT, "before\n").at_once(Act::CloseOutputs).then(MOMENT, Act::ReadLine);
    let line = "echo before; exec >/dev/null 2>&1; read x; exit 4";
    let mut child = subject.run(&what(line, script.exits(MOMENT, 4))).await;
    child.says("before").await;
    assert!(child.seen().exited.is_none());
    child.write(b"go\n").await.unwrap();
    let seen = child.ended().await;
    assert_eq!(seen.exited.unwrap().status, ExitStatus::Code(4));
}

async fn the_exit_tells_the_code_and_the_moment(subject: Subject) {
    for code in [0, 1, 143, 255] {
        let program = what(format!("exit {code}"), Script::new().exits(MOMENT, code));
        let exited = subject.run(&program).await.exited().await;
        assert_eq!(exited.status, ExitStatus::Code(code));
        assert!(exited.at > unified_exec::core::time::Instant::ZERO);
    }
}

async fn a_death_by_signal_tells_the_signal(subject: Subject) {
    for signal in [Signal::TERM, Signal::KILL, Signal::USR1, Signal::HUP] {
        let child = subject.run(&lives()).await;
        child.says("up").await;
        child.control().signal(signal, Scope::Process).unwrap();
        let status = child.exited().await.status;
        assert_eq!(status, ExitStatus::Signal { number: signal.number(), core_dumped: false });
    }
}

async fn a_signal_that_is_ignored_leaves_kill(subject: Subject) {
    let script = Script::new().at_once(Act::OnSignal(Signal::TERM, vec![])).says(MOMENT, "deaf\n");
    let child = subject.run(&what("trap '' TERM; echo deaf; while :; do sleep 1000; done", script)).await;
    child.says("deaf").await;
    child.control().signal(Signal::TERM, Scope::Process).unwrap();
    tokio::time::sleep(MOMENT * 10).await;
    assert!(child.seen().exited.is_none());
    child.control().kill_tree();
    let status = child.exited().await.status;
    assert_eq!(status, ExitStatus::Signal { number: 9, core_dumped: false });
}

async fn a_kill_may_be_repeated_and_is_safe_after_the_exit(subject: Subject) {
    let child = subject.run(&lives()).await;
    child.says("up").await;
    for _ in 0..3 {
        child.control().kill_tree();
    }
    assert_eq!(child.exited().await.status.shell_code(), 137);
    soon("the tree", child.control().tree_gone()).await;
    for _ in 0..3 {
        child.control().kill_tree();
    }
    soon("the tree", child.control().tree_gone()).await;
}

/// A child of the group, one in a session of its own, and one that has lost its parents as well.
fn family() -> What {
    let fork = |name: &str, left_group| Act::Fork(Fork { left_group, ..Fork::new(name) });
    let script = Script::new()
        .at_once(fork("sleep", false))
        .at_once(fork("sleep", true))
        .at_once(fork("sleep", true))
        .says(MOMENT, "up\n");
    let line = "sleep 1001 & \
                setsid sleep 1002 & \
                ( setsid sh -c 'sleep 1003 & exec true' & ) ; \
                sleep 0.3; echo up; exec sleep 1000";
    what(line, script)
}

async fn a_kill_reaches_the_group_and_whoever_left_it(subject: Subject) {
    let child = subject.run(&family()).await;
    child.says("up").await;
    let before = child.control().descendants().await;
    assert_eq!(before.iter().filter(|member| member.name == "sleep").count(), 3, "{before:?}");
    child.control().kill_tree();
    assert_eq!(child.exited().await.status.shell_code(), 137);
    soon("the tree", child.control().tree_gone()).await;
    for member in before {
        vanishes(member.pid).await;
    }
    assert!(child.control().descendants().await.is_empty());
    child.ended().await;
}

async fn descendants_are_listed_until_they_are_gone(subject: Subject) {
    let fork = Act::Fork(Fork { lives: Some(Duration::from_millis(400)), ..Fork::new("sleep") });
    let script = Script::new().at_once(fork).says(MOMENT, "up\n").exits(MOMENT, 0);
    let line = "x=$(setsid sh -c 'exec sleep 0.4 >/dev/null 2>&1 </dev/null' &); echo up";
    let child = subject.run(&what(line, script)).await;
    child.says("up").await;
    child.exited().await;
    let names = |list: Vec<unified_exec::core::spawn::Descendant>| {
        list.into_iter().map(|member| member.name).collect::<Vec<_>>()
    };
    assert_eq!(names(child.control().descendants().await), ["sleep"]);
    soon("the tree", child.control().tree_gone()).await;
    assert!(child.control().descendants().await.is_empty());
}

async fn a_tree_is_gone_only_with_its_last_member(subject: Subject) {
    let fork = Act::Fork(Fork { left_group: true, ..Fork::new("sleep") });
    let script = Script::new().at_once(fork).says(MOMENT, "up\n").exits(MOMENT, 0);
    // The substitution ends when the descendant, in a session of its own by then, has closed its output.
    let line = "x=$(setsid sh -c 'exec sleep 1000 >/dev/null 2>&1 </dev/null' &); echo up";
    let child = subject.run(&what(line, script)).await;
    child.exited().await;
    let early = tokio::time::timeout(Duration::from_millis(300), child.control().tree_gone()).await;
    assert!(early.is_err(), "a descendant lives");
    let (first, second) = (child.control().tree_gone(), child.control().tree_gone());
    child.control().signal(Signal::TERM, Scope::Tree).unwrap();
    soon("the tree, for the first who asked", first).await;
    soon("the tree, for the second who asked", second).await;
}

async fn the_exit_is_told_while_a_descendant_holds_the_output(subject: Subject) {
    let fork = Act::Fork(Fork { left_group: true, holds_outputs: true, ..Fork::new("sleep") });
    let script = Script::new().at_once(fork).says(MOMENT, "up\n").exits(MOMENT, 3);
    let child = subject.run(&what("setsid sleep 1000 & sleep 0.1; echo up; exit 3", script)).await;
    child.says("up").await;
    assert_eq!(child.exited().await.status, ExitStatus::Code(3));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!child.seen().closed, "somebody still holds it");
    child.control().kill_tree();
    child.ended().await;
}

async fn what_is_written_is_read(subject: Subject) {
    let line = "stty raw -echo 2>/dev/null; echo up; exec cat";
    let mut child = subject.run(&what(line, Script::new().says(MOMENT, "up\n").at_once(Act::Echo))).await;
    child.says("up").await;
    child.write(b"hello\n").await.unwrap();
    child.says("hello").await;
    child.write(b"again\n").await.unwrap();
    child.says("again").await;
}

async fn a_large_input_waits_for_a_late_reader(subject: Subject) {
    let script = Script::new().says(MOMENT, "up\n").then(Duration::from_millis(300), Act::Echo);
    let line = "stty raw -echo 2>/dev/null; echo up; sleep 0.3; exec cat";
    let mut child = subject.run(&what(line, script)).await;
    let before = child.says("up\n").await.bytes().len();
    let large: Vec<u8> = (0..1_u32 << 20).map(|at| b'a' + (at % 23) as u8).collect();
    child.write(&large).await.unwrap();
    let seen = child.says_bytes(before + large.len()).await;
    assert!(seen.bytes()[before..] == large);
}

async fn the_end_of_input_is_told(subject: Subject) {
    let program = what("cat >/dev/null; exit 5", Script::new().at_once(Act::Echo).exits(Duration::ZERO, 5));
    let mut child = subject.run(&program).await;
    child.write(b"a line\n").await.unwrap();
    match child.stdin.as_ref().unwrap().eof() {
        Eof::Close => {
            assert_eq!(subject.kind, Kind::Pipes);
            child.stdin = None;
        }
        Eof::Type(bytes) => {
            assert_eq!(subject.kind, Kind::Terminal);
            child.write(&bytes).await.unwrap();
        }
    }
    assert_eq!(child.exited().await.status, ExitStatus::Code(5));
}

async fn writing_after_the_end_is_a_broken_pipe(subject: Subject) {
    let mut child = subject.run(&what("exit 0", Script::new().exits(MOMENT, 0))).await;
    child.ended().await;
    let error = child.write(b"x").await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

async fn resizing_after_the_exit_is_a_typed_error(subject: Subject) {
    let child = subject.run(&what("exit 0", Script::new().exits(MOMENT, 0))).await;
    child.ended().await;
    let expected = if subject.kind == Kind::Pipes { ControlError::NoTerminal } else { ControlError::Gone };
    assert_eq!(child.control().resize(TerminalSize { rows: 40, cols: 100 }), Err(expected));
}

async fn resizing_needs_a_terminal(subject: Subject) {
    let child = subject.run(&lives()).await;
    child.says("up").await;
    let answer = child.control().resize(TerminalSize { rows: 40, cols: 100 });
    match subject.kind {
        Kind::Pipes => assert_eq!(answer, Err(ControlError::NoTerminal)),
        Kind::Terminal => assert_eq!(answer, Ok(())),
    }
}

async fn a_signal_to_nobody_says_so(subject: Subject) {
    let child = subject.run(&what("exit 0", Script::new().exits(MOMENT, 0))).await;
    child.ended().await;
    soon("the tree", child.control().tree_gone()).await;
    for scope in [Scope::Process, Scope::Group, Scope::Foreground, Scope::Tree] {
        assert_eq!(child.control().signal(Signal::TERM, scope), Err(ControlError::Gone), "{scope:?}");
    }
}

async fn dropping_every_handle_kills_and_reaps(subject: Subject) {
    let spawned = subject.spawn(&family()).await;
    let pid = spawned.pid.unwrap();
    let gone = spawned.control.tree_gone();
    drop(spawned);
    soon("the tree", gone).await;
    vanishes(pid).await;
}

async fn dropping_the_control_alone_kills(subject: Subject) {
    let mut child = subject.run(&lives()).await;
    child.says("up").await;
    child.control = None;
    assert_eq!(child.exited().await.status.shell_code(), 137);
    child.ended().await;
}

async fn dropping_a_start_midway_leaves_nothing(subject: Subject) {
    for _ in 0..10 {
        let program = lives();
        let start = subject.try_spawn(&program);
        // One poll is enough to begin; then the caller goes away.
        let polled = tokio::time::timeout(Duration::ZERO, start).await;
        drop(polled);
    }
    // The real ones are told by the count of children in `load`; here it must only not disturb the next.
    let child = subject.run(&lives()).await;
    child.says("up").await;
}

async fn unread_output_blocks_the_child_and_not_memory(subject: Subject) {
    let megabyte = Bytes::from(vec![b'y'; 1 << 20]);
    let script = Script::new().at_once(Act::Out(Stream::Stdout, megabyte)).exits(MOMENT, 0);
    let child = Running::unread(subject.spawn(&what("head -c 1048576 /dev/zero | tr '\\0' y", script)).await);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(child.seen().exited.is_none(), "it cannot have written all of that to nobody");
    child.start_reading();
    let seen = child.ended().await;
    assert_eq!(seen.bytes().len(), 1 << 20);
    assert_eq!(seen.exited.unwrap().status, ExitStatus::Code(0));
}

async fn a_missing_program_is_told(subject: Subject) {
    let answer = subject.spawner.spawn(subject.plan(&["no-such-program"])).await;
    let missing = SpawnError::ProgramMissing { program: "no-such-program".to_owned() };
    assert_eq!(answer.unwrap_err(), missing);
}

async fn a_sandbox_that_cannot_be_enforced_is_refused(subject: Subject) {
    let mut refused = plan(&["script"], subject.kind.stdio());
    if subject.is_fake() {
        // It must be known to be started at all.
        drop(subject.spawn(&lives()).await);
    }
    refused.sandbox = Some(subject.unenforceable());
    let answer = subject.spawner.spawn(refused).await;
    assert!(matches!(answer, Err(SpawnError::SandboxUnavailable { .. })), "{answer:?}");
}
