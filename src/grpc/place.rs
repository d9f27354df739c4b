//! Whether the places that a session names are there. Commands find out when they start; a session is told at once.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tonic::Status;

use super::status;
use crate::core::command::EnvVar;

/// Refuses a working directory that is missing, or none.
pub(super) async fn check_cwd(field: &str, path: &str) -> Result<(), Status> {
    match tokio::fs::metadata(path).await {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(status::cwd_not_accessible(field, path, "it is not a directory")),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(status::cwd_not_found(field, path)),
        Err(error) => Err(status::cwd_not_accessible(field, path, &error.to_string())),
    }
}

/// Refuses a shell that is nowhere.
pub(super) async fn check_shell(field: &str, shell: &str, environment: &[EnvVar]) -> Result<(), Status> {
    if find_program(shell, environment).await.is_some() {
        Ok(())
    } else {
        Err(status::shell_not_found(field, shell))
    }
}

/// The shells that are there, by their paths; the first is the default one, if that is there.
pub(super) async fn shells(default: &str, environment: &[EnvVar]) -> Vec<String> {
    let mut shells = Vec::new();
    for shell in [default, "bash", "zsh", "sh"] {
        if let Some(found) =
            find_program(shell, environment).await.and_then(|found| found.into_os_string().into_string().ok())
            && !shells.contains(&found)
        {
            shells.push(found);
        }
    }
    shells
}

/// A path as it is, or a name in the `PATH` that children get.
async fn find_program(name: &str, environment: &[EnvVar]) -> Option<PathBuf> {
    if name.contains('/') {
        return is_file(Path::new(name)).await.then(|| PathBuf::from(name));
    }
    let path = environment.iter().find(|variable| variable.name == "PATH")?;
    let path = String::from_utf8_lossy(&path.value);
    for directory in path.split(':').filter(|directory| directory.starts_with('/')) {
        let candidate = Path::new(directory).join(name);
        if is_file(&candidate).await {
            return Some(candidate);
        }
    }
    None
}

async fn is_file(path: &Path) -> bool {
    tokio::fs::metadata(path).await.is_ok_and(|found| found.is_file())
}
