use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::timeout;

use super::*;

const A_WHILE: Duration = Duration::from_secs(60);

fn log(head: usize, tail: usize) -> Arc<OutputLog> {
    Arc::new(OutputLog::with_budget(head, tail))
}

fn put(log: &OutputLog, text: &'static str) {
    log.append(Stream::Stdout, Bytes::from_static(text.as_bytes()));
}

fn piece(offset: u64, text: &'static str) -> Next {
    Next::Piece(Piece { offset, stream: Stream::Stdout, data: Bytes::from_static(text.as_bytes()) })
}

/// Whether a future is still waiting after a (paused) minute.
async fn waits<T>(future: impl Future<Output = T>) -> bool {
    timeout(A_WHILE, future).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn a_reader_gets_what_is_there_then_waits_then_gets_the_end() {
    let log = log(100, 100);
    put(&log, "ab");
    let mut reader = log.reader(0, Flow::DropWithGap);
    assert_eq!(reader.next(100).await, piece(0, "ab"));
    assert!(waits(reader.next(100)).await);
    put(&log, "c");
    assert_eq!(reader.next(100).await, piece(2, "c"), "a dropped wait has moved nothing");
    log.close();
    assert_eq!(reader.next(100).await, Next::Closed(3));
    assert_eq!(reader.next(100).await, Next::Closed(3), "the end may be asked for again");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_reader_is_woken_by_the_first_byte_and_by_the_close() {
    let log = log(100, 100);
    let mut reader = log.reader(0, Flow::DropWithGap);
    let task = tokio::spawn(async move { (reader.next(100).await, reader.next(100).await) });
    tokio::task::yield_now().await;
    put(&log, "a");
    tokio::task::yield_now().await;
    log.close();
    assert_eq!(task.await.unwrap(), (piece(0, "a"), Next::Closed(1)));
}

#[tokio::test(start_paused = true)]
async fn reading_takes_nothing_out_and_a_reader_that_comes_back_loses_nothing() {
    let log = log(4, 4);
    put(&log, "abcdef");
    for from in 0..6 {
        let mut text = Vec::new();
        let mut reader = log.reader(from, Flow::DropWithGap);
        while let Some(Next::Piece(piece)) = reader.try_next(100) {
            text.extend_from_slice(&piece.data);
        }
        assert_eq!(text, b"abcdef"[from as usize..]);
        assert_eq!(reader.cursor(), 6);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_lags_gets_an_exact_gap_and_costs_nobody_anything() {
    let log = log(2, 3);
    let mut reader = log.reader(0, Flow::DropWithGap);
    put(&log, "abcdefghij");
    assert_eq!(log.writable().await, usize::MAX);
    assert_eq!(reader.next(100).await, piece(0, "ab"));
    assert_eq!(reader.next(100).await, Next::Gap(Gap { from: 2, to: 7 }));
    assert_eq!(reader.next(100).await, piece(7, "hij"));
}

#[tokio::test(start_paused = true)]
async fn a_reader_ahead_of_the_log_starts_at_its_offset() {
    let log = log(100, 100);
    let mut reader = log.reader(3, Flow::DropWithGap);
    put(&log, "ab");
    assert!(waits(reader.next(100)).await);
    put(&log, "cde");
    assert_eq!(reader.next(100).await, piece(3, "de"));
}

#[tokio::test(start_paused = true)]
async fn the_pump_waits_for_a_blocking_reader_and_runs_on_when_it_reads() {
    let log = log(4, 8);
    let mut reader = log.reader(0, Flow::Block);
    put(&log, "abcdefgh");
    assert_eq!(log.writable().await, 4, "head and tail have room for four more");
    put(&log, "ijkl");
    assert!(waits(log.writable()).await);
    assert_eq!(reader.next(100).await, piece(0, "abcd"));
    assert!(waits(log.writable()).await, "the head was never in the way");
    assert_eq!(reader.next(5).await, piece(4, "efghi"));
    assert_eq!(log.writable().await, 5);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_blocking_reader_lets_the_child_run_on() {
    let log = log(0, 4);
    let slow = log.reader(0, Flow::Block);
    let slower = log.reader(0, Flow::Block);
    put(&log, "abcd");
    let pump = tokio::spawn({
        let log = Arc::clone(&log);
        async move { log.writable().await }
    });
    drop(slow);
    tokio::time::sleep(A_WHILE).await;
    assert!(!pump.is_finished());
    drop(slower);
    assert_eq!(pump.await.unwrap(), usize::MAX);
}

#[tokio::test(start_paused = true)]
async fn what_was_on_its_way_when_a_blocking_reader_came_is_not_lost() {
    let log = log(0, 4);
    put(&log, "abcd");
    assert_eq!(log.writable().await, usize::MAX, "the pump has been let through");
    let mut reader = log.reader(0, Flow::Block);
    put(&log, "efgh");
    assert_eq!(reader.next(100).await, piece(0, "abcdefgh"));
    assert_eq!(log.omitted(0, 8), 4, "then the tail shrinks to its budget");
}

#[tokio::test(start_paused = true)]
async fn a_trim_waits_for_a_blocking_reader() {
    let log = log(100, 100);
    put(&log, "abcdef");
    let mut reader = log.reader(0, Flow::Block);
    log.trim(2);
    assert_eq!(log.omitted(0, 6), 0);
    assert_eq!(reader.next(4).await, piece(0, "abcd"));
    assert_eq!(log.omitted(0, 6), 4);
    assert_eq!(reader.next(100).await, piece(4, "ef"));
}

#[tokio::test(start_paused = true)]
async fn a_closed_log_takes_nothing_more() {
    let log = log(100, 100);
    put(&log, "a");
    log.close();
    put(&log, "b");
    assert_eq!(log.changed(7).await, Extent { end: 1, closed: true });
}

#[test]
fn an_idle_log_is_tiny() {
    let idle = size_of::<OutputLog>();
    assert!(idle <= 512, "{idle} bytes");
}

/// Prints `frames` frames as a pump does, on all cores.
async fn pump(log: Arc<OutputLog>, frames: u64, frame: usize) {
    for _ in 0..frames {
        log.writable().await;
        let from = log.end();
        let data: Vec<u8> = (from..from + frame as u64).map(|at| (at % 251) as u8).collect();
        log.append(Stream::Terminal, data.into());
        if from.is_multiple_of(7) {
            tokio::task::yield_now().await;
        }
    }
    log.close();
}

/// Reads to the end; every byte must be right. Answers how many were lost.
async fn follow(mut reader: LogReader, max: usize) -> u64 {
    let mut lost = 0;
    let mut at = reader.cursor();
    loop {
        match reader.next(max).await {
            Next::Piece(piece) => {
                assert_eq!(piece.offset, at);
                assert!(piece.data.iter().zip(at..).all(|(byte, at)| u64::from(*byte) == at % 251));
                at = piece.end();
            }
            Next::Gap(gap) => {
                assert_eq!(gap.from, at);
                lost += gap.bytes();
                at = gap.to;
            }
            Next::Closed(end) => {
                assert_eq!(at, end);
                return lost;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_wakeup_is_lost_between_a_pump_and_its_readers() {
    for round in 0..200 {
        let log = log(64, 64);
        let blocking: Vec<_> =
            (0..3).map(|_| tokio::spawn(follow(log.reader(0, Flow::Block), 1 + round % 50))).collect();
        let other = tokio::spawn(follow(log.reader(0, Flow::DropWithGap), 10));
        let pump = tokio::spawn(pump(Arc::clone(&log), 200, 1 + round % 30));
        let all = async {
            for reader in blocking {
                assert_eq!(reader.await.unwrap(), 0, "a blocking reader loses nothing");
            }
            other.await.unwrap();
            pump.await.unwrap();
        };
        timeout(Duration::from_secs(30), all).await.expect("nobody waits for ever");
    }
}

/// The next byte comes only when the last one has been read, so a single lost wakeup stops both sides for ever; and
/// it comes from a thread of its own, a little later each time, so that it falls on every step of the registration.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wakeup_is_lost_where_no_later_one_would_make_up_for_it() {
    const ROUNDS: u64 = 100_000;
    let log = log(10, 10);
    let read = Arc::new(AtomicU64::new(0));
    let printer = tokio::task::spawn_blocking({
        let (log, read) = (Arc::clone(&log), Arc::clone(&read));
        move || {
            for round in 0..ROUNDS {
                while read.load(Ordering::Acquire) < round {
                    std::hint::spin_loop();
                }
                (0..round % 97).for_each(|_| std::hint::spin_loop());
                put(&log, "x");
            }
        }
    });
    let mut reader = log.reader(0, Flow::DropWithGap);
    while reader.cursor() < ROUNDS {
        let next = timeout(Duration::from_secs(10), reader.next(1)).await;
        read.store(reader.cursor(), Ordering::Release);
        if next.is_err() {
            read.store(ROUNDS, Ordering::Release);
            panic!("a wakeup was lost before byte {}", reader.cursor());
        }
    }
    printer.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn blocking_readers_that_come_and_go_never_stop_the_child_for_good() {
    let log = log(100, 1_000);
    let pump = tokio::spawn(pump(Arc::clone(&log), 20_000, 33));
    let visitors = (0..4).map(|n| {
        let log = Arc::clone(&log);
        tokio::spawn(async move {
            while !log.is_closed() {
                let mut reader = log.reader(log.end(), Flow::Block);
                // Between the two calls above, the log may have gone on by more than it holds.
                reader.next(500).await;
                for _ in 0..n {
                    let next = reader.next(500).await;
                    assert!(!matches!(next, Next::Gap(_)), "from where it came in, nothing is lost");
                }
                drop(reader);
                tokio::task::yield_now().await;
            }
        })
    });
    let visitors: Vec<_> = visitors.collect();
    timeout(Duration::from_secs(60), pump).await.expect("the child is not stalled for ever").unwrap();
    for visitor in visitors {
        visitor.await.unwrap();
    }
}
