//! The data that a rebuild takes from the earlier index.
//!
//! The log decides. Where a record of it is damaged, the old index may still have its contents.
//! Every value in the index has its own checksum. A value that does not match is not taken, and the
//! report counts it. That is no fault: what the log has is not missing.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use posthaste_mail_model::{AccountId, BodyId, MailboxId, ModSeq};
use posthaste_store::{DirectoryEntry, MailboxList, Result, Row, StoreError};

use crate::engine::Options;
use crate::index::checksum::seed;
use crate::index::heads::StoredHead;
use crate::index::logged::Logged;
use crate::index::packs::PackState;
use crate::index::summaries::record::{Arrival, RecordKind, put_summary, summary_from};
use crate::index::{Index, Reading, Writing, directory, expunged, heads, lists, rows, summaries};
use crate::log::PACK_MAX;

/// The index before the rebuild, at one moment.
pub(crate) struct OldIndex {
    index: Index,
    /// The mailboxes and lists of which it has nothing newer. They are not read again: in a forged
    /// log, commits may be missing before each commit.
    exhausted: RefCell<(HashSet<MailboxId>, HashSet<AccountId>)>,
}

/// Bytes of directory records, beyond which a page ends.
const PAGE_BYTES: usize = 1 << 20;

/// Intact values of one table of the old index.
pub(crate) struct Salvaged<T> {
    pub(crate) intact: Vec<T>,
    /// What was not taken, a sentence each.
    pub(crate) left_out: Vec<String>,
}

impl<T> Salvaged<T> {
    /// The intact values, up to the end of the table or up to where LMDB fails.
    fn of(what: &str, values: Result<impl Iterator<Item = Result<Option<T>>>>) -> Self {
        let (mut intact, mut damaged) = (Vec::new(), 0);
        let read: Result<()> = values.and_then(|values| {
            for value in values {
                match value? {
                    Some(value) => intact.push(value),
                    None => damaged += 1,
                }
            }
            Ok(())
        });
        Self { intact, left_out: left_out(what, damaged, read.err().as_ref()) }
    }
}

/// Names what was not taken of a table.
fn left_out(what: &str, damaged: usize, failure: Option<&StoreError>) -> Vec<String> {
    let count = (damaged > 0).then(|| format!("damaged in the old index, and not used: {what} ({damaged})"));
    let rest = failure.map(|error| format!("not read in the old index: the other {what}: {error}"));
    count.into_iter().chain(rest).collect()
}

/// Records of the old index's directory.
#[derive(Default)]
pub(crate) struct DirectoryPage {
    pub(crate) entries: Vec<DirectoryEntry>,
    /// The damaged records among them.
    pub(crate) damaged: usize,
    /// Why the records after them cannot be read.
    failure: Option<StoreError>,
    /// The key at which the next page begins; `None` after the last one.
    pub(crate) next: Option<Vec<u8>>,
}

/// The numbers of the next pack and the next record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextNumbers {
    pub(crate) pack: u32,
    pub(crate) seq: u64,
}

impl NextNumbers {
    /// The numbers of a new store.
    pub(crate) const FIRST: Self = Self { pack: 1, seq: 1 };
}

/// A mailbox from the old index, with all values verified.
pub(crate) struct OldMailbox {
    pub(crate) stored: StoredHead,
    rows: Vec<Row>,
    /// What each row's message came with; `None` if its record is damaged.
    arrivals: Vec<Option<Arrival>>,
}

impl DirectoryPage {
    /// What was not taken, if `damaged` records of all pages are damaged.
    pub(crate) fn left_out(&self, damaged: usize) -> Vec<String> {
        left_out("records of the directory", damaged, self.failure.as_ref())
    }
}

impl OldIndex {
    /// Opens the index in `dir`; `None` if it does not exist, or one of its pages is damaged.
    pub(crate) fn open(dir: &Path, options: &Options, faults: &mut Vec<String>) -> Option<Self> {
        if !dir.join("data.mdb").is_file() {
            return None;
        }
        let opened = Index::open(dir, options.map_bytes, options.readers);
        let opened = opened.and_then(|index| index.prove_all_pages().map(|()| index));
        opened.map(Self::new).inspect_err(|e| faults.push(format!("the old index: {e}"))).ok()
    }

    fn new(index: Index) -> Self {
        Self { index, exhausted: RefCell::default() }
    }

