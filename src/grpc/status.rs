//! The one file that maps errors to gRPC statuses.

use tonic::Status;

/// Bytes that are no message of the expected type.
pub(super) fn malformed_message(error: &prost::DecodeError) -> Status {
    Status::invalid_argument(format!("the request is no valid message: {error}"))
}

/// A message of ours that does not encode: a defect.
pub(super) fn unencodable_message(error: &prost::EncodeError) -> Status {
    Status::internal(format!("the response could not be encoded: {error}"))
}
