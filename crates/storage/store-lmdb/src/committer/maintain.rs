//! The work that commits leave for later, a bounded piece at a time.
//!
//! In this order; a later kind is touched only when the earlier ones have nothing left:
//!
//! 1. **copied**: bodies of copied messages are counted once more.
//! 2. **expunging**: summaries of messages that went are removed, after copies that link to them have been given their own, and their
//!    bodies counted once less; a body nothing holds leaves the index and is dead weight in its pack.
//! 3. **packs** more than half dead are emptied: live records are copied to the current pack. The pack is then *retired*:
//!    it leaves the index, a log record says so, and the next round removes its file.
//!
//! Why no body is lost though COPY does not count at once: a body is removed only in step 2, and step 2 only runs in a
//! transaction that found nothing left of step 1.

use heed::{RoTxn, RwTxn};
use posthaste_mail_model::{BodyId, MailboxId, NumSet};
use posthaste_store::{Report, Result, StoreError};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Committer;
use crate::apply::Apply;
use crate::chunk::{uid_key, uid_of};
use crate::index::{
    Index, Indexed, between, copied_from, copied_value, damaged, number_of_key, numbered_key, set_from,
};
use crate::links;
use crate::lists::ALL_OF_MAILBOX;
use crate::logged;
use crate::packs::path_of;
use crate::packs::reader::ReadFault;
use crate::packs::record::{Kind, RECORD_HEADER, body_record_len};
use crate::packs::scan::{Found, Scan, pack_form};
use crate::pair;
use crate::sum::seed;
use crate::values::{BodyPlace, Origin, PackState, StoredHead, head_value, summary_from};

/// Messages removed before it is looked how many copies that took along: each may have been copied often.
const AT_ONCE: usize = 100;
/// Bytes copied out of a pack in one round: some 10 ms.
const COPY_MAX: u64 = 4 << 20;
/// Records passed over in one round.
const RECORDS_MAX: u64 = 20_000;
/// Dead bytes from which the current pack is ended early, so that it can be emptied.
const ROTATE_DEAD: u64 = 16 << 20;
/// Notes of expunges kept for each mailbox. A client that was away for longer than 4,096 expunging commits is told the same by UIDs.
const LOG_MAX: usize = 4_096;

/// One round.
pub(crate) fn round(committer: &mut Committer) -> Result<Report> {
    let shared = Arc::clone(&committer.shared);
    remove_retired(committer)?;
    let (busy, pack) = {
        let txn = shared.index.read()?;
        let index = &shared.index;
        let busy = !index.copied.is_empty(&txn).indexed()? || !index.expunging.is_empty(&txn).indexed()?;
        (busy, next_pack(index, &txn, committer)?)
    };
    if busy {
        return committer.with_transaction(|apply| {
            let mut report = Report::default();
            let limit = shared.round_messages;
            if !count_copies(apply, limit, &mut report)? {
                sweep(apply, limit, &mut report)?;
            }
            Ok((report, true))
        });
    }
    match pack {
        Some(pack) => empty(committer, pack),
        None => {
            // A process killed while reading would keep LMDB from reusing pages.
            shared.index.env.clear_stale_readers().indexed()?;
            Ok(Report::default())
        }
    }
}

/// Removes the files of retired packs. A pack leaves the list of these after its removal is durable: a file that the
/// index does not know at all is never removed.
fn remove_retired(committer: &mut Committer) -> Result<()> {
    let shared = Arc::clone(&committer.shared);
    let retired = shared.index.retired_packs(&*shared.index.read()?)?;
    if retired.is_empty() {
        return Ok(());
    }
    let unavailable = |e| StoreError::Unavailable(format!("{}: {e}", shared.packs.display()));
    for &pack in &retired {
        // Readers that looked a place up before find the file missing and look again. Those that have it open read on.
        shared.reader.forget(pack);
        match shared.disk.remove(&path_of(&shared.packs, pack)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(unavailable(e)),
            _ => {}
        }
    }
    shared.disk.sync_dir(&shared.packs).map_err(unavailable)?;
    committer.with_transaction(|apply| {
        for &pack in &retired {
            apply.index.forget_retired(&mut apply.txn, pack)?;
        }
        Ok(((), true))
    })
}

