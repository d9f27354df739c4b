//! `scriptchild` by itself, behind pipes: what each act is to the kernel.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test of a real process")]

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn start(acts: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_sim"))
        .args(["scriptchild", acts])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Plays it to the end of its outputs.
fn play(acts: &str, input: &[u8]) -> Output {
    let mut child = start(acts);
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn is_alive(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}/exe")).read_link().is_ok()
}

#[test]
fn bytes_go_where_they_belong_and_the_code_is_the_exits() {
    let out = play(
        "acts = [{ at = 0, out = 'a' }, { at = 1, err = 'b' }, { at = 2, out_b64 = 'AP8=' }, { at = 3, exit = 7 }]",
        b"",
    );
    assert_eq!(
        (&out.stdout[..], &out.stderr[..], out.status.code()),
        (&b"a\x00\xff"[..], &b"b"[..], Some(7))
    );
}

#[test]
fn it_dies_of_the_signal_even_if_it_ignored_it() {
    for (acts, signal) in [
        ("acts = [{ at = 0, signal = 'TERM' }]", 15),
        ("acts = [{ at = 0, ignore = 'INT' }, { at = 0, signal = 'INT' }]", 2),
        ("acts = [{ at = 0, signal = 'KILL' }]", 9),
        ("acts = [{ at = 0, signal = 'SEGV' }]", 11),
        ("acts = [{ at = 0, signal = 'PIPE' }]", 13),
    ] {
        let status = play(acts, b"").status;
        assert_eq!(status.signal(), Some(signal), "{acts}");
        assert!(!status.core_dumped());
    }
}

#[test]
fn acts_come_no_sooner_than_they_say() {
    let start = Instant::now();
    play("acts = [{ at = 120, exit = 0 }]", b"");
    assert!(start.elapsed() >= Duration::from_millis(120));
}

#[test]
fn input_is_read_as_far_as_the_acts_say() {
    let out = play(
        "acts = [{ at = 0, read_stdin = 3 }, { at = 50, echo = true }, { at = 150, exit = 0 }]",
        b"abcdef",
    );
    assert_eq!(out.stdout, b"def");
}

#[test]
fn what_was_on_the_way_comes_after_the_end() {
    let mut child = start("acts = [{ at = 0, out = 'a' }, { at = 0, exit = 4 }, { at = 200, out = 'b' }]");
    assert_eq!(child.wait().unwrap().code(), Some(4));
    let mut rest = String::new();
    child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "ab");
}

#[test]
fn outputs_end_while_it_lives_and_are_held_when_it_does_not() {
    let mut child = start("acts = [{ at = 0, out = 'x' }, { at = 10, eof = true }]");
    let mut all = String::new();
    child.stdout.take().unwrap().read_to_string(&mut all).unwrap();
    assert_eq!(all, "x");
    assert_eq!(child.try_wait().unwrap(), None);
    child.kill().unwrap();
    child.wait().unwrap();

    let mut child = start("acts = [{ at = 0, fork_holder = 400 }, { at = 0, exit = 0 }]");
    assert!(child.wait().unwrap().success());
    let start = Instant::now();
    child.stdout.take().unwrap().read_to_string(&mut all).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(200), "nobody held the outputs");
}

#[test]
fn a_program_that_hangs_takes_no_signal_but_kill() {
    let mut child = start("acts = [{ at = 0, hang = true }, { at = 1, out = 'never' }]");
    let id = child.id().to_string();
    // It is ready once TERM is among the signals that it catches.
    while caught(child.id()).is_none_or(|caught| caught & (1 << 14) == 0) {
        std::thread::yield_now();
    }
    for signal in ["-TERM", "-INT", "-HUP", "-QUIT"] {
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }
    assert_eq!(child.try_wait().unwrap(), None);
    child.kill().unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"");
}

/// The signals that a process catches, as the kernel tells; bit 0 is signal 1.
fn caught(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("SigCgt:"))?;
    u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok()
}

#[test]
fn a_daemon_holds_nothing_has_left_and_ignores_what_its_parent_ignored() {
    let mut child =
        start("acts = [{ at = 0, ignore = 'TERM' }, { at = 0, daemon = 30000 }, { at = 0, out = 'up' }]");
    let mut up = [0; 2];
    child.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
    let pgrep = Command::new("pgrep").args(["-f", "scriptchild --descendant daemon --lives 30000"]).output();
    let pid: u32 = String::from_utf8(pgrep.unwrap().stdout).unwrap().lines().next().unwrap().parse().unwrap();
    assert!(caught(pid).unwrap() & (1 << 14) != 0);
    child.kill().unwrap();
    // Its outputs end with it: the daemon holds none of them.
    child.wait_with_output().unwrap();
    assert!(is_alive(pid));
    assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
}

#[test]
fn what_cannot_be_played_is_named() {
    for (acts, words) in [
        ("acts = [{ at = 0, ignore = 'KILL' }]", "`ignore`: no real process ignores KILL"),
        ("acts = [{ at = 0, exit = 0, late = 5 }]", "`late`"),
        ("acts = [\n{ at = 0, uot = 'x' }]", "line 2: unknown field `uot`"),
        ("acts = [{ at = 5, out = 'x' }, { at = 4, exit = 0 }]", "`at`: 4 comes after 5"),
        ("acts = [{ at = 0, eof = false }]", "`eof`"),
        ("act = []", "unknown field `act`"),
        ("@/nowhere.toml", "/nowhere.toml"),
        ("acts = [{ at = 0, connect = 'host:1' }]", "there is no HTTP_PROXY"),
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_sim"))
            .args(["scriptchild", acts])
            .env_remove("HTTP_PROXY")
            .output()
            .unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(125), "{acts}: {said}");
        assert!(said.contains(words), "{acts}: {said}");
    }
}
