//! What a command in a sandbox must never write, wherever its profile lets it write: files that decide about its own
//! rights, such as rules that allow commands.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::core::policy::{Files, Profile};

/// The profile with every guarded path below a writable root among what that root protects. A root inside a guarded path
/// is refused: nothing could be kept there.
pub(super) fn guard(mut profile: Profile, guarded: &[PathBuf]) -> Result<Profile, String> {
    let Files::WorkspaceWrite { writable_roots, protected } = &mut profile.files else { return Ok(profile) };
    for root in writable_roots.iter() {
        let Ok(real) = fs::canonicalize(root) else { continue };
        for path in guarded {
            let path = resolved(path);
            if real.starts_with(&path) {
                return Err(format!(
                    "the writable root {root:?} lies where the service's own rules are; choose another"
                ));
            }
            if let Ok(below) = path.strip_prefix(&real) {
                let below = below.to_str().ok_or_else(|| {
                    format!("{} cannot be kept from being written: it is not UTF-8", path.display())
                })?;
                protected.push(below.to_owned());
            }
        }
    }
    protected.sort();
    protected.dedup();
    Ok(profile)
}

/// Without links as far as it exists, and as it stands from there.
fn resolved(path: &Path) -> PathBuf {
    let mut missing: Vec<OsString> = Vec::new();
    for above in path.ancestors() {
        if let Ok(real) = fs::canonicalize(above) {
            return missing.iter().rev().fold(real, |path, part| path.join(part));
        }
        missing.extend(above.file_name().map(OsString::from));
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::policy::Network;

    fn guarded(root: &Path, guarded: &[PathBuf]) -> Result<Vec<String>, String> {
        let files = Files::WorkspaceWrite {
            writable_roots: vec![root.display().to_string()],
            protected: vec![".git".to_owned()],
        };
        let profile = Profile { files, network: Network::Off, deny_read: Vec::new() };
        match guard(profile, guarded)?.files {
            Files::WorkspaceWrite { protected, .. } => Ok(protected),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_decides_about_rights_is_protected_below_every_root_also_if_it_is_not_there_yet() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().canonicalize().unwrap();
        let rules = path.join(".config/unified-exec");
        assert_eq!(guarded(&path, std::slice::from_ref(&rules)).unwrap(), [".config/unified-exec", ".git"]);
        let link = path.join("link");
        fs::create_dir(path.join("real")).unwrap();
        std::os::unix::fs::symlink(path.join("real"), &link).unwrap();
        assert_eq!(guarded(&path.join("real"), &[link.join("rules")]).unwrap(), [".git", "rules"]);
        assert_eq!(guarded(&path.join("real"), &[rules]).unwrap(), [".git"]);
    }

    #[test]
    fn a_root_inside_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().canonicalize().unwrap();
        assert!(guarded(&path, std::slice::from_ref(&path)).is_err());
        assert!(guarded(&path, &[path.parent().unwrap().to_owned()]).is_err());
    }
}
