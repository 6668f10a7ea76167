//! Messages and their bodies, found by the summaries.

use heed::RoTxn;
use posthaste_mail_model::{BodyId, MailboxId, NumSet};
use posthaste_store::Result;

use crate::index::checksum::seed;
use crate::index::summaries::record::{Origin, summary_from};
use crate::index::{Index, summaries};

/// A message and its body.
pub(super) struct Holder {
    pub(super) uid: u32,
    /// The body; `None` if the summary is damaged.
    pub(super) body: Option<BodyId>,
    /// The origin that has its summary, if it is a copy that links.
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
    for &range in set.ranges() {
        for item in summaries::records(index, txn, mailbox, range)? {
            if found.len() == limit {
                return Ok(found);
            }
            found.push(holder(seed, item?));
        }
    }
    Ok(found)
}

/// The last summaries of these UIDs, at most `limit`, UIDs rising.
pub(super) fn last_holders(
    index: &Index,
    txn: &RoTxn,
    mailbox: MailboxId,
    set: &NumSet,
    limit: usize,
) -> Result<Vec<Holder>> {
    let seed = seed(mailbox.0);
    let mut found = Vec::new();
    'all: for &range in set.ranges().iter().rev() {
        for item in summaries::records_back(index, txn, mailbox, range)? {
            if found.len() == limit {
                break 'all;
            }
            found.push(holder(seed, item?));
        }
    }
    found.reverse();
    Ok(found)
}

fn holder(seed: u64, (uid, value): (u32, &[u8])) -> Holder {
    let summary = summary_from(seed, uid, value);
    let origin = summary.as_ref().and_then(|s| s.kind.origin());
    Holder { uid, body: summary.map(|s| s.body), origin }
}
