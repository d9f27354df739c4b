//! Files, lines and hashes: what a line is, and where the next one goes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// What the first line of all follows.
pub(super) const ORIGIN: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Where the end of the chain stands, so that lines cut off at the end are missed.
pub(super) const HEAD: &str = "head.json";

/// The hash of a line, without its end: lower-case hex.
pub(super) fn hash(line: &[u8]) -> String {
    Sha256::digest(line).iter().map(|byte| format!("{byte:02x}")).collect()
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
            files.push((number, file(directory, number)));
        }
    }
    files.sort();
    Ok(files)
}
