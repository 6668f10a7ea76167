//! Sets of peers, by address.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// A set of addresses. It is evaluated for each connection, so the answer may change while a
/// listener runs.
#[derive(Clone)]
pub struct Peers(Arc<dyn Fn(IpAddr) -> bool + Send + Sync>);

impl Peers {
    /// The peers for which `is_one` is true.
    pub fn new(is_one: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_one))
    }

    pub(crate) fn has(&self, peer: IpAddr) -> bool {
        (self.0)(peer.to_canonical())
    }
}

impl Default for Peers {
    /// The empty set.
    fn default() -> Self {
        Self::new(|_| false)
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Peers")
    }
}
