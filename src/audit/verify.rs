//! Checks a log that is there: every line follows the one before it, and both ends are where they were told to be.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::iter::Peekable;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::chain::{Link, ORIGIN, files, hash};
use super::head::{HEAD, Head, Told};

/// A server that writes beside us moves the ends on, and takes files away; this often it is looked again.
const TRIES: usize = 20;

/// What a whole log holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records.
    pub records: u64,
    /// Files.
    pub files: usize,
    /// Time of the first record that is kept.
    pub first: Option<String>,
    /// Time of the last record.
    pub last: Option<String>,
    /// Number of the last record; 0 if there is none.
    pub sequence: u64,
    /// Its hash, which stands for all before it.
    pub hash: String,
    /// Records that the server says it could not write.
    pub lost: u64,
    /// Bytes at the end of a record that is being written, or that a crash has cut short.
    pub unfinished: u64,
}

/// How a log is not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A record is another one.
    Edited,
    /// Records are not there.
    Missing,
    /// Records stand in another order.
    Reordered,
    /// The end is not there.
    Truncated,
}

impl Damage {
    /// In one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Edited => "edited",
            Self::Missing => "missing",
            Self::Reordered => "reordered",
            Self::Truncated => "truncated",
        }
    }
}

/// Why a log does not count as whole.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// It is not what was written.
    #[error("{}:{line}: {}: {what}", file.display(), damage.as_str())]
    Break {
        /// Which file.
        file: PathBuf,
        /// Which line, from 1; the one that would follow the last, where the end is missing.
        line: u64,
        /// How.
        damage: Damage,
        /// The same in words.
        what: String,
    },
    /// There is none.
    #[error("there is no audit log in {}", directory.display())]
    Nothing {
        /// Where.
        directory: PathBuf,
    },
    /// The system would not let it be read.
    #[error("{}: {source}", path.display())]
    System {
        /// What.
        path: PathBuf,
        /// Its words.
        source: io::Error,
    },
}

/// Checks the log in a directory. Blocks for as long as reading all of it takes; a server may write meanwhile.
pub fn verify(directory: &Path) -> Result<Report, Broken> {
    let mut head = read_head(directory)?;
    for _ in 1..TRIES {
        let before = head;
        let checked = check(directory, &before);
        head = read_head(directory)?;
        let moved_on = match &checked {
            Ok(_) => false,
            Err(Broken::System { source, .. }) if source.kind() == io::ErrorKind::NotFound => true,
            Err(_) => head != before,
        };
        if !moved_on {
            return checked;
        }
    }
    check(directory, &head)
}

fn read_head(directory: &Path) -> Result<Told, Broken> {
    Head::read(directory).map_err(failed_at(&directory.join(HEAD)))
}

fn check(directory: &Path, told: &Told) -> Result<Report, Broken> {
    let files: Vec<PathBuf> =
        files(directory).map_err(failed_at(directory))?.into_iter().map(|(_, path)| path).collect();
    let at_head = |damage, what: &str| {
        Err(Broken::Break { file: directory.join(HEAD), line: 1, damage, what: what.to_owned() })
    };
    let head = match told {
        Told::Head(head) => head,
        Told::Damaged => return at_head(Damage::Edited, "it is not as the server writes it"),
        Told::Nothing if files.is_empty() => {
            return Err(Broken::Nothing { directory: directory.to_owned() });
        }
        Told::Nothing => {
            return at_head(Damage::Missing, "without it nobody knows what was cut off at the end");
        }
    };
    let mut check = Check::new(head, files.len());
    let mut lines = Lines::new(&files).peekable();
    while let Some(line) = lines.next() {
        let line = line?;
        let whole = line.whole;
        if let Err((place, damage, what)) = check.line(line, &mut lines) {
            return Err(Broken::Break { file: place.0, line: place.1, damage, what });
        }
        if !whole {
            break;
        }
    }
    check.end(directory, &files)
}

/// A file and a line in it, from 1.
type Place = (PathBuf, u64);
type Found = (Place, Damage, String);

/// A line without its end.
struct Line {
    place: Place,
    bytes: Vec<u8>,
    /// Whether it has one.
    whole: bool,
}

/// The lines of all files.
struct Lines<'a> {
    rest: std::slice::Iter<'a, PathBuf>,
    open: Option<(BufReader<File>, Place)>,
}

impl<'a> Lines<'a> {
    fn new(files: &'a [PathBuf]) -> Self {
        Self { rest: files.iter(), open: None }
    }

    fn read(&mut self) -> Result<Option<Line>, Broken> {
        loop {
            if let Some((reader, place)) = &mut self.open {
                let mut bytes = Vec::new();
                if reader.read_until(b'\n', &mut bytes).map_err(failed_at(&place.0))? > 0 {
                    place.1 += 1;
                    let whole = bytes.pop_if(|last| *last == b'\n').is_some();
                    return Ok(Some(Line { place: place.clone(), bytes, whole }));
                }
            }
            let Some(path) = self.rest.next() else { return Ok(None) };
            let file = File::open(path).map_err(failed_at(path))?;
            self.open = Some((BufReader::new(file), (path.clone(), 0)));
        }
    }
}

impl Iterator for Lines<'_> {
    type Item = Result<Line, Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// How far the chain has been followed.
struct Check<'a> {
    head: &'a Head,
    report: Report,
    /// Where the last record stands.
    last: Option<Place>,
}