/// A message that holds a body.
struct Holder {
    uid: u32,
    /// None if the summary is damaged.
    body: Option<BodyId>,
    /// Where its summary is, if not with itself.
    origin: Option<Origin>,
}

/// The first summaries of these UIDs, at most `limit`.
fn holders(
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
            let origin = summary.as_ref().and_then(|s| s.kept.elsewhere());
            found.push(Holder { uid, body: summary.map(|s| s.body), origin });
        }
    }
    Ok(found)
}

/// Step 1. Answers whether there was anything to do.
fn count_copies(apply: &mut Apply<'_, '_>, limit: usize, report: &mut Report) -> Result<bool> {
    let (index, txn) = (apply.index, &mut apply.txn);
    let mut left = limit;
    let mut any = false;
    while left > 0 {
        let Some((key, value)) = index.copied.first(txn).indexed()? else { break };
        let (mailbox, set) = copied_from(key, value)?;
        let key = key.to_vec();
        any = true;
        let found = holders(index, txn, mailbox, &set, left)?;
        for Holder { uid, body, .. } in &found {
            let place = match body {
                Some(body) => index.body(txn, *body)?.map(|place| (*body, place)),
                None => None,
            };
            match place {
                Some((body, place)) => {
                    let refs = place.refs.saturating_add(1);
                    index.put_body(txn, body, BodyPlace { refs, ..place })?;
                }
                _ => report.faults.push(format!("copied message {uid} of mailbox {mailbox} has no body")),
            }
        }
        report.examined += found.len() as u64 + 1;
        left -= found.len();
        let rest = match found.last() {
            Some(last) if left == 0 => set.difference(&NumSet::range(0, last.uid)),
            _ => NumSet::new(),
        };
        if rest.is_empty() {
            index.copied.delete(txn, &key).indexed()?;
        } else {
            index.copied.put(txn, &key, &copied_value(&key, mailbox, &rest)).indexed()?;
        }
    }
    Ok(any)
}

/// Step 2.
fn sweep(apply: &mut Apply<'_, '_>, limit: usize, report: &mut Report) -> Result<()> {
    let (index, txn) = (apply.index, &mut apply.txn);
    let mut dead = BTreeMap::new();
    let mut left = limit;
    while left > 0 {
        let Some((key, value)) = index.expunging.first(txn).indexed()? else { break };
        let (mailbox, modseq) = note_key(key).ok_or_else(damaged("key of a note of expunges"))?;
        let all = modseq == ALL_OF_MAILBOX;
        let set = if all { NumSet::range(0, u32::MAX) } else { set_from(key, value)? };
        let found = holders(index, txn, mailbox, &set, left)?;
        let (mut swept, is_rest) = (0, found.len() < left);
        for some in found.chunks(AT_ONCE) {
            if left == 0 {
                break;
            }
            let detached = remove(index, txn, mailbox, some, &mut dead, report)?;
            left = left.saturating_sub(some.len() + detached);
            swept += some.len();
        }
        report.examined += swept as u64 + 1;
        // What was swept is found no more; the note stays until nothing of it is.
        if is_rest && swept == found.len() {
            finish_note(index, txn, mailbox, modseq)?;
        }
    }
    for (pack, bytes) in dead {
        if let Some(state) = index.pack(txn, pack)? {
            index.put_pack(txn, pack, PackState { dead: state.dead + bytes, ..state })?;
        }
    }
    Ok(())
}

fn note_key(key: &[u8]) -> Option<(MailboxId, u64)> {
    let id = posthaste_mail_model::Id::from_bytes(*key.first_chunk()?);
    Some((MailboxId(id), number_of_key(key)?))
}

/// Removes summaries; answers how many copies that linked to them were given their own.
fn remove(
    index: &Index,
    txn: &mut RwTxn,
    mailbox: MailboxId,
    holders: &[Holder],
    dead: &mut BTreeMap<u32, u64>,
    report: &mut Report,
) -> Result<usize> {
    let uids: Vec<u32> = holders.iter().map(|holder| holder.uid).collect();
    let links: Vec<_> = holders.iter().filter_map(|h| Some((h.origin?, h.uid))).collect();
    links::forget(index, txn, mailbox, &links)?;
    let (detached, mut faults) = links::detach(index, txn, mailbox, &uids)?;
    report.faults.append(&mut faults);
    for Holder { uid, body, .. } in holders {
        index.summaries.delete(txn, &uid_key(mailbox, *uid)).indexed()?;
        match body {
            Some(body) => release(index, txn, *body, dead, report)?,
            None => report.faults.push(format!("summary of UID {uid} in mailbox {mailbox} was damaged")),
        }
    }
    Ok(detached)
}

