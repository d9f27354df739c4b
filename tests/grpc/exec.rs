//! Starts: short commands, commands that live on, one-shots, output of any size.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use unified_exec::grpc::pb;

use crate::support::{Bench, PATIENCE, Seen, code, collect};

#[tokio::test]
async fn a_short_command_tells_its_start_its_output_and_its_end_once() {
    let bench = Bench::start().await;
    let run = bench.run(bench.cmd("echo out; echo err >&2; exit 3")).await.unwrap();
    assert!(
        matches!(run.items[0], Seen::AttemptStarted(ref started) if started.os_pid > 0),
        "{:?}",
        run.items
    );
    let Seen::Started(started) = &run.items[1] else { panic!("{:?}", run.items) };
    assert_eq!(started.argv, ["bash", "-c", "echo out; echo err >&2; exit 3"]);
    assert_eq!(started.cwd, "/tmp");
    assert_eq!(run.exit_code(), 3);
    assert_eq!(run.result.process_id, None, "an ended process has no id to go on with");
    assert!(run.text().contains("out\n") && run.text().contains("err\n"));
    let text = run.result.text.as_ref().unwrap();
    assert!(text.text.contains("Process exited with code 3"), "{}", text.text);
    assert_eq!(run.result.next.as_ref().unwrap().offset, 8);
    assert!(run.result.outputs_closed);
    assert_eq!(run.result.wait_end(), pb::WaitEnd::Exited);
    let exit = run.result.exit.unwrap();
    assert_eq!(exit.reason(), pb::ExitReason::Exited);
    assert!(exit.end_time.is_some() && exit.usage.is_some());
}

#[tokio::test]
async fn streams_are_told_apart_and_a_program_runs_without_a_shell() {
    let bench = Bench::start().await;
    let mut request = bench.cmd("");
    request.command = Some(pb::Command {
        argv: vec!["printf".into(), "%s".into(), "$HOME *".into()],
        env: vec![pb::EnvVar { name: "X".into(), value: vec![0xff, 0xfe].into() }],
        ..Default::default()
    });
    assert_eq!(bench.run(request).await.unwrap().text(), "$HOME *");
    let mut stream = bench.exec.clone().exec_command(bench.cmd("echo err >&2")).await.unwrap().into_inner();
    let mut seen = None;
    while let Some(item) = stream.message().await.unwrap() {
        if let Seen::Output(output) = item.item.unwrap().into() {
            seen = Some(output.stream());
        }
    }
    assert_eq!(seen, Some(pb::Stream::Stderr));
}

#[tokio::test]
async fn a_repl_lives_on_and_answers_what_is_written_to_it() {
    let bench = Bench::start().await;
    let mut request = bench.cmd("python3 -q");
    (request.tty, request.yield_time_ms) = (true, Some(1_500));
    let started = bench.run(request).await.unwrap();
    let process = started.process();
    assert_eq!(started.result.wait_end(), pb::WaitEnd::Yielded);
    let mut write = bench.write(process, "6*7\n");
    write.yield_time_ms = Some(1_500);
    let answer = bench.send(write).await.unwrap();
    assert!(answer.text().contains("42"), "{}", answer.text());
    assert_eq!((answer.result.stdin_start, answer.result.stdin_end), (Some(0), Some(4)));
    assert_eq!(answer.result.start, started.result.next, "an answer begins where the last one ended");
    let view = bench.process(process).await.unwrap();
    assert!(view.tty && view.stdin_open);
    assert_eq!(view.terminal_size, Some(pb::TerminalSize { rows: 24, cols: 80 }));
    assert_eq!((view.stdin_committed, view.state()), (4, pb::ProcessState::Running));
    let cleaned = bench.clean().await;
    assert_eq!(cleaned.ended.len(), 1);
    assert_eq!(cleaned.ended[0].exit.as_ref().unwrap().reason(), pb::ExitReason::Cleaned);
}

#[tokio::test]
async fn ten_mebibytes_arrive_whole_when_the_reader_blocks() {
    let bench = Bench::start().await;
    let mut request = bench.cmd("head -c 10485760 /dev/zero | tr '\\0' x");
    (request.follow, request.flow) = (true, pb::Flow::Block.into());
    let run = bench.run(request).await.unwrap();
    assert_eq!((run.bytes.len(), run.gaps.len()), (10_485_760, 0));
    assert!(run.bytes.iter().all(|byte| *byte == b'x'));
    assert_eq!(run.result.next.as_ref().unwrap().offset, 10_485_760);
    assert!(run.result.text.unwrap().truncated);
}

#[tokio::test]
async fn a_reader_that_does_not_block_accounts_for_every_byte() {
    let bench = Bench::start().await;
    let mut request = bench.cmd("head -c 10485760 /dev/zero");
    request.follow = true;
    let run = bench.run(request).await.unwrap();
    let lost: u64 = run.gaps.iter().map(|gap| gap.end - gap.start).sum();
    assert_eq!(run.bytes.len() as u64 + lost, 10_485_760);
}

#[tokio::test]
async fn without_output_the_result_is_enough() {
    let bench = Bench::start().await;
    let mut request = bench.cmd("echo hello");
    (request.stream_output, request.max_output_tokens) = (Some(false), Some(1_000_000));
    let run = bench.run(request).await.unwrap();
    assert!(run.bytes.is_empty());
    assert!(run.result.text.unwrap().text.ends_with("hello\n"));
}

