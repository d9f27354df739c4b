//! What every refusal is made of: a reason, its code, words, and facts, all bounded so that they fit into the headers
//! that carry them.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::grpc::pb::ErrorReason;

/// The `domain` of every `ErrorInfo`.
const DOMAIN: &str = "unified-exec";
/// Longest message. Some clients take no more than 8 KiB of headers, and the details repeat the message up to twice.
const MESSAGE_BYTES_MAX: usize = 640;
/// Longest single fact.
const FACT_BYTES_MAX: usize = 400;

/// A status in the making.
#[derive(Debug)]
pub(super) struct Refusal {
    reason: ErrorReason,
    message: String,
    facts: Vec<(String, String)>,
    details: ErrorDetails,
}

impl Refusal {
    pub(super) fn new(reason: ErrorReason, message: impl ToString) -> Self {
        let message = bounded(message.to_string(), MESSAGE_BYTES_MAX);
        Self { reason, message, facts: Vec::new(), details: ErrorDetails::new() }
    }

    /// A fact of `ErrorInfo`.
    pub(super) fn fact(mut self, key: &'static str, value: impl ToString) -> Self {
        self.facts.push((key.to_owned(), bounded(value.to_string(), FACT_BYTES_MAX)));
        self
    }

    /// The field that is wrong.
    pub(super) fn field(mut self, field: &str, problem: impl ToString) -> Self {
        let problem = bounded(problem.to_string(), MESSAGE_BYTES_MAX);
        self.details.add_bad_request_violation(field, problem);
        self.fact("field", field)
    }

    /// What was not found.
    pub(super) fn resource(mut self, kind: &str, name: impl ToString) -> Self {
        let name = bounded(name.to_string(), FACT_BYTES_MAX);
        self.details.set_resource_info(kind, name, "", "");
        self
    }

    /// The state that stands in the way.
    pub(super) fn state(mut self, kind: &str, subject: impl ToString) -> Self {
        let subject = bounded(subject.to_string(), FACT_BYTES_MAX);
        self.details.add_precondition_failure_violation(kind, subject, self.message.clone());
        self
    }

    /// The limit that is reached, and when another try may succeed.
    pub(super) fn quota(mut self, subject: impl ToString, retry: Duration) -> Self {
        let subject = bounded(subject.to_string(), FACT_BYTES_MAX);
        self.details.add_quota_failure_violation(subject, self.message.clone());
        self.retry(retry)
    }

    /// When another try may succeed.
    pub(super) fn retry(mut self, after: Duration) -> Self {
        self.details.set_retry_info(Some(after));
        self
    }
}

impl From<Refusal> for Status {
    #[expect(clippy::disallowed_types, reason = "tonic-types asks for it; facts have no order")]
    fn from(refusal: Refusal) -> Self {
        let Refusal { reason, message, facts, mut details } = refusal;
        let name = reason.as_str_name().trim_start_matches("ERROR_REASON_");
        details.set_error_info(name, DOMAIN, facts.into_iter().collect::<std::collections::HashMap<_, _>>());
        Self::with_error_details(code(reason), message, details)
    }
}

/// At most `bytes_max`, cut at a character.
fn bounded(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let cut = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text.push('…');
    }
    text
}

/// The code that comes with each reason; the enum's comments begin with the same one, and a test holds them together.
#[rustfmt::skip]
pub(super) const fn code(reason: ErrorReason) -> Code {
    use ErrorReason as R;
    match reason {
        R::Unspecified => Code::Unknown,
        R::InvalidField | R::InvalidPageToken | R::InvalidPattern | R::UnknownSignal | R::ArgumentsTooLarge
        | R::StdinReviewTooLarge | R::StdinReviewNul | R::StreamProtocol | R::InvalidFieldMask => Code::InvalidArgument,
        R::CursorOutOfRange | R::StdinOffsetOutOfRange => Code::OutOfRange,
        R::SessionNotFound | R::ProcessNotFound | R::AttemptNotFound | R::EnvironmentNotFound | R::CwdNotFound
        | R::ShellNotFound | R::ProgramNotFound | R::InterpreterNotFound | R::ApprovalNotFound | R::GrantNotFound
            => Code::NotFound,
        R::RequestIdReused => Code::AlreadyExists,
        R::ProcessEnded | R::ProcessStarting | R::StdinClosed | R::NotATerminal | R::NewTerminalRequired | R::CwdInUse
        | R::OneShotOnly | R::SessionClosing | R::SystemRefused | R::SandboxUnavailable | R::LimitUnenforceable
        | R::ReviewerNotConfigured | R::ApprovalNotOpen | R::CwdNotAccessible | R::ProgramNotExecutable
        | R::VerdictNotAllowed => Code::FailedPrecondition,
        R::PolicyRevisionMismatch | R::TicketStale | R::DigestMismatch | R::InputAbandoned | R::StartCancelled
            => Code::Aborted,
        R::CommandForbidden | R::EscalationForbidden | R::StdinForbidden | R::ApprovalDeclined | R::ApprovalExpired
        | R::ReviewFailed | R::TurnAborted | R::WideningDenied | R::RoleRequired | R::OriginRefused
            => Code::PermissionDenied,
        R::CredentialRefused => Code::Unauthenticated,
        R::TableFull | R::TooManySessions | R::TooManyStreams | R::InputQueueFull | R::SystemExhausted
        | R::SessionLimit | R::MessageTooLarge => Code::ResourceExhausted,
        R::CallCancelled => Code::Cancelled,
        R::CallDeadline => Code::DeadlineExceeded,
        R::ServerDraining | R::EnvironmentUnavailable => Code::Unavailable,
        R::NotImplemented => Code::Unimplemented,
        R::SpawnFailed | R::Internal => Code::Internal,
    }
}
