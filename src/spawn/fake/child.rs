//! A fake child: its state, and the task that plays its script.

use std::collections::{BTreeMap, VecDeque};
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use super::handles::{FakeControl, FakeExit, FakeOutput, FakeStdin};
use super::proxy::Asker;
use super::script::{Act, End, Fork, Step};
use super::{Done, Record, Shared};
use crate::core::output::Stream;
use crate::core::process::ExitStatus;
use crate::core::signal::Signal;
use crate::core::spawn::{Enforced, Mechanism, SpawnPlan, Stdio};
use crate::host::ports::{Exited, Spawned, Stdin};

/// What a pipe of Linux holds by default. Beyond it the writer waits.
pub(super) const PIPE_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Child {
    pub(super) pid: u32,
    pub(super) is_terminal: bool,
    pub(super) shared: Arc<Shared>,
    record: Arc<Record>,
    asker: Option<Asker>,
    state: Mutex<State>,
    /// Tells the task that something has changed.
    pub(super) changed: Notify,
    pub(super) gone: watch::Sender<bool>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) output: VecDeque<(Stream, Bytes)>,
    outputs_closed: bool,
    /// Output is on its way after the end.
    on_the_way: bool,
    /// The server has let go of the terminal.
    pub(super) hung_up: bool,
    pub(super) reader: Option<Waker>,
    pub(super) input: BytesMut,
    pub(super) input_ended: bool,
    pub(super) input_closed: bool,
    /// Bytes of input that are read as they come.
    takes: u64,
    mirrors: bool,
    pub(super) writer: Option<Waker>,
    handlers: BTreeMap<Signal, Vec<Step>>,
    /// Signals that have come and are caught.
    caught: VecDeque<Signal>,
    killed_by: Option<Signal>,
    /// No signal reaches it but KILL.
    deaf: bool,
    /// Nor does KILL.
    stuck: bool,
    pub(super) ended: bool,
    reaped: bool,
    pub(super) forks: BTreeMap<u32, Fork>,
}

