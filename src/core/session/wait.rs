//! Calls that wait: starts, writes, polls, conditions; and what ends their waits.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::questions;
use super::timers::Timer;
use super::{
    Answer, CallResult, Condition, ConditionEnd, Effect, Progress, RequestState, Session, WaitEnd, WriteError,
};
use crate::core::approval::Question;
use crate::core::ids::{AttemptNumber, CallId, ProcessId, RequestId, TurnId};
use crate::core::process::{Exit, Phase, Process};
use crate::core::time::Instant;

/// A call that waits, with every repeat that joined it.
#[derive(Debug)]
pub(super) struct Wait {
    /// The calls that get its answer.
    pub(super) callers: Vec<CallId>,
    /// Whose turn it is.
    pub(super) turn: TurnId,
    /// The request that its answer is remembered for.
    pub(super) request: Option<RequestId>,
    /// About whom.
    pub(super) process: ProcessId,
    /// For what.
    pub(super) kind: WaitKind,
    /// The attempt whose output belongs to its answer.
    pub(super) attempt: AttemptNumber,
    /// The first byte of that output.
    pub(super) from: u64,
    /// When it began.
    pub(super) started: Instant,
    /// Its yield deadline.
    pub(super) yields: Yield,
    /// How long that stood still.
    pub(super) paused: Duration,
}

/// What a call waits for.
#[derive(Debug)]
pub(super) enum WaitKind {
    /// The end of a start's process, or the yield deadline.
    Start {
        /// Its length; `None` waits for the end.
        yield_time: Option<Duration>,
    },
    /// The end of a one-shot.
    OneShot,
    /// A delivery, and then as a poll.
    Write(WriteWait),
    /// The end of the process, or the yield deadline.
    Poll {
        /// Input that the call brought and that was not delivered, as an empty range.
        stdin: Option<(u64, u64)>,
        /// Whether its answer carries output.
        collects: bool,
    },
    /// A condition.
    Condition {
        /// Which.
        condition: Condition,
        /// Whether the host looks for it.
        watched: bool,
    },
}

/// A write's wait.
#[derive(Debug)]
pub(super) struct WriteWait {
    /// How far its input is.
    pub(super) stage: Stage,
    /// First byte of its input, and one past the last one delivered.
    pub(super) stdin: (u64, u64),
    /// How long to collect after the delivery; `None` answers at the delivery.
    pub(super) collect: Option<Duration>,
    /// How it will be answered once the delivery has stopped.
    pub(super) stopping: Option<WaitEnd>,
}

/// How far a write's input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It waits behind other input.
    Queued,
    /// Somebody is asked about it.
    Asked,
    /// It is being delivered.
    Active,
    /// It was delivered.
    Delivered,
    /// Nobody reads any more.
    Broken,
}

/// A yield deadline, which stands still while the session's deadlines are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Yield {
    /// None is set.
    Unset,
    /// Its timer runs.
    Running,
    /// It stands still with so much left.
    Held {
        /// What is left.
        left: Duration,
        /// Since when.
        since: Instant,
    },
    /// The wait was to end, and so would its deadline, while the end of an attempt was judged: it ends so when that is not the
    /// end of the process.
    Passed(WaitEnd),
}

impl Wait {
    pub(super) const fn new(
        turn: TurnId,
        process: ProcessId,
        attempt: AttemptNumber,
        from: u64,
        kind: WaitKind,
        started: Instant,
    ) -> Self {
        Self {
            callers: Vec::new(),
            turn,
            request: None,
            process,
            kind,
            attempt,
            from,
            started,
            yields: Yield::Unset,
            paused: Duration::ZERO,
        }
    }

    pub(super) fn for_request(self, request: Option<RequestId>) -> Self {
        Self { request, ..self }
    }
}

impl Wait {
    /// Whether its answer is one that a model reads: a stream's acknowledgement leaves output and end to the next one.
    const fn carries_output(&self) -> bool {
        match &self.kind {
            WaitKind::Start { .. } | WaitKind::OneShot => true,
            WaitKind::Write(write) => write.collect.is_some(),
            WaitKind::Poll { collects, .. } => *collects,
            WaitKind::Condition { .. } => false,
        }
    }
}