/// A message less holds this body.
fn release(
    index: &Index,
    txn: &mut RwTxn,
    body: BodyId,
    dead: &mut BTreeMap<u32, u64>,
    report: &mut Report,
) -> Result<()> {
    let Some(place) = index.body(txn, body)? else {
        report.faults.push(format!("body {body} of an expunged message is not in the index"));
        return Ok(());
    };
    if place.refs > 1 {
        return index.put_body(txn, body, BodyPlace { refs: place.refs - 1, ..place });
    }
    index.remove_body(txn, body)?;
    *dead.entry(place.pack).or_default() += body_record_len(place.len);
    Ok(())
}

/// A note whose summaries are all gone.
fn finish_note(index: &Index, txn: &mut RwTxn, mailbox: MailboxId, modseq: u64) -> Result<()> {
    let key = numbered_key(mailbox, modseq);
    index.expunging.delete(txn, &key).indexed()?;
    if modseq != ALL_OF_MAILBOX {
        return forget_old_expunges(index, txn, mailbox);
    }
    let (low, high) = (uid_key(mailbox, 0), uid_key(mailbox, u32::MAX));
    index.rows.delete_range(txn, &between(&low, &high)).indexed()?;
    let (low, high) = (numbered_key(mailbox, 0), numbered_key(mailbox, u64::MAX));
    index.expunged.delete_range(txn, &between(&low, &high)).indexed()?;
    Ok(())
}

/// Keeps a mailbox's notes of expunges to [`LOG_MAX`]: the older half goes when there are more.
fn forget_old_expunges(index: &Index, txn: &mut RwTxn, mailbox: MailboxId) -> Result<()> {
    let mut modseqs = Vec::new();
    for item in index.expunged.prefix_iter(txn, &mailbox.0.to_bytes()).indexed()? {
        modseqs.extend(number_of_key(item.indexed()?.0));
    }
    if modseqs.len() <= LOG_MAX {
        return Ok(());
    }
    let Some(stored) = index.head(txn, mailbox)? else { return Ok(()) };
    let upto = modseqs.get(modseqs.len() / 2).copied().unwrap_or(0);
    let (low, high) = (numbered_key(mailbox, 0), numbered_key(mailbox, upto));
    index.expunged.delete_range(txn, &between(&low, &high)).indexed()?;
    let forgotten = posthaste_mail_model::ModSeq::new(upto).unwrap_or(stored.forgotten);
    let value = head_value(mailbox, &StoredHead { head: stored.head, forgotten });
    index.heads.put(txn, &mailbox.0.to_bytes(), &value).indexed()
}

/// The pack to empty next. Ends the current one if it is mostly dead.
fn next_pack(index: &Index, txn: &RoTxn, committer: &mut Committer) -> Result<Option<u32>> {
    let wasteful = |s: &PackState| s.emptied > 0 || s.dead * 2 > s.end;
    let packs = index.all_packs(txn)?;
    let current = committer.writer.current();
    let ended = |(n, s): &&(u32, PackState)| wasteful(s) && s.dead >= ROTATE_DEAD && Some(*n) == current;
    if packs.iter().any(|p| ended(&p)) {
        committer.writer.rotate();
    }
    let ready = |(_, s): &&(u32, PackState)| s.sealed && !s.damaged && wasteful(s);
    Ok(packs.iter().find(ready).map(|(n, _)| *n))
}

