//! What a caller asks to run, checked and turned into what a spawner starts. Pure: the environment that is inherited
//! comes in as data.

use std::borrow::Cow;
use std::sync::Arc;

use crate::core::ids::{ProcessId, SessionId};
use crate::core::spawn::{SpawnPlan, Stdio};

/// One variable of an environment. Values are bytes, as Unix has them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnvVar {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its value.
    pub value: Cow<'static, [u8]>,
}

impl EnvVar {
    /// A variable with a text value.
    pub fn new(name: impl Into<Cow<'static, str>>, value: impl Into<Cow<'static, str>>) -> Self {
        let value = match value.into() {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        };
        Self { name: name.into(), value }
    }
}

impl std::fmt::Debug for EnvVar {
    /// Shows the name only: values hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}=…", self.name)
    }
}

/// Size of a terminal, in character cells; both at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
}

impl Default for TerminalSize {
    /// 24 x 80, what programs assume of a terminal that says nothing.
    fn default() -> Self {
        Self { rows: 24, cols: 80 }
    }
}

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A line for a shell.
    Shell {
        /// The line; never empty.
        cmd: String,
        /// The shell, by name or path; absent is the session's.
        shell: Option<String>,
        /// A login shell; absent is what the session allows.
        login: Option<bool>,
    },
    /// A program and its arguments, as they are; never empty.
    Argv(Vec<String>),
}

/// A command as a caller asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// What to run.
    pub program: Program,
    /// Working directory; relative ones start at the session's.
    pub cwd: Option<String>,
    /// Variables on top of the session's.
    pub env: Vec<EnvVar>,
    /// A terminal of this size; absent is pipes.
    pub terminal: Option<TerminalSize>,
    /// A stdin pipe; a terminal always can be written to.
    pub stdin: bool,
    /// A full terminal: `TERM=xterm-256color`, pagers and colours as the user has them.
    pub full_terminal: bool,
}

/// Which variables of the service's own environment a child inherits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherit {
    /// All of them.
    All,
    /// Those of [`CORE_VARIABLES`].
    Core,
    /// None.
    Nothing,
}

/// What `Inherit::Core` lets through.
pub const CORE_VARIABLES: [&str; 10] =
    ["PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "HOME", "LANG", "LC_ALL", "LOGNAME", "USER"];

/// Names that the default excludes match, case-blind.
pub const SECRET_PATTERNS: [&str; 3] = ["*KEY*", "*SECRET*", "*TOKEN*"];

/// How a session's children get their environment. Applied in the order of the fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvPolicy {
    /// What the service's own environment gives.
    pub inherit: Inherit,
    /// Drops names that look like secrets, see [`SECRET_PATTERNS`].
    pub default_excludes: bool,
    /// Drops names that match one of these patterns (`*` and `?`, case-blind).
    pub exclude: Vec<String>,
    /// Sets these.
    pub set: Vec<EnvVar>,
    /// Keeps only names that match one of these patterns; empty keeps all.
    pub include_only: Vec<String>,
}

impl Default for EnvPolicy {
    /// The core variables only: the service's secrets stay with the service.
    fn default() -> Self {
        Self {
            inherit: Inherit::Core,
            default_excludes: true,
            exclude: Vec::new(),
            set: Vec::new(),
            include_only: Vec::new(),
        }
    }
}

/// What a session gives every command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// Working directory, absolute.
    pub cwd: String,
    /// Shell for commands that name none, by name or path.
    pub shell: String,
    /// Whether `login=true` is allowed, and what an absent `login` means.
    pub allow_login: bool,
    /// Where the environment comes from.
    pub env: EnvPolicy,
    /// The service's own environment.
    pub inherited: Vec<EnvVar>,
}

/// Applied last, so that output is plain and no pager waits.
const OVERLAY: [(&str, &str); 10] = [
    ("NO_COLOR", "1"),
    ("TERM", "dumb"),
    ("LANG", "C.UTF-8"),
    ("LC_CTYPE", "C.UTF-8"),
    ("LC_ALL", "C.UTF-8"),
    ("COLORTERM", ""),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GH_PAGER", "cat"),
    ("UNIFIED_EXEC", "1"),
];

/// Applied last for a caller that asked for a full terminal.
const FULL_TERMINAL_OVERLAY: [(&str, &str); 2] = [("TERM", "xterm-256color"), ("UNIFIED_EXEC", "1")];

