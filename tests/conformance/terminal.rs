//! What a program finds on its terminal.

use std::time::Duration;

use unified_exec::core::command::TerminalSize;
use unified_exec::core::process::ExitStatus;
use unified_exec::core::signal::{Scope, Signal};
use unified_exec::core::spawn::Stdio;
use unified_exec::spawn::fake::Script;

use crate::run::{Running, plan, soon};
use crate::subject::{Subject, What, over, what};

over! {
    play,
    terminals_with_cgroups = TERMINALS
    terminals_without_cgroups = TERMINALS_NO_CGROUP
    => {
        it_is_the_controlling_terminal_of_dash,
        it_is_the_controlling_terminal_of_python,
        a_child_leads_its_session_and_its_group,
        it_has_the_size_that_was_asked_for,
        a_new_size_is_told_by_a_signal,
        it_erases_whole_characters,
        control_c_reaches_the_foreground,
        the_foreground_group_is_signalled_and_not_the_shell,
        a_program_may_close_and_open_it_again,
        the_exit_is_told_while_another_session_holds_it,
        dropping_the_input_types_nothing,
        a_large_paste_arrives_whole,
        a_large_listing_arrives_whole,
        sixty_at_once_keep_to_themselves,
    }
}

fn program(line: impl Into<String>) -> What {
    what(line, Script::new())
}

async fn it_is_the_controlling_terminal_of_dash(subject: Subject) {
    // Not bash, which opens its terminal by name and so hides a missing one.
    let plan = plan(&["dash", "-c", "echo through the tty > /dev/tty"], subject.kind.stdio());
    let seen = Running::new(subject.spawner.spawn(plan).await.unwrap()).ended().await;
    assert_eq!(seen.text(), "through the tty\r\n");
}

async fn it_is_the_controlling_terminal_of_python(subject: Subject) {
    let code = "import os\nt = os.open('/dev/tty', os.O_RDWR)\n\
                print(os.tcgetpgrp(t) == os.getpgrp(), os.ttyname(0) == os.ttyname(2))";
    let plan = plan(&["python3", "-c", code], subject.kind.stdio());
    let seen = Running::new(subject.spawner.spawn(plan).await.unwrap()).ended().await;
    assert_eq!(seen.text(), "True True\r\n");
}

async fn a_child_leads_its_session_and_its_group(subject: Subject) {
    let child = subject.run(&program("ps -o pid=,pgid=,sid= -p $$")).await;
    let pid = child.pid.unwrap().to_string();
    let seen = child.ended().await;
    assert_eq!(seen.text().split_whitespace().collect::<Vec<_>>(), [&pid, &pid, &pid]);
}

async fn it_has_the_size_that_was_asked_for(subject: Subject) {
    let seen = subject.run(&program("stty size")).await.ended().await;
    assert_eq!(seen.text(), "24 80\r\n");
    let wide = Stdio::Terminal(TerminalSize { rows: 50, cols: 132 });
    let child = subject.spawner.spawn(plan(&["stty", "size"], wide)).await.unwrap();
    assert_eq!(Running::new(child).ended().await.text(), "50 132\r\n");
}

async fn a_new_size_is_told_by_a_signal(subject: Subject) {
    let line = "trap 'stty size; exit 0' WINCH; echo up; while :; do sleep 0.1; done";
    let child = subject.run(&program(line)).await;
    child.says("up").await;
    child.control().resize(TerminalSize { rows: 33, cols: 99 }).unwrap();
    child.says("33 99").await;
    child.ended().await;
}

async fn it_erases_whole_characters(subject: Subject) {
    let seen = subject.run(&program("stty -a")).await.ended().await;
    assert!(seen.text().contains(" iutf8"), "{}", seen.text());
}

async fn control_c_reaches_the_foreground(subject: Subject) {
    let mut child = subject
        .run(&program("trap 'echo interrupted; exit 3' INT; echo up; while :; do sleep 0.1; done"))
        .await;
    child.says("up").await;
    child.write(b"\x03").await.unwrap();
    let seen = child.ended().await;
    assert!(seen.text().contains("interrupted"));
    assert_eq!(seen.exited.unwrap().status, ExitStatus::Code(3));
}

async fn the_foreground_group_is_signalled_and_not_the_shell(subject: Subject) {
    // With job control, what the shell runs has a group of its own.
    let line = "set -m; sh -c 'echo job; exec sleep 1000'; echo \"job ended with $?\"; sleep 0.1; exit 6";
    let child = subject.run(&program(line)).await;
    child.says("job").await;
    // The job takes the terminal around the time it speaks.
    tokio::time::sleep(Duration::from_millis(200)).await;
    child.control().signal(Signal::TERM, Scope::Foreground).unwrap();
    let seen = child.ended().await;
    assert!(seen.text().contains("job ended with 143"), "{}", seen.text());
    assert_eq!(seen.exited.unwrap().status, ExitStatus::Code(6));
}

async fn a_program_may_close_and_open_it_again(subject: Subject) {
    let line = "t=$(tty); echo before; exec <&- >&- 2>&-; sleep 0.2; exec >$t; echo after";
    let seen = subject.run(&program(line)).await.ended().await;
    assert_eq!(seen.text(), "before\r\nafter\r\n");
}

async fn the_exit_is_told_while_another_session_holds_it(subject: Subject) {
    let line = "setsid sh -c 'sleep 0.6; echo late' & sleep 0.2; echo early; exit 2";
    let child = subject.run(&program(line)).await;
    assert_eq!(child.exited().await.status, ExitStatus::Code(2));
    assert!(!child.seen().closed);
    let seen = child.ended().await;
    assert_eq!(seen.text(), "early\r\nlate\r\n");
}

async fn dropping_the_input_types_nothing(subject: Subject) {
    let mut child = subject.run(&program("echo up; cat; echo cat ended")).await;
    child.says("up").await;
    child.stdin = None;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(child.seen().text(), "up\r\n");
}

async fn a_large_paste_arrives_whole(subject: Subject) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pasted");
    let line = format!("stty raw -echo; echo up; head -c 1048576 > {}; echo done", file.display());
    let mut child = subject.run(&program(line)).await;
    child.says("up").await;
    let pasted: Vec<u8> = (0..1 << 20).map(|at: u32| (at % 251) as u8).collect();
    child.write(&pasted).await.unwrap();
    child.says("done").await;
    assert!(std::fs::read(&file).unwrap() == pasted);
}

async fn a_large_listing_arrives_whole(subject: Subject) {
    let seen = subject.run(&program("seq 1 200000")).await.ended().await;
    assert_eq!(seen.bytes().len(), 1_488_895);
    assert!(seen.text().ends_with("\r\n200000\r\n"));
}

async fn sixty_at_once_keep_to_themselves(subject: Subject) {
    let mut children = Vec::new();
    for number in 0..60 {
        let line = format!("read word; echo \"$word for {number}\"");
        children.push(subject.run(&program(line)).await);
    }
    for (number, child) in children.iter_mut().enumerate() {
        child.write(format!("w{number}\n").as_bytes()).await.unwrap();
    }
    for (number, child) in children.iter().enumerate() {
        let seen = soon("one of sixty", child.ended()).await;
        assert_eq!(seen.text(), format!("w{number}\r\nw{number} for {number}\r\n"));
    }
}
