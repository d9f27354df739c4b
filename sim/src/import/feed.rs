//! A recorded feed: what `uexec --json events` prints, an event or a gap to a line.

use std::time::SystemTime;

use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::Value;
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::event::Kind;

use super::ImportError;

/// An event, and its milliseconds after the first one.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) t: u64,
    pub(super) event: pb::Event,
    pub(super) kind: Kind,
}

/// Events in their order, and when the first one happened.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) start: SystemTime,
    pub(super) told: Vec<Told>,
}

impl Feed {
    /// Reads a feed from its lines; those of kinds that this version does not know are left out.
    pub(super) fn parse(text: &str) -> Result<Self, ImportError> {
        let pool = DescriptorPool::decode(pb::DESCRIPTORS).ok();
        let message = pool.and_then(|pool| pool.get_message_by_name("unified_exec.v1.Event"));
        let message = message.ok_or(ImportError::Contract)?;
        let (mut start, mut told, mut last) = (None, Vec::new(), None);
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let line_number = at + 1;
            let wrong = |problem: String| ImportError::Line { line: line_number, problem };
            let mut item: Value = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
            if let Some(gap) = item.get("feed_gap") {
                return Err(wrong(format!(
                    "events are missing: {gap}; record with `--after 0`, from the start"
                )));
            }
            let event = item.get_mut("event").map(Value::take);
            let event = event.ok_or_else(|| {
                wrong("is no item of a feed; record one with `uexec --json events --after 0`".to_owned())
            })?;
            let options = prost_reflect::DeserializeOptions::new().deny_unknown_fields(false);
            let event = DynamicMessage::deserialize_with_options(message.clone(), event, &options)
                .map_err(|error| wrong(format!("event: {error}")))?;
            let event: pb::Event = event.transcode_to().map_err(|error| wrong(format!("event: {error}")))?;
            let time = event.time.and_then(|time| SystemTime::try_from(time).ok());
            let time = time.ok_or_else(|| wrong("event.time: is missing, or no time".to_owned()))?;
            if last.is_some_and(|last: u64| last.checked_add(1) != Some(event.sequence)) {
                let before = last.unwrap_or_default();
                return Err(wrong(format!(
                    "event.sequence: {} does not follow {before}; a feed is whole and of one session",
                    event.sequence
                )));
            }
            last = Some(event.sequence);
            let since = time.duration_since(*start.get_or_insert(time)).unwrap_or_default();
            let t = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
            if let Some(kind) = event.kind.clone() {
                told.push(Told { t, event, kind });
            }
        }
        let start = start.ok_or(ImportError::Empty)?;
        Ok(Self { start, told })
    }
}