impl Session {
    /// Registers a call that waits, and tells it which output is its own.
    pub(super) fn begin_wait(&mut self, now: Instant, call: CallId, mut wait: Wait) {
        wait.callers.push(call);
        let (process, attempt, from) = (wait.process, wait.attempt, wait.from);
        // Before it is decided that anything starts there is no output; `follow_attempt` tells of it.
        let has_output = self.processes.get(&process).is_some_and(|known| !known.is_undecided());
        if has_output && !matches!(wait.kind, WaitKind::Condition { .. }) {
            let progress = Progress::Collecting { process, attempt, from };
            self.effects.push_back(Effect::Progress { call, progress });
        }
        self.waits.insert(call, wait);
        self.client_changed(now, process);
    }

    /// Unregisters a call that waits.
    pub(super) fn end_wait(&mut self, call: CallId) -> Option<Wait> {
        self.timers.stop(&Timer::Wait(call));
        let wait = self.waits.remove(&call)?;
        if matches!(wait.kind, WaitKind::Condition { watched: true, .. }) {
            self.effects.push_back(Effect::Unwatch { wait: call });
        }
        Some(wait)
    }

    /// The calls that wait on a process, in the order in which they came.
    pub(super) fn waits_on(&self, process: ProcessId) -> Vec<CallId> {
        self.waits.iter().filter(|(_, wait)| wait.process == process).map(|(call, _)| *call).collect()
    }

    /// From now on the output of another attempt belongs to every call that collects output of a process.
    pub(super) fn follow_attempt(&mut self, process: ProcessId, attempt: AttemptNumber) {
        for wait in self.waits.values_mut().filter(|wait| wait.process == process) {
            if matches!(wait.kind, WaitKind::Condition { .. }) {
                continue;
            }
            (wait.attempt, wait.from) = (attempt, 0);
            let told = wait.callers.iter().map(|call| Effect::Progress {
                call: *call,
                progress: Progress::Collecting { process, attempt, from: 0 },
            });
            self.effects.extend(told);
        }
    }

    /// A repeat of a request in flight gets the same answer as the first.
    pub(super) fn join(&mut self, call: CallId, first: CallId) {
        let Some(wait) = self.waits.get_mut(&first) else { return };
        wait.callers.push(call);
        let (process, attempt, from) = (wait.process, wait.attempt, wait.from);
        let starts = questions::is_start(&wait.kind);
        if self.processes.get(&process).is_some_and(|known| !known.is_undecided()) {
            let progress = Progress::Collecting { process, attempt, from };
            self.effects.push_back(Effect::Progress { call, progress });
        }
        if starts {
            self.tell_progress_so_far(call, process);
        } else if let Some(question) = self.question_about_input(process, first) {
            self.effects.push_back(Effect::Progress { call, progress: Progress::Asking { question } });
        }
    }

    /// The open question about the input that this call brought.
    fn question_about_input(&self, process: ProcessId, call: CallId) -> Option<Arc<Question>> {
        let reviewing = self.processes.get(&process)?.input.reviewing.as_ref()?;
        (reviewing.piece.call == call).then(|| self.open_question(&reviewing.approval)).flatten()
    }

    pub(super) fn tell_progress_so_far(&mut self, call: CallId, process: ProcessId) {
        let Some(known) = self.processes.get(&process) else { return };
        let mut told = Vec::new();
        let (first, second) = (known.attempts.first().cloned(), known.attempts.get(1).cloned());
        if let Some(attempt) = first.clone() {
            let (argv, cwd) = (known.argv.clone(), known.cwd.clone());
            told.push(Progress::AttemptStarted { process, attempt });
            told.push(Progress::Started { process, argv, cwd });
        }
        let denied = first.filter(|_| second.is_some() || known.phase == Phase::Starting);
        told.extend(denied.map(|attempt| Progress::AttemptDenied { process, attempt }));
        told.extend(second.map(|attempt| Progress::AttemptStarted { process, attempt }));
        if let Phase::Asking { approval } = &known.phase
            && let Some(question) = self.open_question(approval)
        {
            told.push(Progress::Asking { question });
        }
        self.effects.extend(told.into_iter().map(|progress| Effect::Progress { call, progress }));
    }

    /// Tells every client that follows a process of its end.
    pub(super) fn tell_followers_of_exit(&mut self, process: ProcessId, exit: Exit) {
        self.tell_followers(process, &[Progress::Exited { process, exit }]);
    }

    fn tell_followers(&mut self, process: ProcessId, steps: &[Progress]) {
        for follower in self.processes.get(&process).map_or(&[][..], |known| &known.followers) {
            let told = steps.iter().cloned().map(|progress| Effect::Progress { call: *follower, progress });
            self.effects.extend(told);
        }
    }

