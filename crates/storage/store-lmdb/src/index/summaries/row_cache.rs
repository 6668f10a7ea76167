//! Which UIDs of a range have rows. Needed when the walk along the summaries met no record of a
//! UID.
//!
//! Each call reads in a transaction of its own, since the walk's may have met damage. A newer one
//! does no harm, since UIDs are never given twice. A message that has no row now is expunged, and
//! a new message has its summary.

use posthaste_mail_model::MailboxId;
use posthaste_store::{Result, Row};

use crate::index::rows::{chunk_of, chunks_from};
use crate::index::{Index, chunk};

/// Rows after which no further chunk is read: 28 KiB. The slice ends at messages without summaries,
/// and they are repaired. With ten times as many, more would be read in a poll than is repaired.
const ROWS_AT_ONCE: usize = 1024;

/// The chunks read last, so that the gaps of a thinned-out mailbox read each chunk once.
pub(super) struct RowCache<'i> {
    index: &'i Index,
    mailbox: MailboxId,
    rows: Vec<Row>,
    /// The range of UIDs that `rows` covers; empty if the low end is above the high end.
    known: (u32, u32),
}

impl<'i> RowCache<'i> {
    pub(super) fn new(index: &'i Index, mailbox: MailboxId) -> Self {
        Self { index, mailbox, rows: Vec::new(), known: (1, 0) }
    }

    /// The first UIDs of the rows from `low` to `high`, and the UID up to which these are all.
    pub(super) fn between(&mut self, low: u32, high: u32) -> Result<(Vec<u32>, u32)> {
        if low < self.known.0 || low > self.known.1 {
            self.read(low, high)?;
        }
        // Chunks out of order, which damage may cause, do not keep the caller in one place.
        let upto = high.min(self.known.1).max(low);
        let there = self.rows.iter().map(chunk::number);
        Ok((there.filter(|uid| (low..=upto).contains(uid)).collect(), upto))
    }

    /// Reads the first chunks of these UIDs.
    fn read(&mut self, low: u32, high: u32) -> Result<()> {
        self.known = (1, 0);
        self.rows.clear();
        let txn = self.index.read()?;
        let first = chunk_of(self.index, &txn, self.mailbox, low)?.map_or(low, |(first, _)| first);
        let mut known_to = u32::MAX;
        for chunk in chunks_from(self.index, &txn, self.mailbox, first)? {
            let chunk = chunk?;
            if chunk.low > high || self.rows.len() >= ROWS_AT_ONCE {
                known_to = chunk.low.saturating_sub(1);
                break;
            }
            chunk.add_rows(&mut self.rows)?;
        }
        self.known = (first, known_to);
        Ok(())
    }
}
