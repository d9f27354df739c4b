//! Runs the binary in a place of its own, and leaves nothing behind.
#![expect(clippy::panic, reason = "that is how a test fails")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A command that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory in which no server runs unless the test starts one.
pub(crate) struct Place {
    dir: TempDir,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Done {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("stdout is UTF-8")
    }

    /// One JSON document.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// JSON lines.
    pub(crate) fn lines(&self) -> Vec<serde_json::Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
        self.text().lines().map(parse).collect()
    }

    /// The output, if all went well.
    #[track_caller]
    pub(crate) fn ok(&self) -> &str {
        assert_eq!(self.code, 0, "{self:?}");
        self.text()
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: TempDir::new().expect("a directory") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn runtime_dir(&self) -> PathBuf {
        self.path().join("run")
    }

    /// `uexec` with arguments, not started.
    #[expect(clippy::disallowed_methods, reason = "a test is a user, and starts programs as users do")]
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_uexec"));
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"UEXEC_"))
        {
            command.env_remove(name);
        }
        command.env("UEXEC_RUNTIME_DIR", self.runtime_dir());
        command
    }

    /// Runs `uexec` to its end.
    pub(crate) fn uexec(&self, args: &[&str]) -> Done {
        finish(&mut self.command(args), b"")
    }

    /// Runs `uexec` with this on its stdin.
    pub(crate) fn uexec_with_input(&self, args: &[&str], input: &[u8]) -> Done {
        finish(&mut self.command(args), input)
    }
}

/// Runs a command to its end; one that hangs is killed, and fails the test.
pub(crate) fn finish(command: &mut Command, input: &[u8]) -> Done {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("uexec starts");
    let pid = pid(&child);
    let mut stdin = child.stdin.take().expect("piped");
    let (done, watched) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if watched.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                kill_process(pid, Signal::KILL).ok();
            }
        });
        // A command need not read all of its input.
        scope.spawn(move || stdin.write_all(input).ok());
        let output = child.wait_with_output().expect("waited for");
        drop(done);
        Done {
            code: code(output.status),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    })
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// As a shell has it.
fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// Whether a process of this id exists.
pub(crate) fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    state.is_some_and(|state| state != "Z" && state != "X")
}

/// Waits until it is so; time is bounded.
#[track_caller]
pub(crate) fn eventually(what: &str, so: impl Fn() -> bool) {
    let (_never, pause) = mpsc::channel::<()>();
    for _ in 0..500 {
        if so() {
            return;
        }
        pause.recv_timeout(Duration::from_millis(20)).ok();
    }
    panic!("never: {what}");
}

/// A child that is killed when the test is done with it.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.spawn().expect("uexec starts"))
    }

    pub(crate) fn pid(&self) -> String {
        self.0.id().to_string()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(pid(&self.0), signal).expect("it runs");
    }

    /// Reads a line of its stdout.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        // One byte at a time, so that nothing after the line is swallowed.
        let stdout = self.0.stdout.as_mut().expect("piped");
        BufReader::with_capacity(1, stdout).read_line(&mut line).expect("readable");
        line
    }

    /// Nobody reads its stdout any more.
    pub(crate) fn close_stdout(&mut self) {
        drop(self.0.stdout.take());
    }

    /// Its code, and what it still wrote.
    pub(crate) fn end(mut self) -> Done {
        let mut done = Done { code: 0, stdout: Vec::new(), stderr: String::new() };
        if let Some(stdout) = &mut self.0.stdout {
            stdout.read_to_end(&mut done.stdout).expect("readable");
        }
        if let Some(stderr) = &mut self.0.stderr {
            stderr.read_to_string(&mut done.stderr).expect("readable");
        }
        done.code = code(self.0.wait().expect("waited for"));
        done
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Gone already, when a test has waited for it.
        if self.0.try_wait().is_ok_and(|status| status.is_none()) {
            kill_process(pid(&self.0), Signal::TERM).ok();
            self.0.wait().ok();
        }
    }
}

/// A server in a place of its own, with full access.
pub(crate) struct Server {
    /// Ends before its place goes.
    pub(crate) running: Running,
    pub(crate) place: Place,
    pub(crate) listening: Vec<String>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts it through a program that takes a command after its own words.
    #[expect(clippy::disallowed_methods, reason = "a test is a user, and starts programs as users do")]
    pub(crate) fn start_from(program: &[&str]) -> Self {
        let place = Place::new();
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).args([
            env!("CARGO_BIN_EXE_uexec"),
            "serve",
            "--allow-full-access",
            "--log",
            "warn",
            "--runtime-dir",
        ]);
        command.arg(place.runtime_dir());
        let mut running = Running::start(command.stdin(Stdio::null()).stdout(Stdio::piped()));
        let listening = vec![running.line(), running.line()];
        Self { place, running, listening }
    }

    pub(crate) fn start_with(options: &[&str]) -> Self {
        let place = Place::new();
        let args = [&["serve", "--allow-full-access", "--log", "warn"], options].concat();
        let mut command = place.command(&args);
        let mut running = Running::start(command.stdout(Stdio::piped()));
        let mut listening = vec![running.line(), running.line()];
        if options.contains(&"--listen") {
            listening.extend([running.line(), running.line(), running.line()]);
        }
        assert!(listening[0].starts_with("listening on unix://"), "{listening:?}");
        Self { place, running, listening }
    }

    pub(crate) fn uexec(&self, args: &[&str]) -> Done {
        self.place.uexec(args)
    }

    pub(crate) fn uexec_with_input(&self, args: &[&str], input: &[u8]) -> Done {
        self.place.uexec_with_input(args, input)
    }

    /// Starts a process that lives on; answers with its id.
    pub(crate) fn detached(&self, args: &[&str]) -> String {
        self.uexec(&[&["exec", "--detach"], args].concat()).ok().trim().to_owned()
    }
}
