//! A session as its users see it: a cheap clone with one method for each request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, oneshot};

use super::driver::{Asked, Lines, Notice};
use super::feed::FeedReader;
use super::log::OutputLog;
use super::ports::Control;
use super::registry::Owner;
use super::stream::{CallStream, StreamOptions, UPDATES_BOUND, Update};
use crate::core::approval::{Approval, Grant};
use crate::core::command::TerminalSize;
use crate::core::ids::{AttemptNumber, CallId, GrantId, ProcessId, SessionId, TurnId};
use crate::core::output::Flow;
use crate::core::process::{EndReason, Exit};
use crate::core::session::{
    Answer, AttemptView, Call, ControlError, Decide, DecideError, EndReport, Exec, Hold, HoldError,
    InterruptReport, ProcessView, SessionView, TargetError, Update as Change, UpdateError, WaitFor,
    WaitResult, Write,
};
use crate::core::signal::{Scope, Signal};
use crate::core::time::Instant;

/// Why a call came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError<E> {
    /// The session refused it.
    #[error(transparent)]
    Refused(#[from] E),
    /// The session is over.
    #[error("the session is over")]
    SessionGone,
}

/// A process, opened for reading.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The process at that moment.
    pub view: ProcessView,
    /// The attempt whose log this is.
    pub attempt: AttemptNumber,
    /// Its output.
    pub log: Arc<OutputLog>,
    /// Its control, once it runs.
    pub control: Option<Arc<dyn Control>>,
}

/// Tells the driver when the client of a call goes away before the answer.
#[derive(Debug)]
pub(super) struct CallGuard {
    id: CallId,
    lines: Lines,
    answered: bool,
}

impl CallGuard {
    pub(super) const fn answered(&mut self) {
        self.answered = true;
    }

    /// Tells the driver that the call's stream carried output up to `to`.
    pub(super) fn has_read(&self, process: ProcessId, attempt: AttemptNumber, to: u64) {
        self.lines.notices.push(Notice::Read { process, attempt, to });
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        if !self.answered {
            self.lines.notices.push(Notice::Dropped(self.id));
        }
    }
}

/// A session.
#[derive(Clone, Debug)]
pub struct SessionHandle {
    id: SessionId,
    owner: Owner,
    number: u64,
    labels: Arc<BTreeMap<String, String>>,
    lines: Lines,
    calls: Arc<AtomicU64>,
}

impl SessionHandle {
    pub(super) fn new(
        id: SessionId,
        owner: Owner,
        number: u64,
        labels: Arc<BTreeMap<String, String>>,
        lines: Lines,
    ) -> Self {
        Self { id, owner, number, labels, lines, calls: Arc::new(AtomicU64::new(0)) }
    }

    /// Its rank among the sessions of its host, by creation.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// What its creator called it.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }

    /// Its id.
    pub const fn id(&self) -> &SessionId {
        &self.id
    }

    /// Whose it is.
    pub const fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Starts a command; the stream ends with its result.
    pub async fn exec(&self, exec: Exec, options: StreamOptions) -> CallStream {
        self.stream(Call::Exec(exec), options).await
    }

    /// Writes to a process, or polls it; the stream ends with its result.
    pub async fn write(&self, write: Write, options: StreamOptions) -> CallStream {
        self.stream(Call::Write(write), options).await
    }

    /// Waits for something about a process.
    pub async fn wait(&self, wait: WaitFor) -> Result<WaitResult, CallError<TargetError>> {
        match self.ask(Call::Wait(wait)).await {
            Some(Answer::Wait(result)) => result.map_err(CallError::Refused),
            _ => Err(CallError::SessionGone),
        }
    }

    /// Sends a signal.
    pub async fn signal(
        &self,
        process: ProcessId,
        signal: Signal,
        scope: Scope,
    ) -> Result<(), CallError<ControlError>> {
        self.control(Call::Signal { process, signal, scope }).await
    }

    /// Changes the size of a terminal.
    pub async fn resize(
        &self,
        process: ProcessId,
        size: TerminalSize,
    ) -> Result<(), CallError<ControlError>> {
        self.control(Call::Resize { process, size }).await
    }

