//! The process that plays: one thread, which sleeps until the next act is due or input has come.

use std::io::Write;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getpid, kill_process, setrlimit};
use rustix::stdio;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, isatty, tcgetattr, tcsetattr};
use unified_exec::core::signal::Signal;

use super::descendant::{self, Kind, Life, ignore, null, timespec};
use super::{LIFE_MAX, ScriptError};
use crate::acts::{Body, End, Fork, Out, Script};

/// Input is read in pieces of this size.
const READ_BYTES: usize = 16 * 1024;
/// How a terminal is told that a special character is none.
const DISABLED: u8 = 0;

/// A body made of a real process.
struct Process {
    start: Instant,
    ignored: Vec<Signal>,
    children: Vec<Child>,
    connections: Vec<TcpStream>,
    input_open: bool,
    /// How it ends, once it has come to that.
    over: Option<End>,
    failed: Option<ScriptError>,
}

#[expect(clippy::disallowed_methods, reason = "a real child lives in real time")]
fn now() -> Instant {
    Instant::now()
}

/// Plays it. Ends the process, unless something is refused.
pub(super) fn play(mut script: Script<'_>) -> Result<std::convert::Infallible, ScriptError> {
    let mut process = Process {
        start: now(),
        ignored: Vec::new(),
        children: Vec::new(),
        connections: Vec::new(),
        input_open: true,
        over: None,
        failed: None,
    };
    // A signal that would dump core ends it as a plain one does.
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })
        .map_err(system("give up core dumps"))?;
    pass_bytes()?;
    let (mut ended, tell) = UnixStream::pair().map_err(ScriptError::system("make a pipe"))?;
    ended.set_nonblocking(true).map_err(ScriptError::system("make a pipe"))?;
    signal_hook::low_level::pipe::register(Signal::CHLD.number(), tell)
        .map_err(ScriptError::system("hear of children"))?;
    loop {
        while script.next_at().is_some_and(|at| process.start.elapsed() >= Duration::from_millis(at)) {
            script.play(&mut process);
            if let Some(error) = process.failed.take() {
                return Err(error);
            }
            if let Some(end) = process.over {
                return Err(process.end(end, &script));
            }
        }
        let next = script.next_at().map_or(LIFE_MAX, Duration::from_millis);
        let left = next.saturating_sub(process.start.elapsed());
        if left.is_zero() && script.next_at().is_none() {
            std::process::exit(i32::from(super::EXIT_BROKEN));
        }
        process.wait(&mut script, &mut ended, left)?;
    }
}

fn system(what: &'static str) -> impl FnOnce(Errno) -> ScriptError {
    move |errno| ScriptError::System { what, source: errno.into() }
}

/// A terminal passes all bytes as they are, but for ^C.
fn pass_bytes() -> Result<(), ScriptError> {
    let terminal = stdio::stdin();
    if !isatty(terminal) {
        return Ok(());
    }
    let mut modes = tcgetattr(terminal).map_err(system("read the modes of its terminal"))?;
    modes.make_raw();
    modes.local_modes |= LocalModes::ISIG | LocalModes::NOFLSH;
    for code in [SpecialCodeIndex::VQUIT, SpecialCodeIndex::VSUSP] {
        modes.special_codes[code] = DISABLED;
    }
    tcsetattr(terminal, OptionalActions::Now, &modes).map_err(system("set the modes of its terminal"))
}

