//! The one file that maps errors to gRPC statuses: every error of core, host and edge to a reason of the contract and
//! the facts that come with it. The code of a reason is in [`refusal::code`].
//!
//! Matches on our own errors are exhaustive and without wildcard arms, so that a new error does not compile until it has its reason.

mod refusal;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::auth::Role;
use super::convert::{InvalidField, exit_reason, state_to_wire, timestamp, verdict_to_wire};
use super::pb::ErrorReason;
use crate::core::command::InvalidCommand;
use crate::core::ids::{AttemptNumber, ProcessId, RequestId, SessionId};
use crate::core::orchestrate::Forbidden;
use crate::core::policy::ReviewerMissing;
use crate::core::process::{Exit, ExitStatus};
use crate::core::session::{
    ControlError, ControlFailure, DecideError, HoldError, NotApproved, StartError, TargetError, UpdateError,
    WriteError,
};
use crate::core::spawn::SpawnError;
use crate::host::clock::Clock;
use crate::host::pattern::PatternError;
use crate::host::stream::Refused;
use crate::host::{CallError, CreateError};
use refusal::Refusal;

/// When another try may succeed after something ran out, or another server may be found.
const RETRY: Duration = Duration::from_secs(1);

/// Bytes that are no message of the expected type: a wrong type on the wire, or text that is not UTF-8.
pub(super) fn malformed_message(error: &prost::DecodeError) -> Status {
    let text = error.to_string();
    // prost names the path from the inside out, as `Message.field: Message.field: problem`.
    let mut path: Vec<&str> = text
        .split(": ")
        .filter_map(|part| part.split_once('.'))
        .filter(|(message, field)| !message.contains(' ') && !field.is_empty() && !field.contains(' '))
        .map(|(_, field)| field)
        .collect();
    path.reverse();
    let message = format!("the request is no valid message: {text}");
    Refusal::new(ErrorReason::InvalidField, message).field(&path.join("."), text).into()
}

impl From<InvalidField> for Status {
    fn from(invalid: InvalidField) -> Self {
        let InvalidField { field, problem } = invalid;
        let message = format!("{field}: {problem}");
        Refusal::new(ErrorReason::InvalidField, message).field(&field, problem).into()
    }
}

/// A value that the core refuses; `parent` is the message that its field is in.
pub(super) fn invalid_command(parent: &str, invalid: InvalidCommand) -> Status {
    let InvalidCommand { field, problem } = invalid;
    InvalidField { field: format!("{parent}{field}"), problem }.into()
}

/// A page token of another list, or none of ours.
pub(super) fn invalid_page_token() -> Status {
    let problem = "is not a token of this list; begin with an empty one";
    Refusal::new(ErrorReason::InvalidPageToken, format!("page_token {problem}"))
        .field("page_token", problem)
        .into()
}

/// A pattern that cannot be looked for.
pub(super) fn invalid_pattern(field: &str, error: &PatternError) -> Status {
    let (problem, position) = match error {
        PatternError::Syntax { reason } => {
            // The parser shows the pattern over several lines, and says last what is wrong.
            let last = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let unicode =
                if last.contains("Unicode") { "; begin with (?u) for classes of Unicode" } else { "" };
            (format!("is no regular expression over bytes: {last}{unicode}"), caret(reason))
        }
        PatternError::Empty | PatternError::TooLong { .. } | PatternError::TooLarge => {
            (error.to_string(), None)
        }
    };
    let message = format!("{field}: {problem}");
    let refusal = Refusal::new(ErrorReason::InvalidPattern, message).field(field, problem);
    match position {
        Some(position) => refusal.fact("position", position),
        None => refusal,
    }
    .into()
}

/// Where the parser points to in a pattern of one line: it shows the pattern, and below it a caret, both indented.
fn caret(reason: &str) -> Option<usize> {
    let line = reason.lines().find(|line| line.trim_start().starts_with('^'))?;
    line.find('^')?.checked_sub(4)
}

