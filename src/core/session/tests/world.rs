//! The world of a random life: children that keep a spawner's contract (each report once, nothing after the end), looked
//! up rules, connections.

use super::bench::ms;
use super::life::Life;
use crate::core::ids::{AttemptNumber, CallId, ConnectionId, ProcessId, WriteId};
use crate::core::policy::Profile;
use crate::core::process::ExitStatus;
use crate::core::session::*;
use crate::core::signal::Signal;
use crate::core::spawn::{Enforced, SpawnError};
use crate::core::time::Instant;

/// What a spawner and a pump know of an attempt.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) spawned_at: Option<Instant>,
    pub(super) sandboxed: bool,
    pub(super) end: u64,
    pub(super) exited: Option<(ExitStatus, Instant)>,
    pub(super) closed: bool,
    pub(super) gone: bool,
}

impl Attempt {
    pub(super) const fn new(sandboxed: bool) -> Self {
        Self { spawned_at: None, sandboxed, end: 0, exited: None, closed: false, gone: false }
    }
}

/// What they know of a process.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) one_shot: bool,
    /// The session's profile when it was launched.
    pub(super) base: Profile,
    pub(super) attempts: Vec<Attempt>,
    pub(super) write: Option<WriteId>,
    /// Bytes of input that it took, or an end.
    pub(super) has_input: bool,
    pub(super) told_started: bool,
    pub(super) told_denied: bool,
    pub(super) told_exits: u32,
    pub(super) told_closed: [bool; 2],
}

impl Child {
    pub(super) fn latest(&self) -> &Attempt {
        self.attempts.last().expect("at least one")
    }

    pub(super) const fn number(index: usize) -> AttemptNumber {
        if index == 0 { AttemptNumber::FIRST } else { AttemptNumber::SECOND }
    }
}

/// Acts of [`Life::world`].
pub(super) const SPAWN: u8 = 0;
pub(super) const OUTPUT: u8 = 1;
pub(super) const EXIT: u8 = 2;
pub(super) const CLOSE: u8 = 3;
pub(super) const GONE: u8 = 4;
pub(super) const WROTE: u8 = 5;
pub(super) const SURVEYED: u8 = 6;
pub(super) const CONTROLLED: u8 = 7;
pub(super) const LOOKED_UP: u8 = 8;
pub(super) const CONNECT: u8 = 9;

impl Life {
    /// The world does something with a child, if it can.
    pub(super) fn world(&mut self, act: u8, process: ProcessId, choice: u16) {
        match act {
            LOOKED_UP => return self.looked_up(),
            CONTROLLED => {
                if let Some(call) = self.controls.pop_first() {
                    self.bench.event(Event::Controlled { call, result: Ok(()) });
                }
                return;
            }
            SURVEYED if self.surveys.remove(&process) => {
                let names: &[&str] = if choice & 1 == 0 { &[] } else { &["stuck"] };
                return self.bench.surveyed(process, names);
            }
            CONNECT => return self.connection(process, choice),
            _ => {}
        }
        let Some(child) = self.children.get(&process) else { return };
        // Reports about a first attempt may come after the second was asked for.
        let index = if choice & 0x8000 == 0 { child.attempts.len() - 1 } else { 0 };
        match act {
            SPAWN => self.spawn(process, choice),
            OUTPUT | CLOSE => self.output(act == CLOSE, process, index, choice),
            EXIT => self.exit(process, choice),
            GONE => self.gone(process, index),
            WROTE => self.wrote(process, choice),
            _ => {}
        }
    }

    fn spawn(&mut self, process: ProcessId, choice: u16) {
        let now = self.bench.now;
        let Some(child) = self.children.get_mut(&process) else { return };
        let attempt = Child::number(child.attempts.len() - 1);
        let latest = child.attempts.last_mut().expect("at least one");
        if latest.spawned_at.is_some() {
            return;
        }
        if choice & 7 != 0 {
            latest.spawned_at = Some(now);
            let enforced = Enforced::default();
            return self.bench.event(Event::Spawned { process, attempt, pid: None, enforced, at: now });
        }
        child.attempts.pop();
        if child.attempts.is_empty() {
            self.children.remove(&process);
        }
        let error = SpawnError::ProgramMissing { program: "sleep".into() };
        self.bench.event(Event::SpawnFailed { process, attempt, error });
    }

