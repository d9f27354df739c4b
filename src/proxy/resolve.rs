//! How names become addresses.

use std::fmt;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::host::ports::BoxFuture;

/// Lookups of the system at once. Each blocks a thread, for as long as the slowest name server that a child can think
/// of, and those threads are the whole server's.
pub const LOOKUPS_MAX: usize = 32;

/// Resolves names.
pub trait Resolve: Send + Sync + fmt::Debug {
    /// All addresses of a name, the best first.
    fn resolve(&self, name: String) -> BoxFuture<io::Result<Vec<IpAddr>>>;
}

/// Asks the system, as every other program of the machine does: its files, its name servers, its search list.
#[derive(Debug)]
pub struct SystemResolver {
    places: Arc<Semaphore>,
}

impl SystemResolver {
    /// One that has nothing to do yet.
    pub fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(LOOKUPS_MAX)) }
    }
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::new()
    }
}

impl Resolve for SystemResolver {
    fn resolve(&self, name: String) -> BoxFuture<io::Result<Vec<IpAddr>>> {
        let places = Arc::clone(&self.places);
        Box::pin(async move {
            let place = places.acquire_owned().await.map_err(io::Error::other)?;
            let lookup = spawn_blocking(move || {
                // A lookup cannot be stopped, so its place is held by itself and not by whoever waits for it.
                let _place = place;
                (name.as_str(), 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect())
            });
            lookup.await.map_err(io::Error::other)?
        })
    }
}
