//! Memory for summaries and conversions that are being made: one budget, which both share. Another
//! one is for summaries that are made and not stored yet.
//!
//! The verification of a message counts for the first, too, and so does its copy until scanners and
//! milters have answered. Verifications have a part of it, in which networks have shares:
//! `crates/service/authentication/src/memory.rs`.
//!
//! A script holds the summary of its message while the mail that it sends is delivered. If that
//! mail waited for the second budget, two scripts could wait for each other. It takes what is
//! free there. If that is not enough, it waits for the reserve of its step ([`Reserves`]). So
//! beside the budget there is one summary for each step of a message through scripts. One more is
//! of what is stored next. That takes no free memory while others wait for some. The order of all
//! these waits is in [`crate::long_work`].
//!
//! What a script wants counts for the second budget, too, until it is done
//! ([`crate::Delivery::room_for_outcome`]). It never waits.

use std::time::Duration;

use posthaste_mime_summary::summary_len_max;
use posthaste_net::{ByteBudget, KeyedPermit, KeyedSemaphore};
use posthaste_store::compressed::Compression;

/// A message over this is summarised on a blocking thread, so that no session on the same runtime
/// thread waits for it. Usual mail of this size takes 0.1 ms, and one of nothing but empty parts
/// 2.5 ms. Handing the message over takes 10 µs. The same holds for the rich form of ordinary mail.
pub(crate) const INLINE_LEN_MAX: usize = 64 * 1024;

/// Whether a message of this many octets is summarised on another thread. That takes a place
/// ([`crate::LongWork`]) and memory.
pub fn is_long(octets: usize) -> bool {
    octets > INLINE_LEN_MAX
}

/// The time that a message waits for a turn, for a place, or for memory, before its sender gets a
/// temporary error.
/// Senders wait 10 minutes for an answer to their data (RFC 5321 §4.5.3.2.6). People who append a
/// message wait far less.
pub(crate) const SUMMARY_WITHIN: Duration = Duration::from_secs(60);

/// A budget whose shares are all of it. Each use is so short that fairness between accounts needs
/// no shares; verifications take longer, and have some. Waiters are served in order, so many small
/// messages do not starve a large one.
pub(crate) fn one_share(budget: ByteBudget) -> ByteBudget {
    budget.with_share_of_at_least(usize::MAX).in_order()
}

/// Default memory for summaries that are not stored yet, and for what scripts want: twelve of the
/// longest summaries, or a hundred thousand usual ones.
pub(crate) const FINISHED_BYTES_DEFAULT: usize = 128 << 20;

/// The number of reserves: those of the steps, and that of what is stored next.
const RESERVES: usize = SummaryMemory::STEPS_MAX + 1;

/// Bytes that a message of this many octets has in memory beside itself, until it is stored: its
/// summary, and its compressed body.
pub(crate) fn until_stored_max(octets: usize, compress: Compression) -> usize {
    let compressed = if compress == Compression::Zstd { octets } else { 0 };
    summary_len_max(octets).saturating_add(compressed)
}

/// Bytes of summaries that are held at most beside the memory for them, if the largest message
/// has this many octets.
pub fn summaries_beside(message_len: usize, compress: Compression) -> usize {
    RESERVES.saturating_mul(until_stored_max(message_len, compress))
}

/// How a summary gets its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SummaryMemory {
    /// The first step: the caller holds no other summary. It waits for memory, and holds that
    /// until the message is stored.
    Counted,
    /// Scripts and groups of this server have sent the message on this many times. The scripts
    /// among them hold the summaries of their messages meanwhile.
    SentOn(usize),
    /// The message is stored next, and causes no other one before: a script files it, or it goes
    /// into the queue. The caller may hold other summaries.
    Last,
}

impl SummaryMemory {
    /// Steps through scripts and groups that have a reserve each. No message goes through more.
    pub const STEPS_MAX: usize = 9;

    /// The number of the step. Mail that holds the memory of a step waits only for later ones.
    pub(crate) fn step(self) -> usize {
        match self {
            Self::Counted => 0,
            Self::SentOn(steps) => steps.min(Self::STEPS_MAX),
            Self::Last => RESERVES,
        }
    }
}

/// Memory beside the budget: for one summary at a time of each step.
#[derive(Clone)]
pub(crate) struct Reserves(KeyedSemaphore<usize>);

impl Reserves {
    pub(crate) fn new() -> Self {
        Self(KeyedSemaphore::new(RESERVES, 1))
    }

    /// Waits for the reserve of a step; `None` if that takes too long.
    pub(crate) async fn take(&self, memory: SummaryMemory) -> Option<KeyedPermit<usize>> {
        self.0.acquire_within(memory.step(), SUMMARY_WITHIN).await
    }
}
