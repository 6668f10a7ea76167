//! The conditions for other hosts before their mail is read: DNS block lists, a greeting that can
//! be true, rates, and greylisting.
//!
//! | module | question | when |
//! | --- | --- | --- |
//! | `block_list` | is the address on a list (RFC 5782)? | at the first recipient |
//! | `greeting` | can the name in EHLO or HELO be the host's? | at the first recipient |
//! | `rates` | did the address, or the sender, send too much? | at DATA and BDAT |
//! | `rates` | did the address guess too many recipients? | at each recipient |
//! | `greylist` | did the host come back after a first refusal (RFC 6647)? | at each recipient who exists |
//!
//! Invariants:
//! * A list that does not answer, or gives an answer outside RFC 5782, refuses nothing.
//! * Mail for `postmaster` is not screened (RFC 5321 §4.5.1), so that a refused host can write
//!   there.
//! * Records about untrusted hosts are bounded, and in memory only. A restart drops them.

mod block_list;
mod bucket;
mod greeting;
mod greylist;
mod rates;
mod verdict;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_recursion::async_recursion as boxed;
use hickory_resolver::TokioResolver;
use posthaste_directory::Network;

pub use block_list::BlockList;
pub use greeting::GreetingRule;
pub use greylist::Greylist;
pub use rates::{RateLimits, Rates};
pub use verdict::{Refusal, Standing};

/// Bytes that the records about hosts and senders take at most ([`HostRecords`]).
pub const HOSTS_BYTES_MAX: u64 = greylist::GREYLIST_BYTES_MAX + rates::RATES_BYTES_MAX;

/// The conditions for other hosts.
#[derive(Clone, Debug, Default)]
pub struct ScreeningOptions {
    /// Our own name, which nobody else has.
    pub host: String,
    /// Lists that are queried, all at once.
    pub block_lists: Vec<BlockList>,
    /// Time for all lists together.
    pub within: Duration,
    /// Which greetings are refused.
    pub greeting: GreetingRule,
    /// How much is taken in an hour.
    pub rates: RateLimits,
    /// How long an unknown host has to wait; zero: none waits.
    pub greylist_delay: Duration,
    /// Hosts that are not screened.
    pub trusted_networks: Vec<Network>,
}

/// The records about hosts and senders. It outlives a reload of the settings.
#[derive(Clone, Debug, Default)]
pub struct HostRecords {
    rates: Arc<Rates>,
    greylist: Arc<Greylist>,
}

/// Screens hosts. Cheap to clone.
#[derive(Clone)]
pub struct Screening {
    options: Arc<ScreeningOptions>,
    resolver: Option<TokioResolver>,
    seen: HostRecords,
}

impl fmt::Debug for Screening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Screening").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Screening {
    /// Without a resolver no list is queried.
    pub fn new(options: ScreeningOptions, resolver: Option<TokioResolver>, seen: HostRecords) -> Self {
        Self { options: Arc::new(options), resolver, seen }
    }

    /// Whether this host is screened.
    pub fn concerns(&self, address: IpAddr) -> bool {
        !self.options.trusted_networks.iter().any(|network| network.contains(address))
    }

    /// The verdict of the greeting and the lists on a host. The lists are queried all at once; the
    /// first in the order of the settings that has the address decides, one that refuses before
    /// others.
    #[boxed]
    pub async fn standing(&self, address: IpAddr, greeting: &str) -> Standing {
        let address = address.to_canonical();
        if let Err(wrong) = self.options.greeting.check(greeting, address, &self.options.host) {
            return Standing::Refused(Refusal::Greeting(wrong));
        }
        let Some(resolver) = &self.resolver else { return Standing::Good };
        block_list::query(resolver, &self.options.block_lists, address, self.options.within).await
    }

    /// Whether a host may name another recipient, who exists or not.
    pub fn may_name(&self, address: IpAddr, now: Instant) -> Result<(), Refusal> {
        let address = address.to_canonical();
        let wait = self.seen.rates.unknown_recipients_wait(&self.options.rates, address, now);
        wait.map_or(Ok(()), |again_in| Err(Refusal::Recipients { address, again_in }))
    }

    /// A recipient was named who exists.
    pub fn recipient(
        &self,
        address: IpAddr,
        sender: &str,
        recipient: &str,
        now: Instant,
    ) -> Result<(), Refusal> {
        let delay = self.options.greylist_delay;
        if delay.is_zero() {
            return Ok(());
        }
        let wait = self.seen.greylist.wait(address.to_canonical(), sender, recipient, delay, now);
        wait.map_or(Ok(()), |wait| Err(Refusal::Greylisted(wait)))
    }

    /// A recipient was named who does not exist.
    pub fn unknown_recipient(&self, address: IpAddr, now: Instant) {
        self.seen.rates.count_unknown_recipient(&self.options.rates, address.to_canonical(), now);
    }

    /// A message is about to come.
    pub fn message(&self, address: IpAddr, sender: &str, now: Instant) -> Result<(), Refusal> {
        self.seen.rates.count_message(&self.options.rates, address.to_canonical(), sender, now)
    }
}

/// Whether a recipient is a postmaster, who takes everybody's mail.
pub fn is_postmaster(recipient: &str) -> bool {
    let local = recipient.rsplit_once('@').map_or(recipient, |(local, _)| local);
    local.eq_ignore_ascii_case("postmaster")
}
