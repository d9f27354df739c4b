//! A fake child: its state, the task that plays its script, and the handles on it.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use super::script::{Act, Fork, Step};
use super::{Done, Shared};
use crate::core::command::TerminalSize;
use crate::core::output::Stream;
use crate::core::process::ExitStatus;
use crate::core::signal::{Scope, Signal};
use crate::core::spawn::{Descendant, Enforced, SpawnPlan, Stdio};
use crate::host::ports::{BoxFuture, Control, ControlError, Eof, Exit, Exited, Output, Spawned, Stdin};

/// What a pipe of Linux holds by default. Beyond it the writer waits.
const PIPE_BYTES: usize = 64 * 1024;
const INTERRUPT: u8 = 3;
const END_OF_INPUT: u8 = 4;

#[derive(Debug)]
struct Child {
    pid: u32,
    is_terminal: bool,
    shared: Arc<Shared>,
    state: Mutex<State>,
    /// Tells the task that something has changed.
    changed: Notify,
    gone: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    output: VecDeque<(Stream, Bytes)>,
    outputs_closed: bool,
    /// The server has let go of the terminal.
    hung_up: bool,
    reader: Option<Waker>,
    input: BytesMut,
    input_ended: bool,
    writer: Option<Waker>,
    handlers: BTreeMap<Signal, Vec<Step>>,
    /// Signals that have come and are caught.
    caught: VecDeque<Signal>,
    killed_by: Option<Signal>,
    ended: bool,
    forks: BTreeMap<u32, Fork>,
}

