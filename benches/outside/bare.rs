//! The bare operating system: what the service cannot beat.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use portable_pty::{CommandBuilder, PtyPair, PtySize, native_pty_system};

#[expect(clippy::disallowed_methods, reason = "the bare side of a measurement")]
fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the bare side of a measurement: posix_spawn, without the service"
)]
fn command(program: &str) -> Command {
    Command::new(program)
}

/// From the start of `/bin/true` until its exit is known.
pub(crate) fn exec_true() -> Duration {
    let start = now();
    let mut child = command("/bin/true")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("true starts");
    child.wait().expect("true ends");
    start.elapsed()
}

/// Reads `bytes` from a child's pipe.
pub(crate) fn pipe(bytes: u64) -> Duration {
    let start = now();
    let mut child = command("/usr/bin/head")
        .args(["-c", &bytes.to_string(), "/dev/zero"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("head starts");
    let read = read_to_end(child.stdout.take().expect("a pipe"));
    child.wait().expect("head ends");
    assert_eq!(read, bytes);
    start.elapsed()
}

/// A program that writes `bytes` bytes, no two stretches of them alike.
pub(crate) fn numbers(bytes: u64) -> String {
    format!("seq 1 400000000 | head -c {bytes}")
}

/// The SHA-256 of what [`numbers`] writes.
pub(crate) fn digest(bytes: u64) -> Vec<u8> {
    let mut child = command("/bin/sh")
        .args(["-c", &numbers(bytes)])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the shell starts");
    let mut digest = Sha256::new();
    let mut output = child.stdout.take().expect("a pipe");
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = output.read(&mut buffer).expect("the output");
        if read == 0 {
            break;
        }
        digest.update(&buffer[..read]);
    }
    child.wait().expect("the shell ends");
    digest.finalize().to_vec()
}

/// Reads `bytes` from a child's terminal.
pub(crate) fn terminal(bytes: u64) -> Duration {
    let start = now();
    let pair = pair();
    let mut builder = CommandBuilder::new("/bin/sh");
    builder.args(["-c", &format!("stty raw; exec head -c {bytes} /dev/zero")]);
    let mut child = pair.slave.spawn_command(builder).expect("head starts");
    drop(pair.slave);
    let read = read_to_end(pair.master.try_clone_reader().expect("a reader"));
    child.wait().expect("head ends");
    assert_eq!(read, bytes);
    start.elapsed()
}

/// From each key to its echo by a program in raw mode.
pub(crate) fn echo(keys: usize) -> Vec<Duration> {
    let pair = pair();
    let mut builder = CommandBuilder::new("/bin/sh");
    builder.args(["-c", "stty raw -echo; echo ready; exec cat"]);
    let mut child = pair.slave.spawn_command(builder).expect("cat starts");
    drop(pair.slave);
    let mut reader = pair.master.try_clone_reader().expect("a reader");
    let mut writer = pair.master.take_writer().expect("a writer");
    let mut buffer = [0; 64];
    let mut seen = Vec::new();
    while !seen.windows(5).any(|window| window == b"ready") {
        let read = reader.read(&mut buffer).expect("the prompt");
        seen.extend_from_slice(&buffer[..read]);
    }
    let times = (0..keys)
        .map(|_| {
            let start = now();
            writer.write_all(b"x").expect("a key");
            reader.read_exact(&mut buffer[..1]).expect("its echo");
            start.elapsed()
        })
        .collect();
    child.kill().expect("cat is ended");
    child.wait().expect("cat has ended");
    times
}

fn pair() -> PtyPair {
    native_pty_system().openpty(PtySize::default()).expect("a terminal")
}

fn read_to_end(mut reader: impl Read) -> u64 {
    let mut buffer = vec![0; 64 * 1024];
    let mut total = 0;
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return total,
            Ok(read) => total += read as u64,
            // The end of a terminal.
            Err(error) if error.raw_os_error() == Some(5) => return total,
            Err(error) => panic!("reading failed: {error}"),
        }
    }
}
