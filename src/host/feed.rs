//! The event feed of a session: the last [`FEED_EVENTS_MAX`] events, and any number of watchers with a cursor each.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::clock::Clock;
use super::ports::{Read, Telemetry};
use crate::core::limits::FEED_EVENTS_MAX;
use crate::core::session::FeedEvent;

/// The events that are kept.
#[derive(Debug)]
pub struct Feed {
    clock: Clock,
    telemetry: Arc<dyn Telemetry>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Consecutive by sequence number.
    events: VecDeque<Arc<FeedEvent>>,
    /// The number of the last event.
    last: u64,
    ended: bool,
}

/// What a watcher gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextEvent {
    /// An event.
    Event(Arc<FeedEvent>),
    /// Events that are no longer kept: the first missing number, and one past the last.
    Gap {
        /// First missing number.
        from: u64,
        /// One past the last missing number.
        to: u64,
    },
    /// The session is over and there will be no more.
    Ended,
}

impl Feed {
    /// A feed without events, whose readers are seen by `telemetry`.
    pub(super) fn new(clock: Clock, telemetry: Arc<dyn Telemetry>) -> Self {
        Self { clock, telemetry, state: Mutex::default(), changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an event, whose number follows the last one's.
    pub(super) fn publish(&self, event: FeedEvent) {
        {
            let mut state = self.lock();
            state.last = event.sequence;
            state.events.push_back(Arc::new(event));
            if state.events.len() > FEED_EVENTS_MAX {
                state.events.pop_front();
            }
        }
        self.changed.notify_waiters();
    }

    /// There will be no more.
    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_waiters();
    }

    /// Numbers of the first event that is kept and of the last; both 0 before the first.
    pub(super) fn kept(&self) -> (u64, u64) {
        let state = self.lock();
        (state.events.front().map_or(0, |event| event.sequence), state.last)
    }

    /// A watcher that has seen everything up to and including number `after`; `None` starts with what comes.
    pub fn watch(self: &Arc<Self>, after: Option<u64>) -> FeedReader {
        let last = self.lock().last;
        FeedReader { feed: Arc::clone(self), next: after.unwrap_or(last) + 1, past: last }
    }
}

#[cfg(test)]
impl Default for Feed {
    /// A feed whose readers nobody sees.
    fn default() -> Self {
        Self::new(Clock::start(), Arc::new(super::registry::Nothing))
    }
}

/// A watcher's place in the feed.
#[derive(Debug)]
pub struct FeedReader {
    feed: Arc<Feed>,
    next: u64,
    /// The last event that was there before it.
    past: u64,
}

impl FeedReader {
    /// The next event; waits until there is one. Cancel-safe.
    pub async fn next(&mut self) -> NextEvent {
        loop {
            let mut changed = pin!(self.feed.changed.notified());
            changed.as_mut().enable();
            if let Some((next, place)) = self.look() {
                self.next = place;
                self.note(&next);
                return next;
            }
            changed.await;
        }
    }

    /// What was there before the reader says nothing of how fast it is.
    fn note(&self, next: &NextEvent) {
        let read = match next {
            NextEvent::Event(event) if event.sequence > self.past => {
                Read::Event(self.feed.clock.now().since(event.at))
            }
            NextEvent::Gap { from, to } => Read::FeedGap(to - from),
            NextEvent::Event(_) | NextEvent::Ended => return,
        };
        self.feed.telemetry.read(read);
    }

    fn look(&self) -> Option<(NextEvent, u64)> {
        let state = self.feed.lock();
        let first = state.events.front().map_or(state.last + 1, |event| event.sequence);
        if self.next < first {
            return Some((NextEvent::Gap { from: self.next, to: first }, first));
        }
        let at = usize::try_from(self.next - first).unwrap_or(usize::MAX);
        match state.events.get(at) {
            Some(event) => Some((NextEvent::Event(Arc::clone(event)), self.next + 1)),
            None if state.ended => Some((NextEvent::Ended, self.next)),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::session::FeedKind;
    use crate::core::time::Instant;

    fn event(sequence: u64) -> FeedEvent {
        let kind = FeedKind::PolicyChanged { revision: sequence, fields: Vec::new() };
        FeedEvent { sequence, at: Instant::ZERO, turn: None, request: None, kind }
    }

    #[tokio::test]
    async fn a_watcher_that_comes_back_gets_what_it_missed_or_an_exact_gap() {
        let feed = Arc::new(Feed::default());
        let total = FEED_EVENTS_MAX as u64 + 10;
        for sequence in 1..=total {
            feed.publish(event(sequence));
        }
        let mut late = feed.watch(Some(0));
        assert_eq!(late.next().await, NextEvent::Gap { from: 1, to: 11 });
        assert_eq!(late.next().await, NextEvent::Event(Arc::new(event(11))));
        let mut resumed = feed.watch(Some(total - 1));
        assert_eq!(resumed.next().await, NextEvent::Event(Arc::new(event(total))));
        feed.end();
        assert_eq!(resumed.next().await, NextEvent::Ended);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watcher_of_what_comes_is_woken() {
        let feed = Arc::new(Feed::default());
        feed.publish(event(1));
        let mut watcher = feed.watch(None);
        let waiting = tokio::spawn(async move { watcher.next().await });
        tokio::task::yield_now().await;
        feed.publish(event(2));
        assert_eq!(waiting.await.unwrap(), NextEvent::Event(Arc::new(event(2))));
    }
}
