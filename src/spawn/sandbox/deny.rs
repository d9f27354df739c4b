//! Which files a profile's `deny_read` means at this moment: paths and globs become the places that have to be hidden.
//! Bounded, and fails closed: what cannot be looked through is a reason not to start.
//!
//! A mount hides a name, not a file. So a hidden file that has other names (hard links) is only hidden if all of them
//! are found and hidden as well. What comes into being after the start, outside, is not hidden: name its directory.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Entries of directories that one start looks at: tens of milliseconds.
const ENTRIES_MAX: usize = 50_000;
/// Places that one start hides. Each is a mount.
const HIDDEN_MAX: usize = 512;

/// Resolves `patterns` into places that exist, without links, none below another. `roots` are where other names of a
/// file are looked for. The error is a sentence with the way out.
pub(super) fn places(patterns: &[String], roots: &[PathBuf]) -> Result<BTreeSet<PathBuf>, String> {
    let mut budget = ENTRIES_MAX;
    let mut found = BTreeSet::new();
    for pattern in patterns {
        let too_many = |limit: usize| {
            format!("`deny_read` {pattern:?} matches among more than {limit} files; name a smaller directory")
        };
        let mut walk = Walk { budget: &mut budget, found: &mut found };
        walk.pattern(pattern).map_err(|error| match error {
            WalkError::Budget => too_many(ENTRIES_MAX),
            WalkError::Io(path, error) => {
                format!("`deny_read` {pattern:?} cannot be resolved: {}: {error}", path.display())
            }
        })?;
        if found.len() > HIDDEN_MAX {
            return Err(too_many(HIDDEN_MAX));
        }
    }
    other_names(&mut found, roots, &mut budget)?;
    let all = found.clone();
    found.retain(|path| !path.ancestors().skip(1).any(|above| all.contains(above)));
    Ok(found)
}

enum WalkError {
    Budget,
    Io(PathBuf, io::Error),
}

struct Walk<'a> {
    budget: &'a mut usize,
    found: &'a mut BTreeSet<PathBuf>,
}

impl Walk<'_> {
    fn pattern(&mut self, pattern: &str) -> Result<(), WalkError> {
        let parts: Vec<&OsStr> = Path::new(pattern)
            .components()
            .filter_map(|part| match part {
                Component::Normal(part) => Some(part),
                Component::ParentDir => Some(OsStr::new("..")),
                _ => None,
            })
            .collect();
        self.step(Path::new("/"), &parts)
    }

    /// Follows `parts` from `at`, which exists.
    fn step(&mut self, at: &Path, parts: &[&OsStr]) -> Result<(), WalkError> {
        let Some((part, rest)) = parts.split_first() else { return self.note(at) };
        let bytes = part.as_bytes();
        if !bytes.contains(&b'*') && !bytes.contains(&b'?') {
            let next = at.join(part);
            return match fs::symlink_metadata(&next) {
                Ok(_) => self.step(&next, rest),
                Err(error) => ignore_absent(next, error),
            };
        }
        let deep = bytes == b"**";
        if deep {
            self.step(at, rest)?;
        }
        for entry in self.entries(at)? {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if deep {
                // Links are not followed: what they lead to has a path of its own.
                if is_directory {
                    self.step(&entry.path(), parts)?;
                } else if rest.is_empty() {
                    self.note(&entry.path())?;
                }
            } else if matches(bytes, entry.file_name().as_bytes()) {
                self.step(&entry.path(), rest)?;
            }
        }
        Ok(())
    }

    fn entries(&mut self, directory: &Path) -> Result<Vec<fs::DirEntry>, WalkError> {
        let listed = match fs::read_dir(directory) {
            Ok(listed) => listed,
            Err(error) => return ignore_absent(directory.to_owned(), error).map(|()| Vec::new()),
        };
        let mut entries = Vec::new();
        for entry in listed {
            *self.budget = self.budget.checked_sub(1).ok_or(WalkError::Budget)?;
            entries.push(entry.map_err(|error| WalkError::Io(directory.to_owned(), error))?);
        }
        Ok(entries)
    }

    fn note(&mut self, path: &Path) -> Result<(), WalkError> {
        match fs::canonicalize(path) {
            Ok(real) => {
                self.found.insert(real);
                Ok(())
            }
            Err(error) => ignore_absent(path.to_owned(), error),
        }
    }
}

/// What is not there, or is out of our own reach, is out of the command's as well.
fn ignore_absent(path: PathBuf, error: io::Error) -> Result<(), WalkError> {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied => Ok(()),
        _ => Err(WalkError::Io(path, error)),
    }
}

