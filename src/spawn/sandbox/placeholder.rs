//! Protected paths that do not exist. A mount needs something to be put on, so an empty directory is made for as long
//! as a child is confined; the child sees it read-only and cannot make the real thing. Whoever needs the same place
//! shares it, and the last one removes it if it is still empty.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static PLACES: Mutex<BTreeMap<PathBuf, usize>> = Mutex::new(BTreeMap::new());

fn places() -> MutexGuard<'static, BTreeMap<PathBuf, usize>> {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The placeholders of one child, outer ones first; let go from the inside out.
#[derive(Debug, Default)]
pub(in crate::spawn) struct Placeholders {
    held: Vec<Placeholder>,
}

impl Placeholders {
    pub(super) fn keep(&mut self, placeholder: Option<Placeholder>) {
        self.held.extend(placeholder);
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        while self.held.pop().is_some() {}
    }
}

/// An empty directory in the place of what must not be made.
#[derive(Debug)]
pub(super) struct Placeholder {
    path: PathBuf,
}

impl Placeholder {
    /// Holds `path`, if it does not exist or is held by others in the same way. `None` if it is there by itself, or
    /// cannot be made by us, so that the child cannot make it either.
    pub(super) fn hold(path: &Path) -> io::Result<Option<Self>> {
        let mut places = places();
        if let Some(count) = places.get_mut(path) {
            *count += 1;
            return Ok(Some(Self { path: path.to_owned() }));
        }
        match fs::create_dir(path) {
            Ok(()) => {
                places.insert(path.to_owned(), 1);
                Ok(Some(Self { path: path.to_owned() }))
            }
            Err(error) => match error.kind() {
                io::ErrorKind::AlreadyExists
                | io::ErrorKind::PermissionDenied
                | io::ErrorKind::ReadOnlyFilesystem => Ok(None),
                _ => Err(error),
            },
        }
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        let mut places = places();
        let Some(count) = places.get_mut(&self.path) else { return };
        *count -= 1;
        if *count == 0 {
            places.remove(&self.path);
            // Somebody outside may have filled it meanwhile; then it is theirs.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_holder_removes_it_and_only_if_it_is_empty() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(".git");
        let first = Placeholder::hold(&path).unwrap().unwrap();
        let second = Placeholder::hold(&path).unwrap().unwrap();
        drop(first);
        assert!(path.is_dir());
        drop(second);
        assert!(!path.exists());

        let third = Placeholder::hold(&path).unwrap().unwrap();
        fs::write(path.join("HEAD"), "").unwrap();
        drop(third);
        assert!(path.join("HEAD").exists());
        assert!(Placeholder::hold(&path).unwrap().is_none(), "it is there by itself");
    }
}
