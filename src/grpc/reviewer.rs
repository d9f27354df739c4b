//! The automatic reviewer: a program outside, the server of `ReviewerService`, that is shown every question before
//! people are.
//!
//! Fails closed: whatever is not a clear answer about exactly the question that was asked is [`Review::Failed`], which
//! counts as no. The cause names no address, path or secret, because the agent reads it; the log says more. Connects
//! when there is something to ask, and anew when the reviewer has gone. Dropping a review cancels its call.
//!
//! Refuses to know: what an answer leads to, and who else is asked.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use subtle::ConstantTimeEq as _;
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Uri};
use tonic::{Request, Status};
use tower::service_fn;

use super::auth::Token;
use super::{convert, pb};
use crate::core::approval::{Approval, Review, State};
use crate::host::clock::Clock;
use crate::host::ports::{Asked, BoxFuture, Reviewer};
use pb::reviewer_service_client::ReviewerServiceClient;

/// Far more than a verdict with its words takes.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// How often a connection with an open review is tried, and how long it may take to answer: a reviewer whose machine is
/// gone is noticed by the next review at the latest.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Told to a Unix socket, whose own address says nothing; never resolved.
const NOWHERE: &str = "http://localhost";

/// Where a reviewer listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewerAddress {
    /// A Unix socket.
    Unix(PathBuf),
    /// `http://host:port`, on this machine only, or `https://host:port`.
    Tcp(Uri),
}

/// How to reach a reviewer.
#[derive(Clone, Debug)]
pub struct ReviewerOptions {
    /// Where.
    pub address: ReviewerAddress,
    /// How long a review may take, connecting included.
    pub timeout: Duration,
    /// Presented as a bearer token.
    pub token: Option<Token>,
    /// PEM certificates that sign the reviewer's; needed for `https`.
    pub authority: Option<Vec<u8>>,
}

/// Why a reviewer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReviewerError {
    /// Plaintext where others could read and answer questions.
    #[error(
        "{address} may be another machine, and whoever is on the way could answer its questions: \
         use https://, a Unix socket, or a loopback address"
    )]
    Plaintext {
        /// The address.
        address: Uri,
    },
    /// Nothing to check the reviewer's certificate against.
    #[error("https needs the certificates that the reviewer's is checked against: name them in `ca`")]
    AuthorityMissing,
    /// The certificates are none.
    #[error("the certificates in `ca` cannot be used")]
    Authority(#[source] tonic::transport::Error),
    /// A token that no header can carry.
    #[error("the token cannot be sent")]
    Token,
}

/// A reviewer outside. A cheap clone.
#[derive(Clone)]
pub struct RemoteReviewer {
    client: ReviewerServiceClient<Channel>,
    timeout: Duration,
    token: Option<MetadataValue<Ascii>>,
    clock: Clock,
}

impl fmt::Debug for RemoteReviewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteReviewer").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl RemoteReviewer {
    /// A reviewer that is called when there is something to review. Must be called within a runtime.
    pub fn new(clock: Clock, options: ReviewerOptions) -> Result<Self, ReviewerError> {
        let ReviewerOptions { address, timeout, token, authority } = options;
        let channel = match address {
            ReviewerAddress::Unix(path) => unix(path),
            ReviewerAddress::Tcp(uri) => tcp(uri, authority)?,
        };
        let client = ReviewerServiceClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        let token = token.map(|token| bearer(&token)).transpose()?;
        Ok(Self { client, timeout, token, clock })
    }

    fn request(&self, approval: pb::Approval, asked: &Asked) -> Request<pb::ReviewRequest> {
        let mut request = Request::new(pb::ReviewRequest {
            approval: Some(approval),
            strict: asked.question.strict,
            session_labels: (*asked.labels).clone().into_iter().collect(),
        });
        request.set_timeout(self.timeout);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.clone());
        }
        request
    }
}

fn bearer(token: &Token) -> Result<MetadataValue<Ascii>, ReviewerError> {
    let mut value: MetadataValue<Ascii> =
        format!("Bearer {}", token.expose()).parse().map_err(|_| ReviewerError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

fn unix(path: PathBuf) -> Channel {
    let connect = move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    };
    watched(Endpoint::from_static(NOWHERE)).connect_with_connector_lazy(service_fn(connect))
}

fn tcp(address: Uri, authority: Option<Vec<u8>>) -> Result<Channel, ReviewerError> {
    if address.scheme_str() != Some("https") {
        if !is_loopback(&address) {
            return Err(ReviewerError::Plaintext { address });
        }
        return Ok(watched(Endpoint::from(address)).connect_lazy());
    }
    let authority = authority.ok_or(ReviewerError::AuthorityMissing)?;
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority));
    let endpoint = watched(Endpoint::from(address)).tls_config(tls).map_err(ReviewerError::Authority)?;
    Ok(endpoint.connect_lazy())
}

fn watched(endpoint: Endpoint) -> Endpoint {
    endpoint.tcp_nodelay(true).http2_keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_INTERVAL)
}