/// Variables that change what a command looks like and not what it does. Any other one that a caller sets, such as
/// `PATH`, `LD_PRELOAD` or `GIT_SSH_COMMAND`, may make a trusted name run something else.
const HARMLESS_VARIABLES: [&str; 12] = [
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "COLUMNS",
    "LINES",
    "LANG",
    "LANGUAGE",
    "TZ",
    "CI",
    "LC_*",
];

/// The environment that is this machine.
pub const LOCAL_ENVIRONMENT: &str = "local";

/// A child's session, in its environment.
pub const SESSION_VARIABLE: &str = "UNIFIED_EXEC_SESSION_ID";
/// A child's process id, in its environment.
pub const PROCESS_VARIABLE: &str = "UNIFIED_EXEC_PROCESS_ID";

/// A command that cannot be run as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct InvalidCommand {
    /// The field of the request, by its name on the wire.
    pub field: &'static str,
    /// What is wrong, and the way out.
    pub problem: String,
}

fn invalid(field: &'static str, problem: impl Into<String>) -> InvalidCommand {
    InvalidCommand { field, problem: problem.into() }
}

impl Command {
    /// Checks the command against the session's defaults. What passes here can be planned.
    pub fn check(&self, defaults: &Defaults) -> Result<(), InvalidCommand> {
        match &self.program {
            Program::Shell { cmd, shell, login } => {
                if cmd.is_empty() {
                    return Err(invalid("cmd", "is empty; give a shell line, or a program in `argv`"));
                }
                no_nul("cmd", cmd.as_bytes())?;
                if let Some(shell) = shell {
                    no_nul("shell", shell.as_bytes())?;
                    check_shell("shell", shell)?;
                }
                if *login == Some(true) && !defaults.allow_login {
                    return Err(invalid(
                        "login",
                        "login shells are not allowed in this session; leave it out",
                    ));
                }
            }
            Program::Argv(argv) => {
                if argv.first().is_none_or(String::is_empty) {
                    return Err(invalid("argv", "names no program; its first element is the program"));
                }
                for arg in argv {
                    no_nul("argv", arg.as_bytes())?;
                }
            }
        }
        if let Some(cwd) = &self.cwd {
            no_nul("cwd", cwd.as_bytes())?;
        }
        for var in &self.env {
            check_variable("env", var)?;
        }
        if let Some(size) = self.terminal
            && (size.rows == 0 || size.cols == 0)
        {
            return Err(invalid("terminal_size", "needs at least one row and one column"));
        }
        Ok(())
    }

    /// The program and arguments that a spawner starts.
    pub fn argv(&self, defaults: &Defaults) -> Vec<String> {
        match &self.program {
            Program::Argv(argv) => argv.clone(),
            Program::Shell { cmd, shell, login } => {
                let login = login.unwrap_or(defaults.allow_login);
                let shell = shell.as_ref().unwrap_or(&defaults.shell);
                vec![shell.clone(), if login { "-lc" } else { "-c" }.to_owned(), cmd.clone()]
            }
        }
    }

    /// The working directory, absolute.
    pub fn cwd(&self, defaults: &Defaults) -> String {
        match &self.cwd {
            None => defaults.cwd.clone(),
            Some(cwd) if cwd.is_empty() => defaults.cwd.clone(),
            Some(cwd) if cwd.starts_with('/') => cwd.clone(),
            Some(cwd) => format!("{}/{cwd}", defaults.cwd.trim_end_matches('/')),
        }
    }

