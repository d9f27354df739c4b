//! What a call that collects output sees: how far it is, its output, and one result.

use std::sync::Arc;

use tokio::sync::mpsc;
use tracing::trace_span;

use super::handle::{CallError, CallGuard};
use super::log::{LogReader, Next, OutputLog};
use super::ports::TRACE_TARGET;
use crate::core::approval::Question;
use crate::core::ids::{AttemptNumber, ProcessId};
use crate::core::limits::FRAME_BYTES_MAX;
use crate::core::output::{Flow, Gap, Header, ModelText, Piece, ProcessState, Segment, complete_len, render};
use crate::core::process::Exit;
use crate::core::session::{Answer, AttemptView, CallResult, StartError, WriteError};

/// Updates of one call that may wait for its client: two questions, two attempts with their logs, the denial of the first,
/// the start and the answer, and once more for a repeat that is told what it missed.
pub(super) const UPDATES_BOUND: usize = 32;

/// Bytes of the longest UTF-8 character.
const CHARACTER_BYTES_MAX: u64 = 4;

/// What a driver tells a call.
#[derive(Debug)]
pub(super) enum Update {
    /// Output of this attempt belongs to the call.
    Collecting { process: ProcessId, attempt: AttemptNumber, reader: LogReader },
    /// Somebody is asked.
    Asking { question: Arc<Question> },
    /// The first attempt was denied, and a second one follows.
    AttemptDenied { process: ProcessId, attempt: AttemptView },
    /// The attempt runs.
    AttemptStarted { process: ProcessId, attempt: AttemptView },
    /// The process exists.
    Started { process: ProcessId, argv: Vec<String>, cwd: String },
    /// The process that is followed has ended.
    Exited { exit: Exit },
    /// The answer; with the log it speaks of, if it speaks of one.
    Answer { answer: Box<Answer>, log: Option<Arc<OutputLog>> },
}

/// What a client sees, in order. After `Result` or an error comes nothing.
#[derive(Debug)]
pub enum Item {
    /// Somebody is asked, and the call waits.
    Asking {
        /// What.
        question: Arc<Question>,
    },
    /// The first attempt was denied, and a second one follows.
    AttemptDenied {
        /// Whose.
        process: ProcessId,
        /// Which, with its end and its evidence.
        attempt: Box<AttemptView>,
    },
    /// An attempt runs.
    AttemptStarted {
        /// Whose.
        process: ProcessId,
        /// Which.
        attempt: Box<AttemptView>,
    },
    /// The process exists.
    Started {
        /// Which.
        process: ProcessId,
        /// The program and its arguments.
        argv: Vec<String>,
        /// Where it runs.
        cwd: String,
    },
    /// Output.
    Output {
        /// Of which attempt.
        attempt: AttemptNumber,
        /// The bytes.
        piece: Piece,
    },
    /// Output that this client came too late for.
    Gap {
        /// Of which attempt.
        attempt: AttemptNumber,
        /// Which bytes.
        gap: Gap,
    },
    /// The end of the call.
    Result(Box<Collected>),
}

/// A result with its text.
#[derive(Debug)]
pub struct Collected {
    /// The result.
    pub result: CallResult,
    /// Bytes of its range that memory no longer holds.
    pub omitted_bytes: u64,
    /// Its text for a model.
    pub text: ModelText,
}

/// How a client wants its call.
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// Whether output is streamed at all, or only the result.
    pub output: bool,
    /// What happens when the client is slower than the child.
    pub flow: Flow,
    /// Largest piece of output, in bytes.
    pub frame_bytes_max: usize,
    /// Budget of the text for a model, in tokens; the session's ceiling bounds it.
    pub output_tokens: u32,
}

impl StreamOptions {
    /// Everything streamed in full frames.
    pub const fn new(flow: Flow, output_tokens: u32) -> Self {
        Self { output: true, flow, frame_bytes_max: FRAME_BYTES_MAX, output_tokens }
    }
}

/// Why a call that collects output came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The start was refused.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The input was refused.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// A call under way. Dropping it tells the session that the client is gone.
#[derive(Debug)]
pub struct CallStream {
    updates: mpsc::Receiver<Update>,
    guard: CallGuard,
    options: StreamOptions,
    reading: Option<(ProcessId, AttemptNumber, LogReader)>,
    /// How far output of the attempt before was handed out: if the next one cannot be started, it is the one that counts.
    read_before: Option<(AttemptNumber, u64)>,
    /// An update that waits until output before it, up to this offset, has been handed out.
    held: Option<(Update, u64)>,
    /// What a start must still tell before output of an attempt may be handed out; absent where nothing is started.
    announced: Option<Announced>,
    /// The answer, which waits until all output before it has been handed out.
    answered: Option<(CallResult, Option<Arc<OutputLog>>)>,
    over: bool,
}