/// No signal of that name.
pub(super) fn unknown_signal(field: &str, name: &str) -> Status {
    let message = format!("{name:?} is no signal of this platform; give a name such as TERM, or a number");
    Refusal::new(ErrorReason::UnknownSignal, &message).fact("signal", name).field(field, message).into()
}

/// Messages of a stream in an order that is not allowed.
pub(super) fn stream_protocol(message: &str) -> Status {
    Refusal::new(ErrorReason::StreamProtocol, message).into()
}

/// A mask that names what cannot be set.
pub(super) fn invalid_field_mask(path: &str, problem: &str) -> Status {
    let message = format!("update_mask: {path:?} {problem}");
    Refusal::new(ErrorReason::InvalidFieldMask, &message)
        .field("update_mask", message.clone())
        .fact("field", path)
        .into()
}

/// A place behind the end of a log.
pub(super) fn cursor_out_of_range(attempt: AttemptNumber, offset: u64, end: u64) -> Status {
    let message = format!("offset {offset} lies behind the end, {end}");
    Refusal::new(ErrorReason::CursorOutOfRange, message)
        .fact("attempt", attempt.get())
        .fact("offset", offset)
        .fact("end", end)
        .into()
}

/// An event number that was never given out.
pub(super) fn sequence_out_of_range(after: u64, last: u64) -> Status {
    let message = format!("event {after} was never sent; the last one is {last}");
    Refusal::new(ErrorReason::CursorOutOfRange, message).fact("offset", after).fact("end", last).into()
}

/// No such session of this owner.
pub(super) fn session_not_found(session: &str) -> Status {
    let message = "the session does not exist, or is over";
    Refusal::new(ErrorReason::SessionNotFound, message)
        .fact("session_id", session)
        .resource("unified_exec.v1.Session", session)
        .into()
}

/// No such environment.
pub(super) fn environment_not_found(field: &str, environment: &str) -> Status {
    let message = format!("{field}: there is no environment {environment:?}; see ListEnvironments");
    Refusal::new(ErrorReason::EnvironmentNotFound, message)
        .fact("environment_id", environment)
        .resource("unified_exec.v1.Environment", environment)
        .into()
}

/// What this version does not have.
pub(super) fn not_implemented(feature: &str, message: &str) -> Status {
    Refusal::new(ErrorReason::NotImplemented, message).fact("feature", feature).into()
}

/// The detailed form of a refusal by the gRPC library itself, which happens before any handler.
pub(super) fn undetailed(bare: &Status, path: &str) -> Option<Status> {
    match bare.code() {
        Code::Unimplemented if bare.message().is_empty() => {
            Some(not_implemented(path, &format!("this server has no method {path}")))
        }
        Code::Unimplemented => Some(not_implemented(path, bare.message())),
        // What the library calls internal is what it could not read: a request cut short or without its message.
        Code::Internal => Some(stream_protocol(bare.message())),
        _ => None,
    }
}

/// More than the caller may give itself, or more than anybody may.
pub(super) fn widening(field: &str, role: Role) -> Status {
    let message = match role {
        Role::Agent => {
            format!("{field} asks for more than this server lets agents ask for; a reviewer may")
        }
        Role::Reviewer => format!("{field} asks for more than this server's ceiling"),
    };
    Refusal::new(ErrorReason::WideningDenied, message).fact("field", field).into()
}

/// Strict review without anybody who could do it.
pub(super) fn reviewer_missing(missing: ReviewerMissing) -> Status {
    Refusal::new(ErrorReason::ReviewerNotConfigured, missing).state("REVIEWER", "automatic").into()
}

/// The `reason` of a status of ours.
pub(super) fn reason_of(status: &Status) -> String {
    status.get_error_details().error_info().map(|info| info.reason.clone()).unwrap_or_default()
}

/// The server takes no new work.
pub(super) fn draining() -> Status {
    Refusal::new(ErrorReason::ServerDraining, "the server is shutting down; try another, or later")
        .retry(RETRY)
        .into()
}

/// Too many streams and waits at once.
pub(super) fn too_many_streams(limit: usize) -> Status {
    let message =
        format!("{limit} streams and waits are open, the server's limit; try again when some have ended");
    Refusal::new(ErrorReason::TooManyStreams, message).fact("limit", limit).quota("streams", RETRY).into()
}

