//! What callers do and what their programs are like, as data. Every step makes sense in every state: whom it is about is
//! picked among those there are, so that a failing life can be shortened anywhere.

mod draw;

pub(crate) use draw::{policy, profile, step};

/// Sessions of a life; what one does must not show in the other.
pub(crate) const SESSIONS: usize = 2;

/// One thing that is done.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A caller of this session asks for something.
    Call(usize, Ask),
    /// So many milliseconds pass.
    Advance(u64),
}

/// What a caller asks for.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Exec(Exec),
    /// `wait` absent acknowledges at the delivery, as a frame of a stream.
    Write {
        to: Whom,
        input: Input,
        wait: Option<u64>,
    },
    Wait {
        on: Whom,
        what: What,
        timeout: Option<u64>,
    },
    Signal {
        to: Whom,
        signal: Sign,
        tree: bool,
    },
    Terminate(Whom),
    Clean,
    Interrupt(Turn),
    Hold {
        lease: u8,
        ms: u64,
    },
    /// The client of a call that waits goes away.
    HangUp(u8),
    Decide {
        which: Which,
        answer: Answer,
    },
    /// `stale` names a revision that is not in force.
    Update {
        change: Change,
        stale: bool,
    },
}

pub(crate) type Turn = u8;

#[derive(Clone, Debug)]
pub(crate) struct Exec {
    pub(crate) turn: Turn,
    pub(crate) mode: Mode,
    pub(crate) terminal: bool,
    pub(crate) stdin: bool,
    pub(crate) escalated: bool,
    pub(crate) command: Command,
    pub(crate) program: Program,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    Interactive { wait: Option<u64> },
    Follow,
    OneShot { timeout: Option<u64> },
}

/// A command by what the rules say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Command {
    Plain,
    Allowed,
    Prompted,
    Forbidden,
    Dangerous,
}

/// What a started command does.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// How long its start takes.
    pub(crate) starts: u64,
    pub(crate) fails: bool,
    pub(crate) ignores_term: bool,
    pub(crate) descendant: Option<Descendant>,
    /// What its sandbox denies it: it ends with code 1 after so long, having said why.
    pub(crate) denied: Option<u64>,
    /// So many bytes, each so long after what was before.
    pub(crate) says: Vec<(u64, usize)>,
    pub(crate) then: Then,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Descendant {
    /// Absent is until it is killed.
    pub(crate) lives: Option<u64>,
    pub(crate) holds_outputs: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Then {
    Exits {
        after: u64,
        code: i32,
    },
    Lives,
    /// Copies its input until it ends, then exits with 0.
    Echoes,
}

/// A process, by a number that is taken among those there were.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whom {
    Own(u8),
    /// Of the other session.
    Foreign(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Poll,
    Bytes(usize),
    Nul,
    Interrupt,
    Eof,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Exit,
    Closed,
    Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    Int,
    Term,
    Kill,
    Winch,
}

/// A question, by a number that is taken among those there are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    Open(u8),
    /// Also a closed one.
    Any(u8),
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Approve,
    ApproveForSession,
    /// Without the words of a rule, which no question here proposes.
    AddRule,
    Decline,
    Abort,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Policy(Policy),
    Profile(Profile),
    Cwd(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Never,
    OnRequest,
    UnlessTrusted,
    Granular { rules: bool, sandbox: bool, stdin: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    Full,
    ReadOnly,
    /// Read-only, and a path may not even be read.
    DenyRead,
    External,
}

impl Program {
    /// Whether it cannot be started. One that its sandbox would deny something fails without it only.
    pub(crate) const fn start_fails(&self, sandboxed: bool) -> bool {
        self.fails && !(sandboxed && self.denied.is_some())
    }
}
