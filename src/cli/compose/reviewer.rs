//! The automatic reviewer of a configuration.

use std::error::Error as _;
use std::sync::Arc;

use crate::cli::failure::Failure;
use crate::config::{Reviewer as Configured, ReviewerAddress};
use crate::grpc::listen;
use crate::grpc::reviewer::{self, RemoteReviewer, ReviewerOptions};
use crate::host::clock::Clock;
use crate::host::ports::Reviewer;
use crate::host::reviewers::People;

/// The reviewer that is configured; without one, people alone. Must be called within a runtime.
pub(super) fn reviewer(clock: Clock, configured: Option<&Configured>) -> Result<Arc<dyn Reviewer>, Failure> {
    let Some(configured) = configured else { return Ok(Arc::new(People)) };
    let refused = |key: &str, problem: String| Failure::usage(format!("[reviewer] {key}: {problem}"));
    let address = match &configured.address {
        ReviewerAddress::Unix(path) => reviewer::ReviewerAddress::Unix(path.clone()),
        ReviewerAddress::Tcp(uri) => {
            let uri = uri.parse().map_err(|error| refused("address", format!("{uri:?}: {error}")))?;
            reviewer::ReviewerAddress::Tcp(uri)
        }
    };
    let token = configured.token_file.as_deref().map(listen::read_token).transpose().map_err(|error| {
        let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
        refused("token_file", format!("{error}{source}"))
    })?;
    let authority = configured.ca.as_deref().map(std::fs::read).transpose();
    let authority = authority.map_err(|error| refused("ca", format!("it cannot be read: {error}")))?;
    let options = ReviewerOptions { address, timeout: configured.timeout(), token, authority };
    let remote =
        RemoteReviewer::new(clock, options).map_err(|error| refused("address", error.to_string()))?;
    Ok(Arc::new(remote))
}
