//! What a confined command sees of the file system: a profile becomes a list of mounts, in the order in which bwrap
//! makes them.
//!
//! ```text
//! /            read-only (or writable, under full access)
//! /dev /proc   of its own
//! /tmp         empty and its own, unless a root is above it
//! roots        writable; what is protected in them read-only again; the directories between pinned in place
//! hidden       deny_read, the service's own directories, sockets of others: on top of everything
//! ```
//!
//! A directory between a root and something protected could be renamed and made anew, with the protected name free
//! again; as a mount point it cannot. For the same reason a protected name that does not exist gets a placeholder.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use super::placeholder::{Placeholder, Placeholders};
use super::{deny, sockets};
use crate::core::policy::{Files, Profile};

/// Where the device is that reads as a refusal: no device works on a mount without devices.
const NULL: &str = "/dev/null";
/// What is private in every view, and so hides what the system has there.
const PRIVATE: &[&str] = &["/dev", "/proc"];
/// Where programs that ask for the name of their terminal find it.
const CONSOLE: &str = "/dev/console";

/// The permission bits to write.
const WRITABLE: u32 = 0o222;

/// The mounts of one child.
#[derive(Debug, Default)]
pub(super) struct View {
    /// Arguments for bwrap.
    pub(super) arguments: Vec<OsString>,
    /// Held as long as the child lives.
    pub(super) placeholders: Placeholders,
    /// Below what may be written; everywhere if `None`.
    pub(super) writable: Option<Vec<String>>,
}

/// How a place inside the view is mounted; a later one wins if two are asked for at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Bind {
    /// Visible in spite of a private directory above it.
    Shown,
    /// As it is, so that it cannot be moved.
    Pinned,
    Protected,
    Root,
}

/// Builds the view of `profile` for a command that starts in `cwd`. The error is a sentence with the way out.
pub(super) fn view(
    profile: &Profile,
    cwd: &str,
    hidden: &[PathBuf],
    terminal: Option<&Path>,
) -> Result<View, String> {
    let mut view = View::default();
    let roots = roots(&profile.files)?;
    let all_writable = profile.files == Files::FullAccess || roots.contains(Path::new("/"));
    view.add(if all_writable { "--bind" } else { "--ro-bind" }, &["/", "/"]);
    view.add("--dev", &["/dev"]);
    view.add("--proc", &["/proc"]);
    if let Some(terminal) = terminal {
        view.add("--dev-bind", &[terminal.as_os_str(), CONSOLE.as_ref()]);
    }
    let private_tmp = private_tmp(profile, &roots);
    if let Some(tmp) = &private_tmp {
        view.add("--perms", &["1777"]);
        view.add("--tmpfs", &[tmp]);
    }
    let mut binds = binds(&profile.files, &roots, &mut view.placeholders)?;
    if let (Some(tmp), Ok(cwd)) = (&private_tmp, fs::canonicalize(cwd))
        && cwd.starts_with(tmp)
        && cwd != *tmp
        && !binds.keys().any(|bind| cwd.starts_with(bind))
    {
        binds.insert(cwd, Bind::Shown);
    }
    for (path, bind) in &binds {
        let flag = if matches!(bind, Bind::Root | Bind::Pinned) { "--bind" } else { "--ro-bind" };
        view.add(flag, &[path, path]);
    }
    let roots: Vec<PathBuf> = roots.into_iter().collect();
    let mut covered = deny::places(&profile.deny_read, &roots)?;
    covered.extend(hidden.iter().filter_map(|path| fs::canonicalize(path).ok()));
    covered.extend(sockets::places(&roots)?);
    let private: Vec<&Path> = PRIVATE.iter().map(Path::new).chain(private_tmp.as_deref()).collect();
    view.cover(&covered, |path| {
        let is_bound = binds.keys().any(|bind| path.starts_with(bind));
        is_bound || !private.iter().any(|private| path.starts_with(private))
    });
    view.writable = (!all_writable).then(|| {
        let roots = binds.iter().filter(|(_, bind)| **bind == Bind::Root).map(|(path, _)| path.clone());
        let own = PRIVATE.iter().map(PathBuf::from).chain(private_tmp.clone());
        roots.chain(own).filter_map(|path| path.into_os_string().into_string().ok()).collect()
    });
    Ok(view)
}

