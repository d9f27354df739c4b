//! Input and output in one stream.

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::interact_request::Item;

use crate::support::{Bench, PATIENCE, Seen, assert_refused, code};

/// A client at work.
struct Client {
    send: mpsc::Sender<pb::InteractRequest>,
    stream: Streaming<pb::InteractResponse>,
    bytes: Vec<u8>,
    committed: u64,
    exit: Option<pb::Exit>,
}

impl Client {
    async fn open(bench: &Bench, open: pb::InteractOpen) -> Result<Self, Status> {
        let (send, messages) = mpsc::channel(64);
        send.send(pb::InteractRequest { item: Some(Item::Open(open)) }).await.unwrap();
        let stream = bench.exec.clone().interact(ReceiverStream::new(messages)).await?.into_inner();
        let mut client = Self { send, stream, bytes: Vec::new(), committed: 0, exit: None };
        let first = client.next().await.unwrap();
        assert!(matches!(first, Some(Seen::Attached(_))), "{first:?}");
        Ok(client)
    }

    async fn send(&self, item: Item) {
        self.send.send(pb::InteractRequest { item: Some(item) }).await.unwrap();
    }

    async fn input(&self, text: &str) {
        self.send(Item::Stdin(pb::StdinData { offset: None, data: text.as_bytes().to_vec().into() })).await;
    }

    async fn next(&mut self) -> Result<Option<Seen>, Status> {
        let message = timeout(PATIENCE, self.stream.message()).await.expect("nothing comes")?;
        let Some(message) = message else { return Ok(None) };
        let seen: Seen = message.item.unwrap().into();
        match &seen {
            Seen::Output(output) => self.bytes.extend_from_slice(&output.data),
            Seen::Committed(committed) => self.committed = committed.offset,
            Seen::Exited(exit) => self.exit = Some(exit.clone()),
            _ => {}
        }
        Ok(Some(seen))
    }

    /// Reads until this has been printed.
    async fn until(&mut self, text: &str) {
        while !self.bytes.windows(text.len()).any(|part| part == text.as_bytes()) {
            let seen = self.next().await.unwrap();
            assert!(
                seen.is_some(),
                "the end came before {text:?}: {:?}",
                String::from_utf8_lossy(&self.bytes)
            );
        }
    }

    async fn until_the_end(&mut self) {
        while self.next().await.unwrap().is_some() {}
    }
}

fn open(bench: &Bench, process: u32) -> pb::InteractOpen {
    pb::InteractOpen {
        session_id: bench.session.clone(),
        process_id: process,
        turn_id: "turn".into(),
        ..Default::default()
    }
}

#[tokio::test]
async fn what_is_typed_is_echoed_acknowledged_and_sized() {
    let bench = Bench::start().await;
    let mut start = bench.cmd("echo ready; while read line; do echo \"<$line>\"; stty size; done");
    start.tty = true;
    let process = bench.start_ready(start).await;
    let size = pb::TerminalSize { rows: 33, cols: 111 };
    let mut client =
        Client::open(&bench, pb::InteractOpen { terminal_size: Some(size), ..open(&bench, process) })
            .await
            .unwrap();
    client.input("hello\n").await;
    client.until("<hello>").await;
    client.until("33 111").await;
    assert_eq!(client.committed, 6);
    client.send(Item::Resize(pb::TerminalSize { rows: 44, cols: 55 })).await;
    client.input("again\n").await;
    client.until("44 55").await;
    client.send(Item::Eof(pb::StdinEof {})).await;
    client.until_the_end().await;
    assert_eq!(code(client.exit.as_ref()), 0);
}

#[tokio::test]
async fn a_signal_passes_input_that_nobody_reads() {
    let bench = Bench::start().await;
    let mut start = bench.cmd("trap 'echo caught; exit 5' USR1; echo ready; while :; do sleep 0.05; done");
    start.stdin = true;
    let process = bench.start_ready(start).await;
    let mut client = Client::open(&bench, open(&bench, process)).await.unwrap();
    for _ in 0..8 {
        client.input(&"x".repeat(65_536)).await;
    }
    client.send(Item::Signal(pb::InteractSignal { signal: "usr1".into(), scope: 0 })).await;
    client.until("caught").await;
    client.until_the_end().await;
    assert_eq!(code(client.exit.as_ref()), 5);
}

