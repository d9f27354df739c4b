//! What holds for every call, whatever its handler does: a request message has a bound, a call ends at its deadline,
//! and a panic ends only the call it happens in.
//!
//! tonic has a bound and a deadline too, but answers with bare statuses, and its deadline covers only the time until the
//! response's headers.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tokio::time::Sleep;
use tonic::Status;
use tonic::body::Body;

use super::status;

/// Compression flag and length.
const MESSAGE_HEADER: usize = 5;

/// A request's body, whose messages are all at most `limit` bytes; a larger one is an error before it is buffered.
pub(super) struct BoundedMessages {
    body: Body,
    limit: usize,
    header: [u8; MESSAGE_HEADER],
    /// Bytes of `header` that are there.
    filled: usize,
    /// Bytes of the current message that are still to come.
    left: usize,
}

impl BoundedMessages {
    pub(super) fn new(body: Body, limit: usize) -> Self {
        Self { body, limit, header: [0; MESSAGE_HEADER], filled: 0, left: 0 }
    }

    /// Walks over message headers.
    fn check(&mut self, mut data: &[u8]) -> Result<(), Status> {
        while !data.is_empty() {
            if self.left > 0 {
                let skipped = self.left.min(data.len());
                self.left -= skipped;
                data = &data[skipped..];
                continue;
            }
            self.header[self.filled] = data[0];
            self.filled += 1;
            data = &data[1..];
            if self.filled == MESSAGE_HEADER {
                let [_, length @ ..] = self.header;
                self.filled = 0;
                self.left = u32::from_be_bytes(length) as usize;
                if self.left > self.limit {
                    return Err(status::message_too_large(self.limit));
                }
            }
        }
        Ok(())
    }
}

impl http_body::Body for BoundedMessages {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.check(data)?;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// One call: its name and what is left of its time.
pub(super) struct Bounds {
    method: Arc<str>,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Bounds {
    pub(super) fn of<B>(request: &http::Request<B>) -> Self {
        let deadline = timeout(request.headers()).map(|timeout| Box::pin(tokio::time::sleep(timeout)));
        Self { method: request.uri().path().into(), deadline }
    }

    /// Resolves to what `handler` answers, or to why there is no answer.
    pub(super) async fn answer<T>(&mut self, handler: impl Future<Output = T>) -> Result<T, Status> {
        let mut handler = std::pin::pin!(handler);
        std::future::poll_fn(move |context| {
            match self.poll(|context| handler.as_mut().poll(context), context) {
                Ok(answer) => answer.map(Ok),
                Err(end) => Poll::Ready(Err(end)),
            }
        })
        .await
    }

    /// Polls something of the call, which has the last word at the very deadline.
    fn poll<T>(
        &mut self,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
        context: &mut Context<'_>,
    ) -> Result<Poll<T>, Status> {
        let polled = catch_unwind(AssertUnwindSafe(|| poll(context))).map_err(|_| self.defect())?;
        if polled.is_pending() && self.is_over(context) {
            return Err(status::call_deadline());
        }
        Ok(polled)
    }

    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(context).is_ready())
    }

    /// The panic's own text went to the panic hook; here it is tied to the call.
    fn defect(&self) -> Status {
        static PANICS: AtomicU64 = AtomicU64::new(0);
        let error_id = format!("panic-{}", PANICS.fetch_add(1, Ordering::Relaxed) + 1);
        tracing::error!(error_id, method = &*self.method, "a handler panicked");
        status::defect(&error_id)
    }
}

/// A response's body within the bounds of its call.
pub(super) struct Guarded {
    /// Absent after its end.
    body: Option<Body>,
    bounds: Bounds,
}

impl Guarded {
    pub(super) fn new(body: Body, bounds: Bounds) -> Self {
        Self { body: Some(body), bounds }
    }
}

