//! Puts tables into the new index from the checkpoint records of their ranges.

use posthaste_mail_model::{AccountId, MailboxId, ModSeq};
use posthaste_store::{DirectoryEntry, ListCommit, MailboxList, Result};

use super::catalog::Entry;
use super::replay::Replay;
use crate::index::{Writing, directory, lists, removed};
use crate::log::range::{self, KeyPosition, RangeCheckpoint, Rows, Table};

impl Replay<'_> {
    /// Puts the rows of checkpoints of ranges into the new index. Removed mailboxes come first:
    /// the lists must not create them.
    pub(super) fn restore_ranges(&mut self) -> Result<()> {
        let mut found = std::mem::take(&mut self.ranges.found);
        found.sort_by_key(|entry| std::cmp::Reverse(entry.seq()));
        let of = |table: Table| move |e: &Entry| e.found.header.id.to_bytes()[0] == table as u8;
        // The survey has read the checkpoints of packs.
        found.retain(|entry| !of(Table::Packs)(entry));
        let (removed, others): (Vec<Entry>, Vec<Entry>) = found.into_iter().partition(of(Table::Removed));
        let mut txn = self.index.write()?;
        for same in
            removed.chunk_by(|a, b| a.seq() == b.seq()).chain(others.chunk_by(|a, b| a.seq() == b.seq()))
        {
            self.restore_range(&mut txn, same)?;
        }
        txn.commit()
    }

    /// Restores the part of a range that no later checkpoint has. There may be copies of the
    /// checkpoint.
    fn restore_range(&mut self, txn: &mut Writing, same: &[Entry]) -> Result<()> {
        let mut damage: Option<String> = None;
        for entry in same {
            let read = self.content(entry).and_then(|content| {
                range::from_content(&content).ok_or_else(|| "its content is damaged".to_owned())
            });
            match read {
                Ok(checkpoint) => return self.put_range(txn, checkpoint),
                Err(why) => {
                    let (pack, at) = (entry.pack, entry.found.offset);
                    damage
                        .get_or_insert(format!("a checkpoint of a range in pack {pack} at byte {at}: {why}"));
                }
            }
        }
        self.faults.extend(damage);
        Ok(())
    }

    fn put_range(&mut self, txn: &mut Writing, checkpoint: RangeCheckpoint) -> Result<()> {
        let RangeCheckpoint { upto, from, to, rows } = checkpoint;
        let gaps = self.ranges.restored.gaps(&from, &to);
        let is_new = |table, key: &[u8]| {
            let place = KeyPosition::of(table, key);
            // A forged log may have as many gaps as a checkpoint has rows.
            let before = gaps.partition_point(|(low, _)| *low <= place);
            gaps[..before].last().is_some_and(|(_, high)| place < *high)
        };
        match rows {
            Rows::Packs(_) => {}
            Rows::Removed(ids) => ids.into_iter().try_for_each(|id| self.put_removed(txn, id))?,
            Rows::Lists(lists) => {
                for list in lists.iter().filter(|l| is_new(Table::Lists, &l.account.0.to_bytes())) {
                    self.put_list(txn, list)?;
                }
            }
            Rows::Directory(entries) => {
                for entry in entries.iter().filter(|e| is_new(Table::Directory, e.name.as_bytes())) {
                    self.put_directory(txn, entry)?;
                }
            }
        }
        self.ranges.restored.cover((from, to), gaps, upto);
        Ok(())
    }

    /// Marks a mailbox as removed: its commits are not replayed, and no list creates it again.
    pub(super) fn put_removed(&mut self, txn: &mut Writing, mailbox: MailboxId) -> Result<()> {
        self.note_removed(mailbox);
        removed::note(self.index, txn, mailbox)
    }

    fn put_list(&self, txn: &mut Writing, list: &MailboxList) -> Result<()> {
        let commit = ListCommit {
            account: list.account,
            expected: ModSeq::ZERO,
            version: list.version,
            upsert: list.entries.clone(),
            remove: Vec::new(),
            subscribe: list.subscribed.iter().cloned().collect(),
            unsubscribe: Vec::new(),
            uid_validity_last: list.uid_validity_last,
        };
        lists::apply(self.index, txn, &commit)
    }

    fn put_directory(&self, txn: &mut Writing, entry: &DirectoryEntry) -> Result<()> {
        directory::put_record(self.index, txn, &entry.name, entry.version, &entry.value)
    }

    /// Whether checkpoints contain a record of this number about an account's list.
    pub(super) fn has_list(&self, account: AccountId, seq: u64) -> bool {
        seq < self.ranges.upto(Table::Lists, &account.0.to_bytes())
    }

    /// Whether checkpoints contain a record of this number about a name in the directory.
    pub(super) fn has_directory(&self, name: &str, seq: u64) -> bool {
        seq < self.ranges.upto(Table::Directory, name.as_bytes())
    }
}
