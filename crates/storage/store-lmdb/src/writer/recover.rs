//! Finds commits that are in a pack and not in the index, and redoes them. That happens after a
//! process ended, after an index commit failed, and after an index was restored from a backup.
//!
//! While a process has written records that the index lacks, it holds the index's write
//! transaction. So if a write transaction finds a tail in the pack of another process, that
//! process has ended, or its index commit failed.

use std::sync::Arc;

use heed::RoTxn;
use posthaste_mail_model::{BodyId, MailboxId};
use posthaste_store::{Result, StoreError};

use super::redo::{MakeSummaries, Redo, TailEnd, TailRedo, abandoned_by_tail, first_of_tail};
use super::state::{OtherPack, Others, Writer};
use super::transaction::{admit, commit, end_if_dead};
use crate::data_dir::format::REMEDY;
use crate::data_dir::reserve::Purpose;
use crate::index::Writing;
use crate::index::packs::PackState;
use crate::log::disk::{DiskFile, failed};
use crate::log::entry;
use crate::log::pair;
use crate::log::record::{Kind, PackFormat};
use crate::log::scan::{Scan, tail_format};
use crate::log::{IndexedEnd, PackOffset};
use crate::shared::Shared;

/// Bytes of a tail that are written again at a time.
const PIECE: usize = 1 << 20;