    /// Tells every start that waits on a process, and every client that follows it.
    pub(super) fn tell_progress(&mut self, process: ProcessId, steps: &[Progress]) {
        for wait in self.waits.values().filter(|wait| wait.process == process) {
            if !matches!(wait.kind, WaitKind::Start { .. } | WaitKind::OneShot) {
                continue;
            }
            for caller in &wait.callers {
                let told = steps.iter().cloned().map(|progress| Effect::Progress { call: *caller, progress });
                self.effects.extend(told);
            }
        }
        self.tell_followers(process, steps);
    }

    /// Sets a call's yield deadline, from now on.
    pub(super) fn set_yield(&mut self, now: Instant, call: CallId, length: Duration) {
        let held = self.yields_are_held();
        let Some(wait) = self.waits.get_mut(&call) else { return };
        wait.paused += still_held(wait.yields, now);
        if held {
            self.timers.stop(&Timer::Wait(call));
            wait.yields = Yield::Held { left: length, since: now };
        } else {
            wait.yields = Yield::Running;
            self.timers.set(Timer::Wait(call), now + length);
        }
    }

    /// Sets the yield deadlines of the starts that wait on a process which has just begun to run.
    pub(super) fn start_yields(&mut self, now: Instant, process: ProcessId) {
        for call in self.waits_on(process) {
            if let Some(Wait {
                kind: WaitKind::Start { yield_time: Some(length) },
                yields: Yield::Unset | Yield::Passed(_),
                ..
            }) = self.waits.get(&call)
            {
                let length = *length;
                self.set_yield(now, call, length);
            }
        }
    }

    pub(super) fn pause_yields(&mut self, now: Instant) {
        for (call, wait) in &mut self.waits {
            if wait.yields == Yield::Running
                && let Some(due) = self.timers.stop(&Timer::Wait(*call))
            {
                wait.yields = Yield::Held { left: due.since(now), since: now };
            }
        }
    }

    pub(super) fn resume_yields(&mut self, now: Instant) {
        for (call, wait) in &mut self.waits {
            if let Yield::Held { left, since } = wait.yields {
                wait.paused += now.since(since);
                wait.yields = Yield::Running;
                self.timers.set(Timer::Wait(*call), now + left);
            }
        }
    }

    /// A call's time to wait is over.
    pub(super) fn on_wait_over(&mut self, now: Instant, call: CallId) {
        let Some(wait) = self.waits.get_mut(&call) else { return };
        wait.yields = Yield::Unset;
        if self.is_judged(now, call, WaitEnd::Yielded) {
            return;
        }
        let Some(wait) = self.waits.get_mut(&call) else { return };
        match &mut wait.kind {
            WaitKind::Write(_) => self.stop_or_answer_write(now, call, WaitEnd::Yielded),
            WaitKind::Condition { .. } => self.answer_condition(now, call, ConditionEnd::TimedOut),
            WaitKind::Start { .. } | WaitKind::OneShot | WaitKind::Poll { .. } => {
                self.answer(now, call, WaitEnd::Yielded);
            }
        }
    }

    /// Whether the attempt of a call that collects output has ended and its end is being judged: within 20 ms the call is
    /// answered by what that comes to, and as `end` only if the process goes on. Nobody is told that what has ended runs.
    pub(super) fn is_judged(&mut self, now: Instant, call: CallId, end: WaitEnd) -> bool {
        let Some(wait) = self.waits.get_mut(&call) else { return false };
        let judging = |process: &Process| matches!(process.phase, Phase::Judging { .. });
        let collects = !matches!(wait.kind, WaitKind::Condition { .. });
        let judged = collects && self.processes.get(&wait.process).is_some_and(judging);
        if judged {
            wait.paused += still_held(wait.yields, now);
            wait.yields = Yield::Passed(end);
            self.timers.stop(&Timer::Wait(call));
        }
        judged
    }

    /// What was judged is not the end: polls and writes whose time was over, or that were interrupted, are answered, starts go on with the second
    /// attempt.
    pub(super) fn yield_passed(&mut self, now: Instant, process: ProcessId) {
        for call in self.waits_on(process) {
            let Some(wait) = self.waits.get(&call) else { continue };
            let Yield::Passed(end) = wait.yields else { continue };
            match wait.kind {
                WaitKind::Write(_) => self.stop_or_answer_write(now, call, end),
                WaitKind::Poll { .. } => self.answer(now, call, end),
                WaitKind::Start { .. } | WaitKind::OneShot | WaitKind::Condition { .. } => {}
            }
        }
    }

