//! Memory for the verification of messages. It is a part of a budget that other work takes, too.
//!
//! Other work waits for that budget in order, and uses it for a short time. The sender's name
//! servers decide how long a verification lasts. So it takes its bytes twice: first those of the
//! part, in which a network has a share, and then those of the budget.
//!
//! Invariants:
//! * a message over the share of its network waits for the part alone, and not in the queue of the
//!   budget;
//! * all verifications with bytes of the part fit into the budget together. So one that waits in
//!   that queue waits for no other verification, unless that one takes nearly all of the budget;
//! * what has bytes of the budget waits for none of the part.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use posthaste_mime_summary::HEADER_LEN_MAX;
use posthaste_net::{ByteBudget, BytePermit, Holder, Tiers};

/// Bytes that the parsed header takes for each of its own, at most: addresses of two letters take
/// 64, and empty fields 8 for each signature and 8 more.
const HEADER_FACTOR: usize = 72;
/// Bytes that the rest of a verification takes: look-ups, keys, hashes.
const BESIDE: usize = 64 << 10;
/// One message counts for all but an eighth of the budget in the part, at most. With a sixteenth,
/// usual mail of other networks would have 2 MiB on a small machine.
const LEFT_DIVISOR: usize = 8;

/// Bytes that the verification of a message takes, by its octets and those of its header. These are
/// the copy with the results, the parsed header, and the rest.
pub(crate) const fn verification_bytes(octets: usize, header: usize) -> usize {
    octets.saturating_add(header.saturating_mul(HEADER_FACTOR)).saturating_add(BESIDE)
}

/// Bytes that the verification of a message of so many octets takes at most.
const fn verification_bytes_max(octets: usize) -> usize {
    verification_bytes(octets, if octets < HEADER_LEN_MAX { octets } else { HEADER_LEN_MAX })
}

/// The memory for all verifications. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct VerificationMemory {
    /// Its waiters have no order: one over its share keeps no other waiting.
    part: ByteBudget,
    budget: ByteBudget,
}

/// Memory of a message that is or was verified; given back when dropped.
#[derive(Debug)]
pub struct ReservedMemory {
    /// Dropped first: who gets bytes of the part finds those of the budget.
    of_budget: BytePermit,
    of_part: BytePermit,
}

impl VerificationMemory {
    /// A part of this budget: what the longest message takes, and half of the rest. A network has a
    /// third of the part, or what that message takes. The longest message has `message_len` octets.
    ///
    /// On a small machine that message takes nearly all of the budget. It counts for less in the
    /// part, so others find bytes there. In the queue they are before the next one of its network.
    pub(crate) fn within(budget: ByteBudget, message_len: usize) -> Self {
        let budget = budget.with_share_of_at_least(usize::MAX);
        let all = budget.largest();
        let longest = verification_bytes_max(message_len).min(all - all / LEFT_DIVISOR);
        let part = longest + (all - longest) / 2;
        // Hosts without a login have three quarters of any budget: that is the part.
        let with_logins = part.div_ceil(3).saturating_mul(4);
        Self { part: ByteBudget::new(with_logins).with_share_of_at_least(longest), budget }
    }

    /// Waits for this many bytes. `None` after a timeout.
    pub(crate) async fn reserve(
        &self,
        address: IpAddr,
        bytes: usize,
        within: Duration,
    ) -> Option<ReservedMemory> {
        let deadline = Instant::now() + within;
        // The networks are those that threads are for.
        let of_part = self.part.begin(Holder::Address(Tiers::of(address).share()));
        of_part.grow_to_within(bytes.min(self.part.largest()), within).await.ok()?;
        of_part.complete();
        let of_budget = self.budget.begin(Holder::Address(address));
        let left = deadline.saturating_duration_since(Instant::now());
        // A budget that is smaller than one message takes them one by one.
        of_budget.grow_to_within(bytes.min(self.budget.largest()), left).await.ok()?;
        of_budget.complete();
        Some(ReservedMemory { of_budget, of_part })
    }
}

