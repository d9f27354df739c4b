//! One cgroup (version 2) for each child, where the system lets us make them: the kernel itself then knows every
//! descendant, kills them in one step and tells when the last one has gone. Called by `start`, `tree` and `watch`.
//!
//! ```text
//! <the server's own cgroup>/unified-exec-<pid namespace>-<server's pid>-<its time of start>/<number of the child>
//! ```
//!
//! The outer name says whose it is, so that a later server finds and ends what one that was killed has left behind.
//! The namespace is part of it because pids mean nothing outside theirs: a server in a container beside this one lives,
//! though no process here has its number.
//! `posix_spawn` cannot start a child inside a cgroup (glibc can from 2.39 on); `place` moves it right after, with
//! whatever it has forked.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use super::table::Entry;

/// What the outer names begin with.
const PREFIX: &str = "unified-exec-";

/// Children of this process so far, whichever spawner started them: they share one outer cgroup.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Which controllers the cgroups of children have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Controllers {
    pub(super) memory: bool,
    pub(super) pids: bool,
}

impl Controllers {
    /// What a file of the hierarchy lists, such as `cgroup.controllers`.
    fn listed(file: &Path) -> Self {
        let listed = fs::read_to_string(file).unwrap_or_default();
        let has = |name: &str| listed.split_ascii_whitespace().any(|word| word == name);
        Self { memory: has("memory"), pids: has("pids") }
    }

    /// Hands on to the cgroups below `directory` what it has itself. Refused while processes are in it, unless it is
    /// the root; then whoever started this service has not delegated them.
    fn hand_on(self, directory: &Path) {
        for (has, word) in [(self.memory, "+memory"), (self.pids, "+pids")] {
            if has && let Err(error) = fs::write(directory.join("cgroup.subtree_control"), word) {
                tracing::debug!(directory = %directory.display(), word, %error, "a controller is not handed on");
            }
        }
    }
}

/// The outer cgroup of this process.
#[derive(Debug)]
pub(super) struct Home {
    controllers: Controllers,
    path: PathBuf,
    /// The same as `/proc/<pid>/cgroup` names it.
    name: String,
}

impl Home {
    /// Finds the server's own cgroup and makes the outer one in it. The error says why there is none.
    pub(super) fn open() -> io::Result<Self> {
        let (own, own_name) = own_cgroup()?;
        let me = std::process::id();
        let started = Entry::read(me).map_or(0, |entry| entry.started);
        let outer = format!("{PREFIX}{}-{me}-{started}", pid_namespace()?);
        let mut home = Self {
            controllers: Controllers::default(),
            path: own.join(&outer),
            name: format!("{}/{outer}", own_name.trim_end_matches('/')),
        };
        Controllers::listed(&own.join("cgroup.controllers")).hand_on(&own);
        let probe = home.create()?;
        Controllers::listed(&home.path.join("cgroup.controllers")).hand_on(&home.path);
        let able = probe.path.join("cgroup.kill").exists();
        home.controllers = Controllers::listed(&probe.path.join("cgroup.controllers"));
        probe.remove()?;
        if able {
            Ok(home)
        } else {
            Err(io::Error::other("the kernel has no cgroup.kill (it came with 5.14)"))
        }
    }

    /// Which limits the cgroup of a child can hold.
    pub(super) const fn controllers(&self) -> Controllers {
        self.controllers
    }

    /// Makes the cgroup of one more child.
    pub(super) fn create(&self) -> io::Result<Cgroup> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
        let cgroup = Cgroup { path: self.path.join(&number), name: format!("{}/{number}", self.name) };
        match fs::create_dir(&cgroup.path) {
            // The outer one is not there yet, or another spawner of this process has just tidied it away.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match fs::create_dir(&self.path) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                    _ => {
                        self.controllers.hand_on(&self.path);
                        fs::create_dir(&cgroup.path)?;
                    }
                }
                Ok(cgroup)
            }
            other => other.map(|()| cgroup),
        }
    }

    /// Moves a process out of a child's cgroup, to where the server is.
    pub(super) fn take_back(&self, pid: u32) -> io::Result<()> {
        let own = self.path.parent().unwrap_or(&self.path);
        OpenOptions::new().write(true).open(own.join("cgroup.procs"))?.write_all(pid.to_string().as_bytes())
    }

    /// Kills what servers that no longer live have left, and answers what is to be removed once it is empty.
    pub(super) fn kill_leftovers(&self) -> Vec<Cgroup> {
        let Some(entries) = self.path.parent().and_then(|own| fs::read_dir(own).ok()) else {
            return Vec::new();
        };
        let Ok(here) = pid_namespace() else { return Vec::new() };
        let mut leftovers = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            let abandoned = entry.file_name().to_str().and_then(owner).is_some_and(|owner| {
                let lives = |entry: Entry| entry.started == owner.started && entry.alive;
                owner.namespace == here && !Entry::read(owner.pid).is_some_and(lives)
            });
            if abandoned {
                tracing::warn!(cgroup = %path.display(), "killing what a server that is gone has left behind");
                let leftover = Cgroup { path, name: String::new() };
                leftover.kill();
                leftovers.push(leftover);
            }
        }
        leftovers
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Refused while other spawners of this process have children in it, which is right.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Whose an outer cgroup is.
#[derive(Debug, PartialEq, Eq)]
struct Owner {
    namespace: u64,
    pid: u32,
    started: u64,
}

