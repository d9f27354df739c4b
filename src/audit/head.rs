//! Where the chain begins and ends, told beside it: the chain alone does not show what was cut off at either end.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::chain::hash;

/// The file.
pub(super) const HEAD: &str = "head.json";
/// The file that becomes it, so that it is there whole or not at all.
const FRESH: &str = ".head.json";

/// Both ends of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Number of the first record that is kept; one more than `sequence` while there is none.
    pub(super) begins: u64,
    /// Number of the last record that was written; 0 before the first.
    pub(super) sequence: u64,
    /// Its hash.
    pub(super) hash: String,
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// There is no such file.
    Nothing,
    /// There is one, which nobody has written so.
    Damaged,
    /// This.
    Head(Head),
}

/// As it stands in the file, with a hash of itself: it must not be believed if any of it was changed.
#[derive(Deserialize, Serialize)]
struct Stored {
    begins: u64,
    seq: u64,
    hash: String,
    check: String,
}

impl Head {
    /// Writes it; with `durable` it is on the disk when this returns.
    pub(super) fn tell(&self, directory: &Path, durable: bool) -> io::Result<()> {
        let fresh = directory.join(FRESH);
        let mut file = OpenOptions::new().mode(0o600).create(true).truncate(true).write(true).open(&fresh)?;
        file.write_all(self.stored()?.as_bytes())?;
        if durable {
            file.sync_data()?;
        }
        fs::rename(fresh, directory.join(HEAD))
    }

    /// Reads what is told.
    pub(super) fn read(directory: &Path) -> io::Result<Told> {
        let bytes = match fs::read(directory.join(HEAD)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Told::Nothing),
            Err(error) => return Err(error),
        };
        let Ok(Stored { begins, seq, hash, .. }) = serde_json::from_slice(&bytes) else {
            return Ok(Told::Damaged);
        };
        let head = Self { begins, sequence: seq, hash };
        // Not even a space may be other than we write it.
        Ok(if head.stored()?.as_bytes() == bytes { Told::Head(head) } else { Told::Damaged })
    }

    fn stored(&self) -> io::Result<String> {
        let Self { begins, sequence, hash: last } = self;
        let check = hash(format!("{begins} {sequence} {last}").as_bytes());
        let stored = Stored { begins: *begins, seq: *sequence, hash: last.clone(), check };
        Ok(serde_json::to_string(&stored).map_err(io::Error::other)? + "\n")
    }
}
