//! Checks a log that is there: every line follows the one before it, and the last one is the last.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::chain::{ORIGIN, files, hash};
use super::log::head;

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
}

/// Where a log is not what was written.
#[derive(Debug, thiserror::Error)]
pub enum Break {
    /// A line is not what followed, or is not there.
    #[error("{}:{line}: {what}", file.display())]
    Line {
        /// Which file.
        file: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// Lines at the end are missing.
    #[error("the log ends at record {ends}, and {written} were written: the end was cut off")]
    CutOff {
        /// The last record that is there.
        ends: u64,
        /// The last record that was written.
        written: u64,
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

/// Checks the log in a directory. Blocks for as long as reading all of it takes. Files that were rotated away are not
/// missed: the chain begins where the oldest file does.
pub fn verify(directory: &Path) -> Result<Report, Break> {
    let system = |path: &Path| {
        let path = path.to_owned();
        move |source| Break::System { path, source }
    };
    let mut report = Report::default();
    let mut chain: Option<(u64, String)> = None;
    for (_, path) in files(directory).map_err(system(directory))? {
        report.files += 1;
        let mut reader = BufReader::new(File::open(&path).map_err(system(&path))?);
        for number in 1.. {
            let mut line = Vec::new();
            if reader.read_until(b'\n', &mut line).map_err(system(&path))? == 0 {
                break;
            }
            let wrong = |what: &str| Break::Line { file: path.clone(), line: number, what: what.to_owned() };
            if line.pop() != Some(b'\n') {
                return Err(wrong("the line has no end"));
            }
            let record: Value = serde_json::from_slice(&line).map_err(|_| wrong("it is no record"))?;
            let (Some(sequence), Some(before)) = (record["seq"].as_u64(), record["prev"].as_str()) else {
                return Err(wrong("it is no record"));
            };
            match &chain {
                None if sequence == 1 && before != ORIGIN => {
                    return Err(wrong("it follows something that is not there"));
                }
                None => {}
                Some((last, _)) if sequence != last + 1 => {
                    return Err(wrong(&format!("record {sequence} follows record {last}")));
                }
                Some((_, expected)) if before != expected => {
                    return Err(wrong("the record before it was changed"));
                }
                Some(_) => {}
            }
            chain = Some((sequence, hash(&line)));
            report.records += 1;
            let time = record["time"].as_str().map(str::to_owned);
            report.first = report.first.or_else(|| time.clone());
            report.last = time;
        }
    }
    match (chain, head(directory)) {
        (_, None) => Ok(report),
        (chain, Some((written, expected))) => {
            let (ends, last) = chain.unwrap_or_else(|| (0, ORIGIN.to_owned()));
            if ends < written {
                Err(Break::CutOff { ends, written })
            } else if ends == written && last != expected {
                let path = files(directory)
                    .map_err(system(directory))?
                    .pop()
                    .map_or_else(PathBuf::new, |(_, path)| path);
                Err(Break::Line { file: path, line: 0, what: "the last record was changed".to_owned() })
            } else {
                Ok(report)
            }
        }
    }
}
