//! Children on a pseudo-terminal. portable-pty opens and resizes the pair; bytes go through our own descriptors of
//! the master, driven by readiness.
//!
//! - portable-pty opens descriptors without CLOEXEC and sets it a moment later. A child started in that moment would
//!   inherit them, and keep a stranger's terminal from ever ending. So no child inherits anything: `unix::spawn` closes all but 0, 1
//!   and 2 between fork and exec, whatever their flags.
//! - The slave stays open here while the leader lives. Otherwise a program that closes its terminal for a moment
//!   would hang it up, and the master would report an end that is none.
//! - Once the leader is reaped the slave is closed, and the end is where the kernel says it: when the last one who
//!   holds the terminal has gone and everything has been read (`EIO`).

use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use portable_pty::{MasterPty, PtySize, SlavePty, native_pty_system};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::pty::{OpenptFlags, openpt};
use rustix::termios::{InputModes, OptionalActions, tcgetattr, tcsetattr};
use tokio::net::unix::pipe;

use super::program::{c_string, exhausted, system, system_io};
use super::{pipe as pipes, unix};
use crate::core::command::TerminalSize;
use crate::core::output::Stream;
use crate::core::spawn::SpawnError;
use crate::host::ports::{Eof, Output, Stdin};

/// What a person types to end input (`VEOF` of a new terminal).
const END_OF_INPUT: &[u8] = b"\x04";
/// What errors call a terminal that has no name yet.
const PAIR: &str = "/dev/ptmx";
/// Descriptors below are the child's.
const FIRST_OWN: i32 = 3;

/// An open pair, before a child is on it.
pub(super) struct Pair {
    /// Of the slave, for the child to open.
    pub(super) name: CString,
    pub(super) terminal: Terminal,
    pub(super) output: TerminalOutput,
    pub(super) stdin: TerminalStdin,
}

/// The side that sizes a terminal and knows its foreground group.
#[derive(Clone)]
pub(super) struct Terminal {
    master: Arc<Mutex<Box<dyn MasterPty + Send>>>,
}

impl fmt::Debug for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Terminal")
    }
}

impl Terminal {
    fn with<T>(&self, f: impl FnOnce(&dyn MasterPty) -> T) -> T {
        f(&**self.master.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the size; the kernel tells the foreground group.
    pub(super) fn resize(&self, size: TerminalSize) -> Result<(), String> {
        self.with(|master| master.resize(pty_size(size))).map_err(|error| error.to_string())
    }

    /// The process group in the foreground. Its number may be stale: a group that ended without a successor stays.
    pub(super) fn foreground(&self) -> Option<u32> {
        let group = self.with(MasterPty::process_group_leader)?;
        u32::try_from(group).ok().filter(|group| *group != 0)
    }
}

const fn pty_size(size: TerminalSize) -> PtySize {
    PtySize { rows: size.rows, cols: size.cols, pixel_width: 0, pixel_height: 0 }
}

/// Opens a pair of this size, with everything the server needs of it, so that nothing can fail once a child runs.
pub(super) fn open_pair(size: TerminalSize) -> Result<Pair, SpawnError> {
    let pair = native_pty_system().openpty(pty_size(size)).map_err(|error| why_none(&error.to_string()))?;
    let name = pair.master.tty_name().ok_or_else(|| system("name", PAIR, Errno::NOTTY))?;
    let name = c_string(name.as_os_str().as_bytes())?;
    let master = &*pair.master;
    let (reader, writer) = unix::with_master(master, |fd| -> Result<(OwnedFd, OwnedFd), Errno> {
        let mut modes = tcgetattr(fd)?;
        // Erasing a character erases all its bytes.
        modes.input_modes |= InputModes::IUTF8;
        tcsetattr(fd, OptionalActions::Now, &modes)?;
        fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
        Ok((fcntl_dupfd_cloexec(fd, FIRST_OWN)?, fcntl_dupfd_cloexec(fd, FIRST_OWN)?))
    })
    .unwrap_or(Err(Errno::BADF))
    .map_err(|errno| system("set up", PAIR, errno))?;
    let watch = |error: io::Error| system_io("watch", PAIR, &error);
    let let_go = Arc::new(AtomicBool::new(false));
    Ok(Pair {
        name,
        output: TerminalOutput {
            master: pipe::Receiver::from_owned_fd_unchecked(reader).map_err(watch)?,
            slave: Some(pair.slave),
            let_go: Arc::clone(&let_go),
            ended: false,
        },
        stdin: TerminalStdin {
            master: pipe::Sender::from_owned_fd_unchecked(writer).map_err(watch)?,
            let_go,
        },
        terminal: Terminal { master: Arc::new(Mutex::new(pair.master)) },
    })
}

/// portable-pty reports a failure as text, which loses what has run out; a second try tells.
fn why_none(text: &str) -> SpawnError {
    let tried = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
        .and_then(|_master| open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()));
    match tried.err().and_then(exhausted) {
        Some(error) => error,
        None => SpawnError::System { action: "open", path: PAIR.to_owned(), reason: text.to_owned() },
    }
}

/// What a terminal's programs write.
pub(super) struct TerminalOutput {
    master: pipe::Receiver,
    slave: Option<Box<dyn SlavePty + Send>>,
    /// Shared with the input: the slave is closed here.
    let_go: Arc<AtomicBool>,
    ended: bool,
}

impl fmt::Debug for TerminalOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TerminalOutput")
            .field("held", &self.slave.is_some())
            .field("ended", &self.ended)
            .finish()
    }
}

impl Output for TerminalOutput {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut BytesMut) -> Poll<Option<Stream>> {
        if self.ended {
            return Poll::Ready(None);
        }
        match ready!(pipes::poll_receive(&self.master, cx, into)) {
            Ok(length) if length > 0 => return Poll::Ready(Some(Stream::Terminal)),
            Ok(_) => {}
            Err(error) if Errno::from_io_error(&error) == Some(Errno::IO) => {}
            Err(error) => tracing::warn!(%error, "a terminal cannot be read; its output ends here"),
        }
        self.ended = true;
        Poll::Ready(None)
    }

    fn leader_reaped(&mut self) {
        self.slave = None;
        self.let_go.store(true, Ordering::Release);
    }
}

/// What is typed on a terminal.
#[derive(Debug)]
pub(super) struct TerminalStdin {
    master: pipe::Sender,
    let_go: Arc<AtomicBool>,
}

impl TerminalStdin {
    /// The kernel takes input for a terminal that nobody has open, and nobody will ever read it.
    fn is_hung_up(&self) -> bool {
        let mut state = [PollFd::new(&self.master, PollFlags::OUT)];
        let polled = poll(&mut state, Some(&Timespec::default()));
        polled.is_ok() && state[0].revents().contains(PollFlags::HUP)
    }
}

impl Stdin for TerminalStdin {
    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if self.let_go.load(Ordering::Acquire) && self.is_hung_up() {
            let gone = io::Error::new(io::ErrorKind::BrokenPipe, "nobody has the terminal open");
            return Poll::Ready(Err(gone));
        }
        pipes::poll_send(&self.master, cx, data)
    }

    fn eof(&self) -> Eof {
        Eof::Type(Bytes::from_static(END_OF_INPUT))
    }
}