    async fn control(&self, call: Call) -> Result<(), CallError<ControlError>> {
        match self.ask(call).await {
            Some(Answer::Control(result)) => result.map_err(CallError::Refused),
            _ => Err(CallError::SessionGone),
        }
    }

    /// Ends one process and its descendants.
    pub async fn terminate(&self, process: ProcessId) -> Result<EndReport, CallError<TargetError>> {
        match self.ask(Call::Terminate { process }).await {
            Some(Answer::Terminate(result)) => result.map_err(CallError::Refused),
            _ => Err(CallError::SessionGone),
        }
    }

    /// Ends every wait of a turn.
    pub async fn interrupt(&self, turn: TurnId) -> Option<InterruptReport> {
        match self.ask(Call::Interrupt { turn }).await {
            Some(Answer::Interrupted(report)) => Some(report),
            _ => None,
        }
    }

    /// Ends every process.
    pub async fn clean(&self) -> Option<EndReport> {
        self.ended(Call::Clean).await
    }

    /// Ends every process and the session.
    pub(super) async fn close(&self, reason: EndReason) -> Option<EndReport> {
        self.ended(Call::Close { reason }).await
    }

    async fn ended(&self, call: Call) -> Option<EndReport> {
        match self.ask(call).await {
            Some(Answer::Ended(report)) => Some(report),
            _ => None,
        }
    }

    /// Describes a process.
    pub async fn process(&self, process: ProcessId) -> Result<ProcessView, CallError<TargetError>> {
        match self.ask(Call::Get { process }).await {
            Some(Answer::Process(result)) => result.map(|view| *view).map_err(CallError::Refused),
            _ => Err(CallError::SessionGone),
        }
    }

    /// Describes all processes, by id; `None` if the session is over.
    pub async fn processes(&self, include_ended: bool) -> Option<Vec<ProcessView>> {
        match self.ask(Call::List { include_ended }).await {
            Some(Answer::Processes(views)) => Some(views),
            _ => None,
        }
    }

    /// Describes the session; `None` if it is over.
    pub async fn describe(&self) -> Option<SessionView> {
        match self.ask(Call::Describe).await {
            Some(Answer::Session(view)) => Some(*view),
            _ => None,
        }
    }

    /// Changes the session.
    pub async fn update(&self, change: Change) -> Result<SessionView, CallError<UpdateError>> {
        match self.ask(Call::Update(change)).await {
            Some(Answer::Updated(result)) => result.map(|view| *view).map_err(CallError::Refused),
            _ => Err(CallError::SessionGone),
        }
    }

    /// Holds yield deadlines; answers until when, or that the lease was given back.
    pub async fn hold(&self, hold: Hold) -> Result<Option<Instant>, CallError<HoldError>> {
        match self.ask(Call::Hold(hold)).await {
            Some(Answer::Held(result)) => result.map_err(CallError::Refused),
            _ => Err(CallError::SessionGone),
        }
    }

    /// Answers a question.
    pub async fn decide(&self, decide: Decide) -> Result<Approval, CallError<DecideError>> {
        match self.ask(Call::Decide(decide)).await {
            Some(Answer::Decided(result)) => result.map(|approval| *approval).map_err(CallError::Refused),
            _ => Err(CallError::SessionGone),
        }
    }

    /// Lists questions, oldest first; `None` if the session is over.
    pub async fn approvals(&self, include_closed: bool) -> Option<Vec<Approval>> {
        match self.ask(Call::Approvals { include_closed }).await {
            Some(Answer::Approvals(approvals)) => Some(approvals),
            _ => None,
        }
    }

    /// Lists kept approvals, oldest first; `None` if the session is over.
    pub async fn grants(&self) -> Option<Vec<Grant>> {
        match self.ask(Call::Grants).await {
            Some(Answer::Grants(grants)) => Some(grants),
            _ => None,
        }
    }

    /// Takes a kept approval back; `None` if there is none of this id.
    pub async fn revoke(&self, grant: GrantId) -> Option<Grant> {
        match self.ask(Call::Revoke { grant }).await {
            Some(Answer::Revoked(revoked)) => revoked.map(|grant| *grant),
            _ => None,
        }
    }

