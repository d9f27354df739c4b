use proptest::prelude::*;

use super::*;
use crate::core::limits::{LOG_HEAD_BYTES, LOG_TAIL_BYTES};

const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

/// Bytes that tell where they belong.
fn pattern(from: u64, len: usize) -> Bytes {
    (from..from + len as u64).map(|at| (at % 251) as u8).collect::<Vec<_>>().into()
}

fn filled(head: usize, tail: usize, total: usize) -> Retained {
    let mut log = Retained::new(head, tail);
    log.append(Stream::Stdout, pattern(0, total));
    log
}

/// Everything a reader gets from `from` on: pieces and gaps in order.
fn read(log: &Retained, mut from: u64, max: usize) -> (Vec<Piece>, Vec<Gap>) {
    let (mut pieces, mut gaps) = (Vec::new(), Vec::new());
    loop {
        let slice = log.slice(from, max);
        gaps.extend(slice.gap);
        let Some(piece) = slice.piece else { return (pieces, gaps) };
        assert!(slice.next > from, "a slice with bytes moves the reader on");
        from = slice.next;
        pieces.push(piece);
    }
}

#[test]
fn a_mebibyte_is_kept_whole_and_one_more_byte_costs_exactly_one() {
    let budget = LOG_HEAD_BYTES + LOG_TAIL_BYTES;
    let mut log = filled(LOG_HEAD_BYTES, LOG_TAIL_BYTES, budget);
    assert_eq!(log.omitted(0, u64::MAX), 0);
    log.append(Stream::Stdout, pattern(budget as u64, 1));
    assert_eq!(log.omitted(0, u64::MAX), 1);
    let middle = LOG_HEAD_BYTES as u64;
    assert_eq!(read(&log, 0, usize::MAX).1, vec![Gap { from: middle, to: middle + 1 }]);
}

#[test]
fn a_reader_before_the_lost_middle_gets_the_head_one_gap_and_the_tail() {
    let log = filled(4, 4, 20);
    let (pieces, gaps) = read(&log, 1, 100);
    assert_eq!(pieces.iter().map(|piece| piece.offset..piece.end()).collect::<Vec<_>>(), [1..4, 16..20]);
    assert_eq!(gaps, [Gap { from: 4, to: 16 }]);
    assert_eq!(log.first_not_lost_after(9), 16);
    assert_eq!(log.omitted(10, 13), 3);
}

#[test]
fn budgets_of_nothing_and_of_one_byte_are_sane() {
    let log = filled(0, 0, 5);
    assert_eq!(log.slice(2, 10), Slice { gap: Some(Gap { from: 2, to: 5 }), piece: None, next: 5 });
    let log = filled(0, 1, 5);
    assert_eq!(log.retained(), [0..0, 4..5], "the last byte is kept");
    assert_eq!(Retained::new(1, 1).slice(0, 0), Slice { gap: None, piece: None, next: 0 });
}

#[test]
fn a_reader_beyond_the_end_stays_where_it_is() {
    assert_eq!(filled(4, 4, 3).slice(9, 10), Slice { gap: None, piece: None, next: 9 });
}

#[test]
fn large_pieces_leave_without_a_copy() {
    let data = pattern(0, 64 * 1024);
    let mut log = Retained::new(1 << 20, 1 << 20);
    log.append(Stream::Stdout, data.clone());
    let piece = log.slice(100, 10_000).piece.unwrap();
    assert_eq!(piece.data.as_ptr(), data[100..].as_ptr());
}

#[test]
fn a_small_remainder_does_not_pin_the_allocation_it_came_in() {
    let data = pattern(0, 64 * 1024);
    let mut log = Retained::new(10, 10);
    log.append(Stream::Stdout, data.clone());
    assert!(data.is_unique(), "ten bytes at either end are copies");
    let mut log = Retained::new(0, 64 * 1024);
    log.append(Stream::Stdout, data.clone());
    log.append(Stream::Stdout, pattern(0, 60 * 1024));
    assert!(data.is_unique(), "4 KiB of 64 KiB are copied once the rest is evicted");
}

