//! Input: writes, and streams of it.

use tokio_stream::iter;
use tonic::{Code, Status};
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::stream_stdin_request::Item;

use crate::support::{Bench, assert_refused};

/// `cat` on pipes that tells when it is there.
async fn cat(bench: &Bench) -> u32 {
    let mut request = bench.cmd("echo ready; exec cat");
    request.stdin = true;
    bench.start_ready(request).await
}

fn open(bench: &Bench, process: u32, offset: Option<u64>, request_id: &str) -> Item {
    Item::Open(pb::StdinOpen {
        session_id: bench.session.clone(),
        process_id: process,
        turn_id: "turn".into(),
        request_id: request_id.into(),
        offset,
    })
}

fn data(offset: Option<u64>, text: &str) -> Item {
    Item::Data(pb::StdinData { offset, data: text.as_bytes().to_vec().into() })
}

async fn stream(bench: &Bench, items: Vec<Item>) -> Result<pb::StreamStdinResponse, Status> {
    let messages = items.into_iter().map(|item| pb::StreamStdinRequest { item: Some(item) });
    Ok(bench.exec.clone().stream_stdin(iter(messages.collect::<Vec<_>>())).await?.into_inner())
}

async fn output(bench: &Bench, process: u32) -> String {
    let request = pb::ReadOutputRequest {
        session_id: bench.session.clone(),
        process_id: process,
        ..Default::default()
    };
    let read = bench.exec.clone().read_output(request).await.unwrap().into_inner();
    read.chunks.iter().map(|chunk| String::from_utf8_lossy(&chunk.data).into_owned()).collect()
}

#[tokio::test]
async fn a_stream_of_input_is_taken_in_order_and_ended_on_request_only() {
    let bench = Bench::start().await;
    let process = cat(&bench).await;
    let items = vec![open(&bench, process, None, ""), data(None, "one "), data(None, ""), data(None, "two ")];
    let answer = stream(&bench, items).await.unwrap();
    assert_eq!(answer, pb::StreamStdinResponse { committed: 8, eof: false });
    assert!(
        bench.process(process).await.unwrap().stdin_open,
        "the end of a stream is not the end of the input"
    );
    let items = vec![open(&bench, process, None, ""), data(None, "three"), Item::Eof(pb::StdinEof {})];
    let answer = stream(&bench, items).await.unwrap();
    assert_eq!(answer, pb::StreamStdinResponse { committed: 13, eof: true });
    assert_eq!(bench.ended(process).await.exit.unwrap().shell_code, 0);
    assert_eq!(output(&bench, process).await, "ready\none two three");
}

#[tokio::test]
async fn a_stream_that_broke_goes_on_at_its_offset_and_writes_nothing_twice() {
    let bench = Bench::start().await;
    let process = cat(&bench).await;
    stream(&bench, vec![open(&bench, process, Some(0), ""), data(None, "abc"), data(None, "def")])
        .await
        .unwrap();
    // The client does not know how much came through, and sends from an earlier place.
    let items = vec![
        open(&bench, process, Some(0), ""),
        data(None, "abcd"),
        data(None, "efgh"),
        data(Some(6), "ghi"),
    ];
    assert_eq!(stream(&bench, items).await.unwrap().committed, 9);
    let ahead = vec![open(&bench, process, Some(20), ""), data(None, "x")];
    let refused = assert_refused(stream(&bench, ahead).await, Code::OutOfRange, "STDIN_OFFSET_OUT_OF_RANGE");
    assert_eq!((refused.fact("offset"), refused.fact("committed")), ("20".into(), "9".into()));
    stream(&bench, vec![open(&bench, process, None, ""), Item::Eof(pb::StdinEof {})]).await.unwrap();
    bench.ended(process).await;
    assert_eq!(output(&bench, process).await, "ready\nabcdefghi");
}

#[tokio::test]
async fn a_stream_with_a_name_is_recognised_frame_by_frame() {
    let bench = Bench::start().await;
    let process = cat(&bench).await;
    let items = |last: &str| vec![open(&bench, process, None, "r1"), data(None, "one"), data(None, last)];
    assert_eq!(stream(&bench, items("two")).await.unwrap().committed, 6);
    assert_eq!(stream(&bench, items("two")).await.unwrap().committed, 6, "a repeat writes nothing");
    let refused =
        assert_refused(stream(&bench, items("other")).await, Code::AlreadyExists, "REQUEST_ID_REUSED");
    assert_eq!(refused.fact("committed"), "3");
    stream(&bench, vec![open(&bench, process, None, ""), Item::Eof(pb::StdinEof {})]).await.unwrap();
    bench.ended(process).await;
    assert_eq!(output(&bench, process).await, "ready\nonetwo");
}

