//! Which refused connections the log names one by one, and which it counts. A connection that was
//! closed for a newcomer counts as refused.
//!
//! One client can have thousands of connections refused in a second. So the log names the first
//! refusal of each network in a minute. At the end of the minute it has a line with the count of
//! those networks that had more.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::network::Tiers;

/// Time from the first refusal to the line with the counts.
const MINUTE: Duration = Duration::from_secs(60);

/// Networks that are named in one minute. Refusals of all further networks are counted together.
const NETWORKS_MAX: usize = 100;

/// The refused connections of one listener.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    state: Mutex<RefusalCounts>,
    /// A minute has begun.
    begun: Notify,
}

#[derive(Debug, Default)]
struct RefusalCounts {
    /// When the minute ends, if one has begun.
    until: Option<Instant>,
    networks: HashMap<IpAddr, u64>,
    /// Connections of networks that are not named.
    others: u64,
}

impl Refusals {
    /// Counts a refused connection. Whether the log should name it.
    pub(crate) fn note(&self, peer: IpAddr) -> bool {
        let network = Tiers::of(peer).widest();
        let mut state = self.lock();
        if state.until.is_none() {
            state.until = Some(Instant::now() + MINUTE);
            self.begun.notify_one();
        }
        if let Some(count) = state.networks.get_mut(&network) {
            *count += 1;
            return false;
        }
        if state.networks.len() >= NETWORKS_MAX {
            state.others += 1;
            return false;
        }
        state.networks.insert(network, 1);
        true
    }

    /// Returns at the end of a minute in which connections were refused. May be dropped and called
    /// again at any time.
    pub(crate) async fn minute_ended(&self) {
        loop {
            let until = self.lock().until;
            match until {
                Some(until) => return tokio::time::sleep_until(until).await,
                None => self.begun.notified().await,
            }
        }
    }

    /// Logs the counts so far, and begins with nothing.
    pub(crate) fn report(&self) {
        let RefusalCounts { networks, others, .. } = std::mem::take(&mut *self.lock());
        for (network, connections) in networks.into_iter().filter(|(_, connections)| *connections > 1) {
            tracing::warn!(%network, connections, "connections of one network were refused or closed within a minute");
        }
        if others > 0 {
            tracing::warn!(
                connections = others,
                "connections of further networks were refused or closed within a minute"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, RefusalCounts> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[tokio::test]
    async fn a_network_is_named_once_and_counted() {
        let refusals = Refusals::default();
        let named = (0..1000).filter(|n| refusals.note(peer(&format!("192.0.2.{}", n % 250)))).count();
        assert_eq!(named, 1);
        assert!(refusals.note(peer("198.51.100.1")) && refusals.note(peer("2001:db8::1")));
        assert_eq!(refusals.lock().networks[&IpAddr::from([192, 0, 2, 0])], 1000);
        refusals.report();
        assert!(refusals.note(peer("192.0.2.1")), "another minute has begun");
    }

    #[tokio::test]
    async fn strangers_with_many_networks_have_a_bound() {
        let refusals = Refusals::default();
        let named = (0..10_000).filter(|n| refusals.note(peer(&format!("2001:db8:{n:x}::1")))).count();
        assert_eq!(named, NETWORKS_MAX);
        let state = refusals.lock();
        assert_eq!((state.networks.len(), state.others), (NETWORKS_MAX, 10_000 - NETWORKS_MAX as u64));
    }

    #[tokio::test]
    async fn a_minute_ends_only_after_a_refusal() {
        let refusals = Refusals::default();
        let mut ended = std::pin::pin!(refusals.minute_ended());
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(ended.as_mut().poll(&mut cx).is_pending());
        refusals.note(peer("192.0.2.1"));
        assert!(ended.as_mut().poll(&mut cx).is_pending());
        refusals.lock().until = Some(Instant::now());
        refusals.minute_ended().await;
        refusals.report();
        assert!(refusals.lock().until.is_none());
    }
}
