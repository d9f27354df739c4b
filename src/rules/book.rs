//! The rules in force: answers from memory, takes in what changes on disk, and adds what an approval leaves behind.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use tokio::sync::watch;

use super::append::{self, Attempt};
use super::place::RulesError;
use super::set::{Origin, Set};
use super::source::{Source, Sources, Survey};
use crate::core::policy::{Assessment, NetworkRule, Segment, too_broad};
use crate::host::ports::{AddRuleError, Assessing, BoxFuture, Rulebook};

/// How often files are looked at. What has changed counts when it has been the same twice, so that a file is not taken
/// in while an editor writes or replaces it.
const LOOK: Duration = Duration::from_secs(1);

/// A command of up to this many bytes is read at once, in less than a few milliseconds whatever it holds. The time of
/// the parser's recovery from a hostile text grows with its square: a longer one gets a thread that may take its time.
const AT_ONCE_BYTES_MAX: usize = 1_024;

/// What is said of a command that could not be read at all.
const UNREAD: &str = "it could not be read";

/// How long another process may hold the file that rules are added to, and how often that is tried again.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_RETRY: Duration = Duration::from_millis(50);

/// The rules in force. Clones are the same book.
#[derive(Clone, Debug)]
pub struct Book(Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) sources: Sources,
    current: RwLock<Arc<Set>>,
    changed: watch::Sender<()>,
    /// Whoever reads files holds this; who asks what the rules say never does.
    slots: Mutex<Vec<Slot>>,
}

/// A layer as it was last right.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) source: Source,
    pub(super) origin: Origin,
    /// What is wrong with it now, as it was logged.
    complaint: Option<String>,
}

impl Book {
    /// Reads all rules. Blocks.
    pub fn open(sources: Sources) -> Result<Self, RulesError> {
        let read = |source: Source| {
            let origin = source.read()?;
            Ok(Slot { source, origin, complaint: None })
        };
        let slots: Vec<Slot> = sources.layers().into_iter().map(read).collect::<Result<_, RulesError>>()?;
        let current = RwLock::new(Arc::new(set(&slots)));
        let changed = watch::Sender::new(());
        Ok(Self(Arc::new(Shared { sources, current, changed, slots: Mutex::new(slots) })))
    }

    /// What the rules say of a command, however long it is. Blocks.
    pub fn consult(&self, argv: &[String], cwd: &str) -> Assessment {
        self.0.current().assess(argv, cwd)
    }

    /// Reads all rules again. A layer that cannot be taken stays as it was; answers why, layer by layer. Blocks.
    pub fn reload(&self) -> Vec<RulesError> {
        self.0.reload()
    }

    /// Takes in what changes on disk, until no clone of the book is left. To be run as a task.
    pub fn watch(&self) -> impl Future<Output = ()> + Send + 'static {
        watch(Arc::downgrade(&self.0), self.0.sources.clone())
    }

    /// The file that rules are added to.
    pub fn user_file(&self) -> Option<&PathBuf> {
        self.0.sources.user.as_ref()
    }
}

async fn watch(book: Weak<Shared>, sources: Sources) {
    // Nothing is known of what was read at the start, so it is read once more.
    let (mut taken, mut last) = (None, None);
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(book) = book.upgrade() else { return };
        let (sources, before) = (sources.clone(), (taken.take(), last.take()));
        let looked = tokio::task::spawn_blocking(move || look(&book, &sources, before)).await;
        match looked {
            Ok(seen) => (taken, last) = seen,
            // The runtime is ending.
            Err(_) => return,
        }
    }
}

type Seen = (Option<Survey>, Option<Survey>);

/// Reloads when what is seen is not what was taken, and no longer changes.
fn look(book: &Shared, sources: &Sources, (taken, last): Seen) -> Seen {
    let now = sources.survey();
    if taken.as_ref() != Some(&now) && last.as_ref() == Some(&now) {
        book.reload();
        return (Some(now.clone()), Some(now));
    }
    (taken, Some(now))
}

impl Shared {
    fn reload(&self) -> Vec<RulesError> {
        let mut slots = self.slots();
        let mut errors = Vec::new();
        for slot in slots.iter_mut() {
            match slot.source.read() {
                Ok(origin) => {
                    slot.origin = origin;
                    slot.complaint = None;
                }
                Err(error) => {
                    let complaint = error.to_string();
                    if slot.complaint.as_ref() != Some(&complaint) {
                        tracing::error!("{complaint}; the rules of that layer stay as they were");
                    }
                    slot.complaint = Some(complaint);
                    errors.push(error);
                }
            }
        }
        self.adopt(&slots);
        errors
    }

    pub(super) fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn adopt(&self, slots: &[Slot]) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set(slots));
        self.changed.send_replace(());
    }

    fn current(&self) -> Arc<Set> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(super) fn set(slots: &[Slot]) -> Set {
    Set::new(slots.iter().map(|slot| slot.origin.clone()).collect())
}

impl Rulebook for Book {
    fn assess(&self, argv: Vec<String>, cwd: String) -> Assessing {
        let set = self.0.current();
        if argv.iter().map(String::len).sum::<usize>() <= AT_ONCE_BYTES_MAX {
            return Assessing::Now(set.assess(&argv, &cwd));
        }
        let whole = argv.clone();
        let reading = tokio::task::spawn_blocking(move || set.assess(&argv, &cwd));
        Assessing::Later(Box::pin(async move {
            // Whoever cannot be read is nobody's trusted command.
            reading.await.unwrap_or_else(|_| Assessment {
                segments: vec![Segment { words: whole.clone(), rule: None, danger: Some(UNREAD.to_owned()) }],
                canonical: whole,
                fingerprint: String::new(),
            })
        }))
    }

    fn owner_network(&self) -> Option<Arc<[NetworkRule]>> {
        self.0.current().network()
    }

    fn changes(&self) -> Option<watch::Receiver<()>> {
        Some(self.0.changed.subscribe())
    }

    fn allow(&self, words: Vec<String>) -> BoxFuture<Result<(), AddRuleError>> {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            if let Some(reason) = too_broad(&words) {
                return Err(AddRuleError::TooBroad { words, reason });
            }
            let tries = LOCK_WAIT.as_millis() / LOCK_RETRY.as_millis();
            for _ in 0..tries {
                match attempt(Arc::clone(&shared), words.clone()).await? {
                    Attempt::Done => return Ok(()),
                    Attempt::Busy => tokio::time::sleep(LOCK_RETRY).await,
                }
            }
            Err(AddRuleError::System { reason: "another process keeps the file locked".to_owned() })
        })
    }
}

async fn attempt(shared: Arc<Shared>, words: Vec<String>) -> Result<Attempt, AddRuleError> {
    let ended = tokio::task::spawn_blocking(move || append::allow(&shared, &words)).await;
    ended.unwrap_or_else(|error| Err(AddRuleError::System { reason: error.to_string() }))
}

#[cfg(test)]
#[path = "book/tests.rs"]
mod tests;
