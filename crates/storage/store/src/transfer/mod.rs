//! Copies an account's mail from one engine to another, for example when one machine becomes too
//! small.
//!
//! Everything that a client may have stored stays valid: names, subscriptions, UIDVALIDITY, UIDs,
//! flags, dates and both mod-sequences of each message. Only HIGHESTMODSEQ becomes higher than it
//! was, because the commits of the transfer come after all that clients know of. So a client that
//! requests changes since a mod-sequence (RFC 7162 §3.2.5) gets all of them; UIDs that are missing
//! are reported as expunged.
//!
//! A transfer compares with what exists at the target and copies the rest. It can be interrupted
//! anywhere and repeated. Run it once while the server runs, however long it takes. Stop the
//! server, and run it again for the changes made meanwhile.
//!
//! Each mailbox is copied as it is at one moment. If its messages are expunged during the copy, it
//! is compared again.
//!
//! Account and mailboxes may get other ids and UIDVALIDITYs at the target ([`TargetIds`]): if the
//! source's are in use there, or were removed, or if the target has assigned UIDs since.

mod audit;
mod earlier;
mod read;
mod targets;
mod verify;
mod writer;

use std::collections::{BTreeMap, BTreeSet};

use async_recursion::async_recursion as boxed;
use parking_lot::Mutex;
use posthaste_mail_model::{AccountId, BodyId, MailboxId, NumSet, Uid};

pub use self::audit::Compare;
use self::earlier::{EARLIER, refuse_earlier};
use self::read::{Summaries, batches, contents, counted, loaded, summaries};
pub use self::targets::{CopiedRecords, TargetIds};
pub use self::verify::Verifier;
use self::writer::{Contents, MissingChanges, Writer, done};
use crate::engine::Engine;
use crate::error::{Result, StoreError};
use crate::head::MailboxHead;
use crate::list::{ListCommit, MailboxEntry, MailboxList};
use crate::row::Row;

/// The attempts to compare a mailbox whose messages were expunged during the copy. Each pass
/// copies what still exists, so that the next one is shorter.
const LOOKS_MAX: u32 = 10;

/// The way from one engine to another.
pub struct Transfer<'e> {
    from: &'e dyn Engine,
    to: &'e dyn Engine,
    targets: Option<TargetIds>,
    /// Messages that are left out; `None` if one of them ends the copy of its mailbox.
    left_out: Option<Mutex<BTreeMap<MailboxId, Omitted>>>,
    /// The account whose list the target may have had before.
    other_list: Option<AccountId>,
    /// Proves what the source says; `None` for a source that is trusted.
    verifier: Option<Verifier>,
    /// The bodies that have another id at the target, by their ids in the source.
    new_ids: Mutex<BTreeMap<BodyId, BodyId>>,
}

/// UIDs of a mailbox that a copy leaves out.
#[derive(Debug, Clone, Default)]
struct Omitted {
    /// The source cannot read them.
    unreadable: NumSet,
    /// The target lacks them, and its UIDNEXT is above their UIDs. The source can read them.
    passed: NumSet,
}

impl Omitted {
    fn all(&self) -> NumSet {
        self.unreadable.union(&self.passed)
    }
}

/// Messages of a mailbox that a copy has left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The mailbox's name.
    pub mailbox: String,
    /// UIDs of messages that the source cannot read.
    pub unreadable: NumSet,
    /// UIDs of messages that the source can read now, but that an earlier run skipped. It could not
    /// read them then. Or the source was set back to an earlier state, and these UIDs named other
    /// messages.
    pub passed: NumSet,
}

/// Called with the number of messages processed, each time some were.
pub type Progress<'p> = dyn FnMut(u64) + Send + 'p;

impl<'e> Transfer<'e> {
    /// From one engine to another. The other must not be written to by anyone else in the accounts
    /// that are copied.
    pub fn new(from: &'e dyn Engine, to: &'e dyn Engine) -> Self {
        let new_ids = Mutex::default();
        Self { from, to, targets: None, left_out: None, other_list: None, verifier: None, new_ids }
    }

    /// Messages that the source cannot read are left out, and everything else is copied. This is
    /// for a backup, and for a restore, where there is no other source. [`Self::left_out`] names
    /// them. A later run leaves them out as well, even if they can be read then. It also leaves
    /// out new mail whose UIDs are below the target's UIDNEXT: a UID names one message for ever.
    #[must_use]
    pub fn leaving_out_damage(mut self) -> Self {
        self.left_out = Some(Mutex::default());
        self
    }

