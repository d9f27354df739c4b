//! The part that performs: it feeds the pure core and carries out its effects.
//!
//! ```text
//!  Host ─ registry of sessions ──► SessionHandle ── calls (bounded) ──► driver  one task a session, owns everything
//!                                        ▲                              │  ▲
//!                                        │ updates, answers             │  └── events (bounded) ── pump  one task an
//!                                        └──────────────────────────────┘                          attempt
//!            CallStream, LogReader, FeedReader ── read by cursor ──► OutputLog, Feed
//! ```
//!
//! A handle is a cheap clone with one method for each request; the channels behind it are nobody's business. Output
//! does not pass through the driver: the pump appends to the attempt's log, and readers follow it at their own pace.
//! What runs in here reads time only from tokio's clock, through [`clock`], and spawns tasks only in the places that
//! own them. It knows neither gRPC nor how a child is started: that is behind [`ports::Spawner`].

pub mod board;
pub mod clock;
mod driver;
pub mod feed;
pub mod handle;
pub mod log;
pub mod pattern;
pub mod ports;
mod pump;
mod registry;
pub mod reviewers;
pub mod rulebooks;
pub mod stream;

pub use handle::{CallError, Followed, Following, Opened, SessionHandle};
pub use registry::{CreateError, Host, Owner, Ports, Settings};
