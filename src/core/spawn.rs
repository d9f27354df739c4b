//! What a spawner is told, and why it may fail: data that crosses the seam between host and child.

use std::sync::Arc;
use std::time::Duration;

use crate::core::command::{EnvVar, TerminalSize, put};
use crate::core::limits::PROXY_PORT;
use crate::core::policy::Profile;

/// Everything a spawner needs to start one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnPlan {
    /// Program and arguments; the first is looked up in the child's `PATH` unless it contains a slash.
    pub argv: Vec<String>,
    /// Working directory, absolute.
    pub cwd: String,
    /// The child's whole environment.
    pub env: Arc<Vec<EnvVar>>,
    /// How the child's three descriptors are connected.
    pub stdio: Stdio,
    /// What the sandbox must enforce, every path absolute; `None` starts the child as it is.
    pub sandbox: Option<Profile>,
    /// What it may use.
    pub limits: ResourceLimits,
}

impl SpawnPlan {
    /// Sets the variables by which programs find the proxy, which is all of the network that they can reach.
    pub(crate) fn lead_to_proxy(&mut self) {
        let env = Arc::make_mut(&mut self.env);
        let http = format!("http://127.0.0.1:{PROXY_PORT}");
        let socks = format!("socks5h://127.0.0.1:{PROXY_PORT}");
        let variables = [("HTTP_PROXY", &http), ("HTTPS_PROXY", &http), ("ALL_PROXY", &socks)];
        for (name, value) in variables {
            for name in [name.to_owned(), name.to_lowercase()] {
                put(env, EnvVar::new(name, value.clone()));
            }
        }
    }
}

/// How a child's descriptors are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdio {
    /// A pseudo-terminal that is the child's controlling terminal.
    Terminal(TerminalSize),
    /// Pipes for stdout and stderr, and for stdin if `stdin`; otherwise stdin is at its end from the start.
    Pipes {
        /// Whether the child can be written to.
        stdin: bool,
    },
}

/// What really holds a child, as the spawner reports it. The plan's profile applies whole if there was one, else the
/// child would not have been started.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Enforced {
    /// By what the profile is enforced; empty without a profile.
    pub mechanisms: Vec<Mechanism>,
    /// Which resource limits are in force; each of the plan's.
    pub limits: Vec<EnforcedLimit>,
}

/// A part of the system that enforces a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mechanism {
    /// Namespaces of bubblewrap.
    Bubblewrap,
    /// A filter of system calls.
    Seccomp,
    /// The kernel's access rights on paths and ports.
    Landlock,
    /// The service's own proxy in front of the network.
    Proxy,
    /// A script that plays a sandbox, in tests.
    Script,
}

impl Mechanism {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Seccomp => "seccomp",
            Self::Landlock => "landlock",
            Self::Proxy => "proxy",
            Self::Script => "script",
        }
    }
}

/// Upper bounds on what a child and its descendants may use; absent ones bound nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ResourceLimits {
    /// Memory: in a cgroup of all together, else the address space of each.
    pub memory_bytes: Option<u64>,
    /// Processes and threads alive at once.
    pub pids_max: Option<u32>,
    /// Processor time, rounded up to seconds where the system counts so.
    pub cpu_time: Option<Duration>,
    /// Open descriptors of each process.
    pub open_files_max: Option<u32>,
    /// Size of each file that is written.
    pub file_size_bytes: Option<u64>,
}

impl ResourceLimits {
    /// The narrower of both, one by one.
    pub fn within(self, bound: &Self) -> Self {
        Self {
            memory_bytes: narrower(self.memory_bytes, bound.memory_bytes),
            pids_max: narrower(self.pids_max, bound.pids_max),
            cpu_time: narrower(self.cpu_time, bound.cpu_time),
            open_files_max: narrower(self.open_files_max, bound.open_files_max),
            file_size_bytes: narrower(self.file_size_bytes, bound.file_size_bytes),
        }
    }
}

fn narrower<T: Ord>(asked: Option<T>, bound: Option<T>) -> Option<T> {
    match (asked, bound) {
        (Some(asked), Some(bound)) => Some(asked.min(bound)),
        (asked, bound) => asked.or(bound),
    }
}

/// A resource limit in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnforcedLimit {
    /// Its name on the wire, such as `memory_bytes`.
    pub name: &'static str,
    /// Its value, in the unit of its name on the wire.
    pub value: u64,
    /// By what.
    pub by: LimitMechanism,
}

/// What enforces a resource limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitMechanism {
    /// A controller of cgroup v2: of all processes together.
    Cgroup,
    /// A limit of the process: of each process alone, or of the user.
    Rlimit,
}

/// Why a child could not be started. Nothing is left behind by any of these.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpawnError {
    /// No file of that name, or none in `PATH`.
    #[error("program {program:?} was not found")]
    ProgramMissing {
        /// As it was asked for.
        program: String,
    },
    /// The file exists and may not be executed, or is a directory.
    #[error("program {program:?} may not be executed")]
    ProgramDenied {
        /// As it was asked for.
        program: String,
    },
    /// The first line of the script names an interpreter that does not exist.
    #[error("interpreter {interpreter:?} of {program:?} was not found")]
    InterpreterMissing {
        /// The script.
        program: String,
        /// As its first line names it.
        interpreter: String,
    },
    /// The file is no program that this system can run.
    #[error("program {program:?} has a format that cannot be executed")]
    ProgramFormat {
        /// As it was asked for.
        program: String,
    },
    /// The working directory does not exist.
    #[error("working directory {path:?} does not exist")]
    CwdMissing {
        /// As it was asked for.
        path: String,
    },
    /// The working directory exists and may not be entered, or is no directory.
    #[error("working directory {path:?} cannot be entered: {reason}")]
    CwdDenied {
        /// As it was asked for.
        path: String,
        /// The system's words.
        reason: String,
    },
    /// Arguments and environment together, or one of them alone, are larger than the system takes.
    #[error(
        "arguments and environment of {program:?} are too large: {size_bytes} bytes in all, the largest string {largest_bytes} bytes; \
             the system takes {limit_bytes} bytes in all and 131071 bytes in one string"
    )]
    TooLarge {
        /// As it was asked for.
        program: String,
        /// All strings together.
        size_bytes: usize,
        /// The largest single string.
        largest_bytes: usize,
        /// What the system takes in all.
        limit_bytes: usize,
    },
    /// No descriptor, terminal, process or memory left; worth another try later.
    #[error("out of {resource}: {reason}")]
    Exhausted {
        /// `descriptors`, `terminals`, `processes` or `memory`.
        resource: &'static str,
        /// The system's words.
        reason: String,
    },
    /// The sandbox asked for cannot be enforced here.
    #[error("the sandbox cannot be enforced: {reason}")]
    SandboxUnavailable {
        /// What is missing, and the way out.
        reason: String,
    },
    /// A resource limit cannot be enforced here.
    #[error("the limit {limit} cannot be enforced: {reason}")]
    LimitUnenforceable {
        /// Its name on the wire.
        limit: &'static str,
        /// What is missing, and the way out.
        reason: String,
    },
    /// Any other failure of the system.
    #[error("{action} {path:?} failed: {reason}")]
    System {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: String,
        /// The system's words.
        reason: String,
    },
}

/// Resources that a child has used, as the kernel counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ResourceUsage {
    /// CPU time in the program.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Largest resident memory, in bytes.
    pub rss_max_bytes: u64,
}

/// A process of the operating system that outlived a kill, or its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descendant {
    /// Its id.
    pub pid: u32,
    /// Its name as the kernel has it.
    pub name: String,
}
