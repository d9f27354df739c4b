//! Plays a case: one session, one directory, its steps in order.
//!
//! | word | call |
//! |---|---|
//! | exec | ExecCommand; output by Attach with FLOW_BLOCK from offset 0 |
//! | send | WriteStdin; StreamStdin for more than 4 KiB and for writes that may block |
//! | eof | WriteStdin with `eof` |
//! | interrupt | on a terminal WriteStdin of U+0003; on pipes the same, or SignalProcess where stdin is open |
//! | signal | SignalProcess, to the process or its group |
//! | hangup | SignalProcess HUP to the foreground group, what the kernel does when a terminal vanishes: the service keeps its terminals open as long as anybody could write to them, so there is no call for it |
//! | clean | CleanBackgroundTerminals |
//! | expect_text | Wait for the text; it is in the stream as well |
//! | wait_exit | Wait for the exit; `exited` and `closed` of Attach |
//! | assert_running | GetProcess |

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Status};
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::wait_request::Condition;

use crate::case::{Case, Exec, Send, Step, WaitExit};
use crate::client::{PATH, Session};
use crate::expect::{self, Outcome};
use crate::process::Process;
use crate::refusal::{self, show};
use crate::server::Server;
use crate::{facts, procfs, skip};

/// Live processes of a session.
const TABLE: usize = 64;
/// The longest text that Wait looks for.
const LITERAL: usize = 4096;
/// What a stream may lag behind an answer.
const LAG: Duration = Duration::from_secs(2);

/// Under what the programs of a case run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Full access, nobody is asked.
    Open,
    /// Writing below the case's directory only, no network, nobody is asked.
    Confined,
}

pub(crate) async fn repeatedly(server: &Server, case: &Case, room: Room) -> Result<(), String> {
    for run in 1..=case.repeat {
        once(server, case, room).await.map_err(|problem| format!("run {run}: {problem}"))?;
    }
    Ok(())
}

async fn once(server: &Server, case: &Case, room: Room) -> Result<(), String> {
    let dir = tempfile::Builder::new().prefix("uxcase.").tempdir().unwrap();
    if server.user.is_some() {
        std::os::unix::fs::chown(dir.path(), server.user, server.user).unwrap();
    }
    for line in &case.setup {
        let output = shell(line, dir.path(), server.user).await;
        if !output.status.success() {
            return Err(format!("setup {line:?}: {}", String::from_utf8_lossy(&output.stderr)));
        }
    }
    let client = server.client().await;
    let session = match room {
        Room::Open => client.session(dir.path()).await,
        Room::Confined => {
            client.confined_to(profile(case, dir.path()), dir.path(), pb::ApprovalMode::Never).await
        }
    };
    procfs::reset_peak(server.pid());
    let resident = procfs::status(server.pid(), "VmRSS");
    let mut play = Play { case, room, dir, user: server.user, session, processes: BTreeMap::new() };
    let result = play.steps().await;
    let grown = procfs::status(server.pid(), "VmHWM").saturating_sub(resident);
    let closed = play.session.close().await;
    let left = procfs::with_variable(&play.mark());
    result?;
    closed.map_err(|status| format!("CloseSession: {}", show(&status)))?;
    if !left.is_empty() {
        return Err(format!("processes left by CloseSession: {left:?}"));
    }
    match case.service_expect.rss_growth_max {
        Some(max) if grown > max => Err(format!("the server grew by {grown} bytes, wanted at most {max}")),
        _ => Ok(()),
    }
}

/// What a case needs its sandbox to say beyond the default.
fn profile(case: &Case, dir: &Path) -> pb::SandboxProfile {
    // Any other list lets a repository be written.
    let other = skip::COMMITS.contains(&case.id.as_str()).then(|| ".hg".to_owned());
    pb::SandboxProfile {
        protected_subpaths: other.into_iter().collect(),
        deny_read: case.deny_read.iter().map(|name| dir.join(name).display().to_string()).collect(),
        ..Default::default()
    }
}

enum Started {
    Process(Process),
    Refused(Status),
}

struct Play<'a> {
    case: &'a Case,
    room: Room,
    dir: TempDir,
    user: Option<u32>,
    session: Session,
    processes: BTreeMap<String, Started>,
}

