//! Output: places, frames, and text for models.

use super::{Valid, invalid};
use crate::core::ids::AttemptNumber;
use crate::core::limits::FRAME_BYTES_MAX;
use crate::core::output::{Flow, Gap, ModelText, Piece, Stream};
use crate::grpc::pb;
use crate::host::stream::StreamOptions;

/// What happens when a reader is too slow.
pub(in crate::grpc) fn flow(wire: i32) -> Valid<Flow> {
    match pb::Flow::try_from(wire) {
        Ok(pb::Flow::Unspecified | pb::Flow::DropWithGap) => Ok(Flow::DropWithGap),
        Ok(pb::Flow::Block) => Ok(Flow::Block),
        Err(_) => invalid("flow", format!("{wire} is no value of Flow")),
    }
}

/// Largest frame that a reader wants.
pub(in crate::grpc) fn frame_bytes(wire: u32) -> usize {
    match usize::try_from(wire) {
        Ok(0) | Err(_) => FRAME_BYTES_MAX,
        Ok(bytes) => bytes.min(FRAME_BYTES_MAX),
    }
}

/// How a call that collects output is streamed. Without a budget of its own, the session's counts.
pub(in crate::grpc) fn stream_options(
    flow_of: i32,
    output: Option<bool>,
    tokens: Option<u32>,
) -> Valid<StreamOptions> {
    let options = StreamOptions::new(flow(flow_of)?, tokens.unwrap_or(u32::MAX));
    Ok(StreamOptions { output: output.unwrap_or(true), ..options })
}

/// A place in the output.
pub(in crate::grpc) fn cursor(attempt: AttemptNumber, offset: u64) -> pb::Cursor {
    pb::Cursor { attempt: u32::from(attempt.get()), offset }
}

/// A frame; the bytes are shared, not copied.
pub(in crate::grpc) fn output(attempt: AttemptNumber, piece: Piece) -> pb::Output {
    let stream = match piece.stream {
        Stream::Stdout => pb::Stream::Stdout,
        Stream::Stderr => pb::Stream::Stderr,
        Stream::Terminal => pb::Stream::Terminal,
    };
    pb::Output {
        attempt: u32::from(attempt.get()),
        offset: piece.offset,
        stream: stream.into(),
        data: piece.data,
    }
}

/// Bytes that a reader does not get.
pub(in crate::grpc) fn gap(attempt: AttemptNumber, gap: Gap) -> pb::Gap {
    pb::Gap { attempt: u32::from(attempt.get()), start: gap.from, end: gap.to }
}

/// Text for a model.
pub(in crate::grpc) fn model_text(text: ModelText) -> pb::ModelText {
    pb::ModelText {
        text: text.text,
        chunk_id: text.chunk_id.unwrap_or_default(),
        original_token_count: text.original_token_count,
        truncated: text.omitted_bytes > 0,
        omitted_tokens: text.omitted_tokens,
    }
}
