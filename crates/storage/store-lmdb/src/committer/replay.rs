//! Brings the index up to what a pack holds beyond the end the index has of it.
//!
//! A serving process acknowledges a commit when its pack is synced and lets the index follow (`committer`). If it ends in between, or the
//! index refuses, the *tail* of its pack has commits that the index lacks. Applying them again is what applying them was: the
//! same calls in the same order under the same sequence numbers, into a batch that comes out byte for byte as it lies there
//! and so need not be written.

use bytes::Bytes;
use posthaste_mail_model::{AccountId, BodyId, MailboxId};
use posthaste_store::{Content, MailboxCommit, NewMessage, Result, StoreError};
use std::collections::HashMap;

use crate::apply::{Applied, Apply};
use crate::disk::DiskFile;
use crate::index::damaged;
use crate::logged;
use crate::packs::reader::ReadFault;
use crate::packs::record::{Header, Kind, PACK_HEADER, RECORD_HEADER};
use crate::packs::scan::{Found, Scan};
use crate::pair;
use crate::shared::Shared;

/// Whether what lies beyond the end that the index has of a pack begins as a tail that counts does. `next`: the index's next
/// sequence number.
pub(crate) fn has_tail(file: &dyn DiskFile, end: u64, next: u64) -> std::io::Result<bool> {
    let mut bytes = [0; RECORD_HEADER];
    let read = file.read_at(&mut bytes, end.max(PACK_HEADER as u64))?;
    Ok(Header::from_bytes(&bytes[..read]).is_some_and(|header| follows(&header, next)))
}

/// Whether a record is the next of all. Each commit with copies has taken a number for its note of them.
fn follows(header: &Header, next: u64) -> bool {
    let notes = match header.kind {
        Kind::Mailbox => 1,
        Kind::Pair => 2,
        _ => 0,
    };
    header.kind != Kind::Abandon && (next..=next + notes).contains(&header.seq)
}

/// Applies the commits of a tail that are whole and follow what the index has, up to `limit`; answers where the last of them
/// ends. `apply.batch` begins where the index has the pack's end.
pub(crate) fn replay(
    shared: &Shared,
    apply: &mut Apply<'_, '_>,
    file: &dyn DiskFile,
    limit: u64,
) -> Result<u64> {
    let start = apply.batch.start;
    let mut tail = Tail { shared, scan: Scan::new(file, start, limit), bodies: HashMap::new() };
    let mut end = start;
    while let Some(found) = tail.next(apply)? {
        if found.header.kind == Kind::Body {
            continue;
        }
        if !tail.commit(apply, &found)? {
            break;
        }
        end = tail.scan.offset();
        if apply.batch.start + apply.batch.len() != end {
            return Err(StoreError::Corrupt(format!(
                "pack {} replays to another length at byte {}",
                apply.batch.pack, found.offset
            )));
        }
    }
    Ok(end)
}

struct Tail<'a> {
    shared: &'a Shared,
    scan: Scan<'a>,
    /// Bodies read since the last commit.
    bodies: HashMap<BodyId, Bytes>,
}

impl Tail<'_> {
    /// The next record if it is whole and follows; a body is kept for its commit.
    fn next(&mut self, apply: &Apply<'_, '_>) -> Result<Option<Found>> {
        let Some(found) = whole(self.scan.advance())? else { return Ok(None) };
        if !follows(&found.header, apply.seq + self.bodies.len() as u64) {
            return Ok(None);
        }
        let Some(content) = whole(self.scan.content(&found).map(Some))? else { return Ok(None) };
        if found.header.kind == Kind::Body {
            self.bodies.insert(BodyId(found.header.id), content);
        }
        Ok(Some(found))
    }

    /// Applies a commit again; `false` if it cannot be.
    fn commit(&mut self, apply: &mut Apply<'_, '_>, found: &Found) -> Result<bool> {
        let Some(content) = whole(self.scan.content(found).map(Some))? else { return Ok(false) };
        let Header { kind, seq, id, .. } = found.header;
        apply.log_at = Some(seq);
        let applied = match kind {
            Kind::Mailbox => {
                let commit = self.mailbox_commit(apply, MailboxId(id), &content)?;
                apply.mailbox(&commit)?
            }
            Kind::Pair => {
                let parts = pair::parts(&content).ok_or_else(damaged("a commit on two mailboxes"))?;
                let [first, second] = parts.map(|(mailbox, part)| self.mailbox_commit(apply, mailbox, part));
                apply.pair(&[first?, second?])?
            }
            Kind::List => {
                let commit = logged::list_from(AccountId(id), &content);
                apply.list(&commit.ok_or_else(damaged("a list commit"))?)?
            }
            Kind::Directory => {
                let change = logged::directory_from(&content);
                apply.directory(&change.ok_or_else(damaged("a directory change"))?)?
            }
            Kind::Body | Kind::Abandon => return Ok(false),
        };
        self.bodies.clear();
        apply.log_at = None;
        Ok(matches!(applied, Applied::Done))
    }

    /// A mailbox commit as it was, but that a copied message comes with its summary, made from its body.
    fn mailbox_commit(
        &self,
        apply: &Apply<'_, '_>,
        mailbox: MailboxId,
        content: &[u8],
    ) -> Result<MailboxCommit> {
        let logged = logged::mailbox_from(content).ok_or_else(damaged("a mailbox commit"))?;
        let changed = logged.changed_rows().ok_or_else(damaged("a logged change of flags"))?;
        let mut appended = Vec::with_capacity(logged.appended.len());
        for (row, body, saved) in logged.appended {
            let bytes = match self.bodies.get(&body) {
                Some(bytes) => bytes.clone(),
                None => self.stored_body(apply, body)?,
            };
            let summary = (self.shared.summarize)(&bytes).into();
            appended.push(NewMessage { row, body, saved, content: Content::New { bytes, summary } });
        }
        let (expected, head, expunged) = (logged.expected, logged.head, logged.expunged);
        Ok(MailboxCommit { mailbox, expected, head, appended, changed, expunged })
    }

    /// A body that was there before: in the index as far as it has been brought up.
    fn stored_body(&self, apply: &Apply<'_, '_>, body: BodyId) -> Result<Bytes> {
        let place = apply.index.body(&apply.txn, body)?;
        let place = place.ok_or_else(damaged(format_args!("body {body} of a copy is not in the index")))?;
        let read = self.shared.reader.read(body, place, 0..place.len);
        read.map_err(|fault| StoreError::Corrupt(format!("body {body} of a copy: {fault:?}")))
    }
}

/// What is not whole ends a tail; what the disk cannot read does not.
fn whole<T>(read: Result<Option<T>, ReadFault>) -> Result<Option<T>> {
    match read {
        Ok(found) => Ok(found),
        Err(ReadFault::Io(e)) if e.kind() != std::io::ErrorKind::UnexpectedEof => {
            Err(StoreError::Unavailable(format!("the tail of a pack: {e}")))
        }
        Err(_) => Ok(None),
    }
}
