//! Children on pipes: stdout and stderr apart, read in the order in which they become readable; stdin a pipe, or at
//! its end from the start. The readiness-driven reads and writes here also serve terminals.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use rustix::fs::{Mode, OFlags, open};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::unix::pipe;

use super::program::{system, system_io};
use crate::core::output::Stream;
use crate::core::spawn::SpawnError;
use crate::host::ports::{Eof, Output, Stdin};

/// What errors call a pipe.
const PIPE: &str = "pipe";
const NULL: &str = "/dev/null";
/// From this many bytes in one read a stream counts as writing much: PIPE_BUF, what one write puts in whole.
const MUCH: usize = 4096;
/// Once the runtime has seen a hang-up it says *ready* for ever. If somebody then opens the other side again, through
/// its name, there is nothing to read and no room to write, and yet no waiting. Nothing else answers *ready* and then
/// *nothing* this often at a stretch; it counts as the hang-up that it was.
const STUCK_AFTER: usize = 16;

/// Both sides of a child's pipes, before there is a child.
#[derive(Debug)]
pub(super) struct Pipes {
    /// The child's descriptors 0, 1 and 2.
    pub(super) child: [OwnedFd; 3],
    pub(super) output: PipeOutput,
    pub(super) stdin: Option<PipeStdin>,
}

/// Opens everything, so that nothing can fail once a child runs. Only the server's ends do not block.
pub(super) fn open_pipes(with_stdin: bool) -> Result<Pipes, SpawnError> {
    let pair = || pipe_with(PipeFlags::CLOEXEC).map_err(|errno| system("open", PIPE, errno));
    let watch = |error: io::Error| system_io("watch", PIPE, &error);
    let (child_in, stdin) = if with_stdin {
        let (read, write) = pair()?;
        (read, Some(PipeStdin { pipe: pipe::Sender::from_owned_fd(write).map_err(watch)? }))
    } else {
        let null = open(NULL, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        (null.map_err(|errno| system("open", NULL, errno))?, None)
    };
    let ((stdout, child_out), (stderr, child_err)) = (pair()?, pair()?);
    let output = PipeOutput {
        stdout: Some(pipe::Receiver::from_owned_fd(stdout).map_err(watch)?),
        stderr: Some(pipe::Receiver::from_owned_fd(stderr).map_err(watch)?),
        turn: Stream::Stdout,
        older: None,
    };
    Ok(Pipes { child: [child_in, child_out, child_err], output, stdin })
}

/// What a child writes.
#[derive(Debug)]
pub(super) struct PipeOutput {
    stdout: Option<pipe::Receiver>,
    stderr: Option<pipe::Receiver>,
    /// Who is read first if both have something. Short writes are taken in turns; who writes much goes on until what it
    /// had written before the other did is read, and no longer: a flood must not silence the other.
    turn: Stream,
    /// What `turn` still holds of that, once the other was seen to hold something.
    older: Option<u64>,
}

impl PipeOutput {
    fn poll_stream(&mut self, stream: Stream, cx: &mut Context<'_>, into: &mut BytesMut) -> Poll<Option<()>> {
        let pipe = if stream == Stream::Stderr { &mut self.stderr } else { &mut self.stdout };
        let Some(receiver) = pipe else { return Poll::Ready(None) };
        match ready!(poll_receive(receiver, cx, into)) {
            Ok(length) if length > 0 => return Poll::Ready(Some(())),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, ?stream, "a pipe cannot be read; its output ends here"),
        }
        *pipe = None;
        Poll::Ready(None)
    }

    /// Bytes that wait in a pipe.
    fn held(&self, stream: Stream) -> u64 {
        let pipe = if stream == Stream::Stderr { &self.stderr } else { &self.stdout };
        pipe.as_ref().and_then(|pipe| rustix::io::ioctl_fionread(pipe).ok()).unwrap_or(0)
    }

    /// Decides who is next after so much was read from a stream.
    fn pass(&mut self, stream: Stream, length: usize) {
        let older = self.older.take().filter(|_| self.turn == stream);
        let rest = match older {
            Some(older) => older.saturating_sub(length as u64),
            None if length < MUCH => 0,
            None if self.held(other(stream)) == 0 => {
                self.turn = stream;
                return;
            }
            None => self.held(stream),
        };
        (self.turn, self.older) = if rest == 0 { (other(stream), None) } else { (stream, Some(rest)) };
    }
}

const fn other(stream: Stream) -> Stream {
    if matches!(stream, Stream::Stderr) { Stream::Stdout } else { Stream::Stderr }
}

impl Output for PipeOutput {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut BytesMut) -> Poll<Option<Stream>> {
        let mut waiting = false;
        for stream in [self.turn, other(self.turn)] {
            let before = into.len();
            match self.poll_stream(stream, cx, into) {
                Poll::Ready(Some(())) => {
                    self.pass(stream, into.len() - before);
                    return Poll::Ready(Some(stream));
                }
                Poll::Ready(None) => {}
                Poll::Pending => waiting = true,
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(None) }
    }

    fn leader_reaped(&mut self) {}
}

/// Where a child's input goes.
#[derive(Debug)]
pub(super) struct PipeStdin {
    pipe: pipe::Sender,
}

impl Stdin for PipeStdin {
    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        poll_send(&self.pipe, cx, data)
    }

    fn eof(&self) -> Eof {
        Eof::Close
    }
}

/// Reads once, as much as `into` has room for; 0 is the end. The readiness is only cleared when the kernel says that
/// there is nothing: a short read of a terminal does not mean that.
pub(super) fn poll_receive(
    from: &pipe::Receiver,
    cx: &mut Context<'_>,
    into: &mut BytesMut,
) -> Poll<io::Result<usize>> {
    for _ in 0..STUCK_AFTER {
        ready!(from.poll_read_ready(cx))?;
        // Fills spare capacity only, so the room that the caller gave is the bound.
        match from.try_read_buf(into) {
            Err(error) if is_no_news(&error) => {}
            other => return Poll::Ready(other),
        }
    }
    Poll::Ready(Ok(0))
}

/// Writes once, as much as the other side takes.
pub(super) fn poll_send(to: &pipe::Sender, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
    for _ in 0..STUCK_AFTER {
        ready!(to.poll_write_ready(cx))?;
        let written = to.try_io(|| match rustix::io::write(to, data)? {
            // Whoever takes nothing is full, even if it does not say so.
            0 => Err(io::ErrorKind::WouldBlock.into()),
            length => Ok(length),
        });
        match written {
            Err(error) if is_no_news(&error) => {}
            other => return Poll::Ready(other),
        }
    }
    Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, "the other side has hung up")))
}

fn is_no_news(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