impl ReservedMemory {
    /// Gives back all but this many bytes.
    pub(crate) fn shrink_to(&self, bytes: usize) {
        self.of_budget.shrink_to(bytes);
        self.of_part.shrink_to(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use futures_util::FutureExt as _;
    use tokio::task::unconstrained;

    use super::*;

    const MIB: usize = 1 << 20;
    const LONG: Duration = Duration::from_secs(3600);

    /// A budget that others wait for in order, as summaries do.
    fn budget(bytes: usize) -> ByteBudget {
        ByteBudget::new(bytes).with_share_of_at_least(usize::MAX).in_order()
    }

    type Waiting<'m> = Pin<Box<dyn Future<Output = Option<ReservedMemory>> + 'm>>;

    /// A message of a host. Unconstrained: the runtime never makes it wait for another reason.
    fn message(memory: &VerificationMemory, address: [u8; 4], bytes: usize) -> Waiting<'_> {
        Box::pin(unconstrained(memory.reserve(IpAddr::from(address), bytes, LONG)))
    }

    /// The memory that a message gets without a wait.
    fn at_once(memory: &VerificationMemory, address: [u8; 4], bytes: usize) -> Option<ReservedMemory> {
        message(memory, address, bytes).now_or_never().flatten()
    }

    /// Messages of one network with slow name servers stood in front of all other work.
    #[tokio::test]
    async fn one_network_leaves_memory_to_others_and_stands_in_front_of_nobody() {
        const LEN: usize = 64 << 10;
        let longest = verification_bytes_max(LEN);
        let budget = budget(3 * longest);
        let memory = VerificationMemory::within(budget.clone(), LEN);
        let first = at_once(&memory, [192, 0, 2, 1], longest).unwrap();
        let mut waiting: Vec<_> = (2..5).map(|host| message(&memory, [192, 0, 2, host], longest)).collect();
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.iter_mut().all(|one| one.as_mut().poll(&mut context).is_pending()));
        let other = at_once(&memory, [198, 51, 100, 1], longest);
        assert!(other.is_some(), "another network");
        let summary = budget.begin(Holder::Account([1; 16]));
        assert!(summary.grew_at_once(longest), "other work");
        assert_eq!(budget.available(), 0);
        drop(first);
        let mut started = Vec::new();
        for one in &mut waiting {
            if let Poll::Ready(reserved) = one.as_mut().poll(&mut context) {
                started.push(reserved.unwrap());
            }
        }
        assert_eq!(started.len(), 1);
    }

    #[tokio::test]
    async fn on_each_machine_the_longest_message_is_verified_and_leaves_memory() {
        // The length of the longest message, and what its summary takes.
        for (len, bytes) in [
            (MIB / 4, 24 * MIB + MIB / 8),
            (16 * MIB, 96 * MIB),
            (64 * MIB, 192 * MIB),
            (64 * MIB, 512 * MIB),
        ] {
            let budget = budget(bytes);
            let memory = VerificationMemory::within(budget.clone(), len);
            let longest = verification_bytes_max(len);
            let one = at_once(&memory, [192, 0, 2, 1], longest).unwrap();
            assert_eq!(budget.available(), bytes - longest, "all that it takes is reserved");
            assert!(at_once(&memory, [192, 0, 2, 2], longest).is_none(), "its network has its share");
            assert!(at_once(&memory, [198, 51, 100, 1], MIB).is_some(), "usual mail of another");
            one.shrink_to(len);
            assert_eq!(budget.available(), bytes - len);
            drop(one);
            assert_eq!(budget.available(), bytes);
        }
    }

    /// Their mail waited for the budget behind all other messages of that network.
    #[tokio::test]
    async fn after_a_message_that_takes_all_memory_others_are_before_the_next_of_its_network() {
        let budget = budget(66 * MIB);
        let memory = VerificationMemory::within(budget.clone(), MIB);
        let longest = verification_bytes_max(MIB);
        let first = at_once(&memory, [192, 0, 2, 1], longest).unwrap();
        assert_eq!(budget.available(), 0);
        let mut next = message(&memory, [192, 0, 2, 2], longest);
        let mut other = message(&memory, [198, 51, 100, 1], MIB);
        let mut context = Context::from_waker(Waker::noop());
        assert!(next.as_mut().poll(&mut context).is_pending());
        assert!(other.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert!(next.as_mut().poll(&mut context).is_pending());
        let other = other.as_mut().poll(&mut context);
        assert!(matches!(other, Poll::Ready(Some(_))));
        assert_eq!(budget.available(), 65 * MIB);
        drop(other);
        assert!(matches!(next.as_mut().poll(&mut context), Poll::Ready(Some(_))));
    }

    #[tokio::test]
    async fn verifications_together_leave_memory_to_other_work() {
        let budget = budget(192 * MIB);
        let memory = VerificationMemory::within(budget.clone(), 64 * MIB);
        let mut held = Vec::new();
        for network in 0..=255 {
            held.extend(at_once(&memory, [198, 18, network, 1], MIB));
        }
        // The longest message takes 136 MiB and 64 KiB.
        assert_eq!(held.len(), 164);
        assert!(budget.begin(Holder::Account([1; 16])).grew_at_once(28 * MIB));
    }
}