impl http_body::Body for Guarded {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let end = match this.bounds.poll(|context| Pin::new(body).poll_frame(context), context) {
            Ok(Poll::Ready(Some(Ok(frame)))) if frame.is_data() && this.bounds.is_over(context) => {
                // A stream that always has more would never be pending, and so never end.
                status::call_deadline()
            }
            Ok(polled) => return polled,
            Err(end) => end,
        };
        this.body = None;
        Poll::Ready(Some(trailers(&end).map(Frame::trailers)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(http_body::Body::is_end_stream)
    }
}

fn trailers(status: &Status) -> Result<HeaderMap, Status> {
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers)?;
    Ok(trailers)
}

/// The header `grpc-timeout`; one that cannot be read is none.
fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    // The standard allows 8 digits, which keeps every product below in range.
    if number.is_empty() || number.len() > 8 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3_600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;

    use super::*;

    fn message(length: u32) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend(length.to_be_bytes());
        bytes.resize(MESSAGE_HEADER + length as usize, 7);
        bytes
    }

    #[test]
    fn the_bound_holds_for_each_message_however_the_bytes_are_cut() {
        let allowed = [message(10), message(0), message(10)].concat();
        let too_large = [message(10), message(11)].concat();
        for cut in 1..=allowed.len() {
            let mut bounded = BoundedMessages::new(Body::empty(), 10);
            assert!(allowed.chunks(cut).all(|chunk| bounded.check(chunk).is_ok()), "pieces of {cut}");
            let mut bounded = BoundedMessages::new(Body::empty(), 10);
            let refusal = too_large.chunks(cut).find_map(|chunk| bounded.check(chunk).err()).unwrap();
            assert_eq!(refusal.code(), tonic::Code::ResourceExhausted, "pieces of {cut}");
        }
    }

    #[test]
    fn a_timeout_is_read_as_the_standard_writes_it() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", text.parse().unwrap());
            timeout(&headers)
        };
        assert_eq!(read("99999999H"), Some(Duration::from_secs(99_999_999 * 3_600)));
        assert_eq!(read("3M"), Some(Duration::from_secs(180)));
        assert_eq!(read("250m"), Some(Duration::from_millis(250)));
        assert_eq!(read("7u"), Some(Duration::from_micros(7)));
        for unreadable in ["", "S", "5", "-5S", "+5S", "123456789S", "5s", "5\u{fc}"] {
            assert_eq!(read(unreadable), None, "{unreadable:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_handler_that_hangs_or_panics_ends_only_its_call() {
        let request = http::Request::builder().header("grpc-timeout", "5S").body(()).unwrap();
        let mut bounds = Bounds::of(&request);
        let hung = bounds.answer(std::future::pending::<()>()).await.unwrap_err();
        assert_eq!(hung.code(), tonic::Code::DeadlineExceeded);
        let mut bounds = Bounds::of(&http::Request::new(()));
        let panicked = bounds.answer(async { panic!("on purpose") }).await;
        assert_eq!(panicked.unwrap_err().code(), tonic::Code::Internal);
    }

    #[tokio::test]
    async fn a_stream_that_panics_ends_with_trailers() {
        struct Broken;
        impl http_body::Body for Broken {
            type Data = Bytes;
            type Error = Status;
            fn poll_frame(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
            ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
                panic!("on purpose")
            }
        }
        let mut body = Guarded::new(Body::new(Broken), Bounds::of(&http::Request::new(())));
        let mut next = async || std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        let trailers = next().await.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(trailers["grpc-status"], "13");
        assert!(trailers.contains_key("grpc-status-details-bin"));
        assert!(next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_with_trailers_at_its_deadline_even_if_it_always_has_more() {
        struct Endless;
        impl http_body::Body for Endless {
            type Data = Bytes;
            type Error = Status;
            fn poll_frame(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
            ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"more")))))
            }
        }
        let request = http::Request::builder().header("grpc-timeout", "5S").body(()).unwrap();
        let mut body = Guarded::new(Body::new(Endless), Bounds::of(&request));
        let mut next = async || std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        assert!(next().await.unwrap().unwrap().is_data());
        tokio::time::sleep(Duration::from_secs(6)).await;
        let trailers = next().await.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(trailers["grpc-status"], "4");
        assert!(next().await.is_none());
    }
}
