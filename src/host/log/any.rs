//! Whatever is said, read, opened, dropped and trimmed in whatever order: every reader gets each byte from its cursor on
//! once, or in one exact gap, and one that blocks gets all that was there when it came.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    /// The pump appends as much as it may, at most this.
    Say(usize),
    /// A reader comes, at this part of what there is.
    Open(prop::sample::Index, Flow),
    Read(prop::sample::Index, usize),
    /// A reader goes, and comes back where it was.
    Resume(prop::sample::Index),
    Drop(prop::sample::Index),
    Trim(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let flow = prop::sample::select(vec![Flow::DropWithGap, Flow::Block]);
    prop_oneof![
        8 => (1..40_usize).prop_map(Step::Say),
        3 => (any::<prop::sample::Index>(), flow).prop_map(|(at, flow)| Step::Open(at, flow)),
        8 => (any::<prop::sample::Index>(), 1..60_usize).prop_map(|(reader, max)| Step::Read(reader, max)),
        2 => any::<prop::sample::Index>().prop_map(Step::Resume),
        1 => any::<prop::sample::Index>().prop_map(Step::Drop),
        1 => (0..40_usize).prop_map(Step::Trim),
    ]
}

const fn said(at: u64) -> u8 {
    (at % 251) as u8
}

/// How much the pump may append now; `None` while it has to wait.
fn room(log: &OutputLog) -> Option<usize> {
    match pin!(log.writable()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(room) => Some(room),
        Poll::Pending => None,
    }
}

/// A reader, and what must be true of it.
struct Followed {
    reader: LogReader,
    flow: Flow,
    /// Bytes past its cursor that were lost before it came; a reader that blocks loses no others.
    lost: u64,
}

impl Followed {
    fn open(log: &Arc<OutputLog>, from: u64, flow: Flow) -> Self {
        Self { reader: log.reader(from, flow), flow, lost: log.omitted(from, log.end()) }
    }

    /// Reads once, and checks it; answers whether there may be more.
    fn read(&mut self, log: &OutputLog, max: usize) -> bool {
        let cursor = self.reader.cursor();
        match self.reader.try_next(max) {
            Some(Next::Piece(piece)) => {
                assert_eq!(piece.offset, cursor, "nothing is left out without a word");
                assert!((1..=max).contains(&piece.data.len()));
                assert!(piece.data.iter().zip(cursor..).all(|(byte, at)| *byte == said(at)));
                assert_eq!(self.reader.cursor(), piece.end());
                true
            }
            Some(Next::Gap(gap)) => {
                assert_eq!(gap.from, cursor);
                assert_eq!(self.reader.cursor(), gap.to);
                assert_eq!(log.omitted(gap.from, gap.to), gap.bytes(), "only what is lost is a gap");
                assert_eq!(log.omitted(gap.to, gap.to + 1), 0, "and all of it is one gap");
                if self.flow == Flow::Block {
                    assert!(gap.bytes() <= self.lost, "lost although the child waits: {gap:?}");
                    self.lost -= gap.bytes();
                }
                true
            }
            Some(Next::Closed(end)) => {
                assert_eq!((cursor, end), (log.end(), log.end()));
                false
            }
            None => {
                assert_eq!(cursor, log.end(), "a reader that lags always gets something");
                false
            }
        }
    }
}

fn play(head: usize, tail: usize, steps: Vec<Step>) {
    let log = Arc::new(OutputLog::with_budget(head, tail));
    let mut readers: Vec<Followed> = Vec::new();
    for step in steps {
        match step {
            Step::Say(most) => {
                let Some(room) = room(&log) else {
                    let lags = |followed: &Followed| followed.flow == Flow::Block && followed.reader.lags();
                    assert!(readers.iter().any(lags), "the child waits for nobody");
                    continue;
                };
                let length = most.min(room) as u64;
                let data: Vec<u8> = (log.end()..log.end() + length).map(said).collect();
                log.append(Stream::Stdout, data.into());
            }
            Step::Open(at, flow) => {
                let from = at.index(usize::try_from(log.end()).unwrap() + 1) as u64;
                readers.push(Followed::open(&log, from, flow));
            }
            Step::Trim(tail) => log.trim(tail),
            Step::Read(_, _) | Step::Resume(_) | Step::Drop(_) if readers.is_empty() => {}
            Step::Read(which, max) => {
                let which = which.index(readers.len());
                readers[which].read(&log, max);
            }
            Step::Resume(which) => {
                let gone = readers.swap_remove(which.index(readers.len()));
                let (cursor, flow) = (gone.reader.cursor(), gone.flow);
                drop(gone);
                readers.push(Followed::open(&log, cursor, flow));
            }
            Step::Drop(which) => drop(readers.swap_remove(which.index(readers.len()))),
        }
    }
    log.close();
    for mut followed in readers {
        while followed.read(&log, 7) {}
        assert_eq!(followed.reader.cursor(), log.end());
    }
    assert!(room(&log).is_some(), "nobody reads, and the child waits");
}

proptest! {
    #[test]
    fn every_reader_gets_each_byte_once_or_in_one_exact_gap(
        head in 0..60_usize, tail in 1..60_usize, steps in prop::collection::vec(step(), 0..80)
    ) {
        play(head, tail, steps);
    }
}
