//! A question, and where it stands.

use bytes::Bytes;

use crate::core::ids::{ApprovalId, ProcessId, RequestId, TurnId};
use crate::core::policy::{Additional, Profile};
use crate::core::process::Evidence;
use crate::core::time::Instant;

/// What a command asks for in relation to its session's profile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Permissions {
    /// The profile as it is.
    #[default]
    Default,
    /// No sandbox.
    Escalated,
    /// The profile and more.
    Additional(Additional),
}

/// What a question is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// May this command run?
    Command,
    /// The sandbox denied it: may it run once more without?
    Retry {
        /// What points to the denial.
        evidence: Evidence,
    },
    /// May this input go to the process?
    Input {
        /// All of it.
        input: Bytes,
        /// Whether the input ends after it.
        eof: bool,
    },
    /// May the process connect there?
    Connection {
        /// As the process asked for it.
        host: String,
        /// The port.
        port: u16,
    },
}

/// A question: all that is to be judged. It never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its id.
    pub id: ApprovalId,
    /// The process it is about, started or not.
    pub process: ProcessId,
    /// The turn of the call that led to it.
    pub turn: TurnId,
    /// The request of that call.
    pub request: Option<RequestId>,
    /// What it is about.
    pub subject: Subject,
    /// Program and arguments, as they would be executed or were.
    pub argv: Vec<String>,
    /// Where, absolute.
    pub cwd: String,
    /// Name of the environment.
    pub environment: String,
    /// Whether it has a terminal.
    pub tty: bool,
    /// What is asked for.
    pub permissions: Permissions,
    /// The profile that would apply (command), denied (retry), or is frozen (input, connection).
    pub profile: Profile,
    /// What the agent says in favour; may be empty.
    pub justification: String,
    /// Why it is asked, in the service's words.
    pub reason: String,
    /// The rule that leads to it.
    pub rule: Option<String>,
    /// The words of a rule that the agent proposes; may be empty.
    pub proposed_rule: Vec<String>,
    /// Whether it is a review that policy alone would not need.
    pub strict: bool,
    /// The policy it was asked under.
    pub policy_revision: u64,
    /// The answers it allows.
    pub allowed: Vec<Verdict>,
    /// When it was asked.
    pub asked_at: Instant,
    /// When it expires; `None` is never.
    pub expires_at: Option<Instant>,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Yes, this once.
    Approve,
    /// Yes, and the same for the rest of the session.
    ApproveForSession,
    /// Yes, and a rule for the like.
    ApproveAndAddRule,
    /// No; the agent goes on.
    Decline,
    /// No, and the turn is interrupted.
    AbortTurn,
}

impl Verdict {
    /// Whether it says yes.
    pub const fn approves(self) -> bool {
        matches!(self, Self::Approve | Self::ApproveForSession | Self::ApproveAndAddRule)
    }
}

/// An answer that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What it says.
    pub verdict: Verdict,
    /// Words to the agent; may be empty.
    pub text: String,
    /// The words of the rule that was added; empty for none.
    pub rule: Vec<String>,
    /// Who decided: a principal, or `automatic`.
    pub by: String,
    /// When.
    pub at: Instant,
}

/// Where a question stands. The first thing that closes it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits for an answer.
    Open,
    /// Somebody answered.
    Decided(Decision),
    /// The automatic reviewer failed, which counts as no.
    ReviewFailed {
        /// How.
        cause: String,
        /// When.
        at: Instant,
    },
    /// Nobody answered in time.
    Expired {
        /// When.
        at: Instant,
    },
    /// It was taken back: an interrupt, a clean, a caller that went away, or its subject changed.
    Withdrawn {
        /// When.
        at: Instant,
    },
}

/// A question and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// The question.
    pub question: Question,
    /// Where it stands.
    pub state: State,
}

/// What an automatic reviewer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Review {
    /// Yes, this once.
    Allow {
        /// Why; may be empty.
        text: String,
    },
    /// No.
    Deny {
        /// Why; may be empty.
        text: String,
    },
    /// A person is to decide.
    AskPerson,
    /// It did not answer, or not sensibly: taken as no.
    Failed {
        /// How it failed.
        cause: String,
    },
}