#[tokio::test]
async fn a_one_shot_ends_with_its_timeout_its_interrupt_or_its_client() {
    let bench = Bench::start().await;
    let request = |cmd: &str, timeout: u32| pb::ExecToCompletionRequest {
        session_id: bench.session.clone(),
        turn_id: "turn".into(),
        command: Some(pb::Command { cmd: cmd.into(), ..Default::default() }),
        timeout_ms: Some(timeout),
        ..Default::default()
    };
    let mut client = bench.exec.clone();
    let stream = client.exec_to_completion(request("echo on; sleep 60", 500)).await.unwrap().into_inner();
    let run = collect(stream, |item| item.item.map(Into::into)).await.unwrap();
    let exit = run.result.exit.clone().unwrap();
    assert_eq!((exit.reason(), exit.shell_code), (pb::ExitReason::Timeout, 124));
    assert_eq!((exit.timeout(), run.text().as_str()), (pb::TimeoutKind::OneShot, "on\n"));
    assert_eq!(run.result.process_id, None);

    let stream = client.exec_to_completion(request("sleep 60", 50_000)).await.unwrap().into_inner();
    let waiting = tokio::spawn(collect(stream, |item| item.item.map(Into::into)));
    let started = Instant::now();
    while bench.interrupt("turn").await.one_shot_process_ids.is_empty() {
        assert!(started.elapsed() < PATIENCE);
    }
    let run = waiting.await.unwrap().unwrap();
    assert_eq!(run.result.wait_end(), pb::WaitEnd::Interrupted);

    let mut stream = client.exec_to_completion(request("sleep 60", 50_000)).await.unwrap().into_inner();
    let process = loop {
        let item = stream.message().await.unwrap().unwrap();
        if let Seen::Started(started) = item.item.unwrap().into() {
            break started.process_id;
        }
    };
    drop(stream);
    let ended = bench.ended(process).await;
    assert_eq!(ended.exit.unwrap().reason(), pb::ExitReason::Disconnected);
}

#[tokio::test]
async fn an_interrupt_ends_the_wait_and_nothing_else() {
    let bench = Bench::start().await;
    let process = bench.start_ready(bench.cmd("echo ready; sleep 60")).await;
    let mut poll = bench.write(process, "");
    poll.content = None;
    poll.yield_time_ms = Some(300_000);
    let waiting = tokio::spawn({
        let bench = bench.clone();
        async move { bench.send(poll).await }
    });
    let started = Instant::now();
    let report = loop {
        let report = bench.interrupt("turn").await;
        if report.waits_ended > 0 {
            break report;
        }
        assert!(started.elapsed() < PATIENCE);
    };
    assert_eq!(report.alive_process_ids, [process]);
    let run = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!((run.result.wait_end(), run.process()), (pb::WaitEnd::Interrupted, process));
    assert_eq!(bench.interrupt("other").await, pb::InterruptResponse::default());
    let cleaned = bench.clean().await;
    assert!(cleaned.survivors.is_empty());
    assert_eq!(cleaned.ended.iter().map(|ended| ended.process_id).collect::<Vec<_>>(), [process]);
}

#[tokio::test]
async fn timeouts_end_a_process_and_say_which() {
    let bench = Bench::start().await;
    for (kind, set) in [
        (pb::TimeoutKind::Hard, (300, 0, 0)),
        (pb::TimeoutKind::NoOutput, (0, 300, 0)),
        (pb::TimeoutKind::AfterDisconnect, (0, 0, 300)),
    ] {
        let mut request = bench.cmd("sleep 60");
        request.yield_time_ms = Some(250);
        (request.hard_timeout_ms, request.no_output_timeout_ms, request.after_disconnect_timeout_ms) = set;
        let process = bench.run(request).await.unwrap().process();
        // A wait is a client too: only a look leaves the process alone.
        let started = Instant::now();
        let exit = loop {
            let list = bench.process(process).await.unwrap();
            if let Some(exit) = list.exit {
                break exit;
            }
            assert!(started.elapsed() < PATIENCE);
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!((exit.reason(), exit.timeout()), (pb::ExitReason::Timeout, kind));
    }
}

#[tokio::test]
async fn descendants_that_outlive_a_process_are_listed_and_terminated() {
    let bench = Bench::start().await;
    let run = bench.run(bench.cmd("sleep 61 >/dev/null 2>&1 & echo $!")).await.unwrap();
    assert_eq!(run.exit_code(), 0);
    let child: u32 = run.text().trim().parse().unwrap();
    let list = pb::ListProcessesRequest {
        session_id: bench.session.clone(),
        include_descendants: true,
        ..Default::default()
    };
    let listed = bench.exec.clone().list_processes(list).await.unwrap().into_inner().processes;
    assert_eq!(listed.len(), 1, "an ended process with descendants is still there");
    let process = &listed[0];
    assert_eq!(process.descendants.iter().map(|found| found.pid).collect::<Vec<_>>(), [child]);
    let request = pb::TerminateProcessRequest {
        session_id: bench.session.clone(),
        process_id: process.process_id,
        ..Default::default()
    };
    let ended = bench.exec.clone().terminate_process(request).await.unwrap().into_inner();
    assert!(ended.survivors.is_empty());
    assert_eq!(code(ended.ended[0].exit.as_ref()), 0, "its own end is what it was");
    assert!(bench.process(process.process_id).await.unwrap().descendants.is_empty());
}
