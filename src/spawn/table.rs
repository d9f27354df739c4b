//! The system's process table, read from `/proc`: who is whose child, in which session, with which marks. Read by
//! `tree` off the runtime's threads. Every answer is a moment old; whoever acts on one checks again, see
//! [`signal_same`].

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How long an `exec` may take to show an environment again, in looks and in the time between two of them. One that was
/// started without any variable is looked at so often in vain, by each walk.
const EXEC_LOOKS_MAX: u32 = 10;
const EXEC_MOMENT: rustix::thread::Timespec = rustix::thread::Timespec { tv_sec: 0, tv_nsec: 500_000 };

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) parent: u32,
    pub(super) group: u32,
    pub(super) session: u32,
    /// Since the system's start, in its ticks: together with the pid this names one process for ever.
    pub(super) started: u64,
    /// Whether it still runs; a zombie does not.
    pub(super) alive: bool,
}

impl Entry {
    /// The process `pid`, if there is one.
    pub(super) fn read(pid: u32) -> Option<Self> {
        Self::try_read(pid).ok().flatten()
    }

    /// `None` if there is none; an error if that could not be found out.
    fn try_read(pid: u32) -> io::Result<Option<Self>> {
        match fs::read(format!("/proc/{pid}/stat")) {
            Ok(stat) => Ok(Self::parse(pid, &String::from_utf8_lossy(&stat))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The name is in parentheses and may itself hold spaces and parentheses; everything after the last one is
    /// numbers.
    fn parse(pid: u32, stat: &str) -> Option<Self> {
        let (open, close) = (stat.find('(')?, stat.rfind(')')?);
        let name = stat.get(open + 1..close)?.to_owned();
        let fields: Vec<&str> = stat.get(close + 1..)?.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok());
        let id = |at: usize| number(at).and_then(|number| u32::try_from(number).ok());
        // The first thread of a process may have ended while others run: then it looks like a zombie and is none.
        let ended = matches!(*fields.first()?, "Z" | "X" | "x") && number(17)? <= 1;
        Some(Self {
            pid,
            name,
            parent: id(1)?,
            group: id(2)?,
            session: id(3)?,
            started: number(19)?,
            alive: !ended,
        })
    }
}

/// Every process, as one walk saw it.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: BTreeMap<u32, Entry>,
    children: BTreeMap<u32, Vec<u32>>,
}

impl Table {
    /// Walks `/proc`. Fails rather than leave out a process that may be there, for want of descriptors for example.
    pub(super) fn read() -> io::Result<Self> {
        let mut table = Self::default();
        for pid in numbered_entries("/proc")? {
            if let Some(entry) = Entry::try_read(pid)? {
                table.children.entry(entry.parent).or_default().push(pid);
                table.entries.insert(pid, entry);
            }
        }
        Ok(table)
    }

    pub(super) fn get(&self, pid: u32) -> Option<&Entry> {
        self.entries.get(&pid)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    pub(super) fn children(&self, pid: u32) -> &[u32] {
        self.children.get(&pid).map_or(&[], Vec::as_slice)
    }
}

fn numbered_entries(directory: &str) -> io::Result<Vec<u32>> {
    Ok(fs::read_dir(directory)?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect())
}

/// The children of `pid`, of all its threads, zombies included; none if they cannot be listed.
pub(super) fn children_of(pid: u32) -> Vec<u32> {
    try_children_of(pid).unwrap_or_default()
}

/// The same, if they can be listed. A kernel may be built without that.
pub(super) fn try_children_of(pid: u32) -> io::Result<Vec<u32>> {
    let tasks = format!("/proc/{pid}/task");
    let mut children = Vec::new();
    for task in numbered_entries(&tasks)? {
        match fs::read_to_string(format!("{tasks}/{task}/children")) {
            Ok(listed) => {
                children.extend(listed.split_ascii_whitespace().filter_map(|text| text.parse::<u32>().ok()))
            }
            // The thread has just ended; the others have its children.
            Err(_) if !Path::new(&format!("{tasks}/{task}")).exists() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(children)
}

/// Whether the environment that `pid` was started with holds all of `marks`, each `NAME=value`.
pub(super) fn has_marks(pid: u32, marks: &[Vec<u8>]) -> bool {
    !marks.is_empty() && environment(pid).is_some_and(|environment| holds(&environment, marks))
}

/// The environment that `pid` was started with; `None` if it has none, or does not show it.
fn environment(pid: u32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/environ")).ok().filter(|environment| !environment.is_empty())
}

fn holds(environment: &[u8], marks: &[Vec<u8>]) -> bool {
    marks.iter().all(|mark| environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_slice()))
}

/// The same of an orphan that was handed to us, who may be one of ours in the middle of an `exec`: then its environment
/// is empty, or cannot be read, for a moment that must not make it a stranger. Blocks for a few milliseconds at most.
pub(super) fn orphan_has_marks(pid: u32, marks: &[Vec<u8>]) -> bool {
    if marks.is_empty() {
        return false;
    }
    for _ in 0..EXEC_LOOKS_MAX {
        if let Some(environment) = environment(pid) {
            return holds(&environment, marks);
        }
        if !Entry::read(pid).is_some_and(|entry| entry.alive) {
            return false;
        }
        let _ = rustix::thread::nanosleep(&EXEC_MOMENT);
    }
    has_marks(pid, marks)
}

/// The pid that the system gave out last. If it is a child's own, nobody has started anything since.
pub(super) fn last_pid() -> Option<u32> {
    fs::read_to_string("/proc/loadavg").ok()?.split_ascii_whitespace().last()?.parse().ok()
}

/// Sends `signal` to `pid` if `same` still holds of it. The descriptor is taken first and then checked, so the signal
/// never reaches another process that was given the number meanwhile.
pub(super) fn signal_same(pid: u32, signal: Signal, same: impl FnOnce() -> bool) -> Result<(), Errno> {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    let process = pidfd_open(raw, PidfdFlags::empty())?;
    if same() { pidfd_send_signal(&process, signal) } else { Err(Errno::SRCH) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "42 (a) b (c)) S 7 42 41 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2";
        let entry = Entry::parse(42, stat).unwrap();
        assert_eq!((entry.name.as_str(), entry.parent, entry.group, entry.session), ("a) b (c)", 7, 42, 41));
        assert_eq!((entry.started, entry.alive), (987_654, true));
    }

    #[test]
    fn a_zombie_is_not_alive_unless_other_threads_run() {
        let one = "42 (x) Z 7 42 41 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 9 1 2";
        assert!(!Entry::parse(42, one).unwrap().alive);
        let two = "42 (x) Z 7 42 41 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 2 0 9 1 2";
        assert!(Entry::parse(42, two).unwrap().alive);
    }

    #[test]
    fn this_process_is_in_the_table_under_its_parent() {
        let me = std::process::id();
        let table = Table::read().unwrap();
        let entry = table.get(me).unwrap();
        assert!(entry.alive);
        assert!(table.children(entry.parent).contains(&me));
    }
}
