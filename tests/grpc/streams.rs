//! What holds for every long stream: signs of life, deadlines, word of a shutdown, a trace.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use tonic::{Code, Request};
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::watch_session_response::Item;

use crate::support::{Bench, PATIENCE, Seen, assert_refused, with_timeout};

#[tokio::test]
async fn a_silent_stream_gives_a_sign_of_life_at_the_interval_that_was_asked() {
    let bench = Bench::start().await;
    let mut request = bench.cmd("sleep 60");
    (request.follow, request.keepalive_interval_ms) = (true, 1);
    let mut stream = bench.exec.clone().exec_command(request).await.unwrap().into_inner();
    let started = Instant::now();
    let mut signs = 0;
    while signs < 2 {
        let item = timeout(PATIENCE, stream.message()).await.unwrap().unwrap().unwrap();
        match item.item.unwrap().into() {
            Seen::Keepalive => signs += 1,
            Seen::Result(end) => panic!("it ended: {end:?}"),
            _ => {}
        }
    }
    assert!(started.elapsed() >= Duration::from_millis(1_900), "at least a second, whatever was asked");
    let watch = pb::WatchSessionRequest {
        session_id: bench.session.clone(),
        keepalive_interval_ms: 1_000,
        ..Default::default()
    };
    let mut feed = bench.sessions.clone().watch_session(watch).await.unwrap().into_inner();
    let item = timeout(PATIENCE, feed.message()).await.unwrap().unwrap().unwrap();
    assert!(matches!(item.item, Some(Item::Keepalive(sign)) if sign.time.is_some()));
}

#[tokio::test]
async fn the_deadline_of_a_call_ends_its_stream_and_not_its_process() {
    let bench = Bench::start().await;
    let mut request = bench.cmd("echo ready; sleep 60");
    request.follow = true;
    let mut stream =
        bench.exec.clone().exec_command(with_timeout(request, "700m")).await.unwrap().into_inner();
    let mut process = 0;
    let answer = loop {
        match timeout(PATIENCE, stream.message()).await.unwrap() {
            Ok(Some(item)) => {
                if let Seen::Started(started) = item.item.unwrap().into() {
                    process = started.process_id;
                }
            }
            other => break other,
        }
    };
    assert_refused(answer, Code::DeadlineExceeded, "CALL_DEADLINE");
    assert!(bench.process(process).await.unwrap().exit.is_none());
}

#[tokio::test]
async fn a_shutdown_is_told_on_every_stream_before_it_ends() {
    let bench = Bench::start().await;
    let process = bench.start_ready(bench.cmd("echo ready; sleep 60")).await;
    let mut follow = bench.cmd("sleep 60");
    follow.follow = true;
    let mut started = bench.exec.clone().exec_command(follow).await.unwrap().into_inner();
    let mut attached = bench.attach(bench.attach_request(process)).await.unwrap();
    let watch = pb::WatchSessionRequest { session_id: bench.session.clone(), ..Default::default() };
    let mut feed = bench.sessions.clone().watch_session(watch).await.unwrap().into_inner();
    loop {
        let item = started.message().await.unwrap().unwrap();
        if matches!(item.item.unwrap().into(), Seen::Started(_)) {
            break;
        }
    }
    let shutdown = tokio::spawn({
        let edge = bench.edge.clone();
        async move { edge.shutdown().await }
    });
    let (mut draining, mut result) = (false, None);
    while let Some(item) = timeout(PATIENCE, started.message()).await.unwrap().unwrap() {
        match item.item.unwrap().into() {
            Seen::Draining => draining = true,
            Seen::Result(end) => result = Some(end),
            _ => {}
        }
    }
    assert!(draining, "told before the result");
    assert_eq!(result.unwrap().exit.unwrap().reason(), pb::ExitReason::ServerShutdown);
    let mut last = None;
    while let Some(item) = timeout(PATIENCE, attached.message()).await.unwrap().unwrap() {
        last = Some(Seen::from(item.item.unwrap()));
    }
    assert!(matches!(last, Some(Seen::Draining)), "{last:?}");
    let mut last = None;
    while let Some(item) = timeout(PATIENCE, feed.message()).await.unwrap().unwrap() {
        last = item.item;
    }
    assert!(matches!(last, Some(Item::Draining(_))), "{last:?}");
    assert!(shutdown.await.unwrap(), "streams end by themselves");
}

#[tokio::test]
async fn an_idle_stream_of_input_holds_no_shutdown_up() {
    let bench = Bench::start().await;
    let process = bench.start_ready(bench.cmd("echo ready; sleep 60")).await;
    let (send, messages) = tokio::sync::mpsc::channel(1);
    let open = pb::StdinOpen { session_id: bench.session.clone(), process_id: process, ..Default::default() };
    let item = Some(pb::stream_stdin_request::Item::Open(open));
    send.send(pb::StreamStdinRequest { item }).await.unwrap();
    let stream = tokio_stream::wrappers::ReceiverStream::new(messages);
    let idle = tokio::spawn({
        let mut client = bench.exec.clone();
        async move { client.stream_stdin(stream).await }
    });
    // The server has the first message once this call is answered on the same connection.
    bench.process(process).await.unwrap();
    assert!(bench.edge.shutdown().await, "streams end by themselves");
    assert_refused(idle.await.unwrap(), Code::Unavailable, "SERVER_DRAINING");
    drop(send);
}

#[tokio::test]
async fn a_server_that_shuts_down_takes_no_new_work() {
    let bench = Bench::start().await;
    bench.host.shutdown().await;
    let refused = bench.run(bench.cmd("true")).await;
    assert_refused(refused, Code::Unavailable, "SERVER_DRAINING");
    let created = bench.sessions.clone().create_session(pb::CreateSessionRequest::default()).await;
    assert_refused(created, Code::Unavailable, "SERVER_DRAINING");
}

#[tokio::test]
async fn the_trace_of_a_caller_comes_back_and_one_is_begun_without() {
    let bench = Bench::start().await;
    let get = pb::GetSessionRequest { session_id: bench.session.clone() };
    let mut request = Request::new(get.clone());
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    request.metadata_mut().insert("traceparent", parent.parse().unwrap());
    let answer = bench.sessions.clone().get_session(request).await.unwrap();
    assert_eq!(answer.metadata().get("x-trace-id").unwrap(), trace);
    let answer = bench.sessions.clone().get_session(get).await.unwrap();
    assert_eq!(answer.metadata().get("x-trace-id").unwrap().len(), 32);
}