impl Process {
    /// Waits until input has come that the script reads, a child has ended, or `left` is over.
    fn wait(
        &mut self,
        script: &mut Script<'_>,
        ended: &mut UnixStream,
        left: Duration,
    ) -> Result<(), ScriptError> {
        let stdin = stdio::stdin();
        let reads = self.input_open && script.reads(READ_BYTES) > 0;
        let mut waits = vec![PollFd::new(&*ended, PollFlags::IN)];
        if reads {
            waits.push(PollFd::new(&stdin, PollFlags::IN));
        }
        match poll(&mut waits, Some(&timespec(left))) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(errno) => return Err(system("wait")(errno)),
        }
        let ready: Vec<bool> = waits.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready.first() == Some(&true) {
            self.reap(ended);
        }
        if ready.get(1) == Some(&true) {
            self.read(script)?;
        }
        Ok(())
    }

    fn reap(&mut self, ended: &mut UnixStream) {
        let mut words = [0u8; 64];
        while std::io::Read::read(ended, &mut words).is_ok_and(|read| read > 0) {}
        self.children.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
    }

    fn read(&mut self, script: &mut Script<'_>) -> Result<(), ScriptError> {
        let mut buffer = vec![0u8; script.reads(READ_BYTES)];
        match rustix::io::read(stdio::stdin(), &mut buffer) {
            // A terminal says EIO once nobody is at its other end.
            Ok(0) | Err(Errno::IO) => self.input_open = false,
            Ok(read) => {
                script.has_read(read);
                if script.echoes() {
                    self.say(Out::Stdout, buffer.get(..read).unwrap_or_default());
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Err(system("read its input")(errno)),
        }
        Ok(())
    }

    /// Ends as it is told, leaving to another process what was on the way. Returns only if that is refused.
    fn end(&self, end: End, script: &Script<'_>) -> ScriptError {
        if !script.left().is_empty() {
            let passed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
            let left = script.left().iter().map(|act| {
                let mut act = act.get_ref().clone();
                act.at = act.at.saturating_sub(passed);
                act
            });
            // Once it has said what was on the way, it is over too.
            let over = crate::scenario::Act { at: 0, exit: Some(0), ..Default::default() };
            let mut acts: Vec<_> = left.collect();
            let last = acts.last().map_or(0, |act| act.at);
            acts.push(crate::scenario::Act { at: last, ..over });
            let started = super::text(&acts)
                .map_err(|_| ScriptError::system("write acts")(std::io::ErrorKind::InvalidData.into()))
                .and_then(|text| descendant::start_tail(&text));
            if let Err(error) = started {
                return error;
            }
        }
        match end {
            End::Exit(code) => std::process::exit(code),
            End::DiesOf(signal) => {
                // Whatever it has ignored: its default again, and then itself.
                signal_hook::low_level::emulate_default_handler(signal.number()).ok();
                let number = rustix::process::Signal::from_named_raw(signal.number());
                let killed = number.map_or(Err(Errno::INVAL), |number| kill_process(getpid(), number));
                let refused = killed.err().unwrap_or(Errno::NOTSUP);
                system("die of its signal")(refused)
            }
        }
    }

    fn fails(&mut self, result: Result<(), ScriptError>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error);
        }
    }

    fn forks(&mut self, fork: Fork) -> Result<(), ScriptError> {
        let (kind, lives) = match fork {
            Fork::Holder { lives } => (Kind::Holder, lives),
            Fork::Daemon { lives } => (Kind::Leaver, lives),
        };
        let child = descendant::start(kind, &Life { lives, ignore: self.ignored.clone() })?;
        self.children.push(child);
        Ok(())
    }

    /// Asks the proxy for the connection, and leaves it at that.
    fn connects(&mut self, host: &str, port: u16) -> Result<(), ScriptError> {
        let refused = |why: &'static str| ScriptError::system("connect")(std::io::Error::other(why));
        let proxy = std::env::var("HTTP_PROXY").map_err(|_| refused("there is no HTTP_PROXY"))?;
        let address = proxy.strip_prefix("http://").ok_or_else(|| refused("HTTP_PROXY is not http://"))?;
        let mut stream = TcpStream::connect(address).map_err(ScriptError::system("reach the proxy"))?;
        write!(stream, "CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n")
            .map_err(ScriptError::system("ask the proxy"))?;
        self.connections.push(stream);
        Ok(())
    }
}

impl Body for Process {
    fn say(&mut self, to: Out, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let wrote = match to {
                Out::Stdout => rustix::io::write(stdio::stdout(), bytes),
                Out::Stderr => rustix::io::write(stdio::stderr(), bytes),
            };
            match wrote {
                Ok(wrote) => bytes = bytes.get(wrote..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                // Nobody listens any more, which is nothing to a program that speaks by a list.
                Err(_) => return,
            }
        }
    }

    fn end(&mut self, end: End, _: u64) {
        self.over = Some(end);
    }

    fn ignore(&mut self, signal: Signal) {
        self.ignored.push(signal);
        self.fails(ignore(signal));
    }

    fn close_outputs(&mut self) {
        let closed = null().and_then(|null| {
            stdio::dup2_stdout(null.as_fd()).map_err(system("close stdout"))?;
            stdio::dup2_stderr(null.as_fd()).map_err(system("close stderr"))
        });
        self.fails(closed);
    }

    fn hang(&mut self) {
        let held = |signal: &&Signal| crate::acts::is_deadly(**signal) && super::can_ignore(**signal);
        for signal in Signal::ALL.iter().filter(held) {
            self.fails(ignore(*signal));
        }
    }

    fn fork(&mut self, fork: Fork) {
        let forked = self.forks(fork);
        self.fails(forked);
    }

    fn close_input(&mut self) {
        self.input_open = false;
        let closed = null().and_then(|null| stdio::dup2_stdin(null).map_err(system("close stdin")));
        self.fails(closed);
    }

    fn connect(&mut self, host: &str, port: u16) {
        let connected = self.connects(host, port);
        self.fails(connected);
    }
}