impl Writer<'_> {
    /// Redoes the tails of ended processes. Call it once before [`Writer::run`].
    ///
    /// A tail that cannot be redone now (a full disk, a damaged index) does not keep the store
    /// from being opened. Its mailboxes cannot be read and nothing can be written until a redo
    /// succeeds. If the disk cannot read a tail, its mailboxes are unknown: all are read as the
    /// index has them. Returns why the index may lack acknowledged commits.
    pub(crate) fn recover(&mut self) -> Result<Option<StoreError>> {
        let shared = self.shared;
        // Usually there is no tail, and no wait for the write lock.
        let tail = self.tail_of_others(&*shared.index.read()?);
        // Another process may have created a pack since that transaction began. The next look
        // must see it.
        self.others.epoch = None;
        let limit = match tail {
            Ok(None) => return self.report_damage(),
            Ok(Some(limit)) => limit,
            Err(error @ StoreError::Unavailable(_)) => {
                tracing::error!(%error, "cannot find out whether the index lacks commits, so the store accepts no \
                    writes: run `posthaste check --rebuild`, which leaves out what cannot be read");
                return Ok(Some(error));
            }
            Err(error) => return Err(error),
        };
        if let Err(error) = self.begin() {
            tracing::error!(%error, pack = limit.pack, "commits of a pack cannot be added to the index, so the store accepts no writes");
            self.note_tail(limit.pack, limit.offset)?;
            return Ok(Some(error));
        }
        self.report_damage()
    }

    /// Returns at once the error with which the first write would fail.
    fn report_damage(&self) -> Result<Option<StoreError>> {
        for OtherPack { number, .. } in &self.others.packs {
            let mut indexed = self.indexed_end(*number)?;
            while let Some(IndexedEnd { end, next_seq }) = indexed {
                let Err(error) = self.appender.tail_state(*number, end, next_seq) else { break };
                // The pack's process may have committed and ended since that was read.
                let now = self.indexed_end(*number)?;
                if now == indexed {
                    tracing::error!(%error, "acknowledged commits cannot be redone, so the store accepts no writes: run `posthaste check`");
                    return Ok(Some(error));
                }
                indexed = now;
            }
        }
        Ok(None)
    }

    /// The end that the index has of a pack, and its next sequence number.
    fn indexed_end(&self, pack: u32) -> Result<Option<IndexedEnd>> {
        let index = &self.shared.index;
        let txn = &*index.read()?;
        let next_seq = index.seq(txn)?;
        Ok(index.pack(txn, pack)?.map(|state| IndexedEnd { end: state.end, next_seq }))
    }

    /// Notes the mailboxes and bodies that a tail changes, so that no reader sees their old
    /// state.
    fn note_tail(&self, pack: u32, limit: u64) -> Result<()> {
        let shared = self.shared;
        let end = shared.index.pack(&*shared.index.read()?, pack)?.map_or(0, |state| state.end);
        let (file, format) = open(shared, pack)?;
        let mut scan = Scan::new(&*file, format, end, limit);
        while let Ok(Some(found)) = scan.advance() {
            let (kind, id) = (found.header.kind, found.header.id);
            let Ok(content) = scan.content(&found) else { continue };
            match kind {
                Kind::Body => shared.unindexed.add_body(BodyId(id)),
                Kind::Mailbox => note_commit(shared, MailboxId(id), &content),
                Kind::Pair => {
                    let parts = pair::parts(&content).into_iter().flatten();
                    parts.for_each(|(mailbox, part)| note_commit(shared, mailbox, part));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Commits the index with the commits that a pack holds beyond the end the index has of it.
    pub(super) fn redo_tail(&mut self, mut txn: Writing<'_>, limit: PackOffset) -> Result<()> {
        let PackOffset { pack, offset: limit } = limit;
        let shared = self.shared;
        let index = &shared.index;
        let Some(state) = index.pack(&txn, pack)? else {
            // Another process has redone it since, and maintenance has retired the pack.
            self.redo = None;
            shared.unindexed.clear();
            return Ok(());
        };
        let mut done = TailEnd { end: state.end, seq: index.seq(&txn)? };
        if state.end < limit {
            let (file, format) = open(shared, pack)?;
            let summaries = MakeSummaries::AtOnce(&shared.reader, shared.summarize);
            let redo = Redo::new(index, &mut txn, summaries, &mut self.scratch);
            let scan = Scan::new(&*file, format, state.end, limit);
            let tail = TailRedo::new(redo, scan, pack, done.seq).redo()?;
            if tail.end > state.end.max(crate::log::record::PACK_HEADER as u64) {
                done = tail;
                self.make_durable(txn, pack, &*file, state, &done)?;
            }
        }
        if self.redo.is_none() {
            if done.end == state.end {
                self.dead_tails.push(pack);
            }
            return Ok(());
        }
        if done.end < limit {
            // The redo is still to be done: a commit now would skip acknowledged commits.
            let end = done.end;
            return Err(StoreError::Corrupt(format!(
                "pack {pack}: what was acknowledged from byte {end} to {limit} is damaged, and nothing is written. {REMEDY}"
            )));
        }
        self.redo = None;
        shared.unindexed.clear();
        Ok(())
    }

    /// Syncs a redone tail, then commits the index. The tail may never have reached the disk. The
    /// process that wrote it may have ended before its sync. Or its sync may have failed, after
    /// which the kernel marks unwritten pages as clean. So the same bytes are written again first.
    fn make_durable(
        &mut self,
        mut txn: Writing<'_>,
        pack: u32,
        file: &dyn DiskFile,
        state: PackState,
        done: &TailEnd,
    ) -> Result<()> {
        let shared = self.shared;
        let unavailable = |e| failed(format_args!("pack {pack}"))(e);
        let mut buffer = vec![0; PIECE];
        let mut at = state.end;
        while at < done.end {
            let n = (done.end - at).min(PIECE as u64) as usize;
            let piece = &mut buffer[..n];
            let read = file.read_at(piece, at).map_err(unavailable)?;
            if read < n {
                return Err(StoreError::Unavailable(format!("pack {pack} became shorter while it was read")));
            }
            file.write_at(piece, at).map_err(unavailable)?;
            at += n as u64;
        }
        file.sync().map_err(unavailable)?;
        let index = &shared.index;
        index.put_seq(&mut txn, done.seq)?;
        // The redo may have retired or sealed the pack's predecessors, never the pack itself.
        index.put_pack(&mut txn, pack, PackState { end: done.end, ..state })?;
        index.preallocate(&txn, || admit(shared, Purpose::Deletion))?;
        match self.redo {
            // This process acknowledged the commits, and its views have them.
            Some(_) => commit(shared, txn)?,
            // The commits are new to this process: its epoch must change.
            None => txn.commit().inspect_err(|error| end_if_dead(shared, error))?,
        }
        self.others = Others::default();
        if self.redo.is_none_or(|limit| done.end >= limit.offset) {
            shared.unindexed.clear();
        }
        tracing::info!(pack, from = state.end, to = done.end, "commits of a pack were added to the index");
        Ok(())
    }

    /// A pack of another process with records beyond its end that begin with the index's next
    /// sequence number.
    pub(super) fn tail_of_others(&mut self, txn: &RoTxn) -> Result<Option<PackOffset>> {
        let shared = self.shared;
        let epoch = shared.own.foreign(|| shared.index.last_readable());
        if self.others.epoch != Some(epoch) {
            self.others = Others { epoch: Some(epoch), packs: self.unsealed_of_others(txn)? };
        }
        if self.others.packs.is_empty() {
            return Ok(None);
        }
        let next = shared.index.seq(txn)?;
        let (mut tails, mut abandoned) = (Vec::new(), Vec::new());
        for OtherPack { number, file, .. } in &self.others.packs {
            if self.appender.owns(*number) || self.dead_tails.contains(number) {
                continue;
            }
            // This process may have taken the pack over since, and abandoned it: its tail does
            // not count.
            let Some(state) = shared.index.pack(txn, *number)?.filter(|state| !state.sealed) else {
                continue;
            };
            let unavailable = |e| StoreError::Unavailable(format!("pack {number}: {e}"));
            let format = tail_format(&**file, *number, shared.store);
            let kind = first_of_tail(&**file, format, state.end, next).map_err(unavailable)?;
            let Some(kind) = kind else { continue };
            let size = file.size().map_err(unavailable)?;
            abandoned.extend(abandoned_by_tail(Scan::new(&**file, format, state.end, size)));
            tails.push((kind, PackOffset { pack: *number, offset: size }));
        }
        // A tail that begins by abandoning others counts. The abandoned ones do not, though they
        // may begin in the same way. A process may have failed to commit the index for several
        // packs, one after the other.
        tails.retain(|(_, end)| !abandoned.contains(&end.pack));
        let abandoning = tails.iter().find(|(kind, _)| *kind == Kind::Abandon);
        Ok(abandoning.or(tails.last()).map(|(_, end)| *end))
    }

    /// Abandons, with a log record, the torn tails of processes that ended since this one began
    /// to write. Otherwise a rebuild without an index would take the whole records of such a tail
    /// for commits. Call it when no tail is left to redo.
    pub(super) fn give_up_tails(&mut self, txn: &RoTxn) -> Result<()> {
        for at in 0..self.others.packs.len() {
            let Some(other) = self.others.packs.get_mut(at).filter(|other| !other.is_left) else { continue };
            if self.appender.owns(other.number) {
                continue;
            }
            let state = self.shared.index.pack(txn, other.number)?.filter(|state| !state.sealed);
            if let Some(state) = state {
                other.is_left = self.appender.recover_tail(&self.shared.index, txn, (other.number, state))?;
                // A process that writes holds the index's write transaction, which we hold now.
                // So a live process cannot redo its tail either.
                if !other.is_left && self.dead_tails.contains(&other.number) {
                    let next_seq = self.shared.index.seq(txn)?;
                    let indexed = IndexedEnd { end: state.end, next_seq };
                    self.appender.refuse_lost(&*other.file, other.number, indexed)?;
                }
            }
        }
        Ok(())
    }

    fn unsealed_of_others(&self, txn: &RoTxn) -> Result<Vec<OtherPack>> {
        let shared = self.shared;
        let mut others = Vec::new();
        for (number, PackState { sealed, .. }) in shared.index.all_packs(txn)? {
            if sealed || self.appender.owns(number) {
                continue;
            }
            match shared.reader.file(number) {
                Ok(file) => others.push(OtherPack { number, file, is_left: false }),
                // The check reports it.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(StoreError::Unavailable(format!("pack {number}: {e}"))),
            }
        }
        Ok(others)
    }
}

/// Notes a commit that the index lacks: its mailbox and the bodies of its new messages.
fn note_commit(shared: &Shared, mailbox: MailboxId, content: &[u8]) {
    shared.unindexed.add_mailbox(mailbox);
    if let Some(logged) = entry::mailbox_from(content) {
        logged.appended.iter().for_each(|message| shared.unindexed.add_body(message.arrival.body));
    }
}

/// A pack's file, and the format of its tail.
fn open(shared: &Shared, pack: u32) -> Result<(Arc<dyn DiskFile>, PackFormat)> {
    let file = shared.reader.file(pack);
    let file = file.map_err(|e| StoreError::Unavailable(format!("pack {pack}: {e}")))?;
    let format = tail_format(&*file, pack, shared.store);
    Ok((file, format))
}
