//! What a host asks besides its spawner: the rules of a scenario, and its automatic reviewer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use unified_exec::core::approval::Review;
use unified_exec::core::policy::{NetworkRule, too_broad};
use unified_exec::host::ports::{
    AddRuleError, Asked, Assessing, BoxFuture, Reviewer as ReviewerPort, Rulebook as RulebookPort,
};

use crate::rulebook::Rulebook;
use crate::scenario::Scenario;
use crate::scenario::service::Reviewer;

/// The rules of a scenario, and the owner's rules for connections.
#[derive(Debug)]
pub(crate) struct Rules {
    book: Mutex<Rulebook>,
    owner_network: Mutex<Option<Arc<[NetworkRule]>>>,
    changed: watch::Sender<()>,
}

impl Rules {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let owner_network = scenario.service.owner_network().map(Arc::from);
        Self {
            book: Mutex::new(Rulebook::new(&scenario.rules)),
            owner_network: Mutex::new(owner_network),
            changed: watch::Sender::new(()),
        }
    }

    /// From now on these are the owner's rules for connections.
    pub(crate) fn set_owner_network(&self, rules: Option<Vec<NetworkRule>>) {
        *lock(&self.owner_network) = rules.map(Arc::from);
        self.changed.send_replace(());
    }
}

impl RulebookPort for Rules {
    fn assess(&self, argv: Vec<String>, _: String) -> Assessing {
        Assessing::Now(lock(&self.book).assess(&argv))
    }

    fn owner_network(&self) -> Option<Arc<[NetworkRule]>> {
        lock(&self.owner_network).clone()
    }

    fn changes(&self) -> Option<watch::Receiver<()>> {
        Some(self.changed.subscribe())
    }

    fn allow(&self, words: Vec<String>) -> BoxFuture<Result<(), AddRuleError>> {
        let added = match too_broad(&words) {
            Some(reason) => Err(AddRuleError::TooBroad { words, reason }),
            None => lock(&self.book).allow(words).map_err(|reason| AddRuleError::System { reason }),
        };
        Box::pin(std::future::ready(added))
    }
}

/// The automatic reviewer of a scenario, if it has one.
#[derive(Debug)]
pub(crate) struct Reviews {
    reviewer: Option<Reviewer>,
    timed: Arc<AtomicUsize>,
}

impl Reviews {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self { reviewer: scenario.reviewer, timed: Arc::default() }
    }

    /// Reviews that wait for their moment.
    pub(crate) fn timed(&self) -> usize {
        self.timed.load(Ordering::Relaxed)
    }
}

impl ReviewerPort for Reviews {
    fn review(&self, _: Asked) -> BoxFuture<Review> {
        let Some(reviewer) = self.reviewer else { return Box::pin(std::future::ready(Review::AskPerson)) };
        let timed = Timed::new(&self.timed);
        Box::pin(async move {
            if reviewer.after > 0 {
                tokio::time::sleep(Duration::from_millis(reviewer.after)).await;
            }
            drop(timed);
            reviewer.review()
        })
    }

    fn is_automatic(&self) -> bool {
        self.reviewer.is_some()
    }
}

/// Counts while it is there.
#[derive(Debug)]
struct Timed(Arc<AtomicUsize>);

impl Timed {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
