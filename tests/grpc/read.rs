//! Unary reads of output.

use tokio::time::Instant;
use tonic::{Code, Status};
use unified_exec::grpc::pb;

use crate::support::{Bench, PATIENCE, assert_refused};

async fn read(
    bench: &Bench,
    process: u32,
    offset: u64,
    max_bytes: u32,
    wait_ms: u32,
) -> Result<pb::ReadOutputResponse, Status> {
    let request = pb::ReadOutputRequest {
        session_id: bench.session.clone(),
        process_id: process,
        turn_id: "turn".into(),
        cursor: Some(pb::Cursor { attempt: 0, offset }),
        max_bytes,
        wait_ms,
    };
    Ok(bench.exec.clone().read_output(request).await?.into_inner())
}

fn bytes(read: &pb::ReadOutputResponse) -> Vec<u8> {
    read.chunks.iter().flat_map(|chunk| chunk.data.iter().copied()).collect()
}

#[tokio::test]
async fn ranges_are_read_without_moving_anything() {
    let bench = Bench::start().await;
    let run = bench.run(bench.cmd("printf 0123456789")).await.unwrap();
    let process = bench.start_ready(bench.cmd("echo ready; sleep 60")).await;
    assert_eq!(run.bytes, b"0123456789");
    for _ in 0..2 {
        let part = read(&bench, process, 2, 3, 0).await.unwrap();
        assert_eq!((bytes(&part), part.next.unwrap().offset, part.end), (b"ady".to_vec(), 5, 6));
        assert_eq!((part.state(), part.exit), (pb::ProcessState::Running, None));
    }
    let answer = bench.send(bench.write(process, "\u{3}")).await.unwrap();
    assert_eq!(answer.result.start.unwrap().offset, 0, "the model has not seen any of it");
    assert_refused(read(&bench, process, 7, 0, 0).await, Code::OutOfRange, "CURSOR_OUT_OF_RANGE");
}

#[tokio::test]
async fn a_read_waits_for_the_next_byte_and_no_longer() {
    let bench = Bench::start().await;
    let mut start = bench.cmd("echo ready; while read line; do echo \"<$line>\"; done");
    start.stdin = true;
    let process = bench.start_ready(start).await;
    let nothing = read(&bench, process, 6, 0, 100).await.unwrap();
    assert_eq!((nothing.chunks.len(), nothing.next.unwrap().offset), (0, 6));
    let waiting = tokio::spawn({
        let bench = bench.clone();
        async move { read(&bench, process, 6, 0, 300_000).await }
    });
    let started = Instant::now();
    bench.send(bench.write(process, "x\n")).await.unwrap();
    assert_eq!(bytes(&waiting.await.unwrap().unwrap()), b"<x>\n");
    assert!(started.elapsed() < PATIENCE);
    let waiting = tokio::spawn({
        let bench = bench.clone();
        async move { read(&bench, process, 10, 0, 300_000).await }
    });
    while bench.interrupt("turn").await.waits_ended == 0 {
        assert!(started.elapsed() < PATIENCE);
    }
    assert!(waiting.await.unwrap().unwrap().interrupted);
    let waiting = tokio::spawn({
        let bench = bench.clone();
        async move { read(&bench, process, 10, 0, 300_000).await }
    });
    bench.clean().await;
    let ended = waiting.await.unwrap().unwrap();
    assert!(ended.chunks.is_empty());
    let ended = read(&bench, process, 10, 0, 300_000).await.unwrap();
    assert_eq!((ended.state(), ended.end), (pb::ProcessState::Closed, 10));
    assert_eq!(ended.exit.unwrap().reason(), pb::ExitReason::Cleaned);
}

#[tokio::test]
async fn a_range_across_lost_bytes_has_its_gap() {
    let bench = Bench::start().await;
    let mut flood = bench.cmd("head -c 4194304 /dev/zero; echo; echo ready >&2; sleep 60");
    flood.stream_output = Some(true);
    let process = bench.start_ready(flood).await;
    let (mut next, mut seen, mut lost) = (0, 0, 0);
    loop {
        let part = read(&bench, process, next, 1_000_000, 0).await.unwrap();
        seen += part.chunks.iter().map(|chunk| chunk.data.len() as u64).sum::<u64>();
        lost += part.gaps.iter().map(|gap| gap.end - gap.start).sum::<u64>();
        next = part.next.unwrap().offset;
        assert_eq!(seen + lost, next, "chunks and gaps cover the range");
        if next == part.end {
            break;
        }
    }
    assert_eq!(next, 4_194_304 + 7);
    assert!(lost > 0);
    bench.clean().await;
}
