//! `$`, the result that a SEARCH saved: RFC 5182, RFC 9051 §6.4.4.1.
//!
//! A result may have half as many ranges as the mailbox has messages. Its bytes come from the
//! budget that results which are kept up to date use, too ([`ImapService::contexts`]). A result
//! without room there is refused.

use std::ops::Deref;
use std::sync::Arc;

use posthaste_imap_codec::response::Code;
use posthaste_mail_model::{AccountId, NumSet};
use posthaste_net::{BytePermit, Holder};

use crate::reply::Reply;
use crate::service::ImapService;

/// Bytes of a result that take nothing from the budget, so that every client can save a small one:
/// 512 ranges. With the contexts of a session they are the 16 KiB that the plan of memory counts
/// for each connection.
const UNRESERVED_BYTES_MAX: usize = 4 * 1024;

/// The UIDs of a result. Most sessions save none, and allocate nothing.
#[derive(Clone, Default)]
pub(crate) struct SavedUids(Option<Arc<NumSet>>);

/// A saved result.
#[derive(Default)]
pub(crate) struct SavedSearch {
    uids: SavedUids,
    /// The memory that was reserved. Boxed: few sessions save a large result.
    _paid: Option<Box<BytePermit>>,
}

impl SavedSearch {
    /// Saves this result for an account. If there is no memory for it: NO with NOTSAVED (RFC 5182
    /// §2.5). The caller then empties `$`.
    pub(crate) fn of(service: &ImapService, account: AccountId, uids: Arc<NumSet>) -> Result<Self, Reply> {
        let bytes = bytes(&uids);
        if bytes <= UNRESERVED_BYTES_MAX {
            return Ok(Self { uids: SavedUids(Some(uids)), _paid: None });
        }
        let permit = service.contexts.begin(Holder::Account(account.0.to_bytes()));
        if permit.grow_to(bytes).is_err() {
            return Err(Reply::no(Code::NotSaved, "The result is too large to be saved now"));
        }
        // It stays as long as the result does.
        permit.complete();
        Ok(Self { uids: SavedUids(Some(uids)), _paid: Some(Box::new(permit)) })
    }

    /// The UIDs. They need not exist any more.
    pub(crate) fn uids(&self) -> &SavedUids {
        &self.uids
    }
}

impl SavedUids {
    /// The set, to share it.
    pub(crate) fn shared(&self) -> Arc<NumSet> {
        self.0.clone().unwrap_or_default()
    }
}

impl Deref for SavedUids {
    type Target = NumSet;

    fn deref(&self) -> &NumSet {
        static NONE: NumSet = NumSet::new();
        self.0.as_deref().unwrap_or(&NONE)
    }
}

/// Bytes of memory. A set that grew by one range at a time has room for the next power of two.
fn bytes(uids: &NumSet) -> usize {
    uids.ranges().len().next_power_of_two() * size_of::<(u32, u32)>()
}

#[cfg(test)]
impl From<Arc<NumSet>> for SavedSearch {
    fn from(uids: Arc<NumSet>) -> Self {
        Self { uids: SavedUids(Some(uids)), _paid: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_allocated_for_no_result() {
        let none = SavedSearch::default();
        assert!(none.uids().0.is_none());
        assert!(none.uids().is_empty() && none.uids().shared().is_empty());
        let saved = SavedSearch::from(Arc::new(NumSet::range(3, 5)));
        assert_eq!((saved.uids().ranges(), saved.uids().shared().count()), (&[(3, 5)][..], 3));
    }
}