#[test]
fn small_pieces_that_have_gathered_leave_as_one_and_the_first_at_once() {
    let mut log = Retained::new(1 << 20, 1 << 20);
    log.append(Stream::Stdout, Bytes::from_static(b"a"));
    assert_eq!(log.slice(0, 100).piece.unwrap().data, "a");
    for _ in 0..10 {
        log.append(Stream::Stdout, Bytes::from_static(b"bc"));
    }
    log.append(Stream::Stderr, Bytes::from_static(b"!"));
    assert_eq!(log.slice(1, 100).piece.unwrap().data, "bcbcbcbcbcbcbcbcbcbc", "up to the change of stream");
    assert_eq!(log.slice(1, 5).piece.unwrap().data, "bcbcb", "and never more than asked");
}

#[test]
fn millions_of_single_bytes_stay_in_few_chunks() {
    let mut log = Retained::new(LOG_HEAD_BYTES, LOG_TAIL_BYTES);
    for at in 0..3_000_000_u64 {
        log.append(Stream::Terminal, pattern(at, 1));
    }
    assert_eq!(log.omitted(0, log.end()), 3_000_000 - (1 << 20));
    let chunks = log.head.chunks() + log.tail.chunks();
    assert!(chunks < 256, "{chunks} chunks");
    assert!(
        read(&log, 0, 1 << 16).0.iter().all(|piece| piece.data == pattern(piece.offset, piece.data.len()))
    );
}

#[test]
fn streams_that_alternate_byte_by_byte_are_bounded_by_an_ordinary_gap() {
    let mut log = Retained::new(LOG_HEAD_BYTES, LOG_TAIL_BYTES);
    for at in 0..200_000_u64 {
        log.append(STREAMS[(at % 2) as usize], pattern(at, 1));
    }
    assert_eq!(log.head.runs() + log.tail.runs(), 2 * RUNS_MAX);
    let (pieces, gaps) = read(&log, 0, 100);
    assert_eq!(pieces.len(), 2 * RUNS_MAX);
    let half = RUNS_MAX as u64;
    assert_eq!(gaps, [Gap { from: half, to: 200_000 - half }]);
}

#[test]
fn what_is_held_outlives_the_budget_by_one_frame_and_says_when_to_stop() {
    let mut log = Retained::new(0, 1 << 20);
    log.append(Stream::Stdout, pattern(0, 1 << 20));
    assert_eq!(log.room(), None, "nothing is held");
    log.hold(Some(100));
    assert_eq!(log.room(), Some(100));
    log.append(Stream::Stdout, pattern(1 << 20, FRAME_BYTES_MAX));
    assert_eq!(log.lost(), 0..100, "a frame that was on its way evicts nothing that is held");
    log.append(Stream::Stdout, pattern(log.end(), FRAME_BYTES_MAX * 2));
    assert_eq!(
        log.lost(),
        0..FRAME_BYTES_MAX as u64,
        "but a pump that does not listen cannot fill the memory"
    );
    log.hold(None);
    assert_eq!(log.tail.len(), 1 << 20);
}

#[test]
fn trimming_keeps_the_end_and_reports_the_rest_as_a_gap() {
    let mut log = filled(100, 100, 150);
    log.trim(80);
    assert_eq!(log.slice(0, 1000).gap, Some(Gap { from: 0, to: 70 }));
    assert_eq!(
        log.slice(70, 1000).piece.unwrap().data,
        pattern(70, 80),
        "across the old border, in one piece"
    );
    log.append(Stream::Stdout, pattern(150, 5));
    assert_eq!(log.retained(), [0..0, 75..155], "the smaller budget stays");
    log.trim(1000);
    assert_eq!(log.tail_bytes(), 80, "and never grows again");
}

#[derive(Clone, Debug)]
enum Step {
    Append { stream: Stream, len: usize },
    Trim { tail_bytes: usize },
    Hold { from: Option<u64> },
    Read { from: u64, max: usize },
}

fn step(scale: usize) -> impl Strategy<Value = Step> {
    let at = 0..(scale * 8) as u64;
    prop_oneof![
        8 => (prop::sample::select(&STREAMS[..]), prop_oneof![0..4_usize, 0..scale])
            .prop_map(|(stream, len)| Step::Append { stream, len }),
        1 => (0..scale * 2).prop_map(|tail_bytes| Step::Trim { tail_bytes }),
        1 => prop::option::of(at.clone()).prop_map(|from| Step::Hold { from }),
        4 => (at, 0..scale * 2).prop_map(|(from, max)| Step::Read { from, max }),
    ]
}