    /// The source may be forged. Each summary is made again from its message, and a message that
    /// its row describes wrongly counts as damaged. A body whose id names other bytes at the
    /// target gets another id there.
    #[must_use]
    pub fn verified_by(mut self, verifier: Verifier) -> Self {
        self.verifier = Some(verifier);
        self
    }

    /// The messages that were left out, by mailbox.
    #[boxed]
    pub async fn left_out(&self, account: AccountId) -> Result<Vec<LeftOut>> {
        let list = self.from.load_list(account).await?;
        let left_out = self.left_out.as_ref().map(|left_out| left_out.lock().clone()).unwrap_or_default();
        let named = |entry: &MailboxEntry| {
            let Omitted { unreadable, passed } = left_out.get(&entry.id)?.clone();
            Some(LeftOut { mailbox: entry.name.to_string(), unreadable, passed })
        };
        Ok(list.entries.iter().filter_map(named).collect())
    }

    /// Head and rows of a mailbox of the source, without the messages that are left out.
    async fn source(&self, id: MailboxId) -> Result<(MailboxHead, Vec<Row>)> {
        let (mut head, mut rows) = loaded(self.from, id).await?;
        if self.verifier.is_some() {
            verify::refuse_disorder(id, &head, &rows)?;
        }
        let left_out = self.left_out.as_ref().and_then(|left_out| Some(left_out.lock().get(&id)?.all()));
        if let Some(left_out) = left_out {
            rows.retain(|row| !left_out.contains(row.uid().value()));
            head.counts = counted(&rows);
        }
        Ok((head, rows))
    }

    /// Finds the messages of a mailbox that cannot be read, or that an earlier run skipped, if
    /// they may be left out. Returns whether there are any that were not known.
    async fn leave_out(&self, id: MailboxId) -> Result<bool> {
        let Some(left_out) = &self.left_out else { return Ok(false) };
        let (_, mut rows) = self.source(id).await?;
        let (there, rows_there) = loaded(self.to, self.target_of(id)).await?;
        let known: NumSet = rows_there.iter().map(|row| row.uid().value()).collect();
        rows.retain(|row| !known.contains(row.uid().value()));
        // An earlier run skipped the UIDs below UIDNEXT.
        let (earlier, new) = rows.split_at(rows.partition_point(|row| row.uid() < there.uid_next));
        let (mut passed, mut unreadable) = (NumSet::new(), self.unreadable(id, earlier).await?);
        let can_be_read = |uid: &u32| !unreadable.contains(*uid);
        earlier.iter().map(|row| row.uid().value()).filter(can_be_read).for_each(|uid| passed.push(uid));
        unreadable = unreadable.union(&self.unreadable(id, new).await?);
        let has_news = !passed.is_empty() || !unreadable.is_empty();
        let mut known = left_out.lock();
        let known = known.entry(id).or_default();
        known.unreadable = known.unreadable.union(&unreadable);
        known.passed = known.passed.union(&passed);
        Ok(has_news)
    }

    /// The messages that the source cannot read.
    async fn unreadable(&self, id: MailboxId, rows: &[Row]) -> Result<NumSet> {
        let mut damaged = NumSet::new();
        for batch in batches(rows) {
            if self.is_readable(id, batch).await? {
                continue;
            }
            for row in batch {
                if !self.is_readable(id, std::slice::from_ref(row)).await? {
                    damaged.push(row.uid().value());
                }
            }
        }
        Ok(damaged)
    }

