//! Reading along links.

use heed::{RoTxn, WithoutTls};
use posthaste_mail_model::BodyId;
use posthaste_store::Result;

use super::walk::{GAP, Records, bad, next_of};
use crate::ahead::ask_ahead;
use crate::chunk::uid_key;
use crate::index::{Index, Indexed, between};
use crate::proven::{self, Proven};
use crate::sum::seed;
use crate::values::{Kept, Origin, is_summary_good, summary_parts};

/// Follows links, in the order in which a listing meets them.
pub(crate) struct Follow<'w> {
    index: &'w Index,
    txn: &'w RoTxn<'w, WithoutTls>,
    proven: &'w Proven,
    along: Option<Along<'w>>,
}

/// Where the last origin was found.
struct Along<'w> {
    at: Origin,
    seed: u64,
    records: Records<'w>,
    proven: proven::Walk<'w>,
}

impl<'w> Follow<'w> {
    pub(crate) fn new(index: &'w Index, txn: &'w RoTxn<'w, WithoutTls>, proven: &'w Proven) -> Self {
        Self { index, txn, proven, along: None }
    }

    /// The summary of an origin. After an error the next one is looked up afresh.
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
                let (low, high) = (uid_key(mailbox, uid), uid_key(mailbox, u32::MAX));
                let records = self.index.summaries.range(self.txn, &between(&low, &high)).indexed()?;
                Along { at: origin, seed: seed(mailbox.0), records, proven: self.proven.walk(mailbox) }
            }
        };
        let along = self.along.insert(along);
        along.at = origin;
        let value = next_of(&mut along.records, mailbox, uid)?;
        ask_ahead(value);
        let seed = along.seed;
        let index = self.index;
        let good = index.holds(value) && along.proven.is_good(uid, || is_summary_good(seed, uid, value));
        match summary_parts(value).filter(|found| good && found.body == body).map(|found| found.kept) {
            Some(Kept::Here(summary)) => Ok(summary),
            _ => Err(bad(mailbox, uid)()),
        }
    }
}