    /// Follows a process: it counts as having a client until the answer is dropped.
    pub async fn follow(&self, process: ProcessId) -> Following {
        let (updates, guard) = self.send(Call::Attach { process }, Flow::DropWithGap).await;
        Following { updates, guard }
    }

    /// Opens a process for reading; `attempt` absent is the latest. `None` if it or the session is gone.
    pub async fn open(&self, process: ProcessId, attempt: Option<AttemptNumber>) -> Option<Opened> {
        let (reply, answer) = oneshot::channel();
        self.lines.asked.send(Asked::Open { process, attempt, reply }).await.ok()?;
        answer.await.ok().flatten()
    }

    /// Numbers of the first event that is kept and of the last; both 0 before the first.
    pub fn events(&self) -> (u64, u64) {
        self.lines.feed.kept()
    }

    /// Watches the events after number `after`; absent starts with what comes.
    pub fn watch(&self, after: Option<u64>) -> FeedReader {
        self.lines.feed.watch(after)
    }

    async fn stream(&self, call: Call, options: StreamOptions) -> CallStream {
        // Nobody reads a stream that is not streamed, so it must not hold up the child.
        let flow = if options.output { options.flow } else { Flow::DropWithGap };
        let starts = matches!(call, Call::Exec(_));
        let (updates, guard) = self.send(call, flow).await;
        let of = if starts { CallStream::of_start } else { CallStream::new };
        of(updates, guard, options)
    }

    async fn ask(&self, call: Call) -> Option<Answer> {
        let (mut updates, mut guard) = self.send(call, Flow::DropWithGap).await;
        while let Some(update) = updates.recv().await {
            if let Update::Answer { answer, .. } = update {
                guard.answered();
                return Some(*answer);
            }
        }
        None
    }

    async fn send(&self, call: Call, flow: Flow) -> (mpsc::Receiver<Update>, CallGuard) {
        let id = CallId(self.calls.fetch_add(1, Ordering::Relaxed) + 1);
        let (updates, receiver) = mpsc::channel(UPDATES_BOUND);
        let guard = CallGuard { id, lines: self.lines.clone(), answered: false };
        // If the driver is gone, so is the sender of updates, which tells the caller.
        let span = tracing::Span::current();
        self.lines.asked.send(Asked::Call { id, call, flow, updates, span }).await.ok();
        (receiver, guard)
    }
}

/// A client that follows a process.
#[derive(Debug)]
pub struct Following {
    updates: mpsc::Receiver<Update>,
    guard: CallGuard,
}

/// What a client that follows a process hears.
#[derive(Debug)]
pub enum Followed {
    /// The first attempt was denied, and a second one follows.
    AttemptDenied(AttemptView),
    /// A further attempt runs.
    AttemptStarted(AttemptView),
    /// The process has ended; told once, also to those who come later.
    Exited(Exit),
    /// There is nobody to follow any more: the process is forgotten, or never existed.
    Over(Result<(), CallError<TargetError>>),
}

impl Following {
    /// The next thing to hear; nothing comes after `Over`. Cancel-safe.
    pub async fn next(&mut self) -> Followed {
        loop {
            match self.updates.recv().await {
                Some(Update::AttemptStarted { attempt, .. }) => return Followed::AttemptStarted(attempt),
                Some(Update::AttemptDenied { attempt, .. }) => return Followed::AttemptDenied(attempt),
                Some(Update::Exited { exit }) => return Followed::Exited(exit),
                Some(Update::Collecting { .. } | Update::Started { .. } | Update::Asking { .. }) => {}
                Some(Update::Answer { answer, .. }) => {
                    self.guard.answered();
                    return Followed::Over(match *answer {
                        Answer::Attached(result) => result.map_err(CallError::Refused),
                        _ => Err(CallError::SessionGone),
                    });
                }
                None => {
                    self.guard.answered();
                    return Followed::Over(Err(CallError::SessionGone));
                }
            }
        }
    }
}
