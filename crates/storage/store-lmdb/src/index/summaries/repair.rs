//! Reads again a summary that the walk found damaged, then rebuilds it from the body. That takes as
//! long as reading a whole message. So another thread does it, and the listing waits.
//!
//! | record | used fields | summary |
//! | --- | --- | --- |
//! | intact, and so is the origin of a link | all | stored |
//! | intact link, origin damaged or missing | body and arrival | rebuilt |
//! | damaged; the rebuilt summary matches the checksum | body and arrival | rebuilt |
//! | damaged; the rebuilt summary equals the stored one | body | rebuilt |
//! | damaged link; its origin is intact and has its body | body | rebuilt |
//! | anything else, or no record | none | the message is named as unreadable |
//!
//! The arrival is SAVEDATE and the first mod-sequence. If only the body is used, the internal date
//! is SAVEDATE, and the first mod-sequence is not known.
//!
//! A body is used only if it is as long as the message's row says. A damaged record may name the
//! body of another message. So an existing body with that id proves nothing.

use bytes::Bytes;
use heed::RoTxn;
use posthaste_mail_model::{BodyId, Id, MailboxId, ModSeq};
use posthaste_store::form::lacks_items;
use posthaste_store::{Result, Row, StoreError};

use crate::index::bodies::BodyLocation;
use crate::index::checksum::seed;
use crate::index::rows::RowWalk;
use crate::index::summaries::record::{
    Arrival, CREATED_LEN, Origin, RecordKind, SUMMARY_HEADER, date_in, is_summary_good, origin_from,
    put_summary, summary_from, summary_parts,
};
use crate::index::summaries::table;
use crate::shared::{Shared, summary_of};

/// Octets of summaries that are read again before they are visited. They are in memory together.
/// The last one may exceed it by 10 MiB. With half of it, a mailbox whose page is damaged would
/// change threads twice as often.
const OCTETS_AT_ONCE: usize = 2 << 20;

/// Repairs the summaries of one mailbox.
pub(super) struct Repair<'m> {
    shared: &'m Shared,
    mailbox: MailboxId,
}

/// What was found of one message.
pub(crate) enum Examined {
    /// The message has no row any more.
    Expunged,
    /// The summary, and whether it had to be rebuilt.
    Found(Repaired),
    /// The message has a row, and no body to rebuild the summary from. Holds the reason.
    Lost(String),
}

/// A message that can be visited.
pub(crate) struct Repaired {
    pub(super) arrival: Arrival,
    pub(super) summary: Vec<u8>,
    pub(super) is_made: bool,
}

impl<'m> Repair<'m> {
    pub(super) fn new(shared: &'m Shared, mailbox: MailboxId) -> Self {
        Self { shared, mailbox }
    }

    /// Reads messages again, as many as [`OCTETS_AT_ONCE`] allow, at least the first.
    pub(super) fn read_again(&self, uids: &[u32]) -> Result<Vec<(u32, Examined)>> {
        let (mut read, mut octets) = (Vec::with_capacity(uids.len()), 0);
        for &uid in uids {
            let examined = match self.find(uid) {
                Err(StoreError::Corrupt(why)) => Examined::Lost(why),
                found => found?,
            };
            if let Examined::Found(found) = &examined {
                octets += found.summary.len();
            }
            read.push((uid, examined));
            if octets >= OCTETS_AT_ONCE {
                break;
            }
        }
        Ok(read)
    }

    /// The summary of a message of this body, for a copy of it.
    pub(super) fn for_copy(&self, txn: &RoTxn, uid: u32, body: BodyId) -> Result<Vec<u8>> {
        let why = match self.find_in(txn, uid)? {
            Examined::Found(found) if found.arrival.body == body => {
                if found.is_made {
                    let what = "the summary is damaged; its copy gets one that was rebuilt from the body";
                    tracing::error!(mailbox = %self.mailbox, uid, what, "damage in the index");
                }
                return Ok(found.summary);
            }
            Examined::Found(_) => "it belongs to another body".to_owned(),
            Examined::Expunged => "the message does not exist".to_owned(),
            Examined::Lost(why) => why,
        };
        Err(StoreError::Corrupt(format!("summary of UID {uid} in mailbox {}: {why}", self.mailbox)))
    }

    fn find(&self, uid: u32) -> Result<Examined> {
        self.find_in(&*self.shared.index.read()?, uid)
    }

    fn find_in(&self, txn: &RoTxn, uid: u32) -> Result<Examined> {
        let index = &self.shared.index;
        let Some(row) = RowWalk::new(self.mailbox).find(index, txn, uid)? else {
            return Ok(Examined::Expunged);
        };
        let Some(record) = table::record(index, txn, self.mailbox, uid)? else {
            return Ok(Examined::Lost("the record of the summary is missing".into()));
        };
        if !index.holds(record) {
            return Ok(Examined::Lost("the record of the summary reaches beyond the index".into()));
        }
        if !is_summary_good(seed(self.mailbox.0), uid, record) {
            return self.of_damaged(txn, record, &row);
        }
        let Some(found) = summary_parts(record) else {
            return Ok(Examined::Lost("the record of the summary is too short".into()));
        };
        let arrival = found.arrival();
        let body = arrival.body;
        let stored = match found.kind {
            RecordKind::Summary(summary) => Some(summary),
            RecordKind::Link(origin) => self.summary_at(txn, origin, body)?,
        };
        if let Some(summary) = stored {
            return Ok(Examined::Found(Repaired { arrival, summary: summary.to_vec(), is_made: false }));
        }
        Ok(match self.made(txn, body, &row) {
            Ok(summary) => Examined::Found(Repaired { arrival, summary, is_made: true }),
            Err(why) => Examined::Lost(why),
        })
    }

