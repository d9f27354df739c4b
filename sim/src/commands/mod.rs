//! One file a command. Each prints to `out` and answers whether all was well.

pub(crate) mod bench;
pub(crate) mod cast;
pub(crate) mod conform;
pub(crate) mod explain;
pub(crate) mod gallery;
pub(crate) mod import;
mod junit;
pub(crate) mod lint;
pub(crate) mod meta;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod scriptchild;
pub(crate) mod shrink;
mod source;
pub(crate) mod swarm;
pub(crate) mod timeline;
mod watch;

use std::io;
use std::path::{Path, PathBuf};

/// Why a command could not be carried out; that a scenario fails is none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Nobody takes what is printed.
    #[error("cannot print: {0}")]
    Output(#[from] io::Error),
    /// A file or folder that was named cannot be read or written.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// A script cannot be played by a real process.
    #[error("scriptchild: {0}")]
    Child(#[from] sim::scriptchild::ScriptError),
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(String),
}

/// Every scenario that is meant: files as they are named, and all `*.toml` below folders, by name.
pub(crate) fn scenario_files(named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in named {
        if path.is_dir() {
            below(path, &mut files)?;
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn below(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let unreadable = |source| Failure::File { path: folder.to_owned(), source };
    let entries = std::fs::read_dir(folder).map_err(unreadable)?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().map_err(unreadable)?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            below(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    Ok(())
}

/// The name of a scenario.
fn stem(file: &Path) -> &str {
    file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
}