/// No session was created.
pub(super) fn create(error: CreateError) -> Status {
    match error {
        CreateError::Draining => draining(),
        CreateError::TooManySessions { limit } => Refusal::new(ErrorReason::TooManySessions, error)
            .fact("limit", limit)
            .quota("sessions", RETRY)
            .into(),
    }
}

/// The working directory of a session or command does not exist.
pub(super) fn cwd_not_found(field: &str, path: &str) -> Status {
    let message = format!("{field}: working directory {path:?} does not exist");
    Refusal::new(ErrorReason::CwdNotFound, &message)
        .field(field, message)
        .fact("path", path)
        .resource("directory", path)
        .into()
}

/// The working directory cannot be used.
pub(super) fn cwd_not_accessible(field: &str, path: &str, cause: &str) -> Status {
    let message = format!("{field}: working directory {path:?} cannot be entered: {cause}");
    Refusal::new(ErrorReason::CwdNotAccessible, message)
        .fact("field", field)
        .fact("path", path)
        .state("DIRECTORY", path)
        .into()
}

/// The shell does not exist.
pub(super) fn shell_not_found(field: &str, path: &str) -> Status {
    let message = format!("{field}: there is no shell {path:?}");
    Refusal::new(ErrorReason::ShellNotFound, message)
        .fact("field", field)
        .fact("path", path)
        .resource("shell", path)
        .into()
}

/// No credential, or a wrong one. Which of both it was is not told.
pub(super) fn credential_refused() -> Status {
    let message = "the credential is missing or wrong; send `authorization: Bearer <token>` with a token of this server";
    Refusal::new(ErrorReason::CredentialRefused, message).into()
}

/// A Unix socket's peer is another user.
pub(super) fn peer_refused() -> Status {
    Refusal::new(ErrorReason::CredentialRefused, "this socket serves the server's own user and root only")
        .into()
}

/// A web page that nobody configured.
pub(super) fn origin_refused(origin: &str) -> Status {
    let message = "requests from this web origin are not allowed; the server's configuration can allow it";
    Refusal::new(ErrorReason::OriginRefused, message).fact("origin", origin).into()
}

/// A call that needs another role.
pub(super) fn role_required(role: Role) -> Status {
    Refusal::new(ErrorReason::RoleRequired, format!("this call needs the role {role}"))
        .fact("role", role)
        .into()
}

/// A message above the bound.
pub(super) fn message_too_large(limit: usize) -> Status {
    let message = format!("a request message is larger than {limit} bytes");
    Refusal::new(ErrorReason::MessageTooLarge, message).fact("limit", limit).into()
}

/// The call's own deadline passed before its answer.
pub(super) fn call_deadline() -> Status {
    Refusal::new(ErrorReason::CallDeadline, "the deadline of the call passed; processes live on").into()
}

/// The caller cancelled the call.
pub(super) fn call_cancelled() -> Status {
    Refusal::new(ErrorReason::CallCancelled, "the caller cancelled the call; processes live on").into()
}

/// A defect of the service; the log says more under the same id.
pub(super) fn defect(error_id: &str) -> Status {
    let message = format!("a defect of the service; its log names it as {error_id}");
    Refusal::new(ErrorReason::Internal, message).fact("error_id", error_id).into()
}

/// A stream of requests broke: by a message that is too large or malformed, which says so itself, or because the client
/// is gone.
pub(super) fn request_stream(broken: Status) -> Status {
    if broken.details().is_empty() { call_cancelled() } else { broken }
}

/// The same status with one more fact, unless it has that one.
pub(super) fn also(status: &Status, key: &'static str, value: impl ToString) -> Status {
    let mut details = status.get_error_details();
    let Some(info) = details.error_info() else { return status.clone() };
    let mut info = info.clone();
    info.metadata.entry(key.to_owned()).or_insert_with(|| value.to_string());
    details.set_error_info(info.reason, info.domain, info.metadata);
    Status::with_error_details(status.code(), status.message(), details)
}