    /// The variables, set for this command or for every one of its session, that may make another program of it than its
    /// words say. Those that the service itself has, with the same value, are none.
    pub fn influences(&self, defaults: &Defaults) -> Vec<String> {
        let harmless = |var: &&EnvVar| {
            HARMLESS_VARIABLES.iter().any(|pattern| glob(pattern, &var.name))
                || defaults.inherited.contains(var)
        };
        let set = defaults.env.set.iter().chain(&self.env).filter(|var| !harmless(var));
        let mut names: Vec<String> = set.map(|var| var.name.to_string()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Everything a spawner needs.
    pub fn plan(&self, defaults: &Defaults, session: &SessionId, process: ProcessId) -> SpawnPlan {
        SpawnPlan {
            argv: self.argv(defaults),
            cwd: self.cwd(defaults),
            env: Arc::new(self.environment(defaults, session, process)),
            stdio: match self.terminal {
                Some(size) => Stdio::Terminal(size),
                None => Stdio::Pipes { stdin: self.stdin },
            },
            sandbox: None,
            limits: crate::core::spawn::ResourceLimits::default(),
        }
    }

    /// Session's policy, then the caller's variables, then the ids, then the overlay. A caller's own setting of an
    /// overlay variable wins over the overlay: it was asked for by name.
    fn environment(&self, defaults: &Defaults, session: &SessionId, process: ProcessId) -> Vec<EnvVar> {
        let mut env = defaults.env.apply(&defaults.inherited);
        put(&mut env, EnvVar::new(SESSION_VARIABLE, session.as_str().to_owned()));
        put(&mut env, EnvVar::new(PROCESS_VARIABLE, process.to_string()));
        let overlay: &[(&'static str, &'static str)] =
            if self.full_terminal { &FULL_TERMINAL_OVERLAY } else { &OVERLAY };
        for (name, value) in overlay {
            put(&mut env, EnvVar::new(*name, *value));
        }
        for var in &self.env {
            put(&mut env, var.clone());
        }
        env
    }
}

impl EnvPolicy {
    /// What a child starts from.
    pub fn apply(&self, inherited: &[EnvVar]) -> Vec<EnvVar> {
        let excluded = |name: &str| {
            (self.default_excludes && SECRET_PATTERNS.iter().any(|pattern| glob(pattern, name)))
                || self.exclude.iter().any(|pattern| glob(pattern, name))
        };
        let mut env: Vec<EnvVar> = inherited
            .iter()
            .filter(|var| match self.inherit {
                Inherit::All => true,
                Inherit::Core => CORE_VARIABLES.contains(&&*var.name),
                Inherit::Nothing => false,
            })
            .filter(|var| !excluded(&var.name))
            .cloned()
            .collect();
        for var in &self.set {
            put(&mut env, var.clone());
        }
        if !self.include_only.is_empty() {
            env.retain(|var| self.include_only.iter().any(|pattern| glob(pattern, &var.name)));
        }
        env
    }

    /// Refuses variables that no environment can hold.
    pub fn check(&self) -> Result<(), InvalidCommand> {
        self.set.iter().try_for_each(|var| check_variable("env_policy.set", var))
    }
}

/// bash, zsh and sh (also as dash) take `-c` and `-lc` alike; what other programs would make of them is unknown.
pub fn check_shell(field: &'static str, shell: &str) -> Result<(), InvalidCommand> {
    let name = shell.rsplit('/').next().unwrap_or(shell);
    if ["bash", "zsh", "sh", "dash"].contains(&name) {
        Ok(())
    } else {
        Err(invalid(field, format!("{shell:?} is none of bash, zsh, sh; give its command line in `argv`")))
    }
}

fn no_nul(field: &'static str, bytes: &[u8]) -> Result<(), InvalidCommand> {
    match bytes.iter().position(|byte| *byte == 0) {
        Some(at) => Err(invalid(field, format!("has a null byte at {at}; the system takes none"))),
        None => Ok(()),
    }
}

fn check_variable(field: &'static str, var: &EnvVar) -> Result<(), InvalidCommand> {
    if var.name.is_empty() || var.name.contains('=') || var.name.contains('\0') {
        return Err(invalid(field, format!("{:?} is no name for a variable", var.name)));
    }
    match no_nul(field, &var.value) {
        Ok(()) => Ok(()),
        Err(_) => Err(invalid(field, format!("the value of {:?} has a null byte", var.name))),
    }
}

pub(crate) fn put(env: &mut Vec<EnvVar>, var: EnvVar) {
    match env.iter_mut().find(|existing| existing.name == var.name) {
        Some(existing) => existing.value = var.value,
        None => env.push(var),
    }
}

/// Matches `*` (any run) and `?` (any one character), case-blind, in time linear in the name for each star.
fn glob(pattern: &str, name: &str) -> bool {
    if pattern.is_ascii() && name.is_ascii() {
        return wildcard(pattern.as_bytes(), name.as_bytes(), [b'*', b'?'], u8::eq_ignore_ascii_case);
    }
    let [pattern, name] = [pattern, name].map(|text| text.to_lowercase().chars().collect::<Vec<_>>());
    wildcard(&pattern, &name, ['*', '?'], char::eq)
}

fn wildcard<T: Copy + PartialEq>(
    pattern: &[T],
    name: &[T],
    [run, one]: [T; 2],
    same: impl Fn(&T, &T) -> bool,
) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(here) = name.get(n) {
        match pattern.get(p) {
            Some(c) if *c == run => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == one || same(c, here) => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|c| *c == run)
}

#[cfg(test)]
mod tests;
