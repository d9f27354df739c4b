//! The handles on a fake child.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;

use super::Done;
use super::child::{Child, PIPE_BYTES};
use crate::core::command::TerminalSize;
use crate::core::output::Stream;
use crate::core::signal::{Scope, Signal};
use crate::core::spawn::Descendant;
use crate::host::ports::{BoxFuture, Control, ControlError, Eof, Exit, Exited, Output, Stdin};

/// What a terminal makes of these bytes when they are typed.
const INTERRUPT: u8 = 3;
const END_OF_INPUT: u8 = 4;

#[derive(Debug)]
pub(super) struct FakeControl(pub(super) Arc<Child>);

impl Control for FakeControl {
    fn signal(&self, signal: Signal, scope: Scope) -> Result<(), ControlError> {
        self.0.shared.note(Done::Signalled { pid: self.0.pid, signal, scope });
        let leader = self.0.hit(signal);
        let forks = match scope {
            Scope::Process => false,
            Scope::Group | Scope::Foreground => self.0.hit_forks(signal, |fork| !fork.left_group),
            Scope::Tree => self.0.hit_forks(signal, |_| true),
        };
        if leader || forks { Ok(()) } else { Err(ControlError::Gone) }
    }

    fn kill_tree(&self) {
        if !*self.0.gone.borrow() {
            self.0.shared.note(Done::Killed { pid: self.0.pid });
            self.0.hit(Signal::KILL);
            self.0.hit_forks(Signal::KILL, |_| true);
        }
    }

    fn resize(&self, _size: TerminalSize) -> Result<(), ControlError> {
        if !self.0.is_terminal {
            return Err(ControlError::NoTerminal);
        }
        if self.0.hit(Signal::WINCH) { Ok(()) } else { Err(ControlError::Gone) }
    }

    fn tree_gone(&self) -> BoxFuture<()> {
        Box::pin(self.0.tree_gone())
    }

    fn descendants(&self) -> BoxFuture<Vec<Descendant>> {
        let state = self.0.state();
        let listed =
            state.forks.iter().map(|(pid, fork)| Descendant { pid: *pid, name: fork.name.clone() }).collect();
        Box::pin(std::future::ready(listed))
    }
}

impl Drop for FakeControl {
    fn drop(&mut self) {
        self.kill_tree();
    }
}

#[derive(Debug)]
pub(super) struct FakeStdin(pub(super) Arc<Child>);

impl Stdin for FakeStdin {
    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.state();
        if state.ended || state.input_closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let length = PIPE_BYTES.saturating_sub(state.input.len()).min(data.len());
        if length == 0 {
            state.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let taken = data.get(..length).unwrap_or_default();
        if self.0.is_terminal {
            let typed = taken.iter().filter(|byte| !matches!(**byte, INTERRUPT | END_OF_INPUT));
            state.input.extend(typed);
            state.input_ended |= taken.contains(&END_OF_INPUT);
        } else {
            state.input.extend_from_slice(taken);
        }
        self.0.consume(&mut state);
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
        drop(state);
        if self.0.is_terminal && taken.contains(&INTERRUPT) {
            self.0.interrupt();
        }
        self.0.changed.notify_one();
        Poll::Ready(Ok(length))
    }

    fn eof(&self) -> Eof {
        if self.0.is_terminal { Eof::Type(Bytes::from_static(&[END_OF_INPUT])) } else { Eof::Close }
    }
}

impl Drop for FakeStdin {
    fn drop(&mut self) {
        if !self.0.is_terminal {
            self.0.state().input_ended = true;
            self.0.changed.notify_one();
        }
    }
}

#[derive(Debug)]
pub(super) struct FakeOutput(pub(super) Arc<Child>);

impl Output for FakeOutput {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut BytesMut) -> Poll<Option<Stream>> {
        let mut state = self.0.state();
        let room = into.capacity() - into.len();
        if let Some((stream, bytes)) = state.output.front_mut() {
            let stream = *stream;
            let length = room.min(bytes.len());
            into.extend_from_slice(&bytes.split_to(length));
            if bytes.is_empty() {
                state.output.pop_front();
            }
            self.0.consume(&mut state);
            if let Some(writer) = state.writer.take() {
                writer.wake();
            }
            drop(state);
            self.0.changed.notify_one();
            return Poll::Ready(Some(stream));
        }
        let held_here = self.0.is_terminal && !state.hung_up;
        if !state.holds_outputs() && !held_here {
            return Poll::Ready(None);
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    fn leader_reaped(&mut self) {
        let mut state = self.0.state();
        state.hung_up = true;
        state.wake_all();
    }
}

#[derive(Debug)]
pub(super) struct FakeExit(pub(super) oneshot::Receiver<Exited>);

impl Future for FakeExit {
    type Output = Exited;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Exited> {
        match ready!(Pin::new(&mut self.0).poll(cx)) {
            Ok(exited) => Poll::Ready(exited),
            // The task only goes without a word when the runtime goes, and then nobody waits.
            Err(_) => Poll::Pending,
        }
    }
}

impl Exit for FakeExit {}