/// Input was called off by an interrupt before all of it was delivered.
pub(super) fn input_abandoned(process: ProcessId, committed: u64) -> Status {
    let message = format!("the wait for input was interrupted; {committed} bytes have been delivered in all");
    Refusal::new(ErrorReason::InputAbandoned, message)
        .fact("process_id", process)
        .fact("committed", committed)
        .into()
}

fn forbidden(why: &Forbidden) -> Status {
    let message = format!("the command may not run: {why}");
    match why {
        Forbidden::Escalation => Refusal::new(ErrorReason::EscalationForbidden, message),
        Forbidden::Rule { rule, .. } | Forbidden::RulePrompt { rule } => {
            Refusal::new(ErrorReason::CommandForbidden, message).fact("rule", rule)
        }
        Forbidden::Danger { danger } => {
            Refusal::new(ErrorReason::CommandForbidden, message).fact("rule", danger)
        }
    }
    .into()
}

fn too_many_questions(limit: usize) -> Status {
    let message = format!("the session has {limit} open questions, its limit; wait for answers");
    Refusal::new(ErrorReason::SessionLimit, message)
        .fact("resource", "questions")
        .fact("limit", limit)
        .quota("questions", RETRY)
        .into()
}

/// No question of this id, or not for this caller.
pub(super) fn approval_not_found(approval: &str) -> Status {
    Refusal::new(ErrorReason::ApprovalNotFound, format!("there is no approval question {approval}"))
        .fact("approval_id", approval)
        .resource("unified_exec.v1.Approval", approval)
        .into()
}

/// No grant of this id.
pub(super) fn grant_not_found(grant: &str) -> Status {
    Refusal::new(ErrorReason::GrantNotFound, format!("the session has no grant {grant}"))
        .fact("grant_id", grant)
        .resource("unified_exec.v1.Grant", grant)
        .into()
}

/// The reviewer decided about something else than what is asked.
pub(super) fn digest_mismatch(approval: &str) -> Status {
    let message = format!("the digest is not that of question {approval}; read the question again");
    Refusal::new(ErrorReason::DigestMismatch, message).fact("approval_id", approval).into()
}

/// What the words of an error do not say: whose session it is about, and what time it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) clock: Clock,
    pub(super) session: &'a SessionId,
}

