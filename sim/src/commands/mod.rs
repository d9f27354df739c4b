//! One file a command. Each prints to `out` and answers whether all was well.

pub(crate) mod bench;
pub(crate) mod explain;
pub(crate) mod gallery;
pub(crate) mod meta;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod scriptchild;
pub(crate) mod shrink;
pub(crate) mod swarm;
pub(crate) mod timeline;

use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use sim::{LoadError, Scenario, generate};

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

/// A scenario by its file, or the random one of a seed.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    File(PathBuf),
    Seed(u64),
}

impl FromStr for Source {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.parse().map_or_else(|_| Self::File(text.into()), Self::Seed))
    }
}

impl Source {
    pub(crate) fn scenario(&self) -> Result<Scenario, LoadError> {
        match self {
            Self::File(file) => Scenario::load(file),
            Self::Seed(seed) => Ok(generate(*seed)),
        }
    }
}

/// Real time, which says how fast the simulator is and nothing of what it plays.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "speed and budgets are real time")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }
}

/// A length of time: 500ms, 40s, 10m, 2h.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    match number.parse::<u64>().ok().and_then(|number| number.checked_mul(millis)) {
        Some(length) if millis > 0 => Ok(Duration::from_millis(length)),
        _ => Err(format!("{text:?} is no length of time, such as 500ms, 40s, 10m or 2h")),
    }
}
