//! Output across answers: whole characters, no seams, nothing too large.

use unified_exec::grpc::pb;

use super::{Stage, code, on_terminal, output, short};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h01_a_character_that_comes_in_pieces_stays_whole() {
    let stage = Stage::set().await;
    let session = &stage.session;
    let line = "printf 'a\\xe2'; sleep 0.5; printf '\\x89'; sleep 0.2; printf '\\xa4z\\n'";
    for (request, end) in [(session.line(line), "\n"), (on_terminal(session.line(line)), "\r\n")] {
        let first = session.run(short(request)).await.unwrap();
        let rest = session.poll(first.process_id.unwrap()).await.unwrap();
        assert_eq!(output(&first), "a");
        assert_eq!(output(&rest), format!("\u{2264}z{end}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h03_bytes_that_are_no_text_are_replaced_in_text_only() {
    let stage = Stage::set().await;
    let session = &stage.session;
    let result = session.sh("printf 'before\\xffafter\\n'; exit 2").await;
    assert_eq!((code(&result), output(&result)), (Some(2), "before\u{fffd}after\n"));
    let result = session.sh("printf 'ok \\xe2\\x82'").await;
    assert_eq!((code(&result), output(&result)), (Some(0), "ok \u{fffd}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i11_successive_answers_join_without_a_seam() {
    let stage = Stage::set().await;
    let session = &stage.session;
    let line = "for i in $(seq 1 40); do echo n$i; sleep 0.05; done";
    let first = session.run(short(session.line(line))).await.unwrap();
    let id = first.process_id.unwrap();
    let mut joined = output(&first).to_owned();
    let mut at = first.next.unwrap().offset;
    // A write of nothing is a poll, so that only the end of the program ends it.
    let rest = session.poll(id).await.unwrap();
    assert_eq!(rest.start.unwrap().offset, at);
    at = rest.next.unwrap().offset;
    joined += output(&rest);
    let wanted: String = (1..=40).map(|number| format!("n{number}\n")).collect();
    assert_eq!((joined, at), (wanted.clone(), wanted.len() as u64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p02_a_large_output_fits_a_client_as_it_comes() {
    let stage = Stage::set().await;
    let session = &stage.session;
    let result = session.sh("head -c 10485760 /dev/urandom").await;
    assert_eq!((code(&result), result.next.unwrap().offset), (Some(0), 10_485_760));
    assert_eq!(result.omitted_bytes, 10_485_760 - 1_048_576);
    let text = result.text.unwrap();
    assert!(text.truncated && text.text.len() < 200_000, "{} bytes of text", text.text.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p03_a_reader_that_comes_back_gets_every_byte_once_or_an_exact_gap() {
    use pb::attach_response::Item;
    let stage = Stage::set().await;
    let session = &stage.session;
    let result = session.sh("seq 1 300000").await;
    assert_eq!(code(&result), Some(0));
    let total = result.next.unwrap().offset;
    let process_id = session.list().await.first().map(|process| process.process_id);
    let id = match process_id {
        Some(id) => id,
        // It has left the list with its result; a new one is attached to while it waits.
        None => {
            let line = "seq 1 300000; read -t 20 line";
            let request = pb::ExecCommandRequest { stdin: true, ..short(session.line(line)) };
            let result = session.run(request).await.unwrap();
            assert_eq!(result.next.unwrap().offset, total);
            result.process_id.unwrap()
        }
    };
    let (mut at, mut gaps, mut drops) = (0, Vec::new(), 0);
    let mut tail = Vec::new();
    while at < total {
        let request = pb::AttachRequest {
            session_id: session.id.clone(),
            process_id: id,
            cursor: Some(pb::Cursor { attempt: 1, offset: at }),
            max_frame_bytes: 50_000,
            ..Default::default()
        };
        let mut stream = session.client.exec.clone().attach(request).await.unwrap().into_inner();
        // Three items each time, then the connection is lost.
        for _ in 0..3 {
            match stream.message().await.unwrap().and_then(|message| message.item) {
                Some(Item::Output(frame)) => {
                    assert_eq!(frame.offset, at);
                    assert!(frame.data.len() <= 50_000);
                    at += frame.data.len() as u64;
                    tail = frame.data.to_vec();
                }
                Some(Item::Gap(gap)) => {
                    assert_eq!(gap.start, at);
                    at = gap.end;
                    gaps.push(gap.end - gap.start);
                }
                Some(Item::Attached(attached)) => assert_eq!(attached.cursor.unwrap().offset, at),
                _ => break,
            }
        }
        drops += 1;
    }
    assert!(drops > 5);
    assert_eq!(gaps, [total - 1_048_576], "what is not retained is one gap");
    assert!(tail.ends_with(b"300000\n"));
}
