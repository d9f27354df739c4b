//! The one file that maps errors to gRPC statuses.

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::auth::Role;
use super::pb::ErrorReason;

/// The `domain` of every `ErrorInfo`.
pub const DOMAIN: &str = "unified-exec";

/// Bytes that are no message of the expected type.
pub(super) fn malformed_message(error: &prost::DecodeError) -> Status {
    Status::invalid_argument(format!("the request is no valid message: {error}"))
}

/// A status with its reason and the facts of the reason.
fn access<const N: usize>(
    code: Code,
    reason: ErrorReason,
    message: impl Into<String>,
    facts: [(&str, &str); N],
) -> Status {
    let reason = reason.as_str_name().trim_start_matches("ERROR_REASON_");
    let facts = facts.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let details = ErrorDetails::with_error_info(reason, DOMAIN, facts);
    Status::with_error_details(code, message, details)
}

/// No credential, or a wrong one. Which of both it was is not told.
pub(super) fn credential_refused() -> Status {
    let message = "the credential is missing or wrong; send `authorization: Bearer <token>` with a token of this server";
    access(Code::Unauthenticated, ErrorReason::CredentialRefused, message, [])
}

/// A Unix socket's peer is another user.
pub(super) fn peer_refused() -> Status {
    let message = "this socket serves the server's own user and root only";
    access(Code::Unauthenticated, ErrorReason::CredentialRefused, message, [])
}

/// A web page that nobody configured.
pub(super) fn origin_refused(origin: &str) -> Status {
    let message = "requests from this web origin are not allowed; the server's configuration can allow it";
    access(Code::PermissionDenied, ErrorReason::OriginRefused, message, [("origin", origin)])
}

/// A call that needs another role.
pub(super) fn role_required(role: Role) -> Status {
    let message = format!("this call needs the role {role}");
    access(Code::PermissionDenied, ErrorReason::RoleRequired, message, [("role", role.as_str())])
}

/// A message above the bound.
pub(super) fn message_too_large(limit: usize) -> Status {
    let message = format!("a request message is larger than {limit} bytes");
    access(Code::ResourceExhausted, ErrorReason::MessageTooLarge, message, [("limit", &limit.to_string())])
}

/// The call's own deadline passed before its answer.
pub(super) fn call_deadline() -> Status {
    let message = "the deadline of the call passed; processes live on";
    access(Code::DeadlineExceeded, ErrorReason::CallDeadline, message, [])
}

/// The detailed form of a refusal by the gRPC library itself, which happens before any handler.
pub(super) fn undetailed(bare: &Status, path: &str) -> Option<Status> {
    match bare.code() {
        Code::Unimplemented => {
            let message = match bare.message() {
                "" => format!("this server has no method {path}"),
                message => message.to_owned(),
            };
            Some(access(bare.code(), ErrorReason::NotImplemented, message, [("feature", path)]))
        }
        // What the library calls internal is what it could not read: a request cut short or without its message.
        Code::Internal => {
            Some(access(Code::InvalidArgument, ErrorReason::StreamProtocol, bare.message(), []))
        }
        _ => None,
    }
}

/// A defect of the service; the log says more under the same id.
pub(super) fn defect(error_id: &str) -> Status {
    let message = format!("a defect of the service; its log names it as {error_id}");
    access(Code::Internal, ErrorReason::Internal, message, [("error_id", error_id)])
}
