//! The server: all services of the contract behind one door, on any number of listeners.

use std::time::Duration;

use crate::core::policy::Rights;
use crate::host::Settings;

/// What a session gets that asks for nothing, and the most it may get.
#[derive(Clone, Debug)]
pub struct SessionDefaults {
    /// Given to a session that asks for nothing.
    pub settings: Settings,
    /// The widest rights that even a reviewer can give.
    pub ceiling: Rights,
}

/// How the server behaves.
#[derive(Clone, Debug)]
pub struct EdgeOptions {
    /// For new sessions.
    pub defaults: SessionDefaults,
    /// Origins of web pages that may call, such as `https://tools.example`; none by default.
    pub allowed_origins: Vec<String>,
    /// How long a shutdown waits for processes and connections to end before it drops them.
    pub drain: Duration,
}

impl EdgeOptions {
    /// Time that [`EdgeOptions::new`] gives a shutdown: the kill ladder takes up to 3 s, streams need a moment after it.
    pub const DRAIN_DEFAULT: Duration = Duration::from_secs(10);

    /// With these sessions, no web page, and the default drain time.
    pub fn new(defaults: SessionDefaults) -> Self {
        Self { defaults, allowed_origins: Vec::new(), drain: Self::DRAIN_DEFAULT }
    }
}
