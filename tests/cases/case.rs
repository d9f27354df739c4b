//! A case as it stands in the file.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// A case.
#[derive(Debug, Deserialize)]
pub(crate) struct Case {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) title: String,
    /// Shell lines that come before the service is asked for anything.
    #[serde(default)]
    pub(crate) setup: Vec<String>,
    pub(crate) steps: Vec<Step>,
    /// What must have come of each process, by its name in the steps.
    #[serde(default)]
    pub(crate) expect: BTreeMap<String, Expect>,
    #[serde(default)]
    pub(crate) service_expect: ServiceExpect,
    #[serde(default = "once")]
    pub(crate) repeat: u32,
    /// "any", "root" or "nonroot": as whom it can be played.
    #[serde(default)]
    pub(crate) user: String,
    /// "sandboxed" if it is about a sandbox and nothing else.
    #[serde(default)]
    pub(crate) room: String,
    /// Names in its directory that its sandbox does not let it read.
    #[serde(default)]
    pub(crate) deny_read: Vec<String>,
}

const fn once() -> u32 {
    1
}

impl Case {
    pub(crate) fn parse(line: &str) -> Self {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"))
    }
}

/// A step. The words are those of the reference player; see [`crate::play`] for what each means here.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Step {
    Exec(Exec),
    Send(Send),
    Eof {
        p: String,
    },
    Interrupt {
        p: String,
        #[serde(default)]
        group: bool,
        #[serde(default)]
        may_be_gone: bool,
    },
    Signal {
        p: String,
        sig: String,
        #[serde(default)]
        group: bool,
    },
    Hangup {
        p: String,
    },
    Clean {
        within_ms: Option<u64>,
    },
    ExpectText {
        p: String,
        text: String,
        within_ms: Option<u64>,
    },
    AbsentNow {
        p: String,
        text: String,
    },
    EmptyNow {
        p: String,
    },
    AssertRunning {
        p: String,
    },
    AssertState {
        p: String,
        #[serde(rename = "in")]
        states: String,
    },
    WaitExit(WaitExit),
    Sh {
        cmd: String,
        #[serde(default)]
        rc: i32,
        stdout: Option<String>,
    },
    NoProc {
        marker: String,
        within_ms: Option<u64>,
    },
    ProcAlive {
        marker: String,
        n: Option<usize>,
        within_ms: Option<u64>,
    },
    Sleep {
        ms: u64,
    },
    FreshProcList,
}

/// Start a program.
#[derive(Debug, Deserialize)]
pub(crate) struct Exec {
    pub(crate) p: String,
    #[serde(default)]
    pub(crate) tty: bool,
    #[serde(default)]
    pub(crate) cmd: String,
    pub(crate) argv: Option<Vec<String>>,
    /// "pipe" or "null".
    #[serde(default)]
    pub(crate) stdin: String,
    /// null takes a variable away.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, Option<String>>,
    pub(crate) env_big: Option<usize>,
    pub(crate) cmd_pad: Option<usize>,
    pub(crate) cwd: Option<String>,
    pub(crate) size: Option<(u32, u32)>,
}

impl Exec {
    /// Program and arguments.
    pub(crate) fn argv(&self) -> Vec<String> {
        if let Some(argv) = &self.argv {
            return argv.clone();
        }
        let mut cmd = self.cmd.clone();
        if let Some(length) = self.cmd_pad {
            let pad = length.saturating_sub(cmd.len() + 3);
            cmd = format!("{cmd} # {}", "p".repeat(pad));
        }
        vec!["/bin/bash".into(), "-c".into(), cmd]
    }
}

/// Write input.
#[derive(Debug, Deserialize)]
pub(crate) struct Send {
    pub(crate) p: String,
    #[serde(default)]
    data: String,
    hex: Option<String>,
    repeat: Option<Repeated>,
    pub(crate) within_ms: Option<u64>,
    #[serde(default)]
    pub(crate) may_block: bool,
    /// A word of the error that must come of it.
    pub(crate) expect_error: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Repeated {
    unit: String,
    count: usize,
    #[serde(default)]
    tail: String,
}

impl Send {
    /// The bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match (&self.hex, &self.repeat) {
            (Some(hex), _) => unhex(hex),
            (None, Some(repeat)) => (repeat.unit.repeat(repeat.count) + &repeat.tail).into_bytes(),
            (None, None) => self.data.clone().into_bytes(),
        }
    }
}

/// Wait for the end of a program.
#[derive(Debug, Deserialize)]
pub(crate) struct WaitExit {
    pub(crate) p: String,
    pub(crate) within_ms: Option<u64>,
    pub(crate) min_ms: Option<u64>,
    /// Whether its outputs must have ended `drain_ms` later.
    pub(crate) eof: Option<bool>,
    pub(crate) drain_ms: Option<u64>,
}

/// What must have come of a process.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    pub(crate) exit: Option<Codes>,
    #[serde(default)]
    pub(crate) contains: Vec<String>,
    #[serde(default)]
    pub(crate) absent: Vec<String>,
    pub(crate) equals: Option<String>,
    pub(crate) equals_hex: Option<String>,
    pub(crate) starts: Option<String>,
    pub(crate) ends: Option<String>,
    pub(crate) bytes: Option<usize>,
    pub(crate) min_bytes: Option<usize>,
    pub(crate) sha256: Option<String>,
    #[serde(default)]
    pub(crate) regex: Vec<String>,
    #[serde(default)]
    pub(crate) count: BTreeMap<String, usize>,
    #[serde(default)]
    pub(crate) ordered: Vec<String>,
    pub(crate) spawn_error: Option<String>,
}

/// One right exit code, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Codes {
    One(i32),
    Any(Vec<i32>),
}

impl Codes {
    pub(crate) fn allow(&self, code: i32) -> bool {
        match self {
            Self::One(one) => *one == code,
            Self::Any(any) => any.contains(&code),
        }
    }
}

/// What only a service can show.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServiceExpect {
    /// A boolean, or one for each of "sandboxed" and "unsandboxed".
    pub(crate) denied: Option<Value>,
    pub(crate) yield_ms: Option<u32>,
    pub(crate) max_return_ms: Option<u64>,
    pub(crate) retained_max: Option<u64>,
    pub(crate) total_bytes: Option<u64>,
    pub(crate) head_starts: Option<String>,
    pub(crate) tail_ends: Option<String>,
    pub(crate) tail_contains: Option<String>,
    /// Bytes left out, by process.
    #[serde(default)]
    pub(crate) omitted: BTreeMap<String, u64>,
    #[serde(default)]
    pub(crate) omitted_exact: bool,
    pub(crate) rss_growth_max: Option<u64>,
}

/// Bytes from hexadecimal digits.
pub(crate) fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap()).collect()
}