impl Place<'_> {
    /// The refusal, or that the session is over.
    pub(super) fn call<E>(self, error: CallError<E>, refused: impl FnOnce(Self, E) -> Status) -> Status {
        match error {
            CallError::Refused(refusal) => refused(self, refusal),
            CallError::SessionGone => session_not_found(self.session.as_str()),
        }
    }

    /// A start or a write came to nothing. `shell` says that a program that is missing was to be a shell.
    pub(super) fn collecting(self, error: CallError<Refused>, shell: bool) -> Status {
        self.call(error, |place, refused| match refused {
            Refused::Start(error) => place.start(error, shell),
            Refused::Write(error) => place.write(error),
        })
    }

    pub(super) fn start(self, error: StartError, shell: bool) -> Status {
        match error {
            StartError::Invalid(invalid) => invalid_command("command.", invalid),
            StartError::Forbidden(why) => forbidden(&why),
            StartError::NotApproved(refused) => self.not_approved(refused),
            StartError::TooManyQuestions { limit } => too_many_questions(limit),
            StartError::Spawn(error) => spawn(error, shell),
            StartError::TableFull { limit } => Refusal::new(ErrorReason::TableFull, error)
                .fact("limit", limit)
                .quota("processes", RETRY)
                .into(),
            StartError::IdsTaken => Refusal::new(ErrorReason::SessionLimit, error)
                .fact("resource", "process_ids")
                .fact("limit", ProcessId::MAX - ProcessId::MIN + 1)
                .quota("process_ids", RETRY)
                .into(),
            StartError::RequestReused { ref request } => request_reused(&error, request),
            StartError::NotInteractive => {
                Refusal::new(ErrorReason::OneShotOnly, error).state("SESSION", self.session).into()
            }
            StartError::Closing => self.closing(),
            StartError::Cancelled => Refusal::new(ErrorReason::StartCancelled, error).into(),
        }
    }

    fn closing(self) -> Status {
        Refusal::new(ErrorReason::SessionClosing, "the session is closing; nothing new starts in it")
            .fact("session_id", self.session)
            .state("SESSION", self.session)
            .into()
    }

    pub(super) fn write(self, error: WriteError) -> Status {
        match error {
            WriteError::Target(error) => self.target(error),
            WriteError::NoStdin { process } => Refusal::new(ErrorReason::StdinClosed, error)
                .fact("process_id", process)
                .fact("committed", 0)
                .fact("by", "its start")
                .state("STDIN", process)
                .into(),
            WriteError::StdinEnded { process, committed, by } => {
                Refusal::new(ErrorReason::StdinClosed, error)
                    .fact("process_id", process)
                    .fact("committed", committed)
                    .fact("by", by)
                    .state("STDIN", process)
                    .into()
            }
            WriteError::OffsetGap { offset, expected } => {
                Refusal::new(ErrorReason::StdinOffsetOutOfRange, error)
                    .fact("offset", offset)
                    .fact("committed", expected)
                    .into()
            }
            WriteError::QueueFull { process, committed, .. } => {
                Refusal::new(ErrorReason::InputQueueFull, error)
                    .fact("process_id", process)
                    .fact("committed", committed)
                    .quota(format!("input of process {process}"), RETRY)
                    .into()
            }
            WriteError::RequestReused { ref request } => request_reused(&error, request),
            WriteError::NotStarted { process } => Refusal::new(ErrorReason::ProcessStarting, error)
                .fact("process_id", process)
                .state("PROCESS", process)
                .into(),
            WriteError::NewTerminal { process, cause } => {
                Refusal::new(ErrorReason::NewTerminalRequired, error)
                    .fact("process_id", process)
                    .fact("cause", cause)
                    .state("PROCESS", process)
                    .into()
            }
            WriteError::Forbidden { process } => {
                Refusal::new(ErrorReason::StdinForbidden, error).fact("process_id", process).into()
            }
            WriteError::ReviewTooLarge { process, bytes, limit } => {
                Refusal::new(ErrorReason::StdinReviewTooLarge, &error)
                    .fact("process_id", process)
                    .fact("bytes", bytes)
                    .fact("limit", limit)
                    .field("input", &error)
                    .into()
            }
            WriteError::ReviewNul { process, .. } => Refusal::new(ErrorReason::StdinReviewNul, &error)
                .fact("process_id", process)
                .field("input", &error)
                .into(),
            WriteError::NotApproved(refused) => self.not_approved(refused),
            WriteError::TooManyQuestions { limit } => too_many_questions(limit),
        }
    }

    fn not_approved(self, refused: NotApproved) -> Status {
        let refusal = |reason| Refusal::new(reason, &refused);
        match &refused {
            NotApproved::Declined { approval, .. } => {
                refusal(ErrorReason::ApprovalDeclined).fact("approval_id", approval)
            }
            NotApproved::TurnAborted { approval, turn, .. } => {
                refusal(ErrorReason::TurnAborted).fact("approval_id", approval).fact("turn_id", turn)
            }
            NotApproved::Expired { approval } => {
                refusal(ErrorReason::ApprovalExpired).fact("approval_id", approval)
            }
            NotApproved::ReviewFailed { approval, cause } => {
                refusal(ErrorReason::ReviewFailed).fact("approval_id", approval).fact("cause", cause)
            }
            NotApproved::Stale { process } => refusal(ErrorReason::TicketStale).fact("process_id", process),
        }
        .into()
    }

    /// A question was not answered.
    pub(super) fn decide(self, error: DecideError) -> Status {
        match &error {
            DecideError::Unknown { approval } => approval_not_found(approval.as_str()),
            DecideError::NotOpen { approval, state } => {
                let state = state_to_wire(state).as_str_name().trim_start_matches("APPROVAL_STATE_");
                Refusal::new(ErrorReason::ApprovalNotOpen, &error)
                    .fact("approval_id", approval)
                    .fact("state", state)
                    .state("APPROVAL", approval)
                    .into()
            }
            DecideError::Deciding { approval } => Refusal::new(ErrorReason::ApprovalNotOpen, &error)
                .fact("approval_id", approval)
                .fact("state", "BEING_DECIDED")
                .state("APPROVAL", approval)
                .into(),
            DecideError::NotAllowed { approval, verdict } => {
                let verdict = verdict_to_wire(*verdict).as_str_name().trim_start_matches("VERDICT_");
                Refusal::new(ErrorReason::VerdictNotAllowed, &error)
                    .fact("approval_id", approval)
                    .fact("verdict", verdict)
                    .state("VERDICT", verdict)
                    .into()
            }
            DecideError::Rule { .. } | DecideError::RuleEmpty => {
                Refusal::new(ErrorReason::InvalidField, &error).field("prefix_rule", &error).into()
            }
        }
    }

    pub(super) fn target(self, error: TargetError) -> Status {
        match error {
            TargetError::Unknown { process } => self.process_not_found(process),
            TargetError::Gone { process, exit } => self.ended(process, &exit),
        }
    }

    pub(super) fn process_not_found(self, process: ProcessId) -> Status {
        let message = format!(
            "process {process} does not exist in this session: it never did, or it ended long ago and is forgotten"
        );
        Refusal::new(ErrorReason::ProcessNotFound, message)
            .fact("session_id", self.session)
            .fact("process_id", process)
            .resource("unified_exec.v1.Process", process)
            .into()
    }

    pub(super) fn attempt_not_found(self, process: ProcessId, attempt: u32) -> Status {
        let message = format!("process {process} has no attempt {attempt}");
        Refusal::new(ErrorReason::AttemptNotFound, message)
            .fact("process_id", process)
            .fact("attempt", attempt)
            .resource("unified_exec.v1.Attempt", attempt)
            .into()
    }

    /// The process has ended; how stands in the facts.
    pub(super) fn ended(self, process: ProcessId, exit: &Exit) -> Status {
        self.end_of(process, exit).into()
    }

    fn end_of(self, process: ProcessId, exit: &Exit) -> Refusal {
        let reason = exit_reason(exit.reason).as_str_name().trim_start_matches("EXIT_REASON_");
        let how = match exit.status {
            ExitStatus::Code(code) => format!("exited with {code}"),
            ExitStatus::Signal { number, .. } => match exit.status.signal_name() {
                Some(name) => format!("ended by {name}"),
                None => format!("ended by signal {number}"),
            },
        };
        let message = format!("process {process} has ended: {how} ({})", reason.to_ascii_lowercase());
        let refusal = Refusal::new(ErrorReason::ProcessEnded, message)
            .fact("process_id", process)
            .fact("exit_reason", reason)
            .fact("end_time", timestamp(self.clock, exit.at))
            .state("PROCESS", process);
        match exit.status {
            ExitStatus::Code(code) => refusal.fact("code", code),
            ExitStatus::Signal { number, .. } => refusal.fact("signal", number),
        }
    }

    pub(super) fn control(self, process: ProcessId, error: ControlError) -> Status {
        match error {
            ControlError::Target(error) => self.target(error),
            ControlError::Starting { process } => Refusal::new(ErrorReason::ProcessStarting, error)
                .fact("process_id", process)
                .state("PROCESS", process)
                .into(),
            // Its end is on the way: there is nothing left to act on, and no news of how it ended.
            ControlError::Failed(ControlFailure::Gone) => Refusal::new(ErrorReason::ProcessEnded, error)
                .fact("process_id", process)
                .state("PROCESS", process)
                .into(),
            ControlError::Failed(ControlFailure::NoTerminal) => {
                Refusal::new(ErrorReason::NotATerminal, error)
                    .fact("process_id", process)
                    .state("TERMINAL", process)
                    .into()
            }
            ControlError::Failed(ControlFailure::Refused { ref reason }) => {
                Refusal::new(ErrorReason::SystemRefused, &error)
                    .fact("process_id", process)
                    .fact("cause", reason)
                    .state("SYSTEM", process)
                    .into()
            }
        }
    }

    pub(super) fn update(self, error: UpdateError) -> Status {
        match error {
            UpdateError::ReviewerMissing(missing) => reviewer_missing(missing),
            UpdateError::RevisionChanged { in_force, asked } => {
                Refusal::new(ErrorReason::PolicyRevisionMismatch, error)
                    .fact("expected", asked)
                    .fact("actual", in_force)
                    .into()
            }
            UpdateError::CwdHeld { ref by } => {
                let ids: Vec<String> = by.iter().map(ToString::to_string).collect();
                let refusal = Refusal::new(ErrorReason::CwdInUse, &error).fact("process_ids", ids.join(","));
                ids.into_iter().fold(refusal, |refusal, id| refusal.state("TERMINAL", id)).into()
            }
            UpdateError::Invalid(invalid) => invalid_command("config.", invalid),
            UpdateError::Closing => self.closing(),
        }
    }

    pub(super) fn hold(self, error: HoldError) -> Status {
        match error {
            HoldError::TooMany { limit } => Refusal::new(ErrorReason::SessionLimit, error)
                .fact("resource", "leases")
                .fact("limit", limit)
                .quota("leases", RETRY)
                .into(),
        }
    }
}

