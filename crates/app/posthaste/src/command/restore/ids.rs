//! The ids and UIDVALIDITYs of restored accounts and mailboxes.
//!
//! An account that has a mailbox in its list has its mail. Ids are no secrets: clients see them as
//! MAILBOXID and ACCOUNTID. So a forged backup may have an account or a mailbox of the id of
//! somebody else's. An id of a backup is used only if nobody has it here, and if it is none that
//! the server uses for itself. Otherwise the account or the mailbox gets a new one, as if it were
//! restored beside the one that is there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use posthaste_directory::unix_time;
use posthaste_indexing::is_segments;
use posthaste_mail_model::{AccountId, Id, MailboxId, ModSeq, UidValidity};
use posthaste_queue::QUEUE_ACCOUNT;
use posthaste_store::{
    CommitOutcome, CopiedRecords, DirectoryPages, Engine, ListCommit, StoreError, TargetIds,
};
use serde::Deserialize;

use super::job::{AccountToRestore, RestoreJob, RestoreRecord, Scope, underway_name};
use crate::command::backup::write;
use crate::failure::{Failure, Result};

/// Records of accounts read at a time.
const PAGE: usize = 256;

/// An id that was never used.
pub(super) fn new_id() -> posthaste_store::Result<Id> {
    let mut random = [0; 16];
    let failed = |error| StoreError::Unavailable(format!("randomness: {error}"));
    getrandom::fill(&mut random).map_err(failed)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    Ok(Id::new(u64::try_from(now).unwrap_or(u64::MAX), u128::from_le_bytes(random)))
}

/// Whether the server uses an id for itself: for the queue, whose account has an id without a
/// time, or for segments of the search index.
fn is_reserved(id: Id) -> bool {
    id.to_bytes().starts_with(&[0; 6]) || is_segments(MailboxId(id))
}

/// `account/<name>`, of which only the id is wanted.
#[derive(Deserialize)]
struct RecordId {
    id: String,
}

/// The ids of all accounts of a store. A record that cannot be read is passed over.
pub(super) async fn of_accounts(engine: &dyn Engine) -> Result<BTreeSet<AccountId>> {
    let (mut found, mut pages) = (BTreeSet::new(), DirectoryPages::new(engine, "account/", PAGE));
    while let Some(page) = pages.next().await? {
        let records = page.iter().filter_map(|entry| serde_json::from_slice::<RecordId>(&entry.value).ok());
        found.extend(records.filter_map(|record| Id::parse(&record.id)).map(AccountId));
    }
    Ok(found)
}

/// Those of some mailboxes of a backup that may keep their ids in the list of an account of a
/// store. An interrupted run may have made them for this account.
pub(super) async fn free(
    to: &dyn Engine,
    account: AccountId,
    ids: &[MailboxId],
) -> Result<BTreeSet<MailboxId>> {
    let mut free = BTreeSet::new();
    for (id, head) in ids.iter().zip(to.heads(ids).await?) {
        if !is_reserved(id.0) && (head.is_none() || !to.may_be_of_another(account, *id).await?) {
            free.insert(*id);
        }
    }
    Ok(free)
}

/// Refuses the queue of a backup if its mailbox has the id of somebody else's.
pub(super) async fn refuse_queue_of_others(from: &dyn Engine, to: &dyn Engine) -> Result<()> {
    let (list, known) = (from.load_list(QUEUE_ACCOUNT).await?, to.load_list(QUEUE_ACCOUNT).await?);
    let is_new = |id: &MailboxId| known.entries.iter().all(|entry| entry.id != *id);
    let new: Vec<MailboxId> = list.entries.iter().map(|entry| entry.id).filter(is_new).collect();
    match free(to, QUEUE_ACCOUNT, &new).await?.len() == new.len() {
        true => Ok(()),
        false => Err(Failure::Incomplete(
            "mail that waited to be sent was left out: an account has a mailbox of the id that the queue has in \
             the backup, so the backup is damaged or forged; all else was restored"
                .into(),
        )),
    }
}

impl RestoreJob {
    /// Chooses the account's id and notes it, unless that was done.
    pub(super) async fn begin(&self, wanted: &AccountToRestore) -> Result<RestoreRecord> {
        if let Some(chosen) = self.continued(wanted).await? {
            return Ok(chosen);
        }
        let (to, own) = (&*self.ends.to, wanted.account.id);
        // A store that never had mailboxes of this account has not removed any of its ids either.
        let is_unknown = to.load_list(own).await?.version == ModSeq::ZERO;
        let is_renamed = wanted.name != wanted.account.name;
        let is_of_others = self.account_ids.contains(&own) || is_reserved(own.0);
        if is_of_others && !is_renamed {
            println!("{}: it gets a new id: here its own is another account's, or the server's", wanted.name);
        }
        let fresh = !is_unknown || is_renamed || is_of_others;
        let id = if fresh { new_id()? } else { own.0 };
        let uid_validity = match self.keeps_uid_validity {
            true => None,
            false => Some(self.uid_validity_for(own, AccountId(id)).await?),
        };
        let underway = RestoreRecord {
            account: id.to_string(),
            fresh,
            uid_validity,
            source: wanted.source.clone(),
            done: false,
            left_out: Vec::new(),
        };
        write(to, &underway_name(&wanted.name), &underway).await?;
        Ok(underway)
    }