/// How far a start has told of itself.
#[derive(Clone, Copy, Debug, Default)]
struct Announced {
    process: bool,
    attempt: Option<AttemptNumber>,
}

impl Announced {
    /// Whether a client knows what output of `attempt` belongs to.
    fn covers(self, attempt: AttemptNumber) -> bool {
        self.process && self.attempt >= Some(attempt)
    }
}

impl CallStream {
    /// The stream of a call that starts something, which is told of before its output is.
    pub(super) fn of_start(
        updates: mpsc::Receiver<Update>,
        guard: CallGuard,
        options: StreamOptions,
    ) -> Self {
        Self { announced: Some(Announced::default()), ..Self::new(updates, guard, options) }
    }

    /// The stream of a call on something that runs.
    pub(super) const fn new(
        updates: mpsc::Receiver<Update>,
        guard: CallGuard,
        options: StreamOptions,
    ) -> Self {
        Self {
            updates,
            guard,
            options,
            reading: None,
            read_before: None,
            held: None,
            announced: None,
            answered: None,
            over: false,
        }
    }

    /// The next thing to see; `None` after the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Item, CallError<Refused>>> {
        while !self.over {
            if let Some((result, log)) = self.answered.take() {
                return Some(Ok(self.rest_of(result, log)));
            }
            if let Some((update, end)) = self.held.take() {
                if let Some(item) = self.output_before(end) {
                    self.held = Some((update, end));
                    return Some(Ok(item));
                }
                match self.take(Some(update)) {
                    Ok(Some(item)) => return Some(Ok(item)),
                    Ok(None) => {}
                    Err(error) => {
                        self.over = true;
                        return Some(Err(error));
                    }
                }
                continue;
            }
            let update = match &mut self.reading {
                // The child writes as soon as it runs, while word of it may still be on the way.
                Some((_, attempt, reader))
                    if self.options.output
                        && self.announced.is_none_or(|announced| announced.covers(*attempt)) =>
                {
                    let attempt = *attempt;
                    tokio::select! {
                        biased;
                        update = self.updates.recv() => update,
                        next = reader.next(self.options.frame_bytes_max) => match next {
                            Next::Piece(piece) => return Some(Ok(Item::Output { attempt, piece })),
                            Next::Gap(gap) => return Some(Ok(Item::Gap { attempt, gap })),
                            // All output has been seen; what is left is the answer.
                            Next::Closed(_) => self.updates.recv().await,
                        },
                    }
                }
                Some(_) | None => self.updates.recv().await,
            };
            // What the attempt before has said belongs before the news that there is another one.
            if let Some(Update::AttemptDenied { .. } | Update::Collecting { .. }) = update
                && let Some((_, attempt, reader)) = &self.reading
                && self.announced.is_none_or(|announced| announced.covers(*attempt))
                && reader.lags()
            {
                let end = reader.end();
                self.held = update.map(|update| (update, end));
                continue;
            }
            match self.take(update) {
                Ok(Some(item)) => return Some(Ok(item)),
                Ok(None) => {}
                Err(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }

    fn take(&mut self, update: Option<Update>) -> Result<Option<Item>, CallError<Refused>> {
        match update {
            None => Err(CallError::SessionGone),
            Some(Update::Collecting { process, attempt, reader }) => {
                // Without streaming nobody reads, and a reader that blocks would stall the child for ever.
                let next = self.options.output.then_some((process, attempt, reader));
                let before = std::mem::replace(&mut self.reading, next);
                self.read_before = before.map(|(_, attempt, reader)| (attempt, reader.cursor()));
                Ok(None)
            }
            Some(Update::Asking { question }) => Ok(Some(Item::Asking { question })),
            Some(Update::AttemptDenied { process, attempt }) => {
                Ok(Some(Item::AttemptDenied { process, attempt: Box::new(attempt) }))
            }
            Some(Update::AttemptStarted { process, attempt }) => {
                if let Some(announced) = &mut self.announced {
                    announced.attempt = Some(attempt.number);
                }
                Ok(Some(Item::AttemptStarted { process, attempt: Box::new(attempt) }))
            }
            Some(Update::Started { process, argv, cwd }) => {
                if let Some(announced) = &mut self.announced {
                    announced.process = true;
                }
                Ok(Some(Item::Started { process, argv, cwd }))
            }
            // Only those who follow are told, and this call has its answer to wait for.
            Some(Update::Exited { .. }) => Ok(None),
            Some(Update::Answer { answer, log }) => {
                self.guard.answered();
                match *answer {
                    Answer::Exec(Ok(result)) | Answer::Write(Ok(result)) => {
                        self.reading = self.reader_for(&result, log.as_ref());
                        self.answered = Some((result, log));
                        Ok(None)
                    }
                    Answer::Exec(Err(refused)) => Err(CallError::Refused(refused.into())),
                    Answer::Write(Err(refused)) => Err(CallError::Refused(refused.into())),
                    _ => Err(CallError::SessionGone),
                }
            }
        }
    }

    /// The next output of what is being read, before `end`.
    fn output_before(&mut self, end: u64) -> Option<Item> {
        let (_, attempt, reader) = self.reading.as_mut()?;
        let left = end.checked_sub(reader.cursor()).filter(|left| *left > 0)?;
        let left = usize::try_from(left).unwrap_or(usize::MAX).min(self.options.frame_bytes_max);
        match reader.try_next(left)? {
            Next::Piece(piece) => Some(Item::Output { attempt: *attempt, piece }),
            Next::Gap(gap) => Some(Item::Gap { attempt: *attempt, gap }),
            Next::Closed(_) => None,
        }
    }

    /// The reader of the result's range: the one that has been reading, or, for an answer that was remembered, one
    /// from the start of the range. What was handed out already is not read again.
    fn reader_for(
        &mut self,
        result: &CallResult,
        log: Option<&Arc<OutputLog>>,
    ) -> Option<(ProcessId, AttemptNumber, LogReader)> {
        if !self.options.output {
            return None;
        }
        match self.reading.take() {
            Some(reading) if reading.1 == result.attempt => Some(reading),
            _ => {
                let read = self.read_before.filter(|(attempt, _)| *attempt == result.attempt);
                let from = read.map_or(result.from, |(_, cursor)| cursor.max(result.from));
                log.map(|log| (result.process, result.attempt, log.reader(from, self.options.flow)))
            }
        }
    }

    /// What is left of the output that belongs to the answer, then the answer.
    fn rest_of(&mut self, result: CallResult, log: Option<Arc<OutputLog>>) -> Item {
        if let Some(item) = self.output_before(result.next) {
            self.answered = Some((result, log));
            return item;
        }
        self.finish(result, log)
    }

    fn finish(&mut self, mut result: CallResult, log: Option<Arc<OutputLog>>) -> Item {
        let _within = trace_span!(target: TRACE_TARGET, "result").entered();
        self.over = true;
        if let Some((process, attempt, reader)) = self.reading.take()
            && reader.cursor() > result.next
        {
            // The stream got ahead of what the session knew: the next answer must not repeat it.
            result.next = reader.cursor();
            self.guard.has_read(process, attempt, result.next);
        }
        let omitted_bytes = log.as_ref().map_or(0, |log| log.omitted(result.from, result.next));
        let header = Header {
            chunk_id: Some(result.chunk_id.clone()),
            wall_time: Some(result.wall_time),
            state: match result.exit {
                Some(exit) => Some(ProcessState::Exited(exit.shell_code())),
                None => result.live_process().map(ProcessState::Running),
            },
        };
        let segments = log.map_or_else(Vec::new, |log| {
            let (start, end) = text_range(&log, &result);
            log.snapshot(start, end)
        });
        let tokens = self.options.output_tokens.min(result.output_tokens_max);
        let text = render(&header, &segments, tokens);
        Item::Result(Box::new(Collected { result, omitted_bytes, text }))
    }
}

/// The bytes whose text belongs to a result. A character that is not yet whole at the end of an answer is shown, whole,
/// by the next one, for as long as there can be a next one.
fn text_range(log: &OutputLog, result: &CallResult) -> (u64, u64) {
    let start = result.from - unfinished(log, result.from);
    let end = if result.exit.is_some() { result.next } else { result.next - unfinished(log, result.next) };
    (start, end.max(start))
}

/// How many bytes before `at` are the beginning of a character that goes on behind it.
fn unfinished(log: &OutputLog, at: u64) -> u64 {
    let mut tail = Vec::new();
    for segment in log.snapshot(at.saturating_sub(CHARACTER_BYTES_MAX), at) {
        match segment {
            Segment::Bytes(bytes) => tail.extend_from_slice(&bytes),
            Segment::Gap(_) => tail.clear(),
        }
    }
    (tail.len() - complete_len(&tail)) as u64
}

#[cfg(test)]
mod tests;
