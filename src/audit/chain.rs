//! Files, lines and hashes: what a line is, and what the next one says of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// What the first line of all follows.
pub(super) const ORIGIN: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The hash of a line, without its end: lower-case hex.
pub(super) fn hash(line: &[u8]) -> String {
    Sha256::digest(line).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A line, without its end: a record (an object without its opening brace) in its place in the chain.
pub(super) fn line(sequence: u64, previous: &str, record: &str) -> String {
    format!(r#"{{"seq":{sequence},"prev":"{previous}",{record}"#)
}

/// What the chain needs to know of a line.
#[derive(Debug, Deserialize)]
pub(super) struct Link {
    /// Its number.
    pub(super) seq: u64,
    /// The hash of the line before.
    pub(super) prev: String,
    /// When it was recorded.
    pub(super) time: String,
    /// What it is about.
    pub(super) kind: String,
}

impl Link {
    /// Reads a line without its end; `None` if it is no record.
    pub(super) fn of(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}

/// The file of this number.
pub(super) fn file(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("audit-{number:08}.jsonl"))
}

/// The files that there are, in order, with their numbers.
pub(super) fn files(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("audit-")?.strip_suffix(".jsonl"));
        if let Some(number) = number.and_then(|digits| digits.parse().ok()) {
            files.push((number, directory.join(&name)));
        }
    }
    files.sort();
    Ok(files)
}
