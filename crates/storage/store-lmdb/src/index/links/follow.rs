//! Reads summaries through links.

use heed::{RoTxn, WithoutTls};
use posthaste_mail_model::BodyId;
use posthaste_store::Result;

use super::walk::{GAP, bad, next_of};
use crate::index::checksum::seed;
use crate::index::prefetch::prefetch;
use crate::index::summaries::record::{Origin, RecordKind, is_summary_good, summary_parts};
use crate::index::summaries::table::{self, Cursor};
use crate::index::verified::{self, Verified};
use crate::index::{Index, Indexed};

/// Follows links, in the order in which a listing meets them.
pub(crate) struct Follow<'w> {
    index: &'w Index,
    txn: &'w RoTxn<'w, WithoutTls>,
    verified: &'w Verified,
    along: Option<Along<'w>>,
}

/// The place where the last origin was found.
struct Along<'w> {
    at: Origin,
    seed: u64,
    records: Cursor<'w>,
    verified: verified::VerifiedWalk<'w>,
}

impl<'w> Follow<'w> {
    pub(crate) fn new(index: &'w Index, txn: &'w RoTxn<'w, WithoutTls>, verified: &'w Verified) -> Self {
        Self { index, txn, verified, along: None }
    }

    /// The summary of an origin. After an error the next call looks its origin up again.
    pub(crate) fn summary(&mut self, origin: Origin, body: BodyId) -> Result<&'w [u8]> {
        let found = self.walk_to(origin, body);
        if found.is_err() {
            self.along = None;
        }
        found
    }

    fn walk_to(&mut self, origin: Origin, body: BodyId) -> Result<&'w [u8]> {
        let (mailbox, uid) = origin;
        let near = |at: Origin| at.0 == mailbox && at.1 < uid && uid - at.1 <= GAP;
        let along = match self.along.take() {
            Some(along) if near(along.at) => along,
            _ => {
                let records = table::cursor(self.index, self.txn, mailbox, (uid, u32::MAX)).indexed()?;
                Along { at: origin, seed: seed(mailbox.0), records, verified: self.verified.walk(mailbox) }
            }
        };
        let along = self.along.insert(along);
        along.at = origin;
        let value = next_of(&mut along.records, mailbox, uid)?;
        prefetch(value);
        let seed = along.seed;
        let index = self.index;
        let good = index.holds(value) && along.verified.is_good(uid, || is_summary_good(seed, uid, value));
        match summary_parts(value).filter(|found| good && found.body == body).map(|found| found.kind) {
            Some(RecordKind::Summary(summary)) => Ok(summary),
            _ => Err(bad(mailbox, uid)()),
        }
    }
}
