//! One step of a caller, through a session's handle.

use tokio::sync::mpsc::UnboundedSender;
use unified_exec::core::approval::Grant;
use unified_exec::core::ids::{Fingerprint, ProcessId, RequestId};
use unified_exec::core::output::Flow;
use unified_exec::core::session::{Answer, Call, Decide, TargetError, Update};
use unified_exec::host::stream::{CallStream, Item, Refused, StreamOptions};
use unified_exec::host::{CallError, Followed, Host, SessionHandle};

use crate::call;
use crate::run::{Missed, Why};
use crate::scenario::{Op, When};
use crate::stage::heard::Heard;
use crate::stage::received::Received;
use crate::stage::{Process, Reads, Target, reads, request_of};
use crate::tell;

/// Tokens of text for a model; none of it is shown.
const TOKENS: u32 = 1_000;

/// Who makes one call.
pub(super) struct Client {
    pub(super) host: Host,
    pub(super) session: SessionHandle,
    pub(super) tell: UnboundedSender<Heard>,
    pub(super) reads: Reads,
    pub(super) step: usize,
    pub(super) when: When,
}

/// The session is over: a client of the wire is told that there is none.
struct Over;

impl Client {
    /// Makes the call, and tells what it came to.
    pub(super) async fn make(self, target: Target) {
        let process = match &target.process {
            Process::None => None,
            Process::Known(process) => Some(*process),
            Process::Of(request) => match self.started(request).await {
                Some(process) => Some(process),
                None => return self.missed(Why::NoProcess),
            },
        };
        match self.asked(process, &target).await {
            Some(Ok(answer)) => {
                let process = match &answer {
                    Answer::Exec(Ok(result)) => Some(result.process),
                    _ => None,
                };
                self.say(Heard::Answer { step: self.step, process, keys: tell::answer(&answer) });
            }
            Some(Err(Over)) => {
                let keys = tell::session_gone();
                self.say(Heard::Answer { step: self.step, process: None, keys });
            }
            None => {}
        }
    }

    fn say(&self, heard: Heard) {
        // Nobody listens once the scenario is over.
        self.tell.send(heard).ok();
    }

    fn missed(&self, why: Why) {
        self.say(Heard::Missed(Missed { step: self.step, why }));
    }

    /// The process that a request has started.
    async fn started(&self, request: &str) -> Option<ProcessId> {
        let processes = self.session.processes(true).await?;
        let of = |id: &Option<RequestId>| id.as_ref().is_some_and(|id| id.as_str() == request);
        let process = processes.iter().find(|process| of(&process.request))?.id;
        self.say(Heard::Started { process, request: request.to_owned() });
        Some(process)
    }

    /// `None` if there was nothing to ask.
    async fn asked(&self, process: Option<ProcessId>, target: &Target) -> Option<Result<Answer, Over>> {
        let session = &self.session;
        match self.when.op {
            Op::Revoke => return self.revoke().await,
            Op::Decide => {
                let verdict = call::verdict(self.when.verdict?);
                let decide = Decide {
                    approval: target.approval.clone()?,
                    verdict,
                    text: self.when.text.clone().unwrap_or_default(),
                    rule: self.when.rule.clone().unwrap_or_default(),
                    by: "person".into(),
                };
                let decided = session.decide(decide).await;
                return Some(refused(decided).map(|decided| Answer::Decided(decided.map(Box::new))));
            }
            Op::Update => {
                let Some(view) = session.describe().await else { return Some(Err(Over)) };
                let rights = self.when.set.clone().map(|set| set.of(view.rights));
                let updated = session.update(Update { rights, ..Update::default() }).await;
                return Some(refused(updated).map(|updated| Answer::Updated(updated.map(Box::new))));
            }
            Op::Drain => {
                self.host.shutdown().await;
                return Some(Ok(Answer::Control(Ok(()))));
            }
            _ => {}
        }
        // A frame of a stream is acknowledged, and gets no output.
        let output = self.when.frame != Some(true);
        let options = StreamOptions { output, ..StreamOptions::new(Flow::DropWithGap, TOKENS) };
        Some(match call::call(&self.when, process)? {
            Call::Exec(mut exec) => {
                let request = RequestId::new(request_of(self.step, &self.when));
                exec.request.get_or_insert((request, Fingerprint([0; 32])));
                self.read(session.exec(exec, options).await).await
            }
            Call::Write(write) => self.read(session.write(write, options).await).await,
            Call::Wait(wait) => refused(session.wait(wait).await).map(Answer::Wait),
            Call::Attach { process } => refused(self.follow(process).await).map(Answer::Attached),
            Call::Interrupt { turn } => session.interrupt(turn).await.map(Answer::Interrupted).ok_or(Over),
            Call::Clean => session.clean().await.map(Answer::Ended).ok_or(Over),
            Call::Close { .. } => Ok(Answer::Ended(self.host.close(session).await)),
            Call::Terminate { process } => refused(session.terminate(process).await).map(Answer::Terminate),
            Call::Signal { process, signal, scope } => {
                refused(session.signal(process, signal, scope).await).map(Answer::Control)
            }
            Call::Hold(hold) => refused(session.hold(hold).await).map(Answer::Held),
            _ => return None,
        })
    }

