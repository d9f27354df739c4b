//! The end of the chain, and the file it is in. Everything here blocks.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde_json::{Map, Value};

use super::chain::{Link, ORIGIN, file, files, hash, line};
use super::head::{HEAD, Head, Told};
use super::log::{OpenError, Options};

/// Held by whoever writes.
const LOCK: &str = "lock";
/// Bytes that are written in one go, unless a single line is longer.
const PIECE_BYTES: usize = 1024 * 1024;

/// Writes lines.
#[derive(Debug)]
pub(super) struct Writer {
    options: Options,
    number: u64,
    file: File,
    /// Bytes of whole lines in it.
    length: u64,
    /// Something may stand after them that could not be taken away.
    soiled: bool,
    head: Head,
    _lock: File,
}

/// What a log in a directory ends with.
struct End {
    number: u64,
    file: File,
    /// Bytes of whole lines in it.
    whole: u64,
    /// What stands after the last whole line.
    torn: Vec<u8>,
    /// The last line of all, and the file it is in.
    last: Option<(Vec<u8>, PathBuf)>,
}

impl Writer {
    /// Goes on after the last whole line; answers with what was not as it should have been, if anything was not.
    pub(super) fn open(options: Options) -> Result<(Self, Option<Value>), OpenError> {
        let directory = options.directory.clone();
        let lock = lock(&directory)?;
        let end = End::find(&directory)?;
        let told = Head::read(&directory).map_err(failed_at(&directory.join(HEAD)))?;
        let (head, recovered) = end.resume(&directory, told)?;
        let mut writer = Self {
            options,
            number: end.number,
            file: end.file,
            length: end.whole,
            soiled: !end.torn.is_empty(),
            head,
            _lock: lock,
        };
        writer.clean().map_err(failed_at(&file(&directory, writer.number)))?;
        // Told anew only with what comes next if something is missing: until that is recorded, it must be missed.
        if recovered.is_none() {
            writer.tell_head().map_err(failed_at(&directory.join(HEAD)))?;
        }
        Ok((writer, recovered))
    }

    /// Writes records, and takes out what is written, on an error too.
    pub(super) fn append(&mut self, records: &mut VecDeque<String>) -> io::Result<()> {
        let written = self.append_pieces(records);
        let told = self.tell_head();
        written.and(told)
    }

    fn append_pieces(&mut self, records: &mut VecDeque<String>) -> io::Result<()> {
        self.clean()?;
        while let Some(next) = records.front() {
            let next = line(self.head.sequence + 1, &self.head.hash, next);
            if self.length > 0 && self.length + next.len() as u64 + 1 > self.options.rotate_bytes {
                self.rotate()?;
            }
            let (count, bytes, head) = self.piece(records);
            if let Err(error) = self.file.write_all(&bytes) {
                self.soiled = true;
                // Tried again before anything else is written.
                self.clean().ok();
                return Err(error);
            }
            self.length += bytes.len() as u64;
            self.head = head;
            records.drain(..count);
            if self.options.fsync {
                self.file.sync_data()?;
            }
        }
        Ok(())
    }

    /// The first records as lines, as many as this file and one write hold, at least one; with the head after them.
    fn piece(&self, records: &VecDeque<String>) -> (usize, Vec<u8>, Head) {
        let mut head = self.head.clone();
        let (mut count, mut bytes) = (0, Vec::new());
        for record in records {
            let next = line(head.sequence + 1, &head.hash, record);
            let longer = bytes.len() + next.len() + 1;
            let full = longer > PIECE_BYTES || self.length + longer as u64 > self.options.rotate_bytes;
            if count > 0 && full {
                break;
            }
            head.sequence += 1;
            head.hash = hash(next.as_bytes());
            bytes.extend_from_slice(next.as_bytes());
            bytes.push(b'\n');
            count += 1;
        }
        (count, bytes, head)
    }

    /// Takes away what stands after the last whole line.
    fn clean(&mut self) -> io::Result<()> {
        if self.soiled {
            self.file.set_len(self.length)?;
            self.soiled = false;
        }
        Ok(())
    }

    /// Goes on in another file. The oldest go after the head no longer counts on them.
    fn rotate(&mut self) -> io::Result<()> {
        let directory = &self.options.directory;
        let next = private().create(true).append(true).open(file(directory, self.number + 1))?;
        if self.options.fsync {
            File::open(directory)?.sync_all()?;
        }
        (self.file, self.number, self.length) = (next, self.number + 1, 0);
        let files = files(directory)?;
        let excess = files.len().saturating_sub(self.options.keep_files.max(1));
        if let Some((_, oldest)) = files.get(excess).filter(|_| excess > 0) {
            self.head.begins = first(oldest)?.unwrap_or(self.head.sequence + 1);
            self.tell_head()?;
        }
        for (_, path) in files.into_iter().take(excess) {
            if let Err(error) = fs::remove_file(&path) {
                // The next rotation tries again.
                tracing::warn!(%error, path = %path.display(), "an old file of the audit log stays");
            }
        }
        Ok(())
    }