fn request_reused(error: &dyn std::error::Error, request: &RequestId) -> Status {
    Refusal::new(ErrorReason::RequestIdReused, error)
        .fact("request_id", request)
        .resource("request_id", request)
        .into()
}

fn spawn(error: SpawnError, shell: bool) -> Status {
    let message = error.to_string();
    match error {
        SpawnError::ProgramMissing { program } if shell => shell_not_found("command.shell", &program),
        SpawnError::ProgramMissing { program } => Refusal::new(ErrorReason::ProgramNotFound, message)
            .fact("path", &program)
            .resource("program", program)
            .into(),
        SpawnError::ProgramDenied { program } | SpawnError::ProgramFormat { program } => {
            Refusal::new(ErrorReason::ProgramNotExecutable, message)
                .fact("path", &program)
                .state("PROGRAM", program)
                .into()
        }
        SpawnError::InterpreterMissing { program, interpreter } => {
            Refusal::new(ErrorReason::InterpreterNotFound, message)
                .fact("path", program)
                .fact("interpreter", &interpreter)
                .resource("interpreter", interpreter)
                .into()
        }
        SpawnError::CwdMissing { path } => cwd_not_found("command.cwd", &path),
        SpawnError::CwdDenied { path, reason } => cwd_not_accessible("command.cwd", &path, &reason),
        SpawnError::TooLarge { size_bytes, .. } => Refusal::new(ErrorReason::ArgumentsTooLarge, &message)
            .fact("bytes", size_bytes)
            .field("command", message)
            .into(),
        SpawnError::Exhausted { resource, reason } => Refusal::new(ErrorReason::SystemExhausted, message)
            .fact("resource", resource)
            .fact("cause", reason)
            .quota(resource, RETRY)
            .into(),
        SpawnError::SandboxUnavailable { reason } => Refusal::new(ErrorReason::SandboxUnavailable, message)
            .fact("mechanism", "sandbox")
            .fact("cause", reason)
            .state("SANDBOX", "sandbox")
            .into(),
        SpawnError::LimitUnenforceable { limit, .. } => {
            Refusal::new(ErrorReason::LimitUnenforceable, message)
                .fact("limit", limit)
                .state("LIMIT", limit)
                .into()
        }
        SpawnError::System { path, reason, .. } => {
            Refusal::new(ErrorReason::SpawnFailed, message).fact("path", path).fact("os_error", reason).into()
        }
    }
}

/// A message of ours that does not encode: a defect.
pub(super) fn unencodable_message(error: &prost::EncodeError) -> Status {
    tracing::error!(%error, "a response could not be encoded");
    defect("encode")
}

/// A health check of a service that is not offered, in the words of the health protocol.
pub(super) fn service_unknown() -> Status {
    Status::not_found("this server has no such service")
}
