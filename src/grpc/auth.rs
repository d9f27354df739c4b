//! Who calls, and what that caller may do.
//!
//! A connection has an [`Entry`], fixed when it is accepted: a Unix socket and an in-process pipe know their caller, TCP
//! asks each request for a bearer token. [`Access::admit`] judges every request by it, and puts the [`Caller`] into the
//! request's extensions, where handlers find it ([`Caller::of`]).
//!
//! Open to everybody who can connect: `grpc.health.v1.Health`, which says no more than whether the server serves; a
//! probe has no token. Reflection needs a credential as any other service does. An `Origin` header is judged before
//! everything, health included: it means that a web page calls.
//!
//! Decisions about approvals need the reviewer's role here already, before any handler: whatever a handler forgets, an
//! agent never decides about itself.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderMap, ORIGIN};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};
use tokio::time::Instant;
use tonic::Status;

use super::status;
use crate::host::Owner;

/// Refused credentials are logged no more often than this, so that guessing cannot fill a disk.
const LOG_EVERY: Duration = Duration::from_secs(1);
/// Fewer characters than this are no secret.
const TOKEN_CHARS_MIN: usize = 32;
/// More than this is no token.
const TOKEN_CHARS_MAX: usize = 512;

const HEALTH: &str = "/grpc.health.v1.Health/";
/// What decides about an agent's wishes.
const REVIEWER_ONLY: [&str; 2] =
    ["/unified_exec.v1.ApprovalService/DecideApproval", "/unified_exec.v1.ApprovalService/RevokeGrant"];

/// What a credential may do; a later role may do all that an earlier one may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Runs commands, and narrows its own session.
    Agent,
    /// Decides approvals, and widens policy up to the ceiling.
    Reviewer,
}

impl Role {
    /// Its name, as in file names and error details.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Reviewer => "reviewer",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Whose sessions it sees.
    pub owner: Owner,
    /// What it may do.
    pub role: Role,
}

impl Caller {
    /// The caller of a request.
    pub fn of<T>(request: &tonic::Request<T>) -> Result<&Self, Status> {
        // Absent only if a service was mounted past the edge: closed, not open.
        request.extensions().get().ok_or_else(status::credential_refused)
    }

    /// Refuses a caller whose role is below `role`.
    pub fn require(&self, role: Role) -> Result<(), Status> {
        if self.role < role { Err(status::role_required(role)) } else { Ok(()) }
    }
}

/// The owner that a user of this machine is.
pub fn owner_of_uid(uid: u32) -> Owner {
    Owner::new(format!("uid:{uid}"))
}

/// The owner that the server's own user is.
pub fn own_owner() -> Owner {
    owner_of_uid(rustix::process::geteuid().as_raw())
}

/// A bearer token. Never shown.
#[derive(Clone)]
pub struct Token(String);

/// Why a text cannot be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token is {TOKEN_CHARS_MIN} to {TOKEN_CHARS_MAX} visible ASCII characters")]
pub struct BadToken;

impl Token {
    /// The token in a text, without the white space around it.
    pub fn parse(text: &str) -> Result<Self, BadToken> {
        let token = text.trim();
        let sized = (TOKEN_CHARS_MIN..=TOKEN_CHARS_MAX).contains(&token.len());
        if sized && token.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(token.to_owned()))
        } else {
            Err(BadToken)
        }
    }

    /// The secret itself, for whoever must send or store it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The tokens that a listener accepts, each with its caller. Holds digests only.
#[derive(Clone, Default)]
pub struct Tokens(Vec<([u8; 32], Caller)>);

impl Tokens {
    /// None: everybody is refused.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Accepts `token` as `caller`.
    #[must_use]
    pub fn with(mut self, token: &Token, caller: Caller) -> Self {
        self.0.push((digest(token.0.as_bytes()), caller));
        self
    }

    /// Who presents this; takes as long for a wrong token as for any right one.
    fn find(&self, presented: &[u8]) -> Option<&Caller> {
        let presented = digest(presented);
        let mut found = u64::MAX;
        for (position, (known, _)) in (0_u64..).zip(&self.0) {
            let same: Choice = known.ct_eq(&presented);
            found.conditional_assign(&position, same);
        }
        self.0.get(usize::try_from(found).ok()?).map(|(_, caller)| caller)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(_, caller)| caller)).finish()
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// How the requests of one connection are judged.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    /// The connection itself says who it is.
    Known(Caller),
    /// Each request presents a token.
    ByToken {
        /// One of these.
        tokens: Arc<Tokens>,
        /// Where the connection comes from, for the log.
        peer: SocketAddr,
    },
    /// Nobody may come in here: a Unix peer of another user.
    Closed,
}

/// The judge of all requests of a server, and its count of refusals.
#[derive(Debug)]
pub(super) struct Access {
    origins: Vec<String>,
    refused: AtomicU64,
    logged: Mutex<Option<Instant>>,
}

impl Access {
    /// Web pages of `origins` may call; others may not.
    pub(super) fn new(origins: Vec<String>) -> Self {
        Self { origins, refused: AtomicU64::new(0), logged: Mutex::new(None) }
    }

