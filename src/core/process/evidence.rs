//! Evidence that a sandbox refused something: a value, never a bare boolean.

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

impl Evidence {
    /// What `ended` shows of a denial; `None` is no sign of one.
    pub fn of(ended: &Ended<'_>) -> Option<Self> {
        match ended.status {
            ExitStatus::Signal { number, .. } if number == Signal::SYS.number() => Some(Self {
                confidence: Confidence::Certain,
                cause: Cause::Sigsys,
                path: None,
                excerpt: String::new(),
                early: ended.early,
            }),
            ExitStatus::Code(_) | ExitStatus::Signal { .. } => None,
        }
    }
}
