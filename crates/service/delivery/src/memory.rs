//! Memory for summaries and conversions: one budget, which both share.

use posthaste_net::ByteBudget;
use std::time::Duration;

/// How long a message waits for that memory before its sender gets a temporary error. Senders wait
/// 10 minutes for an answer to their data (RFC 5321 §4.5.3.2.6). People who append a message wait
/// far less.
pub(crate) const SUMMARY_WITHIN: Duration = Duration::from_secs(60);

/// A budget whose shares are all of it. Each use is so short that fairness between accounts needs
/// no shares. Waiters are served in order, so many small messages do not starve a large one.
pub(crate) fn one_share(budget: ByteBudget) -> ByteBudget {
    budget.with_share_of_at_least(usize::MAX).in_order()
}