#[tokio::test]
async fn a_window_holds_output_back_until_it_is_acknowledged() {
    let bench = Bench::start().await;
    let process = bench.start_ready(bench.cmd("echo ready; seq 1 20000")).await;
    let window =
        pb::InteractOpen { window_bytes: 4_096, flow: pb::Flow::Block.into(), ..open(&bench, process) };
    let mut client = Client::open(&bench, window).await.unwrap();
    let mut acked = 0;
    loop {
        let sent = client.bytes.len() as u64;
        assert!(sent <= acked + 4_096, "{sent} bytes with {acked} acknowledged");
        if sent == acked + 4_096 {
            acked = sent;
            client.send(Item::Ack(pb::Cursor { attempt: 1, offset: sent })).await;
        }
        if client.next().await.unwrap().is_none() {
            break;
        }
    }
    assert_eq!(client.bytes.len(), 108_894 + 6);
    assert!(client.bytes.ends_with(b"\n20000\n"));
}

#[tokio::test]
async fn a_client_that_goes_ends_neither_the_input_nor_the_process() {
    let bench = Bench::start().await;
    let mut start = bench.cmd("echo ready; exec cat");
    start.stdin = true;
    let process = bench.start_ready(start).await;
    let mut client = Client::open(&bench, open(&bench, process)).await.unwrap();
    client.input("one").await;
    client.until("one").await;
    drop(client);
    let view = bench.process(process).await.unwrap();
    assert!(view.stdin_open && view.exit.is_none());
    let mut client = Client::open(&bench, open(&bench, process)).await.unwrap();
    client.input("two").await;
    client.until("onetwo").await;
    let Client { send, stream, .. } = client;
    // The client has finished sending, and goes on to listen.
    drop(send);
    let mut stream = stream;
    bench.clean().await;
    let mut exited = false;
    while let Some(item) = timeout(PATIENCE, stream.message()).await.unwrap().unwrap() {
        exited |= matches!(item.item.unwrap().into(), Seen::Exited(_));
    }
    assert!(exited);
}

#[tokio::test]
async fn errors_end_the_stream_and_not_the_process() {
    let bench = Bench::start().await;
    let process = bench.start_ready(bench.cmd("echo ready; sleep 60")).await;
    for (item, code, reason) in [
        (Item::Open(open(&bench, process)), Code::InvalidArgument, "STREAM_PROTOCOL"),
        (
            Item::Stdin(pb::StdinData { offset: None, data: "x".into() }),
            Code::FailedPrecondition,
            "STDIN_CLOSED",
        ),
        (
            Item::Signal(pb::InteractSignal { signal: "NOPE".into(), scope: 0 }),
            Code::InvalidArgument,
            "UNKNOWN_SIGNAL",
        ),
        (Item::Resize(pb::TerminalSize { rows: 1, cols: 1 }), Code::FailedPrecondition, "NOT_A_TERMINAL"),
        (Item::Resize(pb::TerminalSize { rows: 70_000, cols: 1 }), Code::InvalidArgument, "INVALID_FIELD"),
    ] {
        let mut client = Client::open(&bench, open(&bench, process)).await.unwrap();
        client.send(item).await;
        let answer = loop {
            match client.next().await {
                Ok(Some(_)) => {}
                other => break other,
            }
        };
        assert_refused(answer, code, reason);
    }
    assert!(bench.process(process).await.unwrap().exit.is_none());
    let (send, messages) = mpsc::channel(1);
    send.send(pb::InteractRequest { item: Some(Item::Eof(pb::StdinEof {})) }).await.unwrap();
    let answer = bench.exec.clone().interact(ReceiverStream::new(messages)).await;
    assert_refused(answer, Code::InvalidArgument, "STREAM_PROTOCOL");
}

#[tokio::test]
async fn an_echo_of_ten_mebibytes_goes_through_without_a_deadlock() {
    let bench = Bench::start().await;
    let mut start = bench.cmd("echo ready; exec cat");
    start.stdin = true;
    let process = bench.start_ready(start).await;
    let interact = pb::InteractOpen { flow: pb::Flow::Block.into(), ..open(&bench, process) };
    let mut client = Client::open(&bench, interact).await.unwrap();
    let send = client.send.clone();
    let typing = tokio::spawn(async move {
        for _ in 0..160 {
            let data = vec![b'y'; 65_536].into();
            let item = Some(Item::Stdin(pb::StdinData { offset: None, data }));
            send.send(pb::InteractRequest { item }).await.unwrap();
        }
        send.send(pb::InteractRequest { item: Some(Item::Eof(pb::StdinEof {})) }).await.unwrap();
    });
    client.until_the_end().await;
    typing.await.unwrap();
    assert_eq!(client.bytes.len(), 10_485_760 + 6);
    assert_eq!(client.committed, 10_485_760);
}
