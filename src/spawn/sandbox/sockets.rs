//! The sockets with names in the file system that somebody outside listens on: a read-only mount does not keep anybody
//! from connecting to them, and behind one may be a service that does on request what the sandbox forbids.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Where systems keep the sockets of users and of the message bus: hidden whole, for more may come at any time.
const DIRECTORIES: &[&str] = &["/run/user", "/run/dbus", "/run/systemd/private"];
/// Sockets that are hidden one by one. Each is a mount.
const SOCKETS_MAX: usize = 256;

/// What has to be hidden so that no socket outside of `roots` can be connected to. The error is a sentence.
pub(super) fn places(roots: &[PathBuf]) -> Result<BTreeSet<PathBuf>, String> {
    let table = fs::read_to_string("/proc/net/unix")
        .map_err(|error| format!("the sockets of the system cannot be listed: {error}"))?;
    let mut found: BTreeSet<PathBuf> = DIRECTORIES
        .iter()
        .filter_map(|directory| fs::canonicalize(directory).ok())
        .filter(|directory| !roots.iter().any(|root| root.starts_with(directory)))
        .collect();
    for path in table.lines().skip(1).filter_map(path_of) {
        let Ok(real) = fs::canonicalize(path) else { continue };
        let is_socket = fs::metadata(&real).is_ok_and(|about| about.file_type().is_socket());
        let is_known = real.ancestors().any(|above| found.contains(above));
        if is_socket && !is_known && !roots.iter().any(|root| real.starts_with(root)) {
            found.insert(real);
        }
    }
    if found.len() > SOCKETS_MAX {
        return Err(format!(
            "there are more than {SOCKETS_MAX} sockets in the file system that would have to be hidden; \
             end what has opened them"
        ));
    }
    Ok(found)
}

/// The path in a line of the kernel's table, if the socket has one. It is the last of eight columns and may hold
/// spaces; an abstract name begins with `@`.
fn path_of(line: &str) -> Option<&Path> {
    let start = line.find(" /")?;
    Some(Path::new(&line[start + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_paths_are_taken_from_the_table() {
        let line = "0000: 00000002 00000000 00010000 0001 01  1572 /run/a b.sock";
        assert_eq!(path_of(line), Some(Path::new("/run/a b.sock")));
        assert_eq!(path_of("0000: 00000002 00000000 00010000 0001 01  1572 @/run/x"), None);
        assert_eq!(path_of("0000: 00000003 00000000 00000000 0001 03  1572"), None);
    }

    #[test]
    fn a_listener_is_found_unless_it_is_in_a_root() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().canonicalize().unwrap();
        let _listener = UnixListener::bind(path.join("sock")).unwrap();
        assert!(places(&[]).unwrap().contains(&path.join("sock")));
        assert!(!places(std::slice::from_ref(&path)).unwrap().contains(&path.join("sock")));
    }
}