impl View {
    fn add(&mut self, flag: &str, operands: &[impl AsRef<std::ffi::OsStr>]) {
        self.arguments.push(flag.into());
        self.arguments.extend(operands.iter().map(|operand| operand.as_ref().to_owned()));
    }

    /// Keeps root from the switches of the kernel in the process table, whose files belong to it: what is not about
    /// processes is read and not written. In a user namespace of somebody else nobody inside is their owner.
    pub(super) fn keep_switches(&mut self) -> io::Result<()> {
        for entry in fs::read_dir("/proc")? {
            let entry = entry?;
            // Processes come and go meanwhile; nothing else here does.
            if entry.file_name().as_bytes().iter().all(u8::is_ascii_digit) {
                continue;
            }
            let about = entry.file_type()?;
            if about.is_dir() || (about.is_file() && entry.metadata()?.mode() & WRITABLE != 0) {
                self.add("--ro-bind", &[entry.path(), entry.path()]);
            }
        }
        Ok(())
    }

    /// Hides each of `places` that is visible: a directory is empty and may not be entered, a file may not be opened.
    fn cover(&mut self, places: &BTreeSet<PathBuf>, is_visible: impl Fn(&Path) -> bool) {
        for place in places {
            let is_below_another = place.ancestors().skip(1).any(|above| places.contains(above));
            if is_below_another || !is_visible(place) {
                continue;
            }
            if place.is_dir() {
                self.add("--perms", &["000"]);
                self.add("--tmpfs", &[place]);
                self.add("--remount-ro", &[place]);
            } else {
                self.add("--ro-bind", &[Path::new(NULL), place]);
            }
        }
    }

    /// The arguments as bwrap reads them from a file.
    pub(super) fn encoded(self) -> (Vec<u8>, Placeholders) {
        let mut bytes = Vec::new();
        for argument in self.arguments {
            bytes.extend(argument.into_vec());
            bytes.push(0);
        }
        (bytes, self.placeholders)
    }
}

/// The writable roots that exist, without links. One that does not exist cannot be written, nor made.
fn roots(files: &Files) -> Result<BTreeSet<PathBuf>, String> {
    let Files::WorkspaceWrite { writable_roots, .. } = files else { return Ok(BTreeSet::new()) };
    let mut roots = BTreeSet::new();
    for root in writable_roots {
        match fs::canonicalize(root) {
            Ok(real) => drop(roots.insert(real)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("the writable root {root:?} cannot be resolved: {error}")),
        }
    }
    Ok(roots)
}

/// Where the private directory for temporary files is, if there is one.
fn private_tmp(profile: &Profile, roots: &BTreeSet<PathBuf>) -> Option<PathBuf> {
    let tmp = fs::canonicalize("/tmp").ok()?;
    let is_shared = profile.files == Files::FullAccess || roots.iter().any(|root| tmp.starts_with(root));
    (!is_shared).then_some(tmp)
}

/// What is mounted for the roots and what they protect, parents first.
fn binds(
    files: &Files,
    roots: &BTreeSet<PathBuf>,
    placeholders: &mut Placeholders,
) -> Result<BTreeMap<PathBuf, Bind>, String> {
    let Files::WorkspaceWrite { protected, .. } = files else { return Ok(BTreeMap::new()) };
    let mut binds = BTreeMap::new();
    let mut put = |path: PathBuf, bind: Bind| {
        let entry = binds.entry(path).or_insert(bind);
        *entry = bind.max(*entry);
    };
    for root in roots {
        put(root.clone(), Bind::Root);
        for outer in roots.iter().filter(|outer| root != *outer && root.starts_with(outer)) {
            for between in between(outer, root) {
                put(between, Bind::Pinned);
            }
        }
        for name in protected {
            for (path, bind) in protect(root, name, placeholders)? {
                put(path, bind);
            }
        }
    }
    Ok(binds)
}

/// The directories between two, without either.
fn between(outer: &Path, inner: &Path) -> Vec<PathBuf> {
    inner.ancestors().skip(1).take_while(|path| *path != outer).map(Path::to_owned).collect()
}