    fn output(&mut self, closes: bool, process: ProcessId, index: usize, choice: u16) {
        let Some(child) = self.children.get_mut(&process) else { return };
        let attempt = &mut child.attempts[index];
        if attempt.spawned_at.is_none() || attempt.closed {
            return;
        }
        let number = Child::number(index);
        if !closes {
            attempt.end += u64::from(choice & 0xff);
            let end = attempt.end;
            return self.bench.output_of(process, number, end);
        }
        attempt.closed = true;
        let end = attempt.end;
        self.bench.event(Event::Closed { process, attempt: number, end });
        let mut over: Vec<CallId> = Vec::new();
        self.watches.retain(|wait, of| {
            let ends = *of == (process, number);
            over.extend(ends.then_some(*wait));
            !ends
        });
        for wait in over {
            self.bench.event(Event::Watched { wait, outcome: WatchOutcome::Ended { at: end } });
        }
    }

    fn exit(&mut self, process: ProcessId, choice: u16) {
        let now = self.bench.now;
        let Some(child) = self.children.get_mut(&process) else { return };
        let attempt = Child::number(child.attempts.len() - 1);
        let latest = child.attempts.last_mut().expect("at least one");
        let Some(spawned_at) = latest.spawned_at.filter(|_| latest.exited.is_none()) else { return };
        let status = match choice & 7 {
            4.. => ExitStatus::Signal { number: Signal::SYS.number(), core_dumped: false },
            code => ExitStatus::Code(i32::from(code)),
        };
        // The reaper may have seen it a little ago, and never before it was started.
        let at = spawned_at.max(now - ms(u64::from(choice >> 4 & 3)));
        latest.exited = Some((status, at));
        let (usage, out_of_memory) = (None, false);
        self.bench.event(Event::Exited { process, attempt, status, usage, out_of_memory, at });
    }

    fn gone(&mut self, process: ProcessId, index: usize) {
        let Some(child) = self.children.get_mut(&process) else { return };
        let attempt = &mut child.attempts[index];
        if attempt.exited.is_some() && !std::mem::replace(&mut attempt.gone, true) {
            self.bench.tree_gone_of(process, Child::number(index));
        }
    }

    fn wrote(&mut self, process: ProcessId, choice: u16) {
        let Some(child) = self.children.get_mut(&process) else { return };
        let Some(write) = child.write.take() else { return };
        let broken = child.latest().exited.is_some();
        let (taken, outcome) = match choice & 3 {
            _ if broken => (0, WriteOutcome::Broken),
            0 => (u64::from(choice >> 4 & 7), WriteOutcome::Stopped),
            1 => (u64::from(choice >> 4 & 1), WriteOutcome::Broken),
            _ => (10, WriteOutcome::Whole),
        };
        child.has_input |= taken > 0 || outcome == WriteOutcome::Whole;
        self.bench.event(Event::Wrote { process, write, taken, outcome });
    }

    /// A slow host has looked something up.
    fn looked_up(&mut self) {
        if let Some(event) = self.lookups.pop_front() {
            self.bench.event(event);
        }
    }

    fn connection(&mut self, process: ProcessId, choice: u16) {
        if choice & 3 == 0 {
            if let Some(connection) = self.held.pop_first() {
                self.bench.event(Event::ConnectionGone { connection });
            }
            return;
        }
        self.connections += 1;
        let connection = ConnectionId(self.connections);
        let host =
            ["good.example", "bad.example", "new.example", "other.example"][usize::from(choice >> 4 & 3)];
        self.held.insert(connection);
        self.bench.event(Event::Connecting { process, connection, host: host.into(), port: 443 });
    }
}