fn owner(name: &str) -> Option<Owner> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    let owner = Owner {
        namespace: parts.next()?.parse().ok()?,
        pid: parts.next()?.parse().ok()?,
        started: parts.next()?.parse().ok()?,
    };
    parts.next().is_none().then_some(owner)
}

/// The number of the namespace in which this process has its pid.
fn pid_namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

/// The server's own cgroup: its directory, and its name in `/proc/<pid>/cgroup`.
fn own_cgroup() -> io::Result<(PathBuf, String)> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "no cgroup 2 hierarchy is mounted");
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let (root, mount) = mounts.lines().find_map(cgroup2_mount).ok_or_else(missing)?;
    let memberships = fs::read_to_string("/proc/self/cgroup")?;
    let name = memberships.lines().find_map(|line| line.strip_prefix("0::")).ok_or_else(missing)?;
    // The mount may show a part of the hierarchy only; the server's cgroup must lie in that part.
    let inside = Path::new(name).strip_prefix(root).map_err(io::Error::other)?;
    Ok((Path::new(mount).join(inside), name.to_owned()))
}

/// Root and mount point of a line of `mountinfo`, if it is of a cgroup 2 hierarchy.
fn cgroup2_mount(line: &str) -> Option<(&str, &str)> {
    let (left, right) = line.split_once(" - ")?;
    let mut fields = left.split(' ').skip(3);
    let (root, mount) = (fields.next()?, fields.next()?);
    (right.split(' ').next()? == "cgroup2").then_some((root, mount))
}

/// The cgroup of one child.
#[derive(Debug)]
pub(super) struct Cgroup {
    path: PathBuf,
    name: String,
}

impl Cgroup {
    /// Moves a process, with all its threads, here.
    pub(super) fn add(&self, pid: u32) -> io::Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// Bounds what all of its processes use together.
    pub(super) fn limit(&self, memory_max: Option<u64>, pids_max: Option<u64>) -> io::Result<()> {
        if let Some(bytes) = memory_max {
            self.write("memory.max", &bytes.to_string())?;
            // Swap would only put the end off. Not every kernel counts it.
            let _ = self.write("memory.swap.max", "0");
            self.write("memory.oom.group", "1")?;
        }
        match pids_max {
            Some(count) => self.write("pids.max", &count.to_string()),
            None => Ok(()),
        }
    }

    /// Whether the kernel has killed in it for lack of memory.
    pub(super) fn has_run_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.path.join("memory.events")).unwrap_or_default();
        let kills = events.lines().filter_map(|line| line.strip_prefix("oom_kill "));
        kills.into_iter().any(|count| count.trim() != "0")
    }

    /// Kills everything in it, also what is being forked at this moment.
    pub(super) fn kill(&self) {
        let Err(error) = self.write("cgroup.kill", "1") else { return };
        let is_removed =
            error.kind() == io::ErrorKind::NotFound || Errno::from_io_error(&error) == Some(Errno::NODEV);
        if !is_removed {
            tracing::error!(cgroup = %self.path.display(), %error, "a cgroup cannot be killed");
        }
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.path.join(file))?.write_all(text.as_bytes())
    }

    /// The file that changes when the last process leaves.
    pub(super) fn events(&self) -> PathBuf {
        self.path.join("cgroup.events")
    }

    /// Whether a process lives in it, or below it. Zombies do not.
    pub(super) fn is_populated(&self) -> io::Result<bool> {
        match fs::read_to_string(self.events()) {
            Ok(events) => Ok(events.lines().any(|line| line == "populated 1")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The processes in it and below it.
    pub(super) fn members(&self) -> Vec<u32> {
        let mut members = Vec::new();
        for directory in self.directories() {
            let listed = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
            members.extend(listed.lines().filter_map(|line| line.parse::<u32>().ok()));
        }
        members
    }

    /// Whether `pid` is in it or below it.
    pub(super) fn holds(&self, pid: u32) -> bool {
        let memberships = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        memberships.lines().filter_map(|line| line.strip_prefix("0::")).any(|name| {
            name.strip_prefix(&self.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// Removes it with whatever its processes made below it. It must be empty.
    pub(super) fn remove(&self) -> io::Result<()> {
        for directory in self.directories().iter().rev() {
            match fs::remove_dir(directory) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Itself and all below it, each before its own.
    fn directories(&self) -> Vec<PathBuf> {
        let mut all = vec![self.path.clone()];
        let mut at = 0;
        while let Some(directory) = all.get(at) {
            let below = fs::read_dir(directory).into_iter().flatten().flatten();
            let below: Vec<PathBuf> = below
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path())
                .collect();
            all.extend(below);
            at += 1;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_of_version_2_is_found_with_its_root() {
        let line = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:3 - cgroup2 cgroup2 rw";
        assert_eq!(cgroup2_mount(line), Some(("/", "/sys/fs/cgroup/unified")));
        assert_eq!(
            cgroup2_mount("40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd"),
            None
        );
    }

    #[test]
    fn the_outer_name_says_whose_it_is() {
        let expected = Owner { namespace: 4_026_531_836, pid: 12, started: 3456 };
        assert_eq!(owner("unified-exec-4026531836-12-3456"), Some(expected));
        assert_eq!(owner("unified-exec-12-3456"), None);
        assert_eq!(owner("user.slice"), None);
    }
}