fn is_loopback(address: &Uri) -> bool {
    let host = address.host().unwrap_or_default();
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || literal.parse::<std::net::IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

impl Reviewer for RemoteReviewer {
    fn review(&self, asked: Asked) -> BoxFuture<Review> {
        let open = Approval { question: (*asked.question).clone(), state: State::Open };
        let approval = convert::approval(self.clock, &asked.session, &open);
        let digest = approval.digest.clone();
        let request = self.request(approval, &asked);
        let (mut client, bound) = (self.client.clone(), self.timeout);
        Box::pin(async move {
            let since = Instant::now();
            let answer = match timeout(bound, client.review(request)).await {
                Ok(Ok(answer)) => judge(answer.into_inner(), &digest),
                // Whoever notices first, we or the transport.
                Ok(Err(_)) if since.elapsed() >= bound => Err(late(bound)),
                Ok(Err(status)) => Err(broken(&status)),
                Err(_) => Err(late(bound)),
            };
            answer.unwrap_or_else(|cause| {
                tracing::warn!(approval = %asked.question.id, cause, "the automatic review failed");
                Review::Failed { cause }
            })
        })
    }

    fn is_automatic(&self) -> bool {
        true
    }
}

/// What an answer says, if it is one to this question.
fn judge(answer: pb::ReviewResponse, digest: &[u8]) -> Result<Review, String> {
    if !bool::from(answer.digest.ct_eq(digest)) {
        return Err("the reviewer's answer is about something else: its digest is not the question's".into());
    }
    let text = cut(answer.text);
    match pb::ReviewVerdict::try_from(answer.verdict) {
        Ok(pb::ReviewVerdict::Allow) => Ok(Review::Allow { text }),
        Ok(pb::ReviewVerdict::Deny) => Ok(Review::Deny { text }),
        Ok(pb::ReviewVerdict::AskPerson) => Ok(Review::AskPerson),
        Ok(pb::ReviewVerdict::Unspecified) => Err("the reviewer's answer has no verdict".into()),
        Err(_) => Err(format!("the reviewer's verdict, {}, is none", answer.verdict)),
    }
}

/// At most as many bytes as words may have, cut at a character.
fn cut(mut text: String) -> String {
    let most = convert::WORDS_BYTES_MAX.min(text.len());
    let at = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.truncate(at);
    text
}

fn late(bound: Duration) -> String {
    format!("the reviewer did not answer within {} ms", bound.as_millis())
}

/// What went wrong with a call. A status that the reviewer itself sent has no cause on our side; its words may repeat
/// what it was sent, credential included, so that they are only for those who look for faults.
fn broken(status: &Status) -> String {
    use std::error::Error as _;
    match status.source() {
        Some(source) => {
            tracing::warn!(error = %causes(source), "no answer of the reviewer");
            "the reviewer cannot be reached, or broke off".into()
        }
        None => {
            tracing::debug!(code = ?status.code(), message = status.message(), "the reviewer refused");
            format!("the reviewer failed with {:?}", status.code())
        }
    }
}

/// An error with what is behind it; the transport's own words say little.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let all = std::iter::successors(Some(error), |error| error.source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(verdict: i32, digest: &[u8], text: &str) -> Result<Review, String> {
        let digest = digest.to_vec().into();
        judge(pb::ReviewResponse { verdict, digest, text: text.into() }, &[7; 32])
    }

    #[test]
    fn only_a_clear_answer_about_this_very_question_is_one() {
        let text = || "words".to_owned();
        assert_eq!(answer(1, &[7; 32], "words"), Ok(Review::Allow { text: text() }));
        assert_eq!(answer(2, &[7; 32], "words"), Ok(Review::Deny { text: text() }));
        assert_eq!(answer(3, &[7; 32], "words"), Ok(Review::AskPerson));
        for (verdict, digest) in
            [(0, &[7; 32][..]), (4, &[7; 32]), (-1, &[7; 32]), (1, &[8; 32]), (1, &[]), (1, &[7; 31])]
        {
            answer(verdict, digest, "").unwrap_err();
        }
    }

    #[test]
    fn words_are_cut_at_a_character() {
        let Ok(Review::Deny { text }) = answer(2, &[7; 32], &"ü".repeat(3_000)) else { panic!() };
        assert_eq!((text.len(), text.chars().count()), (4_096, 2_048));
        let Ok(Review::Deny { text }) = answer(2, &[7; 32], &format!("x{}", "ü".repeat(3_000))) else {
            panic!()
        };
        assert_eq!(text.len(), 4_095);
    }

    #[tokio::test]
    async fn plaintext_is_for_this_machine_only() {
        let open = |address: &'static str| {
            let options = ReviewerOptions {
                address: ReviewerAddress::Tcp(Uri::from_static(address)),
                timeout: Duration::from_secs(1),
                token: None,
                authority: None,
            };
            RemoteReviewer::new(Clock::start(), options)
        };
        for address in ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1"] {
            open(address).unwrap();
        }
        for address in ["http://10.0.0.1:1", "http://reviewer.example:1", "http://[2001:db8::1]:1"] {
            let refused = open(address).unwrap_err();
            assert!(matches!(refused, ReviewerError::Plaintext { .. }), "{refused}");
            assert!(refused.to_string().contains("https://"), "{refused}");
        }
        assert!(matches!(open("https://10.0.0.1:1").unwrap_err(), ReviewerError::AuthorityMissing));
    }
}
