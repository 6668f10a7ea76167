//! Which UIDs of a range have rows. Needed when the walk along the summaries has passed a UID over.
//!
//! Each question reads in a transaction of its own, since the walk's may have met damage. A newer
//! one does no harm, since UIDs are never given twice. A message that has no row now is expunged,
//! and a new message has its summary.

use posthaste_mail_model::MailboxId;
use posthaste_store::{Result, Row};

use crate::index::chunk::{self, uid_key, uid_of};
use crate::index::rows::chunk_of;
use crate::index::{Index, Indexed, between, damaged};

/// The chunks read last, so that the gaps of a thinned-out mailbox read each chunk once.
pub(super) struct RowsThere<'i> {
    index: &'i Index,
    mailbox: MailboxId,
    rows: Vec<Row>,
    /// The UIDs about which `rows` says everything; nothing yet if the low end is above the high
    /// end.
    known: (u32, u32),
}

impl<'i> RowsThere<'i> {
    pub(super) fn new(index: &'i Index, mailbox: MailboxId) -> Self {
        Self { index, mailbox, rows: Vec::new(), known: (1, 0) }
    }

    /// The UIDs of the rows from `low` to `high`.
    pub(super) fn between(&mut self, low: u32, high: u32) -> Result<Vec<u32>> {
        if low < self.known.0 || high > self.known.1 {
            self.read(low, high)?;
        }
        let there = self.rows.iter().map(chunk::number);
        Ok(there.filter(|uid| (low..=high).contains(uid)).collect())
    }

    /// Reads the chunks in which these UIDs lie.
    fn read(&mut self, low: u32, high: u32) -> Result<()> {
        self.known = (1, 0);
        self.rows.clear();
        let txn = self.index.read()?;
        let first = chunk_of(self.index, &txn, self.mailbox, low)?.map_or(low, |(first, _)| first);
        let (from, to) = (uid_key(self.mailbox, first), uid_key(self.mailbox, u32::MAX));
        let mut known_to = u32::MAX;
        for item in self.index.rows.range(&txn, &between(&from, &to)).indexed()? {
            let (key, value) = item.indexed()?;
            let chunk_low = uid_of(self.mailbox, key).ok_or_else(damaged("key of a chunk"))?;
            if chunk_low > high {
                known_to = chunk_low - 1;
                break;
            }
            chunk::decode(self.mailbox, chunk_low, value, &mut self.rows)
                .ok_or_else(damaged(format_args!("rows of mailbox {} from UID {chunk_low}", self.mailbox)))?;
        }
        self.known = (first, known_to);
        Ok(())
    }
}