    async fn is_readable(&self, id: MailboxId, rows: &[Row]) -> Result<bool> {
        match self.contents(id, rows).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_damage() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The messages of these rows in the source.
    async fn contents(&self, id: MailboxId, rows: &[Row]) -> Result<BTreeMap<u32, Contents>> {
        let found = contents(self.from, id, rows).await?;
        match self.verifier {
            Some(verifier) => verifier.with_own_summaries(found, rows).await,
            None => Ok(found),
        }
    }

    /// Gives one account other ids at the target.
    #[must_use]
    pub fn to_targets(mut self, targets: TargetIds) -> Self {
        self.targets = Some(targets);
        self
    }

    /// The target may have had a list of this account before the first copy, with other mailboxes
    /// and later UIDVALIDITYs. For the queue: nobody sees its UIDVALIDITY.
    #[must_use]
    pub fn over_another_list(mut self, account: AccountId) -> Self {
        self.other_list = Some(account);
        self
    }

    fn target_of(&self, id: MailboxId) -> MailboxId {
        self.targets.as_ref().map_or(id, |targets| targets.mailbox(id))
    }

    /// The list for the target.
    fn retargeted(&self, mut list: MailboxList) -> MailboxList {
        if let Some(targets) = &self.targets {
            list.account = targets.account;
            for entry in &mut list.entries {
                entry.uid_validity =
                    targets.uid_validities.get(&entry.id).copied().unwrap_or(entry.uid_validity);
                list.uid_validity_last = list.uid_validity_last.max(entry.uid_validity.value());
                entry.id = targets.mailbox(entry.id);
            }
        }
        list
    }

    /// Messages of an account, by the counts of its mailboxes.
    #[boxed]
    pub async fn messages(&self, account: AccountId) -> Result<u64> {
        let list = self.from.load_list(account).await?;
        let ids: Vec<MailboxId> = list.entries.iter().map(|entry| entry.id).collect();
        let heads = self.from.heads(&ids).await?;
        Ok(heads.iter().flatten().map(|head| u64::from(head.counts.messages)).sum())
    }

    /// Makes an account's mail at the target equal to the source. If one mailbox has damaged data,
    /// the others are copied first and then the error is returned.
    #[boxed]
    pub async fn copy(&self, account: AccountId, progress: &mut Progress<'_>) -> Result<()> {
        self.may_copy(account).await?;
        let list = self.from.load_list(account).await?;
        self.copy_list(&self.retargeted(list.clone())).await?;
        let mut damaged = None;
        for entry in &list.entries {
            let mut outcome = self.copy_at_one_moment(entry.id, progress).await;
            let is_passable =
                |error: &StoreError| error.is_damage() || matches!(error, StoreError::Refused(_));
            if outcome.as_ref().is_err_and(is_passable) && self.leave_out(entry.id).await? {
                outcome = self.copy_at_one_moment(entry.id, progress).await;
            }
            match outcome {
                Err(error) if error.is_damage() => {
                    damaged.get_or_insert(error);
                }
                outcome => outcome?,
            }
        }
        damaged.map_or(Ok(()), Err)
    }

    /// Copies a mailbox, again if messages were expunged meanwhile.
    async fn copy_at_one_moment(&self, id: MailboxId, progress: &mut Progress<'_>) -> Result<()> {
        for _ in 0..LOOKS_MAX {
            let before = self.from.heads(&[id]).await?;
            let outcome = self.copy_mailbox(id, progress).await;
            let Err(error) = outcome else { return Ok(()) };
            let now = self.from.heads(&[id]).await?;
            if now == [None] {
                // Deleted since the list was read. The next run removes it from the target's list
                // too.
                return Ok(());
            }
            if now == before {
                return Err(error);
            }
        }
        Err(StoreError::Busy)
    }

    /// Refuses an account if a UID names different messages in source and target. A mailbox may
    /// have got a new UIDVALIDITY since it was copied, by a rebuild or a restore (RFC 9051
    /// §2.3.1.1). The copy may continue if each message of the target is the same in the source,
    /// or was expunged.
    ///
    /// Refuses an account also if the source is at an earlier state than the one that was copied:
    /// the newer mail would be removed from the target.
    #[boxed]
    pub async fn may_copy(&self, account: AccountId) -> Result<()> {
        let here = self.from.load_list(account).await?;
        let list = self.retargeted(here.clone());
        let there = self.to.load_list(list.account).await?;
        let is_comparable = self.other_list != Some(account);
        if is_comparable && list.uid_validity_last < there.uid_validity_last {
            return Err(EARLIER);
        }
        for (entry, source) in list.entries.iter().zip(&here.entries) {
            match there.entries.iter().find(|known| known.id == entry.id) {
                Some(known) if known.uid_validity == entry.uid_validity => {
                    refuse_earlier((self.from, source.id), (self.to, self.target_of(source.id))).await?;
                }
                Some(_) if !self.has_same_messages(source.id).await? => {
                    return Err(StoreError::Refused(
                        "a mailbox got a new UIDVALIDITY since it was copied, and its UIDs name other messages now",
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether each message of a mailbox at the target is the same in the source, or was expunged
    /// there.
    async fn has_same_messages(&self, id: MailboxId) -> Result<bool> {
        let (head, rows) = self.source(id).await?;
        let (head_there, rows_there) = loaded(self.to, self.target_of(id)).await?;
        if head.uid_next < head_there.uid_next {
            return Ok(false);
        }
        let here: BTreeSet<Uid> = rows.iter().map(Row::uid).collect();
        let common: Vec<Row> = rows_there.into_iter().filter(|row| here.contains(&row.uid())).collect();
        for batch in batches(&common) {
            let (ours, theirs) = tokio::try_join!(
                summaries(self.from, id, batch),
                summaries(self.to, self.target_of(id), batch)
            )?;
            let bodies = |found: &Summaries| found.values().map(|(body, ..)| *body).collect::<Vec<_>>();
            if bodies(&ours) != bodies(&theirs) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn copy_list(&self, list: &MailboxList) -> Result<()> {
        let there = self.to.load_list(list.account).await?;
        let commit = ListCommit {
            account: list.account,
            expected: there.version,
            version: there.version.next(),
            upsert: list.entries.iter().filter(|entry| !there.entries.contains(entry)).cloned().collect(),
            remove: there
                .entries
                .iter()
                .map(|entry| entry.id)
                .filter(|id| list.entries.iter().all(|entry| entry.id != *id))
                .collect(),
            subscribe: list.subscribed.difference(&there.subscribed).cloned().collect(),
            unsubscribe: there.subscribed.difference(&list.subscribed).cloned().collect(),
            uid_validity_last: list.uid_validity_last.max(there.uid_validity_last),
        };
        let same = commit.upsert.is_empty()
            && commit.remove.is_empty()
            && commit.subscribe.is_empty()
            && commit.unsubscribe.is_empty()
            && commit.uid_validity_last == there.uid_validity_last;
        if same { Ok(()) } else { done(self.to.commit_list(commit).await?) }
    }

    async fn copy_mailbox(&self, id: MailboxId, progress: &mut Progress<'_>) -> Result<()> {
        let place = self.target_of(id);
        let (head, rows) = self.source(id).await?;
        let (there, rows_there) = loaded(self.to, place).await?;
        if head.uid_next < there.uid_next {
            return Err(EARLIER);
        }
        let lacking = lacking(&rows, &rows_there, there.uid_next)?;
        progress((rows.len() - lacking.new.len()) as u64);
        let same_head = head.uid_next == there.uid_next
            && head.keywords == there.keywords
            && head.first_recent == there.first_recent
            && head.modseq <= there.modseq;
        if same_head && lacking.is_empty() {
            return Ok(());
        }
        let counts = counted(&rows_there);
        let mut writer = Writer { to: self.to, id: place, source: &head, now: there, counts };
        writer.change(&lacking, &rows_there).await?;
        for batch in batches(&lacking.new) {
            let mut contents = self.contents(id, batch).await?;
            if let Some(verifier) = self.verifier {
                contents = verifier.with_own_bodies(contents, self.to, &self.new_ids).await?;
            }
            writer.append(batch, contents, &rows).await?;
            progress(batch.len() as u64);
        }
        writer.finish(&rows).await
    }
}

/// The commits that the target lacks.
fn lacking(rows: &[Row], there: &[Row], uid_next_there: Uid) -> Result<MissingChanges> {
    const OTHER_MAIL: StoreError =
        StoreError::Refused("the mailbox at the target contains mail that was not copied from the source");
    let known: BTreeMap<Uid, &Row> = there.iter().map(|row| (row.uid(), row)).collect();
    let here: BTreeSet<Uid> = rows.iter().map(Row::uid).collect();
    let mut lacking = MissingChanges::default();
    for row in rows {
        match known.get(&row.uid()) {
            Some(old) if *old == row => {}
            Some(old) if (old.size(), old.date()) == (row.size(), row.date()) => lacking.changed.push(*row),
            None if row.uid() >= uid_next_there => lacking.new.push(*row),
            _ => return Err(OTHER_MAIL),
        }
    }
    there
        .iter()
        .filter(|row| !here.contains(&row.uid()))
        .for_each(|row| lacking.expunged.push(row.uid().value()));
    Ok(lacking)
}