    fn tell_head(&self) -> io::Result<()> {
        self.head.tell(&self.options.directory, self.options.fsync)
    }
}

/// Makes the directory, and makes sure that nobody else writes there.
fn lock(directory: &Path) -> Result<File, OpenError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(failed_at(directory))?;
    let facts = fs::metadata(directory).map_err(failed_at(directory))?;
    if facts.uid() != rustix::process::geteuid().as_raw() || facts.mode() & 0o022 != 0 {
        return Err(OpenError::Exposed { directory: directory.to_owned() });
    }
    let path = directory.join(LOCK);
    let lock = private().create(true).truncate(false).write(true).open(&path).map_err(failed_at(&path))?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(OpenError::InUse { directory: directory.to_owned() }),
        Err(error) => Err(failed_at(&path)(error.into())),
    }
}

impl End {
    fn find(directory: &Path) -> Result<Self, OpenError> {
        let mut before = files(directory).map_err(failed_at(directory))?;
        let (number, path) = before.pop().unwrap_or_else(|| (1, file(directory, 1)));
        let file = private().create(true).append(true).read(true).open(&path).map_err(failed_at(&path))?;
        let (whole, torn, last) = lines(&file).map_err(failed_at(&path))?;
        let mut last = last.map(|line| (line, path));
        // A server may have ended between making a file and writing to it.
        while let (None, Some((_, path))) = (&last, before.pop()) {
            let (_, _, line) = File::open(&path).and_then(|file| lines(&file)).map_err(failed_at(&path))?;
            last = line.map(|line| (line, path));
        }
        Ok(Self { number, file, whole, torn, last })
    }

    /// Where the chain goes on, and what is to be told of how it was found.
    fn resume(&self, directory: &Path, told: Told) -> Result<(Head, Option<Value>), OpenError> {
        let mut found = Map::new();
        if !self.torn.is_empty() {
            found.insert("torn_bytes".to_owned(), self.torn.len().into());
            found.insert("torn_sha256".to_owned(), hash(&self.torn).into());
        }
        let end = self.last.as_ref().map(|(line, path)| at_line(line, path)).transpose()?;
        let told = match told {
            Told::Head(head) => Some(head),
            Told::Nothing if end.is_none() => None,
            Told::Nothing | Told::Damaged => {
                let how = if told == Told::Nothing { "missing" } else { "damaged" };
                found.insert("head".to_owned(), how.into());
                None
            }
        };
        let head = match (end, told) {
            (None, None) => Head { begins: 1, sequence: 0, hash: ORIGIN.to_owned() },
            (None, Some(told)) => {
                let missing = (told.sequence + 1).saturating_sub(told.begins);
                if missing > 0 {
                    found.insert("missing_records".to_owned(), missing.into());
                }
                Head { begins: told.sequence + 1, ..told }
            }
            (Some((sequence, hash)), None) => {
                let begins = oldest(directory)?.unwrap_or(sequence);
                Head { begins, sequence, hash }
            }
            (Some((sequence, hash)), Some(told)) => {
                if sequence == told.sequence && hash != told.hash {
                    let file = self.last.as_ref().map_or_else(PathBuf::new, |(_, path)| path.clone());
                    return Err(OpenError::Damaged { file, what: "its last record was changed" });
                }
                if sequence < told.sequence {
                    found.insert("missing_records".to_owned(), (told.sequence - sequence).into());
                }
                Head { begins: told.begins, sequence, hash }
            }
        };
        Ok((head, (!found.is_empty()).then(|| found.into())))
    }
}

fn at_line(line: &[u8], path: &Path) -> Result<(u64, String), OpenError> {
    match Link::of(line) {
        Some(link) => Ok((link.seq, hash(line))),
        None => Err(OpenError::Damaged { file: path.to_owned(), what: "its last line is no record" }),
    }
}

/// The number of the first record of all that are there.
fn oldest(directory: &Path) -> Result<Option<u64>, OpenError> {
    for (_, path) in files(directory).map_err(failed_at(directory))? {
        if let Some(sequence) = first(&path).map_err(failed_at(&path))? {
            return Ok(Some(sequence));
        }
    }
    Ok(None)
}

/// The number of the first record in a file.
fn first(path: &Path) -> io::Result<Option<u64>> {
    let mut line = Vec::new();
    BufReader::new(File::open(path)?).read_until(b'\n', &mut line)?;
    Ok(Link::of(&line).map(|link| link.seq))
}

/// Bytes of whole lines, what stands after them, and the last whole line.
fn lines(file: &File) -> io::Result<(u64, Vec<u8>, Option<Vec<u8>>)> {
    let mut reader = BufReader::new(file);
    let (mut whole, mut last) = (0, None);
    loop {
        let mut line = Vec::new();
        let length = reader.read_until(b'\n', &mut line)? as u64;
        if line.last() != Some(&b'\n') {
            return Ok((whole, line, last));
        }
        line.pop();
        whole += length;
        last = Some(line);
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

fn failed_at(path: &Path) -> impl FnOnce(io::Error) -> OpenError + use<> {
    let path = path.to_owned();
    move |source| OpenError::System { path, source }
}
