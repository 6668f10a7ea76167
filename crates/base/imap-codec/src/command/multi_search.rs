//! ESEARCH: a search in several mailboxes (RFC 7377).

use super::{Charset, FetchItem, MailboxFilter, SearchKey, SearchReturn};

/// A search in several mailboxes. Its results are UIDs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MultiSearchArgs {
    /// `IN (…)`: where. No source is the selected mailbox. Never
    /// [`MailboxFilter::SelectedDelayed`].
    pub sources: Vec<MailboxFilter>,
    /// `RETURN (…)`; without it, `ALL`.
    pub returns: Option<SearchReturn>,
    /// The items of `UPDATE (…)` (RFC 5465 §7).
    pub update_items: Vec<FetchItem>,
    /// `CHARSET`, if it was given.
    pub charset: Option<Charset>,
    /// The criteria.
    pub key: SearchKey,
}
