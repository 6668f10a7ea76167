//! Keeps the search index of mailboxes: made in the background, stored with the mail, used by
//! SEARCH.
//!
//! [`SearchIndex::run`] is the task in the background. It reads the texts of new messages, and
//! keeps their terms in memory. As soon as there are 256 of them it stores a segment. It merges
//! small segments, drops expunged messages, and removes the segments of deleted mailboxes. What it
//! does for a delivery does not depend on the size of the mailbox: the outline of its segments is
//! stored with them. [`SearchIndex::query`] names the messages that may hold a word, and
//! [`SearchIndex::sort_keys`] has what SORT and THREAD compare of the messages in segments.
//!
//! Invariants: nothing depends on the index. A message that is in no segment is read by each
//! search. A segment that is lost or damaged is removed and made again. A message's text never
//! changes, so a segment is right for every view of its mailbox, on every node. UIDs of expunged
//! messages are in no view, so proposals of them do no harm. docs/search.md has the form, the
//! reasons and the figures.

mod blocking;
mod collecting;
#[cfg(test)]
mod cost_tests;
mod index;
mod lru;
mod memory;
mod meta;
mod outline;
mod places;
mod recent;
mod sort_keys;
mod stored;
mod stored_keys;
mod terms;
#[cfg(test)]
mod tests;
mod tidy;
mod totals;
mod work;

pub use collecting::{Collecting, Full};
pub use index::{Answer, Reads, SearchIndex, Size, Totals};
pub use posthaste_search_index::{Front, Query, Scope, SortKeys};
pub use sort_keys::{SortField, SortTexts};
pub use stored_keys::{SegmentSortKeys, StoredSortKeys};
pub use terms::{TermReader, summary_steps};

/// Whether a mailbox has segments of the search index, and no mail.
pub fn is_segments(mailbox: posthaste_mail_model::MailboxId) -> bool {
    places::is_place(mailbox)
}

/// Messages that a segment has at least, and that a search has to read before it collects. The
/// words would take more than their lists in a smaller one. So up to 255 messages after the last
/// segment are known from memory, or read by each search.
pub const SEGMENT_MESSAGES_MIN: usize = 256;
