//! Messages that hold bodies, found by their summaries.

use heed::RoTxn;
use posthaste_mail_model::{BodyId, MailboxId, NumSet};
use posthaste_store::Result;

use crate::index::checksum::seed;
use crate::index::chunk::{uid_key, uid_of};
use crate::index::summaries::record::{Origin, summary_from};
use crate::index::{Index, Indexed, between, damaged};

/// A message that holds a body.
pub(super) struct Holder {
    pub(super) uid: u32,
    /// None if the summary is damaged.
    pub(super) body: Option<BodyId>,
    /// Where its summary is, if not with itself.
    pub(super) origin: Option<Origin>,
}

/// The first summaries of these UIDs, at most `limit`.
pub(super) fn holders(
    index: &Index,
    txn: &RoTxn,
    mailbox: MailboxId,
    set: &NumSet,
    limit: usize,
) -> Result<Vec<Holder>> {
    let seed = seed(mailbox.0);
    let mut found = Vec::new();
    for &(low, high) in set.ranges() {
        let (low, high) = (uid_key(mailbox, low), uid_key(mailbox, high));
        for item in index.summaries.range(txn, &between(&low, &high)).indexed()? {
            if found.len() == limit {
                return Ok(found);
            }
            let (key, value) = item.indexed()?;
            let uid = uid_of(mailbox, key).ok_or_else(damaged("key of a summary"))?;
            let summary = summary_from(seed, uid, value);
            let origin = summary.as_ref().and_then(|s| s.kind.origin());
            found.push(Holder { uid, body: summary.map(|s| s.body), origin });
        }
    }
    Ok(found)
}