impl Play<'_> {
    /// By this variable the processes of the case are found.
    fn mark(&self) -> String {
        format!("UX_CASE={}", self.case.id)
    }

    async fn steps(&mut self) -> Result<(), String> {
        for (number, step) in self.case.steps.iter().enumerate() {
            self.step(step).await.map_err(|problem| format!("step {}: {problem}", number + 1))?;
        }
        let names: Vec<String> = self.processes.keys().cloned().collect();
        for name in names {
            self.outcome(&name).await.map_err(|problem| format!("{name}: {problem}"))?;
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Exec(exec) => self.exec(exec).await,
            Step::Send(send) => self.send(send).await,
            Step::Eof { p } => {
                let process = self.process(p)?;
                let request =
                    pb::WriteStdinRequest { process_id: process.id, eof: true, ..Default::default() };
                self.session.write(request).await.map(drop).map_err(|status| show(&status))
            }
            Step::Interrupt { p, group, may_be_gone } => self.interrupt(p, *group, *may_be_gone).await,
            Step::Signal { p, sig, group } => {
                let scope = if *group { pb::SignalScope::Group } else { pb::SignalScope::Process };
                let id = self.process(p)?.id;
                self.session.signal(id, sig, scope).await.map(drop).map_err(|status| show(&status))
            }
            Step::Hangup { p } => {
                let id = self.process(p)?.id;
                let sent = self.session.signal(id, "HUP", pb::SignalScope::ForegroundGroup).await;
                sent.map(drop).map_err(|status| show(&status))
            }
            Step::Clean { within_ms } => self.clean(within_ms.unwrap_or(5000)).await,
            Step::ExpectText { p, text, within_ms } => {
                self.expect_text(p, text, within_ms.unwrap_or(3000)).await
            }
            Step::AbsentNow { p, text } => {
                let process = self.process(p)?;
                match expect::find(&process.seen.borrow().output, text.as_bytes()) {
                    Some(at) => Err(format!("{text:?} is there already, at {at}")),
                    None => Ok(()),
                }
            }
            Step::EmptyNow { p } => {
                let process = self.process(p)?;
                if process.seen.borrow().output.is_empty() {
                    Ok(())
                } else {
                    Err(format!("there is output already: {}", process.tail()))
                }
            }
            Step::AssertRunning { p } => {
                let process = self.process(p)?;
                let (id, tail) = (process.id, process.tail());
                let got = self.session.get(id).await.map_err(|status| show(&status))?;
                if got.state() == pb::ProcessState::Running {
                    Ok(())
                } else {
                    Err(format!("is {:?}, exit {:?}; output {tail}", got.state(), got.exit))
                }
            }
            Step::AssertState { p, states } => {
                let state = procfs::state(self.process(p)?.os_pid);
                match state {
                    Some((state, _)) if states.contains(state) => Ok(()),
                    state => Err(format!("state {state:?}, wanted one of {states:?}")),
                }
            }
            Step::WaitExit(wait) => self.wait_exit(wait).await,
            Step::Sh { cmd, rc, stdout } => self.sh(cmd, *rc, stdout.as_deref()).await,
            Step::NoProc { marker, within_ms } => {
                let within = Duration::from_millis(within_ms.unwrap_or(1000));
                if procfs::until(within, || procfs::with_argument(marker).is_empty()).await {
                    Ok(())
                } else {
                    Err(format!("processes with {marker:?}: {:?}", procfs::with_argument(marker)))
                }
            }
            Step::ProcAlive { marker, n, within_ms } => {
                // More than the table holds cannot live: then exactly the table's number does.
                let wanted = n.unwrap_or(1).min(TABLE);
                let within = Duration::from_millis(within_ms.unwrap_or(2000));
                procfs::until(within, || procfs::with_argument(marker).len() == wanted).await;
                match procfs::with_argument(marker).len() {
                    alive if alive == wanted || (alive > wanted && n.is_none()) => Ok(()),
                    alive => Err(format!("{alive} processes with {marker:?}, wanted {wanted}")),
                }
            }
            Step::Sleep { ms } => {
                sleep(Duration::from_millis(*ms)).await;
                Ok(())
            }
            // A mark for readers of the script; the service is asked by ListProcesses in its own tests.
            Step::FreshProcList => Ok(()),
        }
    }

    fn process(&mut self, name: &str) -> Result<&mut Process, String> {
        match self.processes.get_mut(name) {
            Some(Started::Process(process)) => Ok(process),
            Some(Started::Refused(status)) => Err(format!("{name} was refused: {}", show(status))),
            None => Err(format!("there is no {name}")),
        }
    }

    async fn exec(&mut self, exec: &Exec) -> Result<(), String> {
        let mut env: BTreeMap<String, String> = [("PATH", PATH), ("LANG", "C.UTF-8"), ("TERM", "dumb")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        env.insert("HOME".into(), self.dir.path().display().to_string());
        env.insert("UX_CASE".into(), self.case.id.clone());
        for (name, value) in &exec.env {
            match value {
                Some(value) => env.insert(name.clone(), value.clone()),
                None => env.remove(name),
            };
        }
        if let Some(length) = exec.env_big {
            env.insert("BIG".into(), "x".repeat(length));
        }
        let mut request = self.session.request(exec.argv(), env.into_iter().collect());
        if let Some(command) = &mut request.command {
            command.cwd = exec.cwd.clone().unwrap_or_default();
        }
        request.tty = exec.tty;
        request.stdin = exec.stdin == "pipe";
        request.terminal_size = exec.size.map(|(rows, cols)| pb::TerminalSize { rows, cols });
        // Without an overlay, only what is given here reaches the program.
        request.full_terminal = std::env::var_os("OVERLAY").is_none();
        let wanted = &self.case.service_expect;
        // The shortest wait, so that most of a case happens in the background; the default where the return is timed.
        request.yield_time_ms = wanted.yield_ms.or_else(|| wanted.max_return_ms.is_none().then_some(250));
        let started = loop {
            match Process::start(&self.session, request.clone()).await {
                Ok(process) => break Started::Process(process),
                // None of those that could go is idle: the calls that started them wait, and our readers read.
                Err(status) if refusal::reason(&status) == "TABLE_FULL" && self.give_up_the_oldest() => {
                    sleep(Duration::from_millis(300)).await;
                }
                Err(status) => break Started::Refused(status),
            }
        };
        self.processes.insert(exec.p.clone(), started);
        Ok(())
    }

    /// Stops reading the process that was started first and is still read.
    fn give_up_the_oldest(&self) -> bool {
        let started = self.processes.values().filter_map(|started| match started {
            Started::Process(process) => Some(process),
            Started::Refused(_) => None,
        });
        let mut processes: Vec<&Process> = started.collect();
        processes.sort_by_key(|process| process.started);
        processes.into_iter().any(Process::detach)
    }

    async fn send(&mut self, send: &Send) -> Result<(), String> {
        let bytes = send.bytes();
        let id = self.process(&send.p)?.id;
        let within = Duration::from_millis(send.within_ms.unwrap_or(5000));
        let streams = bytes.len() > 4096 || send.may_block;
        let written = timeout(within, async {
            if streams {
                self.session.stream(id, &bytes).await.map(|_| None)
            } else {
                self.session.input(id, &bytes).await.map(|result| result.stdin_start.zip(result.stdin_end))
            }
        })
        .await;
        match (written, &send.expect_error) {
            (Err(_), _) if send.may_block => Ok(()),
            (Err(_), _) => Err(format!("the write was not over after {within:?}")),
            (Ok(Err(status)), Some(word)) if refusal::matches_write(&status, word) => Ok(()),
            (Ok(Err(status)), None)
                if send.may_block && !matches!(status.code(), Code::Internal | Code::Unknown) =>
            {
                Ok(())
            }
            (Ok(Err(status)), _) => Err(format!("the write failed: {}", show(&status))),
            (Ok(Ok(_)), Some(word)) => Err(format!("the write succeeded, wanted {word}")),
            (Ok(Ok(Some((start, end)))), None) if end - start != bytes.len() as u64 => {
                Err(format!("{} of {} bytes were written", end - start, bytes.len()))
            }
            (Ok(Ok(_)), None) => Ok(()),
        }
    }

    async fn interrupt(&mut self, name: &str, group: bool, may_be_gone: bool) -> Result<(), String> {
        let process = self.process(name)?;
        let (id, by_key) = (process.id, !group && (process.tty || !process.stdin));
        let sent = if by_key {
            self.session.input(id, b"\x03").await.map(drop)
        } else {
            self.session.signal(id, "INT", pb::SignalScope::Group).await.map(drop)
        };
        match sent {
            Err(status) if may_be_gone && status.code() == Code::FailedPrecondition => Ok(()),
            sent => sent.map_err(|status| show(&status)),
        }
    }

    async fn clean(&self, within_ms: u64) -> Result<(), String> {
        let begin = Instant::now();
        let answer = self.session.clean().await.map_err(|status| show(&status))?;
        let took = begin.elapsed();
        if !answer.survivors.is_empty() {
            return Err(format!("survivors of Clean: {:?}", answer.survivors));
        }
        if took > Duration::from_millis(within_ms) {
            return Err(format!("Clean took {took:?}"));
        }
        let left = procfs::with_variable(&self.mark());
        if left.is_empty() { Ok(()) } else { Err(format!("left after Clean: {left:?}")) }
    }

    async fn expect_text(&mut self, name: &str, text: &str, within_ms: u64) -> Result<(), String> {
        let id = self.process(name)?.id;
        let within = Duration::from_millis(within_ms);
        let begin = Instant::now();
        if text.len() <= LITERAL {
            let condition = Condition::Literal(text.as_bytes().to_vec().into());
            let answer = self.session.wait(id, condition, within_ms).await.map_err(|status| show(&status))?;
            let process = self.process(name)?;
            if answer.outcome() != pb::WaitOutcome::Matched {
                return Err(format!("no {text:?}: {:?}; output {}", answer.outcome(), process.tail()));
            }
        }
        let process = self.process(name)?;
        let there = |output: &[u8]| expect::find(output, text.as_bytes()).is_some();
        let rest = LAG.max(within.saturating_sub(begin.elapsed()));
        if process.sees(rest, |seen| there(&seen.output)).await {
            Ok(())
        } else {
            Err(format!("the reader did not get {text:?}; output {}", process.tail()))
        }
    }

    async fn wait_exit(&mut self, wait: &WaitExit) -> Result<(), String> {
        let within_ms = wait.within_ms.unwrap_or(5000);
        if let Some(Started::Refused(_)) = self.processes.get(&wait.p) {
            return Ok(());
        }
        let id = self.process(&wait.p)?.id;
        let answer = self.session.wait(id, Condition::Exit(true), within_ms).await;
        let answer = answer.map_err(|status| show(&status))?;
        let process = self.process(&wait.p)?;
        if answer.outcome() != pb::WaitOutcome::Matched {
            return Err(format!(
                "{} is alive after {within_ms} ms ({:?}); output {}",
                wait.p,
                answer.outcome(),
                process.tail()
            ));
        }
        if !process.sees(LAG, |seen| seen.exit.is_some()).await {
            return Err(format!("Wait told the end of {}, the reader heard nothing of it", wait.p));
        }
        let exited = process.seen.borrow().exit.as_ref().map(|(_, at)| *at - process.started);
        if let (Some(min), Some(exited)) = (wait.min_ms, exited)
            && exited < Duration::from_millis(min)
        {
            return Err(format!("{} ended after {exited:?} already, wanted {min} ms", wait.p));
        }
        let drain = Duration::from_millis(wait.drain_ms.unwrap_or(500));
        let closed = process.sees(drain, |seen| seen.closed).await;
        match wait.eof {
            Some(wanted) if wanted != closed => Err(format!("{}: outputs closed is {closed}", wait.p)),
            _ => Ok(()),
        }
    }

    async fn sh(&self, cmd: &str, rc: i32, stdout: Option<&str>) -> Result<(), String> {
        let output = shell(cmd, self.dir.path(), self.user).await;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.code() != Some(rc) {
            return Err(format!("{cmd:?} ended with {}: {out} {err}", output.status));
        }
        match stdout {
            Some(wanted) if out.trim() != wanted => {
                Err(format!("{cmd:?} printed {out:?}, wanted {wanted:?}"))
            }
            _ => Ok(()),
        }
    }

    /// What came of a process, at the end of the case.
    async fn outcome(&mut self, name: &str) -> Result<(), String> {
        let expect = self.case.expect.get(name);
        let alone = self.processes.len() == 1;
        let process = match self.processes.get_mut(name) {
            Some(Started::Process(process)) => process,
            Some(Started::Refused(status)) => {
                let left = procfs::with_variable(&format!("UX_CASE={}", self.case.id));
                return match expect.and_then(|expect| expect.spawn_error.as_ref()) {
                    Some(word) if !refusal::matches(status, word) => {
                        Err(format!("refused by {}, wanted {word:?}", show(status)))
                    }
                    Some(_) if alone && !left.is_empty() => Err(format!("refused, but left {left:?}")),
                    Some(_) => Ok(()),
                    None => Err(format!("refused: {}", show(status))),
                };
            }
            None => return Ok(()),
        };
        if let Some(problem) = &process.seen.borrow().problem {
            return Err(problem.clone());
        }
        if let Some(expect) = expect {
            if let Some(word) = &expect.spawn_error {
                return Err(format!("started, wanted {word:?}"));
            }
            let seen = process.seen.borrow();
            let code = seen.exit.as_ref().map(|(exit, _)| exit.shell_code);
            expect::check(expect, &Outcome { code, output: &seen.output })?;
        }
        facts::check(self.case, self.room, name, &self.session, process).await
    }
}

/// A shell line beside the service.
async fn shell(line: &str, dir: &Path, user: Option<u32>) -> std::process::Output {
    let mut command = Command::new("/bin/bash");
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    command.args(["-c", line]).current_dir(dir).env_clear();
    command.envs([("PATH", PATH), ("LANG", "C.UTF-8")]).env("HOME", dir);
    command.stdin(std::process::Stdio::null()).output().await.unwrap()
}