/// Step 3: a piece of one pack.
fn empty(committer: &mut Committer, pack: u32) -> Result<Report> {
    let shared = Arc::clone(&committer.shared);
    committer.with_transaction(|apply| {
        let mut report = Report::default();
        let Some(state) = apply.index.pack(&apply.txn, pack)? else { return Ok((report, false)) };
        let file = shared.reader.file(pack);
        let file = file.map_err(|e| StoreError::Unavailable(format!("pack {pack}: {e}")))?;
        let (moved, at) = match pack_form(&*file, pack, shared.store) {
            Ok(Some(form)) => {
                let mut scan = Scan::new(&*file, form, state.emptied, state.end);
                (move_records(apply, pack, &mut scan, &mut report), scan.offset())
            }
            Ok(None) => (Err(ReadFault::Damaged("its head is damaged").into()), 0),
            Err(fault) => (Err(fault.into()), 0),
        };
        match moved {
            Ok(true) => {
                apply.retire(pack)?;
                report.reclaimed_bytes = state.end;
            }
            Ok(false) => apply.index.put_pack(&mut apply.txn, pack, PackState { emptied: at, ..state })?,
            Err(Moving::Store(error)) => return Err(error),
            Err(Moving::Pack(fault)) => {
                report.faults.push(format!("pack {pack} near byte {at}: {fault:?}; it is left as it is"));
                let left = PackState { emptied: 0, damaged: true, ..state };
                apply.index.put_pack(&mut apply.txn, pack, left)?;
            }
        }
        Ok((report, true))
    })
}

/// What can stop the emptying of a pack.
enum Moving {
    Pack(ReadFault),
    Store(StoreError),
}

impl From<ReadFault> for Moving {
    fn from(fault: ReadFault) -> Self {
        Self::Pack(fault)
    }
}

impl From<StoreError> for Moving {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Copies live records until enough is done; answers whether the pack is at its end.
fn move_records(
    apply: &mut Apply<'_, '_>,
    pack: u32,
    scan: &mut Scan<'_>,
    report: &mut Report,
) -> Result<bool, Moving> {
    let mut copied = 0;
    while copied < COPY_MAX && report.examined < RECORDS_MAX {
        let Some(found) = scan.advance()? else {
            report.examined += 1;
            return Ok(true);
        };
        report.examined += 1;
        copied += match found.header.kind {
            Kind::Body => move_body(apply, pack, scan, &found)?,
            _ => move_log(apply, scan, &found)?,
        };
    }
    Ok(false)
}

fn move_body(apply: &mut Apply<'_, '_>, pack: u32, scan: &Scan<'_>, found: &Found) -> Result<u64, Moving> {
    let body = BodyId(found.header.id);
    let Some(place) = apply.index.body(&apply.txn, body)? else { return Ok(0) };
    if place.pack != pack || place.offset != found.offset {
        return Ok(0);
    }
    let offset = apply.batch.moved(found.header, &scan.whole(found)?);
    let moved = BodyPlace { pack: apply.batch.pack, offset, ..place };
    apply.index.put_body(&mut apply.txn, body, moved)?;
    Ok(found.header.record_len())
}

/// Log records keep their sequence numbers: a rebuild sorts by them. What a removed mailbox or an older version of a directory record
/// said is needed no more.
fn move_log(apply: &mut Apply<'_, '_>, scan: &Scan<'_>, found: &Found) -> Result<u64, Moving> {
    let record = scan.whole(found)?;
    let superseded = match found.header.kind {
        Kind::Mailbox => {
            apply.index.removed.get(&apply.txn, &found.header.id.to_bytes()).indexed()?.is_some()
        }
        Kind::Pair => {
            let content = &record[RECORD_HEADER..RECORD_HEADER + found.header.len as usize];
            let parts = pair::parts(content).ok_or(ReadFault::Damaged("a commit on two mailboxes"))?;
            let mut all_removed = true;
            for (mailbox, _) in parts {
                let removed = apply.index.removed.get(&apply.txn, &mailbox.0.to_bytes()).indexed()?;
                all_removed &= removed.is_some();
            }
            all_removed
        }
        Kind::Directory => {
            let content = &record[RECORD_HEADER..RECORD_HEADER + found.header.len as usize];
            let change = logged::directory_from(content).ok_or(ReadFault::Damaged("a directory change"))?;
            let now = crate::lists::directory_entry(apply.index, &apply.txn, &change.name)?;
            now.is_some_and(|entry| entry.version > change.expected + 1)
        }
        _ => false,
    };
    if superseded {
        return Ok(0);
    }
    apply.batch.moved(found.header, &record);
    Ok(found.header.record_len())
}