    /// The kept approval of that number is taken back.
    async fn revoke(&self) -> Option<Result<Answer, Over>> {
        let Some(grants) = self.session.grants().await else { return Some(Err(Over)) };
        let number = self.when.grant.and_then(|number| number.checked_sub(1));
        let Some(grant) = number.and_then(|at| grants.get(at)).map(|grant: &Grant| grant.id.clone()) else {
            self.missed(Why::NoGrant);
            return None;
        };
        Some(Ok(Answer::Revoked(self.session.revoke(grant).await.map(Box::new))))
    }

    async fn follow(&self, process: ProcessId) -> Result<(), CallError<TargetError>> {
        let mut following = self.session.follow(process).await;
        loop {
            if let Followed::Over(over) = following.next().await {
                return over;
            }
        }
    }

    /// Reads a stream to its end, as a client does.
    async fn read(&self, mut stream: CallStream) -> Result<Answer, Over> {
        let call = self.when.call.clone().unwrap_or_default();
        let mut received = Reading { received: Received::of(call), tell: &self.tell };
        let mut client = self.reads.clone();
        loop {
            reads(&mut client).await;
            let Some(item) = stream.next().await else { break };
            match item {
                Ok(Item::Output { attempt, piece }) => {
                    received.received.piece(attempt.get(), piece.offset, piece.data);
                }
                Ok(Item::Gap { attempt, gap }) => received.received.gap(attempt.get(), gap.from, gap.to),
                Ok(Item::Asking { question }) => received.received.process = Some(question.process),
                Ok(
                    Item::AttemptDenied { process, .. }
                    | Item::AttemptStarted { process, .. }
                    | Item::Started { process, .. },
                ) => received.received.process = Some(process),
                Ok(Item::Result(collected)) => {
                    let result = collected.result;
                    let attempt = result.attempt.get();
                    // A frame's answer may be that of a request before it, which told of output that a frame is not given.
                    if self.when.frame != Some(true) {
                        received.received.answered(Some(result.process), attempt, result.from, result.next);
                    }
                    return Ok(match self.when.op {
                        Op::Exec => Answer::Exec(Ok(result)),
                        _ => Answer::Write(Ok(result)),
                    });
                }
                Err(CallError::Refused(Refused::Start(error))) => return Ok(Answer::Exec(Err(error))),
                Err(CallError::Refused(Refused::Write(error))) => return Ok(Answer::Write(Err(error))),
                Err(CallError::SessionGone) => return Err(Over),
            }
        }
        self.say(Heard::Broken(format!("step {}: the stream ends without an answer", self.step + 1)));
        Err(Over)
    }
}

/// Tells what was received also when the client goes away.
struct Reading<'a> {
    received: Received,
    tell: &'a UnboundedSender<Heard>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.tell.send(Heard::Received(std::mem::take(&mut self.received))).ok();
    }
}

fn refused<T, E>(answer: Result<T, CallError<E>>) -> Result<Result<T, E>, Over> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(CallError::Refused(error)) => Ok(Err(error)),
        Err(CallError::SessionGone) => Err(Over),
    }
}
