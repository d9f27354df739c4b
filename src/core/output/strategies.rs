//! What properties of output are tried on, for every test that needs it.

use proptest::prelude::*;

use super::{Gap, Header, ProcessState, Segment};
use crate::core::ids::ProcessId;

/// Bytes with many borders: whole characters, parts of some, and rubbish.
pub(crate) fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        any::<char>().prop_map(|character| character.to_string().into_bytes()),
        (any::<char>(), 1..4_usize).prop_map(|(character, len)| {
            let bytes = character.to_string().into_bytes();
            bytes[..len.min(bytes.len())].to_vec()
        }),
        prop::collection::vec(any::<u8>(), 0..3),
        "[a-z ]{1,9}".prop_map(String::into_bytes),
    ];
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

/// Output as a log gives it: bytes and gaps.
pub(crate) fn segments() -> impl Strategy<Value = Vec<Segment>> {
    let segment = prop_oneof![
        4 => bytes().prop_map(|bytes| Segment::Bytes(bytes.into())),
        1 => (1..5_000_u64).prop_map(|len| Segment::Gap(Gap { from: 0, to: len })),
    ];
    prop::collection::vec(segment, 0..6)
}

/// Header lines of every kind, present or not.
pub(crate) fn header() -> impl Strategy<Value = Header> {
    let state = prop_oneof![
        any::<i32>().prop_map(ProcessState::Exited),
        (ProcessId::MIN..=ProcessId::MAX)
            .prop_filter_map("an id", |id| ProcessId::new(id).map(ProcessState::Running)),
    ];
    let wall_time = prop::option::of((0..10_000_000_u64).prop_map(std::time::Duration::from_micros));
    (prop::option::of("[0-9a-f]{6}"), wall_time, prop::option::of(state))
        .prop_map(|(chunk_id, wall_time, state)| Header { chunk_id, wall_time, state })
}