    /// Answers a call that collects output.
    pub(super) fn answer(&mut self, now: Instant, call: CallId, end: WaitEnd) {
        let Some(wait) = self.end_wait(call) else { return };
        let Some(result) = self.result(now, &wait, end) else { return };
        let answer = match wait.kind {
            WaitKind::Start { .. } | WaitKind::OneShot => Answer::Exec(Ok(result)),
            WaitKind::Write(_) | WaitKind::Poll { .. } => Answer::Write(Ok(result)),
            WaitKind::Condition { .. } => return,
        };
        self.settle(now, wait, &answer);
    }

    /// Gives every caller of a wait its answer, and remembers it for repeats.
    pub(super) fn settle(&mut self, now: Instant, wait: Wait, answer: &Answer) {
        if let Some(request) = wait.request.as_ref().and_then(|request| self.requests.get_mut(request)) {
            request.state = RequestState::Done(Box::new(answer.clone()));
        }
        for caller in wait.callers {
            self.reply(caller, answer.clone());
        }
        self.client_changed(now, wait.process);
    }

    fn result(&mut self, now: Instant, wait: &Wait, end: WaitEnd) -> Option<CallResult> {
        let chunk_id = self.ids.chunk_id();
        let process = self.processes.get_mut(&wait.process)?;
        let attempt = process.attempt_number();
        let from = if wait.attempt == attempt { wait.from } else { 0 };
        let exit = process.exit().copied();
        let next = if wait.carries_output() { process.output_end().max(from) } else { from };
        process.launch.attended &= !questions::is_start(&wait.kind);
        // What nobody hears was not told.
        if wait.carries_output() && !wait.callers.is_empty() {
            process.cursor = process.cursor.max(next);
            process.told |= exit.is_some();
        }
        let end = if exit.is_some() { WaitEnd::Exited } else { end };
        Some(CallResult {
            process: wait.process,
            end,
            exit,
            attempts: process.attempts.clone(),
            evidence: process.attempt().and_then(|attempt| attempt.evidence.clone()),
            wall_time: now.since(wait.started),
            paused: wait.paused + still_held(wait.yields, now),
            attempt,
            from,
            next,
            outputs_closed: process.outputs_closed(),
            stdin: match &wait.kind {
                // What was never begun would start where the input is now, not where it was when the call came.
                WaitKind::Write(WriteWait { stage: Stage::Queued | Stage::Asked, .. }) => {
                    Some((process.input.committed, process.input.committed))
                }
                WaitKind::Write(write) => Some(write.stdin),
                WaitKind::Poll { stdin, .. } => *stdin,
                WaitKind::Start { .. } | WaitKind::OneShot | WaitKind::Condition { .. } => None,
            },
            chunk_id,
            output_tokens_max: self.limits.output_tokens_max,
        })
    }

    /// Answers at once what waits on a process whose end needs no more waiting.
    pub(super) fn answer_if_over(&mut self, now: Instant, call: CallId) {
        let Some(wait) = self.waits.get(&call) else { return };
        if self.processes.get(&wait.process).is_some_and(Process::end_is_collected) {
            self.answer(now, call, WaitEnd::Exited);
        }
    }

    /// A call's stream got ahead of what the session knew: the next answer starts after it.
    pub(super) fn on_read(&mut self, process: ProcessId, attempt: AttemptNumber, to: u64) {
        if let Some(process) = self.processes.get_mut(&process)
            && process.attempt_number() == attempt
        {
            process.cursor = process.cursor.max(to);
        }
    }

    /// An answer that a write gets in place of a result.
    pub(super) fn refuse_write(&mut self, now: Instant, call: CallId, refusal: WriteError) {
        let Some(wait) = self.end_wait(call) else { return };
        self.settle(now, wait, &Answer::Write(Err(refusal)));
    }
}

fn still_held(yields: Yield, now: Instant) -> Duration {
    match yields {
        Yield::Held { since, .. } => now.since(since),
        Yield::Unset | Yield::Running | Yield::Passed(_) => Duration::ZERO,
    }
}

/// Exactly the interrupt character: what a pipe process without stdin takes as SIGINT.
pub(super) fn is_interrupt(input: &Bytes) -> bool {
    input.as_ref() == [0x03]
}