    fn read(&self) -> Result<Reading<'_>> {
        self.index.read()
    }

    /// The packs that the index names.
    pub(crate) fn packs(&self) -> Salvaged<(u32, PackState)> {
        let what = "states of packs";
        match self.read() {
            Ok(txn) => Salvaged::of(what, self.index.pack_records(&txn)),
            Err(error) => Salvaged { intact: Vec::new(), left_out: left_out(what, 0, Some(&error)) },
        }
    }

    /// Packs whose files were due for removal.
    pub(crate) fn retired(&self) -> Salvaged<u32> {
        let what = "numbers of retired packs";
        match self.read() {
            Ok(txn) => Salvaged::of(what, self.index.retired_numbers(&txn)),
            Err(error) => Salvaged { intact: Vec::new(), left_out: left_out(what, 0, Some(&error)) },
        }
    }

    /// The next numbers of packs and of records: the first ones if they cannot be read.
    pub(crate) fn next_numbers(&self) -> NextNumbers {
        let Ok(txn) = self.read() else { return NextNumbers::FIRST };
        let pack = self.index.next_pack(&txn).ok().flatten().filter(|number| *number <= PACK_MAX);
        NextNumbers { pack: pack.unwrap_or(1), seq: self.index.seq(&txn).unwrap_or(1) }
    }

    /// Every mailbox that has a head, damaged or not.
    pub(crate) fn mailboxes(&self) -> Salvaged<MailboxId> {
        let what = "keys of mailboxes";
        match self.read() {
            Ok(txn) => Salvaged::of(what, heads::mailboxes(&self.index, &txn)),
            Err(error) => Salvaged { intact: Vec::new(), left_out: left_out(what, 0, Some(&error)) },
        }
    }

    /// The head of a mailbox.
    pub(crate) fn head(&self, mailbox: MailboxId) -> Option<StoredHead> {
        let txn = self.read().ok()?;
        self.index.head(&txn, mailbox).ok().flatten()
    }

    /// A mailbox, if it has more commits than another index, whose mod-sequence is `now` and never
    /// falls.
    pub(crate) fn newer_mailbox(&self, mailbox: MailboxId, now: ModSeq) -> Option<OldMailbox> {
        if self.exhausted.borrow().0.contains(&mailbox) {
            return None;
        }
        let found = self.mailbox(mailbox).filter(|found| found.stored.head.modseq > now);
        if found.is_none() {
            self.exhausted.borrow_mut().0.insert(mailbox);
        }
        found
    }

    /// The mailbox list of an account, if it is newer than this version, which never falls.
    pub(crate) fn newer_list(&self, account: AccountId, version: ModSeq) -> Option<MailboxList> {
        if self.exhausted.borrow().1.contains(&account) {
            return None;
        }
        let found = self.list(account).filter(|list| list.version > version);
        if found.is_none() {
            self.exhausted.borrow_mut().1.insert(account);
        }
        found
    }

    /// A mailbox, if all its rows are intact and match the counts of its head.
    fn mailbox(&self, mailbox: MailboxId) -> Option<OldMailbox> {
        let txn = self.read().ok()?;
        let stored = self.index.head(&txn, mailbox).ok()??;
        let mut rows = Vec::new();
        for chunk in rows::chunks(&self.index, &txn, mailbox).ok()? {
            chunk.ok()?.add_rows(&mut rows).ok()?;
        }
        if rows.len() != stored.head.counts.messages as usize {
            return None;
        }
        let arrival = |row: &Row| {
            let uid = row.uid().value();
            let value = summaries::record(&self.index, &txn, mailbox, uid).ok()??;
            summary_from(seed(mailbox.0), uid, value).map(|found| found.arrival())
        };
        let arrivals = rows.iter().map(arrival).collect();
        Some(OldMailbox { stored, rows, arrivals })
    }

    /// Notes of expunged messages of a mailbox.
    fn copy_expunged(&self, mailbox: MailboxId, to: &Index, txn: &mut Writing) -> Result<()> {
        let old = self.read()?;
        for note in expunged::notes(&self.index, &old, mailbox)? {
            let note = note?;
            if let (Ok(set), Ok(modseq)) = (note.set(), note.modseq()) {
                expunged::note(to, txn, mailbox, modseq, &set)?;
            }
        }
        Ok(())
    }

    /// Replaces a mailbox in `to`. Messages whose bodies are not known are left out, and their
    /// number is returned.
    pub(crate) fn adopt(
        &self,
        mailbox: MailboxId,
        old: OldMailbox,
        to: &Index,
        txn: &mut Writing,
    ) -> Result<usize> {
        rows::remove_all(to, txn, mailbox)?;
        summaries::remove_range(to, txn, mailbox, (0, u32::MAX))?;
        let (mut kept, mut value, mut left_out) = (Vec::with_capacity(old.rows.len()), Vec::new(), 0);
        for (row, arrival) in old.rows.iter().zip(&old.arrivals) {
            let Some(arrival) = arrival else {
                left_out += 1;
                continue;
            };
            let uid = row.uid().value();
            put_summary(&mut value, seed(mailbox.0), uid, *arrival, &[]);
            summaries::put(to, txn, mailbox, uid, &value)?;
            kept.push(*row);
        }
        rows::append(to, txn, mailbox, kept.into_iter(), &mut rows::Scratch::default())?;
        // The log has no checkpoint of this state: no record is superseded.
        let stored = StoredHead { logged: Logged::default(), ..old.stored };
        to.put_head(txn, mailbox, &stored)?;
        self.copy_expunged(mailbox, to, txn)?;
        Ok(left_out)
    }

    /// The stored summary of a message, if it is intact and of this body.
    pub(crate) fn summary(&self, mailbox: MailboxId, uid: u32, body: BodyId) -> Option<Vec<u8>> {
        let txn = self.read().ok()?;
        let value = summaries::record(&self.index, &txn, mailbox, uid).ok()??;
        let found = summary_from(seed(mailbox.0), uid, value).filter(|found| found.body == body)?;
        let (from, at) = match found.kind {
            RecordKind::Summary(summary) => return Some(summary.to_vec()),
            RecordKind::Link(origin) => origin,
        };
        let value = summaries::record(&self.index, &txn, from, at).ok()??;
        let origin = summary_from(seed(from.0), at, value).filter(|origin| origin.body == body)?;
        match origin.kind {
            RecordKind::Summary(summary) => Some(summary.to_vec()),
            RecordKind::Link(_) => None,
        }
    }

    /// The mailbox list of an account.
    pub(crate) fn list(&self, account: AccountId) -> Option<MailboxList> {
        let txn = self.read().ok()?;
        lists::load(&self.index, &txn, account).ok()
    }

    /// Every account that has a list, once.
    pub(crate) fn accounts(&self) -> Salvaged<AccountId> {
        let what = "keys of mailbox lists";
        match self.read() {
            Ok(txn) => {
                let once = lists::accounts_of_records(&self.index, &txn).map(|all| {
                    let mut last = None;
                    all.filter(move |record| match record {
                        Ok(Some(account)) => last.replace(*account) != Some(*account),
                        _ => true,
                    })
                });
                Salvaged::of(what, once)
            }
            Err(error) => Salvaged { intact: Vec::new(), left_out: left_out(what, 0, Some(&error)) },
        }
    }

    /// Intact records of the directory from a key on, some at a time: one page of bounded size.
    pub(crate) fn directory(&self, from: &[u8]) -> DirectoryPage {
        let mut page = DirectoryPage::default();
        let failure = self.read_directory(from, &mut page).err();
        DirectoryPage { failure, ..page }
    }

    fn read_directory(&self, from: &[u8], page: &mut DirectoryPage) -> Result<()> {
        let txn = self.read()?;
        let mut bytes = 0;
        for record in directory::records_from(&self.index, &txn, from)? {
            let record = record?;
            if bytes > PAGE_BYTES {
                page.next = Some(record.key.to_vec());
                break;
            }
            let entry = record.entry();
            bytes += record.key.len() + entry.as_ref().map_or(0, |entry| entry.value.len());
            page.damaged += usize::from(entry.is_none());
            page.entries.extend(entry);
        }
        Ok(())
    }

    /// Whether the index has all records of a pack up to `offset`.
    pub(crate) fn covers(packs: &BTreeMap<u32, PackState>, pack: u32, offset: u64) -> bool {
        packs.get(&pack).is_some_and(|state| offset <= state.end)
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Id;
    use posthaste_store::MailboxHead;

    use super::*;

    /// A forged log may have a commit that lacks those before it a million times. Each read all
    /// rows of the mailbox, or the whole list.
    #[test]
    fn what_has_nothing_newer_is_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let old = OldIndex::new(Index::open(dir.path(), 1 << 20, 8).unwrap());
        let (mailbox, account) = (MailboxId(Id::new(1, 1)), AccountId(Id::new(2, 2)));
        let modseq = |n: u64| ModSeq::new(n).unwrap();
        let put = |n| {
            let mut txn = old.index.write().unwrap();
            let head = MailboxHead { modseq: modseq(n), ..MailboxHead::default() };
            let stored = StoredHead { head, forgotten: ModSeq::ZERO, logged: Logged::default() };
            old.index.put_head(&mut txn, mailbox, &stored).unwrap();
            let list = MailboxList { version: modseq(n), ..MailboxList::empty(account) };
            lists::put_list(&old.index, &mut txn, &list).unwrap();
            txn.commit().unwrap();
        };
        put(5);
        for now in [1, 4] {
            assert!(old.newer_mailbox(mailbox, modseq(now)).is_some());
            assert!(old.newer_list(account, modseq(now)).is_some());
        }
        assert!(old.newer_mailbox(mailbox, modseq(5)).is_none());
        assert!(old.newer_list(account, modseq(5)).is_none());
        // The old index does not change: only this test can see that it is not read again.
        put(9);
        assert!(old.newer_mailbox(mailbox, modseq(5)).is_none());
        assert!(old.newer_list(account, modseq(5)).is_none());
    }
}