#[tokio::test]
async fn messages_out_of_order_are_refused_with_the_committed_offset() {
    let bench = Bench::start().await;
    let process = cat(&bench).await;
    let wrong = [
        vec![],
        vec![data(None, "x")],
        vec![open(&bench, process, None, ""), open(&bench, process, None, "")],
    ];
    for items in wrong {
        assert_refused(stream(&bench, items).await, Code::InvalidArgument, "STREAM_PROTOCOL");
    }
    let items =
        vec![open(&bench, process, None, ""), data(None, "abc"), Item::Eof(pb::StdinEof {}), data(None, "x")];
    let refused = assert_refused(stream(&bench, items).await, Code::InvalidArgument, "STREAM_PROTOCOL");
    assert_eq!(refused.fact("committed"), "3");
    bench.ended(process).await;
    let items = vec![open(&bench, process, None, ""), data(None, "x")];
    let refused = assert_refused(stream(&bench, items).await, Code::FailedPrecondition, "PROCESS_ENDED");
    assert_eq!((refused.fact("code"), refused.fact("committed")), ("0".into(), "3".into()));
}

#[tokio::test]
async fn a_megabyte_through_cat_comes_back_whole() {
    let bench = Bench::start().await;
    let process = cat(&bench).await;
    let frame = "0123456789abcdef".repeat(4_096);
    let mut items = vec![open(&bench, process, None, "")];
    items.extend((0..32).map(|_| data(None, &frame)));
    items.push(Item::Eof(pb::StdinEof {}));
    assert_eq!(stream(&bench, items).await.unwrap().committed, 2_097_152);
    let ended = bench.ended(process).await;
    assert_eq!(ended.exit.unwrap().shell_code, 0);
    assert_eq!(bench.process(process).await.unwrap().outputs[0].end, 2_097_152 + 6);
}

#[tokio::test]
async fn pipes_without_stdin_take_the_interrupt_and_nothing_else() {
    let bench = Bench::start().await;
    let process = bench
        .start_ready(bench.cmd("trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.05; done"))
        .await;
    let refused =
        assert_refused(bench.send(bench.write(process, "x")).await, Code::FailedPrecondition, "STDIN_CLOSED");
    assert_eq!(refused.fact("process_id"), process.to_string());
    let mut interrupt = bench.write(process, "\u{3}");
    interrupt.yield_time_ms = Some(30_000);
    let run = bench.send(interrupt).await.unwrap();
    assert_eq!(run.exit_code(), 7);
    assert!(run.text().ends_with("caught\n"), "{}", run.text());
}

#[tokio::test]
async fn a_write_can_end_the_input_and_an_ended_process_says_how_it_ended() {
    let bench = Bench::start().await;
    let process = cat(&bench).await;
    let mut write = bench.write(process, "last\n");
    (write.eof, write.yield_time_ms) = (true, Some(30_000));
    let run = bench.send(write).await.unwrap();
    assert_eq!((run.exit_code(), run.result.stdin_end), (0, Some(5)));
    let refused = assert_refused(
        bench.send(bench.write(process, "x")).await,
        Code::FailedPrecondition,
        "PROCESS_ENDED",
    );
    assert_eq!((refused.fact("exit_reason"), refused.fact("code")), ("EXITED".into(), "0".into()));
    assert!(refused.fact("end_time").ends_with('Z'));

    let process = cat(&bench).await;
    bench.clean().await;
    // Its end was not told yet: this answer does it.
    let told = bench.send(bench.write(process, "x")).await.unwrap();
    assert_eq!(told.result.exit.unwrap().reason(), pb::ExitReason::Cleaned);
    let refused = assert_refused(
        bench.send(bench.write(process, "x")).await,
        Code::FailedPrecondition,
        "PROCESS_ENDED",
    );
    assert_eq!(refused.fact("exit_reason"), "CLEANED");
    assert!(!refused.fact("signal").is_empty());
}
