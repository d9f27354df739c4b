//! Evidence that a sandbox refused something: a value, never a bare boolean.
//!
//! It is read from how an attempt ended and from what it printed (`docs/evidence.md`). Whoever prints can forge, so text
//! never makes it certain. The session asks; that an end was the service's own doing, and what follows from evidence,
//! is not known here.

mod hosts;
mod judge;
mod line;
mod operation;
mod paths;
mod words;

use judge::Verdict;

use crate::core::policy::Profile;
use crate::core::process::ExitStatus;
use crate::core::signal::Signal;

/// How sure it is that the sandbox, and not something else, made an attempt fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// An errno word, and nothing to check it against.
    Likely,
    /// An errno word about a path that the profile forbids.
    Checked,
    /// The wait status or the sandbox itself says so.
    Certain,
}

/// What points to a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// This word of an error number in the output, in lower case.
    Errno(&'static str),
    /// The wait status: a system call that the filter kills for.
    Sigsys,
    /// The sandbox itself reported a refusal.
    Adapter,
    /// Exit code 159, 128 + SIGSYS, which a shell reports and anybody can forge.
    Code,
}

/// Why an attempt counts as denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// How sure.
    pub confidence: Confidence,
    /// What points to it.
    pub cause: Cause,
    /// The path or host that it is about, if one was found.
    pub path: Option<String>,
    /// The words it was read from.
    pub excerpt: String,
    /// Whether the attempt ended inside the early window.
    pub early: bool,
}

/// An attempt that ended by itself under a sandbox: everything that evidence is read from.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// What the kernel says.
    pub status: ExitStatus,
    /// First and last bytes of its output, as far as they are kept.
    pub output: &'a [u8],
    /// What held it.
    pub profile: &'a Profile,
    /// Where it was started, absolute.
    pub cwd: &'a str,
    /// Whether it ended inside the early window.
    pub early: bool,
}

/// Exit code of a shell whose child died of SIGSYS.
const SIGSYS_CODE: i32 = 128 + Signal::SYS.number();
/// What a shell prints of such a child, in lower case.
const SIGSYS_TEXT: &str = "bad system call";
/// Lines before an errno word in which a chain of causes may have named its path.
const EARLIER_LINES: usize = 4;
/// Lines for which a path that is allowed explains the same word without a path: a summary, a second report.
const EXPLAINED_LINES: usize = 16;

/// Lines with an errno word that are held against the profile: enough for a search that is refused everywhere, few enough
/// for a child that prints nothing else to cost nobody anything.
const JUDGED_LINES_MAX: usize = 1_024;

impl Evidence {
    /// What `ended` shows of a denial; `None` is no sign of one. Time and memory grow with the output's length alone.
    pub fn of(ended: &Ended<'_>) -> Option<Self> {
        match ended.status {
            ExitStatus::Signal { number, .. } if number == Signal::SYS.number() => {
                Some(Self::new(Confidence::Certain, Cause::Sigsys, None, String::new(), ended))
            }
            ExitStatus::Code(0) | ExitStatus::Signal { .. } => None,
            ExitStatus::Code(code) => {
                Self::read(ended).or_else(|| (code == SIGSYS_CODE).then(|| Self::of_code(ended)))
            }
        }
    }

    /// The strongest line; of equals the first.
    fn read(ended: &Ended<'_>) -> Option<Self> {
        let mut likely = None;
        let mut judged = 0;
        let mut earlier: Vec<String> = Vec::new();
        let mut explained: Vec<(&'static str, usize)> = Vec::new();
        for (at, line) in line::lines(ended.output).enumerate() {
            if let Some((word, found, verdict)) = judge::judge(&line, &earlier, ended) {
                judged += 1;
                if judged > JUDGED_LINES_MAX {
                    break;
                }
                let evidence = |confidence, path| {
                    let excerpt = line::excerpt(&line, found.end);
                    Self::new(confidence, Cause::Errno(word.says), path, excerpt, ended)
                };
                let explains =
                    |(says, from): &(&str, usize)| *says == word.says && at - from <= EXPLAINED_LINES;
                match verdict {
                    Verdict::Forbidden(path) => return Some(evidence(Confidence::Checked, Some(path))),
                    Verdict::Likely(path) => {
                        likely.get_or_insert_with(|| evidence(Confidence::Likely, Some(path)));
                    }
                    Verdict::Unnamed if !explained.iter().any(explains) => {
                        likely.get_or_insert_with(|| evidence(Confidence::Likely, None));
                    }
                    Verdict::Allowed => {
                        explained.retain(|(says, _)| *says != word.says);
                        explained.push((word.says, at));
                    }
                    Verdict::Unnamed | Verdict::Nothing => {}
                }
            }
            if earlier.len() == EARLIER_LINES {
                earlier.remove(0);
            }
            earlier.push(line);
        }
        likely
    }

    fn of_code(ended: &Ended<'_>) -> Self {
        let line = line::lines(ended.output).find(|line| line.to_ascii_lowercase().contains(SIGSYS_TEXT));
        let excerpt = line.map_or_else(String::new, |line| line::excerpt(&line, 0));
        Self::new(Confidence::Likely, Cause::Code, None, excerpt, ended)
    }

    fn new(
        confidence: Confidence,
        cause: Cause,
        path: Option<String>,
        excerpt: String,
        ended: &Ended<'_>,
    ) -> Self {
        Self { confidence, cause, path, excerpt, early: ended.early }
    }
}

#[cfg(test)]
mod tests;
