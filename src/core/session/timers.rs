//! Named timers, and the order in which those of one instant fire: by [`Timer`]'s own order.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::ids::{ApprovalId, CallId, ProcessId};
use crate::core::time::Instant;

/// What a timer is for. The order of the variants settles ties: what a process does comes before what is done to it,
/// and both before a call gives up waiting.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Timer {
    /// The early window of an attempt has passed.
    Window(ProcessId),
    /// Whether an ended attempt was denied is judged by the output that is there.
    Judge(ProcessId),
    /// An answer about an ended process waits no longer for its outputs.
    ExitCollect(ProcessId),
    /// The feed waits no longer for trailing output.
    ExitFeed(ProcessId),
    /// A one-shot's life is over.
    OneShot(ProcessId),
    /// The caller's bound on a life has come.
    Hard(ProcessId),
    /// The caller's bound on silence has come.
    NoOutput(ProcessId),
    /// The caller's bound on life without a client has come.
    AfterDisconnect(ProcessId),
    /// TERM has not sufficed: KILL.
    KillGrace(ProcessId),
    /// KILL has not sufficed: report.
    KillReap(ProcessId),
    /// A question has expired.
    Question(ApprovalId),
    /// A lease on deadlines has run out.
    Hold(String),
    /// A call's wait is over.
    Wait(CallId),
    /// The whole retained output of an ended process is dropped.
    Retention(ProcessId),
    /// An ended process is forgotten.
    Tombstone(ProcessId),
}

impl Timer {
    /// Every timer of a process.
    pub(super) const fn of(process: ProcessId) -> [Self; 12] {
        [
            Self::Window(process),
            Self::Judge(process),
            Self::ExitCollect(process),
            Self::ExitFeed(process),
            Self::OneShot(process),
            Self::Hard(process),
            Self::NoOutput(process),
            Self::AfterDisconnect(process),
            Self::KillGrace(process),
            Self::KillReap(process),
            Self::Retention(process),
            Self::Tombstone(process),
        ]
    }
}

/// The timers that are set.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeSet<(Instant, Timer)>,
    at: BTreeMap<Timer, Instant>,
}

impl Timers {
    /// Sets `timer`, also if it was set before.
    pub(super) fn set(&mut self, timer: Timer, at: Instant) {
        self.stop(&timer);
        self.due.insert((at, timer.clone()));
        self.at.insert(timer, at);
    }

    /// Unsets `timer`; answers when it would have fired.
    pub(super) fn stop(&mut self, timer: &Timer) -> Option<Instant> {
        let at = self.at.remove(timer)?;
        self.due.remove(&(at, timer.clone()));
        Some(at)
    }

    /// Whether `timer` is not set.
    pub(super) fn is_unset(&self, timer: &Timer) -> bool {
        !self.at.contains_key(timer)
    }

    /// When the next one fires.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes the next one that is due at `now`.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        let (_, timer) = self.due.pop_first()?;
        self.at.remove(&timer);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_of_one_instant_fire_in_the_order_of_their_names() {
        let process = ProcessId::new(1000).unwrap();
        let at = Instant::from_millis(150);
        let mut timers = Timers::default();
        timers.set(Timer::Wait(CallId(1)), at);
        timers.set(Timer::Window(process), at);
        timers.set(Timer::Hard(process), Instant::from_millis(149));
        assert_eq!(timers.pop_due(Instant::from_millis(148)), None);
        let order: Vec<_> = std::iter::from_fn(|| timers.pop_due(at)).collect();
        assert_eq!(order, [Timer::Hard(process), Timer::Window(process), Timer::Wait(CallId(1))]);
    }

    #[test]
    fn a_timer_that_is_set_again_fires_once() {
        let mut timers = Timers::default();
        timers.set(Timer::Wait(CallId(1)), Instant::from_millis(1));
        timers.set(Timer::Wait(CallId(1)), Instant::from_millis(9));
        assert_eq!(timers.pop_due(Instant::from_millis(5)), None);
        assert_eq!(timers.stop(&Timer::Wait(CallId(1))), Some(Instant::from_millis(9)));
        assert_eq!(timers.next(), None);
    }
}