    /// The record of an interrupted restore that is continued. One from another backup is given
    /// up.
    async fn continued(&self, wanted: &AccountToRestore) -> Result<Option<RestoreRecord>> {
        let Some(chosen) = &wanted.chosen else { return Ok(None) };
        // An earlier program may have chosen the id of another account.
        if !wanted.visible && self.has(&chosen.account) {
            return Ok(None);
        }
        if chosen.source != wanted.source {
            // Half of an account from another backup: nobody ever saw it.
            if let Some(id) = Id::parse(&chosen.account) {
                self.give_up(AccountId(id)).await?;
            }
            return Ok(None);
        }
        let keeps = chosen.uid_validity.is_none();
        if keeps != self.keeps_uid_validity && !wanted.visible {
            return Err(Failure::Usage(format!(
                "the interrupted restore of {} was started {} --keep-uidvalidity; start it the same way",
                wanted.name,
                if keeps { "with" } else { "without" }
            )));
        }
        Ok(Some(chosen.clone()))
    }

    /// Whether an account in the store has this id.
    fn has(&self, id: &str) -> bool {
        Id::parse(id).is_some_and(|id| self.account_ids.contains(&AccountId(id)))
    }

    /// The first of the UIDVALIDITYs for an account's mailboxes: higher than any that it had,
    /// also after the backup was made. The clock gave those numbers.
    async fn uid_validity_for(&self, account: AccountId, there: AccountId) -> Result<u32> {
        let (list, known) = (self.ends.from.load_list(account).await?, self.ends.to.load_list(there).await?);
        // The list of an account that was removed is there still.
        let earlier = self.ends.to.load_list(account).await?;
        let now = u32::try_from(unix_time::now()).unwrap_or(0);
        let known = known.uid_validity_last.max(earlier.uid_validity_last);
        let last = now.max(list.uid_validity_last).max(known);
        let mailboxes = u32::try_from(list.entries.len()).unwrap_or(u32::MAX);
        let has_room = last.checked_add(1).and_then(|first| first.checked_add(mailboxes)).is_some();
        match has_room {
            true => Ok(last + 1),
            false => Err(Failure::Incomplete("no UIDVALIDITY is left; use --keep-uidvalidity".into())),
        }
    }

    /// Removes the mailboxes, annotations and rights of a restore that is not continued.
    async fn give_up(&self, account: AccountId) -> Result<()> {
        self.ends.there.remove_all_annotations(account).await?;
        self.ends.there.acls().remove_all(account).await?;
        let list = self.ends.to.load_list(account).await?;
        if list.entries.is_empty() {
            return Ok(());
        }
        let commit = ListCommit {
            account,
            expected: list.version,
            version: list.version.next(),
            upsert: Vec::new(),
            remove: list.entries.iter().map(|entry| entry.id).collect(),
            subscribe: Vec::new(),
            unsubscribe: list.subscribed.into_iter().collect(),
            uid_validity_last: list.uid_validity_last,
        };
        match self.ends.to.commit_list(commit).await? {
            CommitOutcome::Done => Ok(()),
            CommitOutcome::Conflict => Err(StoreError::Busy.into()),
        }
    }

    /// The targets of the mailboxes of an account. The mailboxes of an earlier run are found by
    /// their names, in the account's own list. Of the others, those keep their ids that nobody
    /// has here.
    pub(super) async fn places(
        &self,
        wanted: &AccountToRestore,
        there: AccountId,
        underway: &RestoreRecord,
    ) -> Result<TargetIds> {
        let account = wanted.account.id;
        let (list, known) = (self.ends.from.load_list(account).await?, self.ends.to.load_list(there).await?);
        if list.entries.windows(2).any(|pair| matches!(pair, [a, b] if a.name == b.name)) {
            let why = format!("the mailbox list of account {account} in the backup has a name twice");
            return Err(StoreError::Corrupt(why).into());
        }
        let new = list.entries.iter().filter(|entry| known.find(&entry.name).is_none());
        let new: Vec<MailboxId> = new.map(|entry| entry.id).filter(|_| !underway.fresh).collect();
        let free = free(&*self.ends.to, there, &new).await?;
        if free.len() < new.len() {
            println!(
                "{}: {} mailboxes get new ids: here their own are those of other mailboxes, or the server's",
                wanted.name,
                new.len() - free.len()
            );
        }
        let mut places = TargetIds::with_ids(there, BTreeMap::new());
        places.records = match self.scope {
            Scope::All => CopiedRecords::OfListed,
            Scope::Named => CopiedRecords::OfListedAndOwn,
        };
        for (entry, n) in list.entries.iter().zip(0..) {
            let id = match known.find(&entry.name) {
                Some(known) => known.id,
                None if free.contains(&entry.id) => entry.id,
                None => MailboxId(new_id()?),
            };
            places.mailboxes.insert(entry.id, id);
            let uid_validity =
                underway.uid_validity.and_then(|first| UidValidity::new(first.checked_add(n)?));
            places.uid_validities.extend(uid_validity.map(|uid_validity| (entry.id, uid_validity)));
        }
        Ok(places)
    }
}