/// The naive log: everything ever printed, and the range that must be lost.
struct Model {
    printed: Vec<(u8, Stream)>,
    head: u64,
    tail_bytes: u64,
    tail_start: u64,
}

impl Model {
    fn end(&self) -> u64 {
        self.printed.len() as u64
    }

    fn evict(&mut self, held: Option<u64>) {
        let to = self.end().saturating_sub(self.tail_bytes);
        let to = held.map_or(to, |held| to.min(held));
        self.tail_start = self.tail_start.max(to);
    }

    /// The lost range, which is empty as long as head and tail touch.
    fn lost(&self) -> Range<u64> {
        let head = self.head.min(self.end());
        head..self.tail_start.max(head)
    }

    fn trim(&mut self, tail_bytes: usize, budget: u64) {
        let start = self.end().saturating_sub(tail_bytes as u64);
        let lost = self.lost();
        self.tail_start = if lost.is_empty() { start } else { start.max(lost.end) };
        self.head = 0;
        self.tail_bytes = budget.min(tail_bytes as u64);
    }

    fn check(&self, log: &Retained, from: u64, max: usize) {
        let (pieces, gaps) = read(log, from, max);
        let mut at = from;
        let mut gaps = gaps.into_iter();
        for piece in pieces {
            if piece.offset != at {
                assert_eq!(
                    gaps.next(),
                    Some(Gap { from: at, to: piece.offset }),
                    "only a gap may lie between pieces"
                );
            }
            assert!(piece.data.len() <= max.max(1));
            for (byte, at) in piece.data.iter().zip(piece.offset..) {
                assert!(!self.lost().contains(&at));
                assert_eq!((*byte, piece.stream), self.printed[at as usize]);
            }
            at = piece.end();
        }
        if let Some(gap) = gaps.next() {
            assert_eq!(gap, Gap { from: at, to: self.end() });
            at = gap.to;
        }
        assert_eq!(at, self.end().max(from), "nothing is missing at the end");
    }
}

fn segments_are_the_same_bytes(model: &Model, log: &Retained, from: u64, to: u64) {
    let mut at = from;
    for segment in log.segments(from, to) {
        match segment {
            Segment::Bytes(bytes) => {
                assert!(!bytes.is_empty());
                assert!(bytes.iter().zip(at..).all(|(byte, at)| *byte == model.printed[at as usize].0));
                at += bytes.len() as u64;
            }
            Segment::Gap(gap) => {
                assert_eq!(gap.from, at);
                assert_eq!(gap.bytes(), log.omitted(from, to));
                at = gap.to;
            }
        }
    }
    assert_eq!(at, to.min(model.end()).max(from));
}

fn play(head: usize, tail: usize, steps: Vec<Step>) {
    let mut log = Retained::new(head, tail);
    let mut model = Model { printed: Vec::new(), head: head as u64, tail_bytes: tail as u64, tail_start: 0 };
    let mut held = None;
    for step in steps {
        match step {
            Step::Append { stream, len } => {
                let data: Bytes = pattern(log.end(), len);
                model.printed.extend(data.iter().map(|byte| (*byte, stream)));
                assert_eq!(log.append(stream, data), model.end());
                model.evict(held);
            }
            Step::Trim { tail_bytes } => {
                let budget = model.tail_bytes + model.head;
                model.trim(tail_bytes, budget);
                log.trim(tail_bytes);
            }
            Step::Hold { from } => {
                held = from;
                log.hold(from);
                model.evict(held);
            }
            Step::Read { from, max } => {
                model.check(&log, from, max);
                segments_are_the_same_bytes(&model, &log, from, from + max as u64);
            }
        }
        assert_eq!(log.lost().is_empty(), model.lost().is_empty());
        if !model.lost().is_empty() {
            assert_eq!(log.lost(), model.lost());
        }
    }
    model.check(&log, 0, 7);
}

proptest! {
    #[test]
    fn every_byte_is_right_or_inside_one_exact_gap(
        head in 0..40_usize, tail in 0..40_usize, steps in prop::collection::vec(step(30), 0..60)
    ) {
        play(head, tail, steps);
    }

    #[test]
    fn the_same_holds_across_chunks_that_are_kept_joined_or_copied(
        head in 0..20_000_usize, tail in 0..20_000_usize, steps in prop::collection::vec(step(12_000), 0..60)
    ) {
        play(head, tail, steps);
    }
}