    /// Refused credentials so far.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Lets a request in or refuses it. One that is let in carries its [`Caller`], and no longer its secret.
    pub(super) fn admit<B>(&self, entry: &Entry, request: &mut http::Request<B>) -> Result<(), Status> {
        self.check_origin(request.headers())?;
        let caller = match entry {
            Entry::Known(caller) => Some(caller.clone()),
            Entry::ByToken { tokens, .. } => {
                bearer(request.headers()).and_then(|token| tokens.find(token)).cloned()
            }
            Entry::Closed => {
                self.count_refusal(entry);
                return Err(status::peer_refused());
            }
        };
        request.headers_mut().remove(AUTHORIZATION);
        let path = request.uri().path();
        if path.starts_with(HEALTH) {
            return Ok(());
        }
        let Some(caller) = caller else {
            self.count_refusal(entry);
            return Err(status::credential_refused());
        };
        if REVIEWER_ONLY.contains(&path) {
            caller.require(Role::Reviewer)?;
        }
        request.extensions_mut().insert(caller);
        Ok(())
    }

    fn count_refusal(&self, entry: &Entry) {
        let refused = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        let now = Instant::now();
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.is_none_or(|last| now.duration_since(last) >= LOG_EVERY) {
            *logged = Some(now);
            match entry {
                Entry::ByToken { peer, .. } => {
                    tracing::warn!(%peer, refused, "credential refused: wrong or no token")
                }
                Entry::Known(_) | Entry::Closed => {
                    tracing::warn!(refused, "credential refused: peer of another user")
                }
            }
        }
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Status> {
        for origin in headers.get_all(ORIGIN) {
            let known = self.origins.iter().any(|known| known.as_bytes() == origin.as_bytes());
            if !known {
                return Err(status::origin_refused(&String::from_utf8_lossy(origin.as_bytes())));
            }
        }
        Ok(())
    }
}

/// The one bearer token of a request; two are as good as none.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next()?.as_bytes();
    if values.next().is_some() {
        return None;
    }
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(path: &str, headers: &[(&'static str, &str)]) -> http::Request<()> {
        let mut request = http::Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    fn caller(role: Role) -> Caller {
        Caller { owner: Owner::new("somebody"), role }
    }

    fn entry() -> Entry {
        let token = |letter: &str| Token::parse(&letter.repeat(40)).unwrap();
        let tokens =
            Tokens::new().with(&token("a"), caller(Role::Agent)).with(&token("r"), caller(Role::Reviewer));
        Entry::ByToken { tokens: Arc::new(tokens), peer: ([127, 0, 0, 1], 9).into() }
    }

    #[test]
    fn a_token_names_its_caller_and_is_taken_out_of_the_request() {
        let access = Access::new(Vec::new());
        for (scheme, letter, role) in [("Bearer", "a", Role::Agent), ("bEARER", "r", Role::Reviewer)] {
            let credential = format!("{scheme} {}", letter.repeat(40));
            let mut request = request("/any.Service/Method", &[("authorization", &credential)]);
            access.admit(&entry(), &mut request).unwrap();
            assert_eq!(request.extensions().get(), Some(&caller(role)));
            assert!(request.headers().is_empty());
        }
        assert_eq!(access.refused(), 0);
    }

    #[test]
    fn everything_that_is_not_exactly_one_right_token_is_refused_and_counted() {
        let access = Access::new(Vec::new());
        let right = format!("Bearer {}", "a".repeat(40));
        let wrong = [
            vec![],
            vec![("authorization", "")],
            vec![("authorization", "Bearer")],
            vec![("authorization", "Bearer ")],
            vec![("authorization", &right[..46])],
            vec![("authorization", &right[7..])],
            vec![("authorization", right.as_str()), ("authorization", right.as_str())],
        ];
        for headers in &wrong {
            let mut request = request("/any.Service/Method", headers);
            let refusal = access.admit(&entry(), &mut request).unwrap_err();
            assert_eq!(refusal.code(), tonic::Code::Unauthenticated, "{headers:?}");
            assert!(request.extensions().get::<Caller>().is_none());
        }
        assert_eq!(access.refused(), wrong.len() as u64);
    }

    #[test]
    fn only_an_origin_that_was_configured_may_call() {
        let access = Access::new(vec!["https://good.example".into()]);
        let known = Entry::Known(caller(Role::Agent));
        for (origin, allowed) in [
            ("https://good.example", true),
            ("https://good.example.evil", false),
            ("http://good.example", false),
            ("null", false),
        ] {
            for path in ["/any.Service/Method", "/grpc.health.v1.Health/Check"] {
                let mut request = request(path, &[("origin", origin)]);
                assert_eq!(access.admit(&known, &mut request).is_ok(), allowed, "{origin} {path}");
            }
        }
    }

    #[test]
    fn deciding_is_for_reviewers_and_health_for_everybody() {
        let access = Access::new(Vec::new());
        for path in REVIEWER_ONLY {
            let refusal =
                access.admit(&Entry::Known(caller(Role::Agent)), &mut request(path, &[])).unwrap_err();
            assert_eq!(refusal.code(), tonic::Code::PermissionDenied);
            access.admit(&Entry::Known(caller(Role::Reviewer)), &mut request(path, &[])).unwrap();
        }
        access.admit(&entry(), &mut request("/grpc.health.v1.Health/Watch", &[])).unwrap();
        access.admit(&entry(), &mut request("/grpc.reflection.v1.ServerReflection/X", &[])).unwrap_err();
        access.admit(&Entry::Closed, &mut request("/grpc.health.v1.Health/Check", &[])).unwrap_err();
    }

    #[test]
    fn a_token_is_long_visible_and_never_shown() {
        assert!(Token::parse(&"x".repeat(31)).is_err());
        assert!(Token::parse(&"x".repeat(513)).is_err());
        assert!(Token::parse(&format!("{} {}", "x".repeat(20), "x".repeat(20))).is_err());
        let token = Token::parse(&format!(" {}\n", "x".repeat(32))).unwrap();
        assert!(!format!("{token:?} {:?}", Tokens::new().with(&token, caller(Role::Agent))).contains("xx"));
    }
}
