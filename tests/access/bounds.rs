//! What a client sends cannot hurt the server.

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::{Code, Request};
use unified_exec::grpc::pb;
use unified_exec::grpc::pb::exec_service_client::ExecServiceClient;
use unified_exec::grpc::pb::stream_stdin_request::Item;
use unified_exec::grpc::pb::write_stdin_request::Content;

use crate::support::{PATIENCE, agent, assert_status, edge, list, on_tcp, plain, token};

const MIB: usize = 1024 * 1024;

#[tokio::test]
async fn a_message_of_10_mib_is_refused_with_its_reason_and_the_next_call_works() {
    let edge = edge();
    let channel = edge.channel(agent("me"));
    let mut client = ExecServiceClient::new(channel.clone());
    for _ in 0..3 {
        let input = Some(Content::Input(Bytes::from(vec![7; 10 * MIB])));
        let request = pb::WriteStdinRequest { content: input, ..Default::default() };
        let refused = timeout(PATIENCE, client.write_stdin(request)).await.unwrap().map(|_| ());
        assert_status(refused, Code::ResourceExhausted, "MESSAGE_TOO_LARGE");
    }
    assert_eq!(list(channel, &[]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_message_of_10_mib_within_a_stream_is_refused_likewise() {
    let edge = edge();
    let channel = edge.channel(agent("me"));
    let mut client = ExecServiceClient::new(channel.clone());
    let data = pb::StdinData { data: Bytes::from(vec![7; 10 * MIB]), ..Default::default() };
    let messages = [pb::StreamStdinRequest { item: Some(Item::Data(data)) }];
    let stream = Request::new(tokio_stream::iter(messages));
    let refused = timeout(PATIENCE, client.stream_stdin(stream)).await.unwrap().map(|_| ());
    assert_status(refused, Code::ResourceExhausted, "MESSAGE_TOO_LARGE");
    assert_eq!(list(channel, &[]).await.unwrap(), 0);
}

#[tokio::test]
async fn garbage_in_place_of_http2_ends_that_connection_and_no_more() {
    let edge = edge();
    let address = on_tcp(&edge).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let noise: Vec<u8> = (0..4096_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let cases = [
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
        noise.clone(),
        preface[..10].to_vec(),
        [preface.as_slice(), &noise].concat(),
        // A frame that claims 16 MiB.
        [preface.as_slice(), &[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]].concat(),
        vec![0x16, 0x03, 0x01, 0x02, 0x00],
    ];
    for bytes in cases {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("closed").ok();
    }
    let credential = format!("Bearer {}", token("a").expose());
    assert_eq!(list(plain(address), &[("authorization", &credential)]).await.unwrap(), 0);
}

/// A call of `path` whose body is exactly these bytes; the status in its trailers or headers.
async fn raw_call(path: &str, body: Vec<u8>) -> tonic::Status {
    use http_body::Body as _;
    use tower::Service as _;
    let edge = edge();
    let mut channel = edge.channel(agent("me"));
    let body = tonic::body::Body::new(Bytes::from(body).into_body());
    let request = http::Request::post(format!("http://x{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(body)
        .unwrap();
    std::future::poll_fn(|context| channel.poll_ready(context)).await.unwrap();
    let response = channel.call(request).await.unwrap();
    assert!(response.body().is_end_stream(), "trailers only");
    tonic::Status::from_header_map(response.headers()).unwrap()
}

trait IntoBody {
    fn into_body(self) -> Once;
}

impl IntoBody for Bytes {
    fn into_body(self) -> Once {
        Once(Some(self))
    }
}

/// One piece of body.
struct Once(Option<Bytes>);

impl http_body::Body for Once {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, tonic::Status>>> {
        std::task::Poll::Ready(self.0.take().map(|bytes| Ok(http_body::Frame::data(bytes))))
    }
}

#[tokio::test]
async fn a_broken_request_is_the_senders_mistake_and_says_so_in_details() {
    const LIST: &str = "/unified_exec.v1.SessionService/ListSessions";
    let cut_short = raw_call(LIST, vec![0, 0, 0, 0, 9, 1]).await;
    assert_status::<()>(Err(cut_short), Code::InvalidArgument, "STREAM_PROTOCOL");
    let without_message = raw_call(LIST, Vec::new()).await;
    assert_status::<()>(Err(without_message), Code::InvalidArgument, "STREAM_PROTOCOL");
    let compressed = raw_call(LIST, vec![1, 0, 0, 0, 1, 1]).await;
    assert_status::<()>(Err(compressed), Code::InvalidArgument, "STREAM_PROTOCOL");
    for path in ["/unified_exec.v1.SessionService/NoSuch", "/unified_exec.v1.ReviewerService/Review", "/a"] {
        assert_status::<()>(Err(raw_call(path, vec![0; 5]).await), Code::Unimplemented, "NOT_IMPLEMENTED");
    }
}