impl State {
    fn buffered(&self) -> usize {
        self.output.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    pub(super) fn holds_outputs(&self) -> bool {
        ((!self.ended || self.on_the_way) && !self.outputs_closed)
            || self.forks.values().any(|fork| fork.holds_outputs)
    }

    pub(super) fn wake_all(&mut self) {
        [self.reader.take(), self.writer.take()].into_iter().flatten().for_each(Waker::wake);
    }
}

/// Starts a child that plays `steps`. Its connections arrive where `proxy` listens.
pub(super) fn start(
    shared: &Arc<Shared>,
    program: &str,
    plan: &SpawnPlan,
    steps: Vec<Step>,
    record: Arc<Record>,
    proxy: Option<(TcpListener, Asker)>,
) -> Spawned {
    let (is_terminal, has_stdin) = match plan.stdio {
        Stdio::Terminal(_) => (true, true),
        Stdio::Pipes { stdin } => (false, stdin),
    };
    let (proxy, asker) = proxy.unzip();
    record.lives(1);
    let child = Arc::new(Child {
        pid: shared.next_pid(),
        is_terminal,
        shared: Arc::clone(shared),
        record,
        asker,
        state: Mutex::new(State { input_ended: !has_stdin, ..State::default() }),
        changed: Notify::new(),
        gone: watch::Sender::new(false),
    });
    shared.note(Done::Started { pid: child.pid, program: program.to_owned() });
    let (tell, told) = oneshot::channel();
    tokio::spawn(play(Arc::clone(&child), steps, tell));
    Spawned {
        pid: Some(child.pid),
        enforced: if plan.sandbox.is_some() {
            Enforced { mechanisms: vec![Mechanism::Script], ..Enforced::default() }
        } else {
            Enforced::default()
        },
        control: Arc::new(FakeControl(Arc::clone(&child))),
        stdin: has_stdin.then(|| Box::new(FakeStdin(Arc::clone(&child))) as Box<dyn Stdin>),
        output: Box::new(FakeOutput(child)),
        exit: Box::new(FakeExit(told)),
        proxy,
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
    Ends(End),
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        Self { status, late: Duration::ZERO, on_the_way: Vec::new() }
    }
}

async fn play(child: Arc<Child>, steps: Vec<Step>, tell: oneshot::Sender<Exited>) {
    let fresh = |step| Current { step, due: None };
    let mut queue: VecDeque<Current> = steps.into_iter().map(fresh).collect();
    let end = loop {
        let caught = {
            let mut state = child.state();
            if let Some(signal) = state.killed_by {
                break ExitStatus::Signal { number: signal.number(), core_dumped: false }.into();
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
            let _timed = child.shared.timed();
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
            Progress::Ends(end) => break end,
        }
    };
    let End { status, late, on_the_way } = end;
    child.end(status, late, !on_the_way.is_empty(), tell);
    for Step { after, mut act } in on_the_way {
        let _timed = child.shared.timed();
        tokio::time::sleep(after).await;
        while matches!(child.perform(&mut act), Progress::Waits) {
            child.changed.notified().await;
        }
    }
    let mut state = child.state();
    state.on_the_way = false;
    state.wake_all();
}

impl Child {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn perform(self: &Arc<Self>, act: &mut Act) -> Progress {
        let mut state = self.state();
        let done = match act {
            Act::Out(stream, bytes) => {
                let stream = if self.is_terminal { Stream::Terminal } else { *stream };
                let room = PIPE_BYTES.saturating_sub(state.buffered()).min(bytes.len());
                if room > 0 {
                    self.say(&mut state, stream, bytes.split_to(room));
                }
                bytes.is_empty()
            }
            Act::Echo => {
                self.echo(&mut state);
                state.input.is_empty() && state.input_ended
            }
            Act::Mirror => {
                state.mirrors = true;
                true
            }
            Act::Take(bytes) => {
                state.takes = state.takes.saturating_add(*bytes);
                true
            }
            Act::CloseInput => {
                state.input_closed = true;
                true
            }
            Act::Connect { host, port } => {
                if let Some(asker) = &self.asker {
                    asker.ask(std::mem::take(host), *port);
                }
                true
            }
            Act::Hang => {
                state.deaf = true;
                (state.takes, state.mirrors) = (0, false);
                false
            }
            Act::Stick => {
                state.stuck = true;
                true
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
                let ignored = state.handlers.iter().filter(|(_, steps)| steps.is_empty());
                fork.ignores.extend(ignored.map(|(signal, _)| *signal));
                fork.unkillable |= state.stuck;
                self.record.lives(1);
                if let Some(lives) = fork.lives {
                    let child = Arc::clone(self);
                    tokio::spawn(async move {
                        let _timed = child.shared.timed();
                        tokio::select! {
                            biased;
                            // Killed before its time, with everybody else.
                            () = child.tree_gone() => {}
                            () = tokio::time::sleep(lives) => child.end_fork(pid),
                        }
                    });
                }
                state.forks.insert(pid, fork.clone());
                true
            }
            Act::Exit(status) => return Progress::Ends((*status).into()),
            Act::End(end) => return Progress::Ends(end.clone()),
        };
        self.consume(&mut state);
        state.wake_all();
        if done { Progress::Done } else { Progress::Waits }
    }

    fn say(&self, state: &mut State, stream: Stream, bytes: Bytes) {
        self.record.say(&bytes);
        state.output.push_back((stream, bytes));
    }

    /// Moves input to the output, as far as there is room.
    fn echo(&self, state: &mut State) {
        let room = PIPE_BYTES.saturating_sub(state.buffered()).min(state.input.len());
        if room > 0 {
            let stream = if self.is_terminal { Stream::Terminal } else { Stream::Stdout };
            let echoed = state.input.split_to(room).freeze();
            self.say(state, stream, echoed);
        }
    }

    /// Reads input that is read while the script goes on.
    pub(super) fn consume(&self, state: &mut State) {
        if state.ended || state.input_closed {
            return;
        }
        if state.mirrors {
            self.echo(state);
        } else if state.takes > 0 {
            let taken = state.input.len().min(usize::try_from(state.takes).unwrap_or(usize::MAX));
            state.input.advance(taken);
            state.takes -= taken as u64;
        }
    }

    fn end(
        self: &Arc<Self>,
        status: ExitStatus,
        late: Duration,
        on_the_way: bool,
        tell: oneshot::Sender<Exited>,
    ) {
        {
            let mut state = self.state();
            state.ended = true;
            state.on_the_way = on_the_way;
        }
        self.record.dies(1);
        let exited = Exited { status, usage: None, out_of_memory: false, at: self.shared.clock.now() };
        if late.is_zero() {
            return self.reaped(exited, tell);
        }
        self.state().wake_all();
        let child = Arc::clone(self);
        tokio::spawn(async move {
            let _timed = child.shared.timed();
            tokio::time::sleep(late).await;
            child.reaped(exited, tell);
        });
    }

    fn reaped(&self, exited: Exited, tell: oneshot::Sender<Exited>) {
        self.state().reaped = true;
        self.shared.note(Done::Reaped { pid: self.pid });
        // Nobody may want to know any more.
        let _ = tell.send(exited);
        self.note_end();
    }

    fn end_fork(&self, pid: u32) {
        if self.state().forks.remove(&pid).is_some() {
            self.record.dies(1);
        }
        self.note_end();
    }

    pub(super) fn tree_gone(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut gone = self.gone.subscribe();
        async move {
            // It cannot fail before it is true: whoever plays the script holds the sender.
            let _ = gone.wait_for(|gone| *gone).await;
        }
    }

    fn note_end(&self) {
        let mut state = self.state();
        state.wake_all();
        if state.reaped && state.forks.is_empty() {
            self.gone.send_replace(true);
        }
    }

    /// What the signal does to the child itself, if it lives.
    pub(super) fn hit(&self, signal: Signal) -> bool {
        let mut state = self.state();
        if state.ended {
            return false;
        }
        if signal == Signal::KILL {
            if !state.stuck {
                state.killed_by.get_or_insert(signal);
            }
        } else if !state.deaf && state.handlers.contains_key(&signal) {
            state.caught.push_back(signal);
        } else if !state.deaf && ends(signal) {
            state.killed_by.get_or_insert(signal);
        }
        drop(state);
        self.changed.notify_one();
        true
    }

    pub(super) fn hit_forks(&self, signal: Signal, reaches: impl Fn(&Fork) -> bool) -> bool {
        let mut state = self.state();
        let reached = state.forks.values().any(&reaches);
        if ends(signal) {
            let survives = |fork: &Fork| {
                let ignored = signal != Signal::KILL && fork.ignores.contains(&signal);
                fork.unkillable || ignored || !reaches(fork)
            };
            let before = state.forks.len();
            state.forks.retain(|_, fork| survives(fork));
            self.record.dies(before - state.forks.len());
        }
        drop(state);
        self.note_end();
        reached
    }

    pub(super) fn interrupt(&self) {
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
