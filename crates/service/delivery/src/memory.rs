//! Memory for summaries and conversions that are being made: one budget, which both share. Another
//! one is for summaries that are made and not stored yet.
//!
//! Work that holds bytes of the second may wait for the first. A message waits for the second
//! before it holds any of it, and work that makes a summary waits for nothing. The copy of a
//! message that was verified counts for the first, too, while it waits: so each wait has a
//! deadline. The order of these waits, and of those for a place, is in [`crate::LongWork`].

use std::time::Duration;

use posthaste_net::ByteBudget;

/// A message over this is summarised on a blocking thread, so that no session on the same runtime
/// thread waits for it. Usual mail of this size takes 0.1 ms, and one of nothing but empty parts
/// 2.5 ms. Handing the message over takes 10 µs. The same holds for the rich form of ordinary mail.
pub(crate) const INLINE_LEN_MAX: usize = 64 * 1024;

/// Whether a message of this many octets is summarised on another thread. That takes a place
/// ([`crate::LongWork`]) and memory.
pub fn is_long(octets: usize) -> bool {
    octets > INLINE_LEN_MAX
}

/// The time that a message waits for a turn, for a place, or for that memory, before its sender
/// gets a temporary error.
/// Senders wait 10 minutes for an answer to their data (RFC 5321 §4.5.3.2.6). People who append a
/// message wait far less.
pub(crate) const SUMMARY_WITHIN: Duration = Duration::from_secs(60);

/// A budget whose shares are all of it. Each use is so short that fairness between accounts needs
/// no shares. Waiters are served in order, so many small messages do not starve a large one.
pub(crate) fn one_share(budget: ByteBudget) -> ByteBudget {
    budget.with_share_of_at_least(usize::MAX).in_order()
}

/// Default memory for summaries that are not stored yet: twelve of the longest, or a hundred
/// thousand usual ones.
pub(crate) const FINISHED_BYTES_DEFAULT: usize = 128 << 20;

/// Whether a delivery waits for memory for its summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SummaryMemory {
    /// The delivery waits, and the memory is held until the message is stored.
    Counted,
    /// The caller holds the summary of another message, which a script sends on. A holder of this
    /// memory must not wait for more of it (deadlock), so this summary is not counted.
    BesideOthers,
}
