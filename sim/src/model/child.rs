//! A model of one child and its descendants, as far as the session can tell: it plays an act list, takes signals and
//! input, and says what a spawner would report.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use toml::Spanned;
use unified_exec::core::ids::WriteId;
use unified_exec::core::limits::EVIDENCE_BYTES_MAX;
use unified_exec::core::process::ExitStatus;
use unified_exec::core::session::WriteOutcome;
use unified_exec::core::signal::{Scope, Signal};

use crate::acts::{Body, End, Fork, Out, Script, is_deadly};
use crate::scenario::Act;

/// What a pipe holds before a writer blocks.
const PIPE_BYTES: usize = 65_536;

/// What a spawner reports; `late` milliseconds after it happened.
#[derive(Clone, Debug)]
pub(crate) enum Report {
    Output {
        end: u64,
    },
    Exited {
        status: ExitStatus,
        late: u64,
    },
    Closed {
        end: u64,
    },
    TreeGone {
        late: u64,
    },
    Wrote {
        write: WriteId,
        taken: u64,
        outcome: WriteOutcome,
    },
    /// A descendant was forked, and ends by itself after so long.
    Forked {
        descendant: usize,
        lives: u64,
    },
    Connecting {
        host: String,
        port: u16,
    },
}

#[derive(Debug)]
struct Descendant {
    name: &'static str,
    alive: bool,
    in_group: bool,
    holds_output: bool,
    ignores: BTreeSet<Signal>,
}

#[derive(Debug)]
struct Pending {
    write: WriteId,
    data: Bytes,
    taken: usize,
}

#[derive(Debug)]
pub(crate) struct Child<'a> {
    script: Script<'a>,
    terminal: bool,
    alive: bool,
    /// How late its end is reported.
    late: u64,
    hung: bool,
    ignores: BTreeSet<Signal>,
    descendants: Vec<Descendant>,
    output_end: u64,
    /// First and last bytes of the output, as many as evidence is read from.
    head: Vec<u8>,
    tail: VecDeque<u8>,
    outputs_open: bool,
    closed: bool,
    gone: bool,
    /// Input that lies in the pipe, as it was written.
    buffered: VecDeque<Bytes>,
    stdin_open: bool,
    pending: Option<Pending>,
    reports: Vec<Report>,
}

impl<'a> Child<'a> {
    pub(crate) fn new(acts: &'a [Spanned<Act>], terminal: bool) -> Self {
        Self {
            script: Script::new(acts),
            terminal,
            alive: true,
            late: 0,
            hung: false,
            ignores: BTreeSet::new(),
            descendants: Vec::new(),
            output_end: 0,
            head: Vec::new(),
            tail: VecDeque::new(),
            outputs_open: true,
            closed: false,
            gone: false,
            buffered: VecDeque::new(),
            stdin_open: true,
            pending: None,
            reports: Vec::new(),
        }
    }

    /// First and last bytes of the output so far.
    pub(crate) fn excerpt(&self) -> Bytes {
        self.head.iter().chain(&self.tail).copied().collect()
    }

    /// Milliseconds after the spawn of the next act.
    pub(crate) fn next_act(&self) -> Option<u64> {
        self.script.next_at()
    }

    /// Milliseconds after the spawn of the act played last.
    pub(crate) fn last_act(&self) -> Option<u64> {
        self.script.last_at()
    }