/// Whether `name` is what `pattern` means: `*` any bytes, `?` one character.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, n));
                p += 1;
            }
            Some(b'?') => {
                p += 1;
                n = next_character(name, n);
            }
            Some(byte) if *byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match retry {
                Some((after, from)) => {
                    retry = Some((after, from + 1));
                    (p, n) = (after, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

fn next_character(name: &[u8], at: usize) -> usize {
    let is_continuation = |byte: &u8| byte & 0xc0 == 0x80;
    at + 1 + name[at + 1..].iter().take_while(|byte| is_continuation(byte)).count()
}

/// Adds the other names of hidden files, from their own directories and from below `roots`.
fn other_names(found: &mut BTreeSet<PathBuf>, roots: &[PathBuf], budget: &mut usize) -> Result<(), String> {
    let linked: Vec<(PathBuf, fs::Metadata)> = found
        .iter()
        .filter_map(|path| Some((path.clone(), fs::metadata(path).ok()?)))
        .filter(|(_, about)| about.is_file() && about.nlink() > 1)
        .collect();
    for (path, about) in linked {
        let mut names = BTreeSet::from([path.clone()]);
        let parent = path.parent().map(Path::to_owned);
        for directory in parent.into_iter().chain(roots.iter().cloned()) {
            if names.len() as u64 >= about.nlink() {
                break;
            }
            same_file(&directory, &about, &mut names, budget);
        }
        if (names.len() as u64) < about.nlink() {
            return Err(format!(
                "{} must not be read and has {} names (hard links), of which only {} could be found and hidden; \
                 remove the others, or make the file a copy",
                path.display(),
                about.nlink(),
                names.len()
            ));
        }
        found.extend(names);
    }
    Ok(())
}

/// Collects names below `directory` of the file that `about` describes, as far as the budget goes.
fn same_file(directory: &Path, about: &fs::Metadata, names: &mut BTreeSet<PathBuf>, budget: &mut usize) {
    let mut next = vec![directory.to_owned()];
    while let Some(directory) = next.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let Some(left) = budget.checked_sub(1) else { return };
            *budget = left;
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                next.push(entry.path());
            } else if kind.is_file()
                && entry.metadata().is_ok_and(|seen| (seen.dev(), seen.ino()) == (about.dev(), about.ino()))
            {
                names.insert(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_match_within_a_name() {
        for (pattern, name, expected) in [
            ("*.env", "a.env", true),
            ("*.env", ".env", true),
            ("*.env", "a.envx", false),
            ("a?c", "abc", true),
            ("a?c", "aäc", true),
            ("a?c", "ac", false),
            ("*a*b", "xaxxb", true),
            ("*a*b", "xaxxbc", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    fn tree() -> (tempfile::TempDir, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().canonicalize().unwrap();
        for file in ["a/.env", "a/b/.env", "a/b/c/x.key", "a/other"] {
            fs::create_dir_all(path.join(file).parent().unwrap()).unwrap();
            fs::write(path.join(file), file).unwrap();
        }
        (home, path)
    }

    fn found(path: &Path, patterns: &[&str]) -> Vec<String> {
        let patterns: Vec<String> =
            patterns.iter().map(|pattern| format!("{}/{pattern}", path.display())).collect();
        let places = places(&patterns, &[path.to_owned()]).unwrap();
        places.iter().map(|place| place.strip_prefix(path).unwrap().display().to_string()).collect()
    }

    #[test]
    fn globs_are_expanded_over_directories() {
        let (_home, path) = tree();
        assert_eq!(found(&path, &["a/*/.env"]), ["a/b/.env"]);
        assert_eq!(found(&path, &["**/.env"]), ["a/.env", "a/b/.env"]);
        assert_eq!(found(&path, &["a/**/*.key", "none", "a/none/*"]), ["a/b/c/x.key"]);
        assert_eq!(found(&path, &["a/b/**"]), ["a/b"], "the directory itself, and nothing below it again");
    }

    #[test]
    fn links_lead_to_what_is_hidden() {
        let (_home, path) = tree();
        std::os::unix::fs::symlink("a/other", path.join("link")).unwrap();
        assert_eq!(found(&path, &["link"]), ["a/other"]);
    }

    #[test]
    fn every_name_of_a_file_is_hidden_or_it_is_refused() {
        let (_home, path) = tree();
        fs::hard_link(path.join("a/other"), path.join("again")).unwrap();
        assert_eq!(found(&path, &["a/other"]), ["a/other", "again"]);
        let refused = places(&[format!("{}/a/other", path.display())], &[]).unwrap_err();
        assert!(refused.contains("hard links"), "{refused}");
    }

    #[test]
    fn a_walk_that_is_too_long_is_refused() {
        let (_home, path) = tree();
        let mut budget = 2;
        let mut found = BTreeSet::new();
        let mut walk = Walk { budget: &mut budget, found: &mut found };
        let pattern = format!("{}/**/x", path.display());
        assert!(matches!(walk.pattern(&pattern), Err(WalkError::Budget)));
    }
}
