//! Puts mailboxes into the new index from their checkpoint records.

use posthaste_mail_model::MailboxId;
use posthaste_store::Result;

use super::catalog::Entry;
use super::replay::Replay;
use crate::index::checksum::seed;
use crate::index::heads::StoredHead;
use crate::index::logged::{ByPack, Logged};
use crate::index::rows::{self, Scratch};
use crate::index::summaries::record::put_summary;
use crate::index::{Writing, expunged, summaries};
use crate::log::PackBytes;
use crate::log::checkpoint::{self, Checkpoint};
use crate::log::entry::LoggedMessage;

/// Bytes of checkpoints of one index transaction.
const STEP: u64 = 8 << 20;

impl Replay<'_> {
    /// Puts the mailboxes that have a checkpoint into the new index.
    pub(super) fn restore(&mut self) -> Result<()> {
        let found = std::mem::take(&mut self.checkpoints.found);
        let mut txn = self.index.write()?;
        let (mut scratch, mut bytes) = (Scratch::default(), 0);
        for (mailbox, mut entries) in found {
            entries.sort_by_key(|entry| std::cmp::Reverse(entry.seq()));
            if self.is_removed(mailbox) {
                entries.iter().for_each(|e| self.checkpoints.count_dead(e.pack, e.found.header.record_len()));
                continue;
            }
            bytes += self.restore_newest(&mut txn, mailbox, &entries, &mut scratch)?;
            if bytes > STEP {
                txn.commit()?;
                txn = self.index.write()?;
                bytes = 0;
            }
        }
        txn.commit()
    }

    /// Restores a mailbox from its newest checkpoint that is intact. Returns its bytes.
    fn restore_newest(
        &mut self,
        txn: &mut Writing,
        mailbox: MailboxId,
        newest_first: &[Entry],
        scratch: &mut Scratch,
    ) -> Result<u64> {
        let mut restored: Option<Entry> = None;
        let mut damaged: Vec<(Entry, String)> = Vec::new();
        for entry in newest_first {
            let len = entry.found.header.record_len();
            if restored.is_some() {
                self.checkpoints.count_dead(entry.pack, len);
                continue;
            }
            let read = self.content(entry).and_then(|content| {
                checkpoint::from_content(&content).ok_or_else(|| "its content is damaged".to_owned())
            });
            match read {
                Ok(checkpoint) => {
                    self.checkpoints.upto.insert(mailbox, checkpoint.upto);
                    self.put(txn, mailbox, entry, checkpoint, scratch)?;
                    restored = Some(*entry);
                }
                Err(why) => damaged.push((*entry, why)),
            }
        }
        // If one is damaged, another copy may be intact.
        damaged.retain(|(entry, _)| restored.is_none_or(|restored| restored.seq() != entry.seq()));
        for (entry, why) in damaged {
            self.in_doubt(mailbox, &[entry]);
            let (pack, at) = (entry.pack, entry.found.offset);
            self.faults.push(format!("a checkpoint of mailbox {mailbox} in pack {pack} at byte {at}: {why}"));
        }
        Ok(restored.map_or(0, |entry| entry.found.header.record_len()))
    }

    fn put(
        &self,
        txn: &mut Writing,
        mailbox: MailboxId,
        entry: &Entry,
        checkpoint: Checkpoint,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let Checkpoint { upto, forgotten, head, expunged: went, messages } = checkpoint;
        let own = seed(mailbox.0);
        for LoggedMessage { row, arrival } in &messages {
            let uid = row.uid().value();
            put_summary(&mut scratch.bytes, own, uid, *arrival, &[]);
            summaries::put(self.index, txn, mailbox, uid, &scratch.bytes)?;
        }
        rows::append(self.index, txn, mailbox, messages.iter().map(|message| message.row), scratch)?;
        for (modseq, set) in &went {
            expunged::note(self.index, txn, mailbox, *modseq, set)?;
        }
        let size = entry.found.header.record_len();
        let mut by_pack = ByPack::default();
        by_pack.add(PackBytes { pack: entry.pack, bytes: size });
        let logged = Logged { checkpoint: entry.seq(), upto, size, commits: 0, by_pack };
        self.index.put_head(txn, mailbox, &StoredHead { head, forgotten, logged })
    }
}