    /// Names of who is alive.
    pub(crate) fn alive(&self) -> Vec<&'static str> {
        let leader = self.alive.then_some("leader");
        let others = self.descendants.iter().filter(|child| child.alive).map(|child| child.name);
        leader.into_iter().chain(others).collect()
    }

    /// Which descendants are alive, by number and name.
    pub(crate) fn descendants_alive(&self) -> Vec<(usize, &'static str)> {
        let alive = self.descendants.iter().enumerate().filter(|(_, child)| child.alive);
        alive.map(|(number, child)| (number, child.name)).collect()
    }

    /// What happened since the last look; what ends with it comes last.
    pub(crate) fn reports(&mut self) -> Vec<Report> {
        let leader_holds = self.outputs_open && (self.alive || !self.script.left().is_empty());
        let held = leader_holds || self.descendants.iter().any(|child| child.alive && child.holds_output);
        if !held && !std::mem::replace(&mut self.closed, true) {
            self.reports.push(Report::Closed { end: self.output_end });
        }
        if self.alive().is_empty() && !std::mem::replace(&mut self.gone, true) {
            self.reports.push(Report::TreeGone { late: self.late });
        }
        std::mem::take(&mut self.reports)
    }

    /// Plays the next act.
    pub(crate) fn act(&mut self) {
        let mut script = self.script;
        script.play(self);
        self.script = script;
        self.move_input();
    }

    fn says(&mut self, pieces: &[impl AsRef<[u8]>]) {
        for piece in pieces {
            let piece = piece.as_ref();
            self.output_end += piece.len() as u64;
            let (head, rest) = piece.split_at(piece.len().min(EVIDENCE_BYTES_MAX - self.head.len()));
            self.head.extend(head);
            let (_, last) = rest.split_at(rest.len().saturating_sub(EVIDENCE_BYTES_MAX));
            self.tail.drain(..(self.tail.len() + last.len()).saturating_sub(EVIDENCE_BYTES_MAX));
            self.tail.extend(last);
        }
        self.reports.push(Report::Output { end: self.output_end });
    }

    fn ends(&mut self, status: ExitStatus, late: u64) {
        self.alive = false;
        self.late = late;
        self.reports.push(Report::Exited { status, late });
    }

    /// A descendant ends by itself.
    pub(crate) fn descendant_ends(&mut self, descendant: usize) {
        if let Some(child) = self.descendants.get_mut(descendant) {
            child.alive = false;
        }
    }

    /// Takes a signal; answers whether it reached anybody.
    pub(crate) fn signal(&mut self, signal: Signal, scope: Scope) -> bool {
        let deadly = is_deadly(signal);
        let mut reached = false;
        for child in self.descendants.iter_mut().filter(|child| child.alive) {
            let in_scope = match scope {
                Scope::Process => false,
                Scope::Group | Scope::Foreground => child.in_group,
                Scope::Tree => true,
            };
            reached |= in_scope;
            child.alive &= !(in_scope && deadly && !child.ignores.contains(&signal));
        }
        if self.alive {
            reached = true;
            let ignored = self.ignores.contains(&signal) || (self.hung && signal != Signal::KILL);
            if deadly && !ignored {
                self.script.stop();
                self.ends(died_of(signal), 0);
                self.move_input();
            }
        }
        reached
    }

    /// Begins a delivery.
    pub(crate) fn write(&mut self, write: WriteId, data: Bytes) {
        self.pending = Some(Pending { write, data, taken: 0 });
        self.move_input();
    }

    /// Stops the delivery under way.
    pub(crate) fn stop_write(&mut self, write: WriteId) {
        if let Some(pending) = self.pending.take_if(|pending| pending.write == write) {
            let (taken, outcome) = (pending.taken as u64, WriteOutcome::Stopped);
            self.reports.push(Report::Wrote { write, taken, outcome });
        }
    }

    /// Takes the first `bytes` bytes that lie in the pipe.
    fn take_buffered(&mut self, mut bytes: usize) -> Vec<Bytes> {
        let mut taken = Vec::new();
        while bytes > 0
            && let Some(first) = self.buffered.front_mut()
        {
            let piece = first.split_to(bytes.min(first.len()));
            bytes -= piece.len();
            if first.is_empty() {
                self.buffered.pop_front();
            }
            taken.push(piece);
        }
        taken
    }

    /// Moves input from the writer into the pipe and from the pipe into the program, as far as both go.
    fn move_input(&mut self) {
        let mut interrupted = false;
        let mut echoed = Vec::new();
        if self.alive && self.stdin_open {
            loop {
                let lies: usize = self.buffered.iter().map(Bytes::len).sum();
                let room = PIPE_BYTES - lies;
                let moved = match &mut self.pending {
                    Some(pending) => {
                        interrupted |= self.terminal && pending.data.contains(&3);
                        let left = pending.data.slice(pending.taken..);
                        let moved = left.slice(..room.min(left.len()));
                        pending.taken += moved.len();
                        moved
                    }
                    None => Bytes::new(),
                };
                let reads = self.script.reads(lies + moved.len());
                if moved.is_empty() && reads == 0 {
                    break;
                }
                self.buffered.extend((!moved.is_empty()).then_some(moved));
                let read = self.take_buffered(reads);
                self.script.has_read(reads);
                if self.script.echoes() {
                    echoed.extend(read);
                }
            }
        }
        if !echoed.is_empty() {
            self.says(&echoed);
        }
        let broken = !self.alive || !self.stdin_open;
        let done = |pending: &mut Pending| broken || pending.taken == pending.data.len();
        if let Some(pending) = self.pending.take_if(done) {
            let outcome = if broken { WriteOutcome::Broken } else { WriteOutcome::Whole };
            self.reports.push(Report::Wrote { write: pending.write, taken: pending.taken as u64, outcome });
        }
        if interrupted {
            self.signal(Signal::INT, Scope::Foreground);
        }
    }
}

impl Body for Child<'_> {
    fn say(&mut self, _: Out, bytes: &[u8]) {
        self.says(&[bytes]);
    }

    fn end(&mut self, end: End, late: u64) {
        let status = match end {
            End::Exit(code) => ExitStatus::Code(code),
            End::DiesOf(signal) => died_of(signal),
        };
        self.ends(status, late);
    }

    fn ignore(&mut self, signal: Signal) {
        self.ignores.insert(signal);
    }

    fn close_outputs(&mut self) {
        self.outputs_open = false;
    }

    fn hang(&mut self) {
        self.hung = true;
    }

    fn fork(&mut self, fork: Fork) {
        let (name, near, lives) = match fork {
            Fork::Holder { lives } => ("holder", true, lives),
            Fork::Daemon { lives } => ("daemon", false, lives),
        };
        let ignores = self.ignores.clone();
        self.descendants.push(Descendant { name, alive: true, in_group: near, holds_output: near, ignores });
        if lives > 0 {
            self.reports.push(Report::Forked { descendant: self.descendants.len() - 1, lives });
        }
    }

    fn close_input(&mut self) {
        self.stdin_open = false;
    }

    fn connect(&mut self, host: &str, port: u16) {
        self.reports.push(Report::Connecting { host: host.to_owned(), port });
    }
}

const fn died_of(signal: Signal) -> ExitStatus {
    ExitStatus::Signal { number: signal.number(), core_dumped: false }
}