/// What keeps `name` below `root` as it is, down to where there is nothing left that anybody could make.
fn protect(root: &Path, name: &str, placeholders: &mut Placeholders) -> Result<Vec<(PathBuf, Bind)>, String> {
    let mut binds = Vec::new();
    if !root.is_dir() {
        return Ok(binds);
    }
    let parts: Vec<Component<'_>> = Path::new(name).components().collect();
    if parts.is_empty() || parts.iter().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(format!(
            "the protected path {name:?} is not a path below a root; write it without `/` in front and without `..`"
        ));
    }
    let mut at = root.to_owned();
    for (number, part) in parts.iter().enumerate() {
        at.push(part);
        let is_last = number + 1 == parts.len();
        let bind = if is_last { Bind::Protected } else { Bind::Pinned };
        match fs::symlink_metadata(&at) {
            Ok(about) if about.is_symlink() => {
                return Err(format!(
                    "the protected path {} is a symbolic link, which cannot be kept in place; replace it by what it \
                     leads to, or take {name:?} out of `protected`",
                    at.display()
                ));
            }
            Ok(about) => {
                binds.push((at.clone(), bind));
                if !about.is_dir() {
                    break;
                }
                // It may be a placeholder of somebody else who is confined now.
                placeholders.keep(hold(&at)?);
            }
            Err(_) => match hold(&at)? {
                Some(placeholder) => {
                    placeholders.keep(Some(placeholder));
                    binds.push((at.clone(), bind));
                }
                // Who may not make it here may not inside either.
                None => break,
            },
        }
    }
    Ok(binds)
}

fn hold(path: &Path) -> Result<Option<Placeholder>, String> {
    Placeholder::hold(path)
        .map_err(|error| format!("{} cannot be held in place, to protect it: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::policy::Network;

    fn workspace(roots: &[&Path], protected: &[&str]) -> Profile {
        Profile {
            files: Files::WorkspaceWrite {
                writable_roots: roots.iter().map(|root| root.display().to_string()).collect(),
                protected: protected.iter().map(|name| (*name).to_owned()).collect(),
            },
            network: Network::Off,
            deny_read: Vec::new(),
        }
    }

    fn home() -> (tempfile::TempDir, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().canonicalize().unwrap();
        (home, path)
    }

    fn words(view: &View) -> String {
        let words: Vec<_> = view.arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        words.join(" ")
    }

    #[test]
    fn a_root_comes_before_what_is_protected_in_it() {
        let (_home, path) = home();
        fs::create_dir(path.join(".git")).unwrap();
        let view = view(&workspace(&[&path], &[".git"]), "/", &[], None).unwrap();
        let path = path.display();
        let expected = format!("--bind {path} {path} --ro-bind {path}/.git {path}/.git");
        assert!(words(&view).contains(&expected), "{}", words(&view));
    }

    #[test]
    fn what_is_protected_and_missing_is_held_and_let_go() {
        let (_home, path) = home();
        let view = view(&workspace(&[&path], &["a/b"]), "/", &[], None).unwrap();
        let shown = path.display();
        let expected = format!("--bind {shown}/a {shown}/a --ro-bind {shown}/a/b {shown}/a/b");
        assert!(words(&view).contains(&expected), "{}", words(&view));
        assert!(path.join("a/b").is_dir());
        drop(view);
        assert!(!path.join("a").exists(), "the inner one goes first");
    }

    #[test]
    fn directories_between_two_roots_are_pinned() {
        let (_home, path) = home();
        let inner = path.join("x/y");
        fs::create_dir_all(&inner).unwrap();
        let view = view(&workspace(&[&path, &inner], &[]), "/", &[], None).unwrap();
        let shown = path.display();
        assert!(words(&view).contains(&format!("--bind {shown}/x {shown}/x")), "{}", words(&view));
    }

    #[test]
    fn a_protected_link_is_refused_with_the_way_out() {
        let (_home, path) = home();
        std::os::unix::fs::symlink("/etc", path.join(".git")).unwrap();
        let refused = view(&workspace(&[&path], &[".git"]), "/", &[], None).unwrap_err();
        assert!(refused.contains("symbolic link") && refused.contains("`protected`"), "{refused}");
    }

    #[test]
    fn a_root_above_tmp_keeps_it_shared() {
        let shared = view(&workspace(&[Path::new("/tmp")], &[]), "/", &[], None).unwrap();
        assert!(!words(&shared).contains("--tmpfs /tmp"));
        let private = view(&workspace(&[Path::new("/var/tmp")], &[]), "/", &[], None).unwrap();
        assert!(words(&private).contains("--perms 1777 --tmpfs /tmp"));
    }
}