    /// The body, and when the message came, from a record whose checksum is wrong.
    fn of_damaged(&self, txn: &RoTxn, record: &[u8], row: &Row) -> Result<Examined> {
        let lost = |why: &str| Examined::Lost(format!("the record of the summary is damaged, and {why}"));
        let Some((header, rest)) = record.split_first_chunk::<SUMMARY_HEADER>() else {
            return Ok(lost("too short"));
        };
        let Some(id) = header[4..].first_chunk() else { return Ok(lost("too short")) };
        let body = BodyId(Id::from_bytes(*id));
        let stored = match self.body(txn, body, row) {
            Ok(stored) => stored,
            Err(why) => return Ok(lost(&why)),
        };
        // The summary from delivery, and the one that may have been added since.
        let delivered = summary_of(self.shared.summarize, &stored);
        let added = lacks_items(&stored).then(|| (self.shared.summarize)(&stored));
        let summaries = || std::iter::once(&delivered).chain(&added);
        let mut whole = Vec::with_capacity(record.len());
        let uid = row.uid().value();
        for arrival in arrivals(body, (header, rest), row) {
            for summary in summaries() {
                put_summary(&mut whole, seed(self.mailbox.0), uid, arrival, summary);
                if whole.get(..4) == header.get(..4) {
                    let summary = summary.clone();
                    return Ok(Examined::Found(Repaired { arrival, summary, is_made: true }));
                }
            }
        }
        // The checksum itself is damaged, or the date, or the first mod-sequence.
        let arrival = Arrival { body, saved: i64::from(row.date()), created: ModSeq::ZERO };
        let found = |summary| Ok(Examined::Found(Repaired { arrival, summary, is_made: true }));
        for content in contents(rest) {
            if let Some(summary) = summaries().find(|summary| content == summary.as_slice()) {
                return found(summary.clone());
            }
            // A link has no summary of its own. It gets the one that delivery makes.
            if let Some(origin) = origin_from(content)
                && self.summary_at(txn, origin, body)?.is_some()
            {
                return found(delivered);
            }
        }
        Ok(lost("no summary of the body that it names matches the rest of it"))
    }

    /// The summary of an origin, if that is intact and of this body.
    fn summary_at<'t>(
        &self,
        txn: &'t RoTxn,
        (mailbox, uid): Origin,
        body: BodyId,
    ) -> Result<Option<&'t [u8]>> {
        let record = table::record(&self.shared.index, txn, mailbox, uid)?;
        let record = record.filter(|record| self.shared.index.holds(record));
        let found = record.and_then(|record| summary_from(seed(mailbox.0), uid, record));
        Ok(found.filter(|found| found.body == body).and_then(|found| match found.kind {
            RecordKind::Summary(summary) => Some(summary),
            RecordKind::Link(_) => None,
        }))
    }

    /// The summary of a body, as delivery makes it; or why there is none.
    fn made(&self, txn: &RoTxn, body: BodyId, row: &Row) -> Result<Vec<u8>, String> {
        Ok(summary_of(self.shared.summarize, &self.body(txn, body, row)?))
    }

    /// A body that is as long as the row says; or why there is none.
    fn body(&self, txn: &RoTxn, body: BodyId, row: &Row) -> Result<Bytes, String> {
        let location = self.shared.index.body(txn, body).map_err(|error| error.to_string())?;
        let is_right = |location: BodyLocation| {
            location.len == u64::from(row.stored_size()) || self.shared.is_body_of(body, location, row)
        };
        if !location.is_some_and(is_right) {
            return Err(format!("body {body} is missing, or has another length"));
        }
        self.shared.read_body(body, 0..u64::MAX).map_err(|error| error.to_string())
    }
}

/// What may follow the header of a damaged record, whose kind may be wrong: with the first
/// mod-sequence before it, and without.
fn contents(rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    rest.get(CREATED_LEN..).into_iter().chain(std::iter::once(rest))
}

/// When the message of a damaged record may have come: with the mod-sequence that follows the
/// header, with that of its row, or nobody knows.
fn arrivals(
    body: BodyId,
    (header, rest): (&[u8; SUMMARY_HEADER], &[u8]),
    row: &Row,
) -> impl Iterator<Item = Arrival> + use<> {
    let stored = rest.first_chunk().and_then(|created| ModSeq::new(u64::from_le_bytes(*created)));
    let saved = date_in(header);
    let created = stored.into_iter().chain([row.modseq(), ModSeq::ZERO]);
    created.map(move |created| Arrival { body, saved, created })
}
