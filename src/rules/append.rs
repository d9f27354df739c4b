//! Adds a rule to the user's file: whole or not at all, one writer at a time, and only if it has an effect.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::Kind;
use super::book::{Shared, Slot, set};
use super::set::Origin;
use super::source::FILE_MAX;
use crate::core::policy::RuleDecision;
use crate::host::ports::AddRuleError;

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// The rule is in force.
    Done,
    /// Another process writes at the moment.
    Busy,
}

/// Adds a rule that allows what begins with `words`. Blocks, but not for other writers.
pub(super) fn allow(book: &Shared, words: &[String]) -> Result<Attempt, AddRuleError> {
    let named = book.sources.user.as_deref().ok_or_else(|| {
        read_only("the configuration names no file of the user; set `rules.user` there".to_owned())
    })?;
    let mut slots = book.slots();
    // Behind a link, the link stays.
    let file = fs::canonicalize(named).unwrap_or_else(|_| named.to_owned());
    let directory = file.parent().ok_or_else(|| read_only(format!("{} has no directory", file.display())))?;
    make_directory(directory).map_err(|error| system(directory, &error))?;
    let Some(_lock) = lock(&beside(&file, "lock")).map_err(|error| system(&file, &error))? else {
        return Ok(Attempt::Busy);
    };
    let at = user_slot(&slots)?;
    let source = slots[at].source.clone();
    let broken = |error: super::RulesError| read_only(format!("{error}; correct the file first"));
    let text = source.text(&file).map_err(broken)?.unwrap_or_default();
    // Somebody else may have written since it was read last.
    slots[at].origin = source.read_text(&file, &text).map_err(broken)?;
    if decision(&slots, words).0 != Some(RuleDecision::Allow) {
        let text = format!("{text}{}", entry(&text, words));
        let origin = source.read_text(&file, &text).map_err(broken)?;
        check(&mut slots, at, origin, words, &text)?;
        replace(&file, &text).map_err(|error| system(&file, &error))?;
        slots[at].origin = source.read_text(&file, &text).map_err(broken)?;
    }
    book.adopt(&slots);
    Ok(Attempt::Done)
}

/// Refuses a rule without effect; what is in force stays as it was.
fn check(
    slots: &mut [Slot],
    at: usize,
    origin: Origin,
    words: &[String],
    text: &str,
) -> Result<(), AddRuleError> {
    if text.len() as u64 > FILE_MAX {
        return Err(read_only(format!("it would have more than {FILE_MAX} bytes; remove some rules")));
    }
    let before = std::mem::replace(&mut slots[at].origin, origin);
    let (now, rule) = decision(slots, words);
    slots[at].origin = before;
    match now {
        Some(RuleDecision::Allow) => Ok(()),
        _ => Err(AddRuleError::Overruled { words: words.to_vec(), rule }),
    }
}

/// What the rules say of exactly these words, where no project's rules hold, and which one says it.
fn decision(slots: &[Slot], words: &[String]) -> (Option<RuleDecision>, String) {
    let assessment = set(slots).assess(words, "/");
    let rule = assessment.segments.into_iter().find_map(|segment| segment.rule);
    rule.map_or((None, String::new()), |rule| (Some(rule.decision), rule.rule))
}

fn user_slot(slots: &[Slot]) -> Result<usize, AddRuleError> {
    let at = slots.iter().position(|slot| slot.source.kind == Kind::User);
    at.ok_or_else(|| read_only("there is no file of the user".to_owned()))
}

/// The rule as text, to stand at the end of `text`.
fn entry(text: &str, words: &[String]) -> String {
    let pattern = toml::Value::Array(words.iter().cloned().map(toml::Value::String).collect());
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{end}\n# Left by an approval.\n[[prefix]]\npattern = {pattern}\n")
}

fn beside(file: &Path, what: &str) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".{name}.{what}"))
}

/// Another file takes the place of this one, at once and with its permissions.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let new = beside(file, "new");
    // Left by a writer that was killed: whoever holds the lock is the only one.
    fs::remove_file(&new).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    let mut open = private().create_new(true).open(&new)?;
    open.write_all(text.as_bytes())?;
    if let Ok(facts) = fs::metadata(file) {
        open.set_permissions(facts.permissions())?;
    }
    open.sync_all()?;
    fs::rename(&new, file)
}

#[cfg(unix)]
fn private() -> fs::OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = File::options();
    options.write(true).mode(0o600);
    options
}

#[cfg(not(unix))]
fn private() -> fs::OpenOptions {
    let mut options = File::options();
    options.write(true);
    options
}

#[cfg(unix)]
fn make_directory(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

#[cfg(not(unix))]
fn make_directory(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)
}

/// Holds the lock as long as it lives; `None` if another process has it.
#[cfg(unix)]
fn lock(file: &Path) -> io::Result<Option<File>> {
    use rustix::fs::{FlockOperation, flock};
    let open = private().create(true).open(file)?;
    match flock(&open, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(open)),
        Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(unix))]
fn lock(_: &Path) -> io::Result<Option<File>> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "files cannot be locked on this platform yet"))
}

fn read_only(reason: String) -> AddRuleError {
    AddRuleError::ReadOnly { reason }
}

fn system(file: &Path, error: &io::Error) -> AddRuleError {
    AddRuleError::System { reason: format!("{}: {error}", file.display()) }
}
