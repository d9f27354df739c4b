//! Records on their way to the writer. Nobody who records waits: what does not fit is counted, and where it would have
//! stood the writer tells how much it was.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

/// Records that may wait; with 8 MiB below it is a matter of small ones.
const RECORDS_MAX: usize = 8_192;
/// Bytes of records that may wait. A single record may be larger: it is as large as its command line.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// Records, each an object without its opening brace, and those who wait for them to be written.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Notify,
    pressed: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    records: VecDeque<String>,
    bytes: usize,
    lost: Option<Lost>,
    flushes: Vec<oneshot::Sender<()>>,
    closed: bool,
    /// Nobody takes anything any more.
    dead: bool,
}

/// Records that did not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    /// How many.
    pub(super) records: u64,
    /// When the first of them was.
    pub(super) since: String,
}

impl Waiting {
    fn is_something(&self) -> bool {
        !self.records.is_empty() || self.lost.is_some() || !self.flushes.is_empty()
    }
}

/// Everything that waited.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// In order.
    pub(super) records: VecDeque<String>,
    /// What came after `records` and is not there.
    pub(super) lost: Option<Lost>,
    /// To be told when this is written.
    pub(super) flushes: Vec<oneshot::Sender<()>>,
}

impl Queue {
    /// Adds a record that was made at `time`. Once one is lost, all are until the next [`Self::take`]: so the loss has
    /// one place in the order.
    pub(super) fn push(&self, record: String, time: &str) {
        let mut waiting = self.lock();
        let fits = waiting.records.len() < RECORDS_MAX
            && (waiting.records.is_empty() || waiting.bytes + record.len() <= BYTES_MAX);
        if waiting.lost.is_none() && fits {
            waiting.bytes += record.len();
            waiting.records.push_back(record);
        } else {
            let lost = waiting.lost.get_or_insert_with(|| Lost { records: 0, since: time.to_owned() });
            lost.records += 1;
        }
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Resolves when what waits now is written, or could not be.
    pub(super) async fn flush(&self) {
        let (done, told) = oneshot::channel();
        {
            let mut waiting = self.lock();
            if waiting.dead {
                return;
            }
            waiting.flushes.push(done);
        }
        self.arrived.notify_one();
        self.pressed.notify_one();
        told.await.ok();
    }

    /// Nothing more will come.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_one();
        self.pressed.notify_one();
    }

    /// Whether nothing more will come.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Nothing more will be taken.
    pub(super) fn abandon(&self) {
        let mut waiting = self.lock();
        *waiting = Waiting { dead: true, ..Waiting::default() };
    }

    /// Resolves once something waits, or nothing more will come.
    pub(super) async fn arrival(&self) {
        loop {
            {
                let waiting = self.lock();
                if waiting.closed || waiting.is_something() {
                    return;
                }
            }
            self.arrived.notified().await;
        }
    }

    /// Everything that waits; waits for something. `None` once nothing more will come.
    pub(super) async fn take(&self) -> Option<Taken> {
        loop {
            {
                let mut waiting = self.lock();
                if waiting.is_something() {
                    waiting.bytes = 0;
                    return Some(Taken {
                        records: std::mem::take(&mut waiting.records),
                        lost: waiting.lost.take(),
                        flushes: std::mem::take(&mut waiting.flushes),
                    });
                }
                if waiting.closed {
                    return None;
                }
            }
            self.arrived.notified().await;
        }
    }

    /// Those who wait for what is not even taken.
    pub(super) fn take_flushes(&self) -> Vec<oneshot::Sender<()>> {
        std::mem::take(&mut self.lock().flushes)
    }

    /// They wait on, for what is taken next.
    pub(super) fn give_back(&self, flushes: Vec<oneshot::Sender<()>>) {
        if !flushes.is_empty() {
            self.lock().flushes.extend(flushes);
            self.arrived.notify_one();
        }
    }

    /// Resolves when somebody is in a hurry: a flush, or the end.
    pub(super) async fn pressed(&self) {
        self.pressed.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_loss_has_one_place_in_the_order() {
        let queue = Queue::default();
        queue.push("x".repeat(BYTES_MAX), "t0");
        queue.push("too much".to_owned(), "t1");
        queue.push("s".to_owned(), "t2");
        let taken = queue.take().await.expect("something");
        assert_eq!(taken.records.len(), 1);
        assert_eq!(taken.lost, Some(Lost { records: 2, since: "t1".to_owned() }));
        queue.push("fits again".to_owned(), "t3");
        assert_eq!(queue.take().await.expect("something").records, ["fits again"]);
    }

    #[tokio::test]
    async fn a_record_larger_than_the_queue_goes_through_by_itself() {
        let queue = Queue::default();
        queue.push("x".repeat(BYTES_MAX + 1), "t0");
        assert_eq!(queue.take().await.expect("something").lost, None);
    }

    #[tokio::test]
    async fn nobody_waits_for_a_writer_that_is_gone() {
        let queue = Queue::default();
        queue.abandon();
        queue.flush().await;
        queue.close();
        assert!(queue.take().await.is_none());
    }
}
