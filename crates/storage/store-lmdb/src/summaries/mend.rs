//! A summary that the walk did not find good: looked for once more, then made again from the body.
//!
//! A damaged record may still name its body. That name is believed only if the index has a body of that id with the length
//! of the message's row: a flipped bit leaves an id that no body has. The body proves itself by its own checksums. The date saved of a
//! damaged record is not believed; the message's internal date stands for it.

use posthaste_mail_model::{BodyId, MailboxId, NumSet, Uid};
use posthaste_store::{Result, Row, StoreError, Stored, Visit};
use std::ops::ControlFlow;

use crate::chunk::uid_key;
use crate::index::Indexed;
use crate::rows::RowWalk;
use crate::shared::Shared;
use crate::sum::seed;
use crate::values::{Kept, Origin, SummaryRef, is_summary_good, summary_from, summary_parts};

/// Damaged messages of one call that are logged one by one: twenty tell what happened, and a ruined mailbox does not fill the log.
const LOGGED_MAX: usize = 20;

/// Mends the summaries of one mailbox, for the length of one call.
pub(super) struct Mend<'m> {
    shared: &'m Shared,
    mailbox: MailboxId,
    unreadable: NumSet,
    logged: usize,
}

/// What became of one message.
enum Outcome {
    /// It has no row any more.
    Expunged,
    /// Its summary, and whether it had to be made again.
    Found(Mended),
    /// It has a row, and nothing to make a summary of.
    Lost(String),
}

struct Mended {
    body: BodyId,
    saved: i64,
    summary: Vec<u8>,
    is_made: bool,
}

impl<'m> Mend<'m> {
    pub(super) fn new(shared: &'m Shared, mailbox: MailboxId) -> Self {
        Self { shared, mailbox, unreadable: NumSet::new(), logged: 0 }
    }

    pub(super) fn unreadable(self) -> NumSet {
        self.unreadable
    }

    /// Visits a message, notes that it cannot be read, or passes it over if it has no row. UIDs rise from call to call.
    pub(super) fn visit(&mut self, uid: u32, visit: &mut Visit<'_>) -> Result<ControlFlow<()>> {
        let Some(of) = Uid::new(uid) else { return Ok(ControlFlow::Continue(())) };
        match self.find(uid) {
            Ok(Outcome::Expunged) => Ok(ControlFlow::Continue(())),
            Ok(Outcome::Found(Mended { body, saved, summary, is_made })) => {
                if is_made {
                    self.log(uid, "the summary is damaged; it was made again from the body");
                }
                Ok(visit(Stored { uid: of, body, saved, summary: &summary }))
            }
            Ok(Outcome::Lost(why)) | Err(StoreError::Corrupt(why)) => {
                self.log(uid, &why);
                self.unreadable.push(uid);
                Ok(ControlFlow::Continue(()))
            }
            Err(error) => Err(error),
        }
    }

    fn log(&mut self, uid: u32, what: &str) {
        self.logged += 1;
        match self.logged.cmp(&LOGGED_MAX) {
            std::cmp::Ordering::Less => tracing::error!(mailbox = %self.mailbox, uid, what, "damage in the index"),
            std::cmp::Ordering::Equal => {
                tracing::error!(mailbox = %self.mailbox, uid, what, "damage in the index; more is not logged now");
            }
            std::cmp::Ordering::Greater => {}
        }
    }

    fn find(&self, uid: u32) -> Result<Outcome> {
        let (body, saved) = {
            let index = &self.shared.index;
            let txn = index.read()?;
            let Some(row) = RowWalk::new(self.mailbox).find(index, &txn, uid)? else {
                return Ok(Outcome::Expunged);
            };
            let record = index.summaries.get(&txn, &uid_key(self.mailbox, uid)).indexed()?;
            let seed = seed(self.mailbox.0);
            let is_good = record.is_some_and(|record| is_summary_good(seed, uid, record));
            let Some(found) = record.and_then(summary_parts) else {
                return Ok(Outcome::Lost("the record of the summary is missing".into()));
            };
            if is_good && let Some(summary) = self.whole(&txn, &found)? {
                let (body, saved) = (found.body, found.saved);
                return Ok(Outcome::Found(Mended { body, saved, summary, is_made: false }));
            }
            if let Some(why) = self.not_the_body(&txn, &found, &row)? {
                return Ok(Outcome::Lost(why));
            }
            (found.body, if is_good { found.saved } else { i64::from(row.date()) })
        };
        let bytes = match self.shared.read_body(body, 0..u64::MAX) {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Outcome::Lost(format!("the summary is damaged, and {error}"))),
        };
        let summary = (self.shared.summarize)(&bytes);
        Ok(Outcome::Found(Mended { body, saved, summary, is_made: true }))
    }

    /// The summary of a good record: its own, or its origin's if that is good.
    fn whole(&self, txn: &heed::RoTxn, found: &SummaryRef<'_>) -> Result<Option<Vec<u8>>> {
        let (mailbox, uid): Origin = match found.kept {
            Kept::Here(summary) => return Ok(Some(summary.to_vec())),
            Kept::At(origin) => origin,
        };
        let record = self.shared.index.summaries.get(txn, &uid_key(mailbox, uid)).indexed()?;
        let origin = record.and_then(|record| summary_from(seed(mailbox.0), uid, record));
        Ok(match origin {
            Some(SummaryRef { body, kept: Kept::Here(summary), .. }) if body == found.body => {
                Some(summary.to_vec())
            }
            _ => None,
        })
    }

    /// Why the body that a record names cannot be this message's; `None` if it can.
    fn not_the_body(&self, txn: &heed::RoTxn, found: &SummaryRef<'_>, row: &Row) -> Result<Option<String>> {
        let place = self.shared.index.body(txn, found.body)?;
        let is_it = place.is_some_and(|place| place.len == u64::from(row.size()));
        Ok((!is_it).then(|| "the summary is damaged, and the body it names is not this message's".into()))
    }
}