impl<'a> Check<'a> {
    fn new(head: &'a Head, files: usize) -> Self {
        let report = Report { files, hash: ORIGIN.to_owned(), ..Report::default() };
        Self { head, report, last: None }
    }

    fn line(&mut self, line: Line, rest: &mut Peekable<Lines<'_>>) -> Result<(), Found> {
        let Line { place, bytes, whole } = line;
        if !whole {
            if self.report.sequence < self.head.sequence {
                return Err((place, Damage::Truncated, "the line has no end".to_owned()));
            }
            self.report.unfinished = bytes.len() as u64;
            return Ok(());
        }
        let Some(link) = Link::of(&bytes) else {
            return Err((place, Damage::Edited, "it is no record".to_owned()));
        };
        let own = hash(&bytes);
        match &self.last {
            None => self.begins(&link, &place)?,
            Some(before) if link.prev != self.report.hash => {
                return Err(self.broken(&link, &own, (before.clone(), place), rest));
            }
            Some(_) if link.seq != self.report.sequence + 1 => {
                let what = format!("record {} stands where {} was", link.seq, self.report.sequence + 1);
                return Err((place, Damage::Edited, what));
            }
            Some(_) => {}
        }
        if link.seq == self.head.sequence && own != self.head.hash {
            return Err((place, Damage::Edited, format!("record {} was changed", link.seq)));
        }
        self.says(&link, &bytes, &place)?;
        self.report.records += 1;
        self.report.first.get_or_insert_with(|| link.time.clone());
        self.report.last = Some(link.time);
        (self.report.sequence, self.report.hash) = (link.seq, own);
        self.last = Some(place);
        Ok(())
    }

    /// The first record: files that were rotated away are not missed, others are.
    fn begins(&self, link: &Link, place: &Place) -> Result<(), Found> {
        let Head { begins, .. } = *self.head;
        if link.seq > begins {
            let what = format!("records {begins} to {} were there before it", link.seq - 1);
            return Err((place.clone(), Damage::Missing, what));
        }
        if link.seq == 0 || (link.seq == 1) != (link.prev == ORIGIN) {
            return Err((place.clone(), Damage::Edited, "it does not begin the chain".to_owned()));
        }
        Ok(())
    }

    /// Why this record does not follow the one before it.
    fn broken(
        &self,
        link: &Link,
        own: &str,
        (before, place): (Place, Place),
        rest: &mut Peekable<Lines<'_>>,
    ) -> Found {
        let expected = self.report.sequence + 1;
        if link.seq < expected {
            return (place, Damage::Reordered, format!("record {} stands after {}", link.seq, expected - 1));
        }
        if link.seq > expected {
            let stands_later = rest
                .map_while(Result::ok)
                .any(|line| Link::of(&line.bytes).is_some_and(|later| later.seq == expected));
            return if stands_later {
                let what = format!("record {} stands before {expected}", link.seq);
                (place, Damage::Reordered, what)
            } else {
                let what = format!("records {expected} to {} were there before it", link.seq - 1);
                (place, Damage::Missing, what)
            };
        }
        // What follows tells which of both is not as it was written.
        let followed = match rest.peek() {
            Some(Ok(next)) => Link::of(&next.bytes).map(|next| next.prev),
            _ => (link.seq == self.head.sequence).then(|| self.head.hash.clone()),
        };
        if followed.is_none_or(|hash| hash == own) {
            (before, Damage::Edited, format!("record {} was changed", expected - 1))
        } else {
            (place, Damage::Edited, format!("record {expected} was changed"))
        }
    }

    /// What the server itself says of what is not there.
    fn says(&mut self, link: &Link, bytes: &[u8], place: &Place) -> Result<(), Found> {
        if link.kind != "gap" && link.kind != "recovered" {
            return Ok(());
        }
        let record: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let facts = &record["facts"];
        self.report.lost += facts["lost_records"].as_u64().unwrap_or(0);
        if let Some(missing) = facts["missing_records"].as_u64() {
            let what = format!("{missing} records before it were gone when the server started");
            return Err((place.clone(), Damage::Truncated, what));
        }
        if let Some(how) = facts["head"].as_str() {
            let what = format!("{HEAD} was {how} when the server started: records before it may be missing");
            return Err((place.clone(), Damage::Truncated, what));
        }
        Ok(())
    }

    fn end(mut self, directory: &Path, files: &[PathBuf]) -> Result<Report, Broken> {
        let Head { begins, sequence: written, .. } = *self.head;
        if self.last.is_none() && begins > written {
            // Nothing was written since the oldest file went.
            (self.report.sequence, self.report.hash) = (written, self.head.hash.clone());
        }
        if self.report.sequence >= written {
            return Ok(self.report);
        }
        let (file, line) = match (self.last, files.last()) {
            (Some(place), _) => place,
            (None, Some(file)) => (file.clone(), 0),
            (None, None) => (directory.join(HEAD), 0),
        };
        let what = match self.report.sequence {
            0 => format!("record {written} and all before it are gone"),
            ends => format!("the log ends at record {ends}, and {written} were written"),
        };
        Err(Broken::Break { file, line: line + 1, damage: Damage::Truncated, what })
    }
}

fn failed_at(path: &Path) -> impl FnOnce(io::Error) -> Broken + use<> {
    let path = path.to_owned();
    move |source| Broken::System { path, source }
}