impl State {
    fn buffered(&self) -> usize {
        self.output.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    fn holds_outputs(&self) -> bool {
        (!self.ended && !self.outputs_closed) || self.forks.values().any(|fork| fork.holds_outputs)
    }

    fn wake_all(&mut self) {
        [self.reader.take(), self.writer.take()].into_iter().flatten().for_each(Waker::wake);
    }
}

/// Starts a child that plays `steps`.
pub(super) fn start(shared: &Arc<Shared>, program: &str, plan: &SpawnPlan, steps: Vec<Step>) -> Spawned {
    let (is_terminal, has_stdin) = match plan.stdio {
        Stdio::Terminal(_) => (true, true),
        Stdio::Pipes { stdin } => (false, stdin),
    };
    let child = Arc::new(Child {
        pid: shared.next_pid(),
        is_terminal,
        shared: Arc::clone(shared),
        state: Mutex::new(State { input_ended: !has_stdin, ..State::default() }),
        changed: Notify::new(),
        gone: watch::Sender::new(false),
    });
    shared.note(Done::Started { pid: child.pid, program: program.to_owned() });
    let (tell, told) = oneshot::channel();
    tokio::spawn(play(Arc::clone(&child), steps, tell));
    Spawned {
        pid: Some(child.pid),
        enforced: if plan.sandbox.is_some() { Enforced::Profile } else { Enforced::Nothing },
        control: Arc::new(FakeControl(Arc::clone(&child))),
        stdin: has_stdin.then(|| Box::new(FakeStdin(Arc::clone(&child))) as Box<dyn Stdin>),
        output: Box::new(FakeOutput(child)),
        exit: Box::new(FakeExit(told)),
    }
}

/// A step that is under way, with the moment it is due once that is known.
struct Current {
    step: Step,
    due: Option<Instant>,
}

enum Progress {
    Done,
    Waits,
    Ends(ExitStatus),
}

async fn play(child: Arc<Child>, steps: Vec<Step>, tell: oneshot::Sender<Exited>) {
    let fresh = |step| Current { step, due: None };
    let mut queue: VecDeque<Current> = steps.into_iter().map(fresh).collect();
    let status = loop {
        let caught = {
            let mut state = child.state();
            if let Some(signal) = state.killed_by {
                break ExitStatus::Signal { number: signal.number(), core_dumped: false };
            }
            state.caught.pop_front().and_then(|signal| state.handlers.get(&signal).cloned())
        };
        // What was under way is gone on with when the signal has been dealt with.
        caught.into_iter().flatten().rev().for_each(|step| queue.push_front(fresh(step)));
        let Some(current) = queue.front_mut() else {
            child.changed.notified().await;
            continue;
        };
        let due = *current.due.get_or_insert_with(|| Instant::now() + current.step.after);
        if Instant::now() < due {
            tokio::select! {
                biased;
                () = child.changed.notified() => {}
                () = tokio::time::sleep_until(due) => {}
            }
            continue;
        }
        match child.perform(&mut current.step.act) {
            Progress::Done => drop(queue.pop_front()),
            Progress::Waits => child.changed.notified().await,
            Progress::Ends(status) => break status,
        }
    };
    child.end(status, tell);
}

impl Child {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn perform(self: &Arc<Self>, act: &mut Act) -> Progress {
        let mut state = self.state();
        let done = match act {
            Act::Out(stream, bytes) => {
                let stream = if self.is_terminal { Stream::Terminal } else { *stream };
                let room = PIPE_BYTES.saturating_sub(state.buffered()).min(bytes.len());
                if room > 0 {
                    state.output.push_back((stream, bytes.split_to(room)));
                }
                bytes.is_empty()
            }
            Act::Echo => {
                let room = PIPE_BYTES.saturating_sub(state.buffered()).min(state.input.len());
                if room > 0 {
                    let stream = if self.is_terminal { Stream::Terminal } else { Stream::Stdout };
                    let echoed = state.input.split_to(room).freeze();
                    state.output.push_back((stream, echoed));
                }
                state.input.is_empty() && state.input_ended
            }
            Act::ReadLine => match state.input.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    state.input.advance(end + 1);
                    true
                }
                None => state.input_ended,
            },
            Act::CloseOutputs => {
                state.outputs_closed = true;
                true
            }
            Act::OnSignal(signal, steps) => {
                state.handlers.insert(*signal, std::mem::take(steps));
                true
            }
            Act::Fork(fork) => {
                let pid = self.shared.next_pid();
                if let Some(lives) = fork.lives {
                    let child = Arc::clone(self);
                    tokio::spawn(async move {
                        tokio::time::sleep(lives).await;
                        child.end_fork(pid);
                    });
                }
                state.forks.insert(pid, fork.clone());
                true
            }
            Act::Exit(status) => return Progress::Ends(*status),
        };
        state.wake_all();
        if done { Progress::Done } else { Progress::Waits }
    }

    fn end(&self, status: ExitStatus, tell: oneshot::Sender<Exited>) {
        self.state().ended = true;
        let at = self.shared.clock.now();
        self.shared.note(Done::Reaped { pid: self.pid });
        // Nobody may want to know any more.
        let _ = tell.send(Exited { status, usage: None, at });
        self.note_end();
    }

    fn end_fork(&self, pid: u32) {
        self.state().forks.remove(&pid);
        self.note_end();
    }

    fn note_end(&self) {
        let mut state = self.state();
        state.wake_all();
        if state.ended && state.forks.is_empty() {
            self.gone.send_replace(true);
        }
    }

    /// What the signal does to the child itself, if it lives.
    fn hit(&self, signal: Signal) -> bool {
        let mut state = self.state();
        if state.ended {
            return false;
        }
        if signal != Signal::KILL && state.handlers.contains_key(&signal) {
            state.caught.push_back(signal);
        } else if ends(signal) {
            state.killed_by.get_or_insert(signal);
        }
        drop(state);
        self.changed.notify_one();
        true
    }

    fn hit_forks(&self, signal: Signal, reaches: impl Fn(&Fork) -> bool) -> bool {
        let mut state = self.state();
        let reached = state.forks.values().any(&reaches);
        if ends(signal) {
            state.forks.retain(|_, fork| fork.unkillable || !reaches(fork));
        }
        drop(state);
        self.note_end();
        reached
    }

    fn interrupt(&self) {
        self.hit(Signal::INT);
        self.hit_forks(Signal::INT, |fork| !fork.left_group);
    }
}

/// Whether the system ends a process that does not catch `signal`. Stopping is not played.
const fn ends(signal: Signal) -> bool {
    !matches!(
        signal,
        Signal::CHLD
            | Signal::CONT
            | Signal::URG
            | Signal::WINCH
            | Signal::STOP
            | Signal::TSTP
            | Signal::TTIN
            | Signal::TTOU
    )
}

#[derive(Debug)]
struct FakeControl(Arc<Child>);

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
        let mut gone = self.0.gone.subscribe();
        Box::pin(async move {
            // It cannot fail before it is true: the task that plays the script holds the sender.
            let _ = gone.wait_for(|gone| *gone).await;
        })
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
struct FakeStdin(Arc<Child>);

impl Stdin for FakeStdin {
    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.state();
        if state.ended {
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
struct FakeOutput(Arc<Child>);

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
struct FakeExit(oneshot::Receiver<Exited>);

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
