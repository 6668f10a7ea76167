//! The IMAP operations on mailbox names: CREATE, DELETE, RENAME, SUBSCRIBE.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use posthaste_mail_model::{AccountId, MailboxId, MailboxName, ModSeq};
use tokio::time::Instant;

use super::lists::{InboxMove, is_long};
use super::{ListDraft, Store};
use crate::backoff::Backoff;
use crate::error::{Result, StoreError};
use crate::list::{MailboxEntry, MailboxList, SpecialUse};
use crate::mailbox::Moved;
use crate::offload::Place;

impl Store {
    /// Creates a mailbox, and the levels above it that are missing (RFC 9051 §6.3.4).
    #[boxed]
    pub async fn create(
        &self,
        account: AccountId,
        name: &MailboxName,
        special_use: Option<SpecialUse>,
    ) -> Result<MailboxEntry> {
        self.create_within(account, name, special_use, None).await
    }

    /// [`Store::create`], unless the account then has more mailboxes than `limit`. The commit is
    /// made against the list that was counted, so changes side by side do not exceed it either.
    /// `AccountRemoved` if the list [was emptied](MailboxList::is_emptied): nobody would find the
    /// mailbox.
    #[boxed]
    pub async fn create_within(
        &self,
        account: AccountId,
        name: &MailboxName,
        special_use: Option<SpecialUse>,
        limit: Option<u64>,
    ) -> Result<MailboxEntry> {
        self.change_list(account, |list, draft| {
            draft.limit_mailboxes(limit);
            if list.find(name).is_some() {
                return Err(StoreError::NameTaken);
            }
            self.draft_parents(list, draft, name)?;
            let made = self.draft_new(draft, name, special_use)?;
            if list.is_emptied() { Err(StoreError::AccountRemoved) } else { Ok(made) }
        })
        .await
    }

    /// Deletes a mailbox and its messages; mailboxes below it stay, and so does its subscription
    /// (RFC 9051 §6.3.5, §6.3.7). INBOX is refused.
    #[boxed]
    pub async fn delete(&self, account: AccountId, name: &MailboxName) -> Result<()> {
        self.delete_if(account, name, |_| true).await
    }

    /// [`Store::delete`], if `permit` agrees to the mailbox that has the name in the list that is
    /// changed. Otherwise `NoSuchName`. After a conflict `permit` is called again: another mailbox
    /// may have got the name.
    pub async fn delete_if(
        &self,
        account: AccountId,
        name: &MailboxName,
        mut permit: impl FnMut(MailboxId) -> bool + Send,
    ) -> Result<()> {
        if name.is_inbox() {
            return Err(StoreError::Refused("INBOX cannot be deleted"));
        }
        self.change_list(account, |list, draft| match list.find(name).map(|entry| entry.id) {
            Some(mailbox) if permit(mailbox) => {
                draft.remove(mailbox);
                Ok(())
            }
            None if list.has_children(name) => {
                Err(StoreError::Refused("mailboxes below that name are in the way"))
            }
            _ => Err(StoreError::NoSuchName),
        })
        .await
    }

    /// Renames a mailbox and all below it, or all below a level that is no mailbox. Missing levels
    /// above the new name are created. Renaming INBOX moves its messages to a new mailbox and
    /// leaves it empty, and those below it alone (RFC 9051 §6.3.6).
    #[boxed]
    pub async fn rename(&self, account: AccountId, from: &MailboxName, to: &MailboxName) -> Result<()> {
        self.rename_if(account, from, to, |_, _| Ok(())).await.map(drop)
    }

    /// [`Store::rename`], if `permit` agrees. It sees the list that the change is made against, so
    /// nothing is renamed that it has not seen. It may limit the draft. After a conflict it is
    /// called again. Returns the messages that were moved out of INBOX. `FolderFull`, and nothing
    /// changes, if INBOX has more of them than the new mailbox may.
    pub async fn rename_if(
        &self,
        account: AccountId,
        from: &MailboxName,
        to: &MailboxName,
        mut permit: impl FnMut(&MailboxList, &mut ListDraft) -> Result<()> + Send,
    ) -> Result<Option<Moved>> {
        if from.is_inbox() {
            return self.rename_inbox(account, to, permit).await.map(Some);
        }
        if to.is_below(from) {
            return Err(StoreError::Refused("a mailbox cannot be moved below itself"));
        }
        let mut backoff = Backoff::of_command(Instant::now());
        loop {
            let list = self.list(account).await?;
            let mut entries = Some(self.renamed(&list, from, to).await?);
            let renaming = self.change_list(account, |newest, draft| {
                permit(newest, draft)?;
                // Others may have changed the list meanwhile. An empty draft changes nothing.
                let Some(entries) = entries.take().filter(|_| newest.version == list.version) else {
                    return Ok(false);
                };
                entries?.into_iter().for_each(|entry| draft.upsert(entry));
                self.draft_parents(newest, draft, to).map(|()| true)
            });
            if renaming.await? {
                return Ok(None);
            }
            backoff.pause(self.context()).await?;
        }
    }

    /// The entries that get other names. Those of a long list are made on another thread: ten
    /// thousand names of 1,000 octets take some 50 ms.
    async fn renamed(
        &self,
        list: &Arc<MailboxList>,
        from: &MailboxName,
        to: &MailboxName,
    ) -> Result<Result<Vec<MailboxEntry>>> {
        if !is_long(list.entries.len()) {
            return Ok(renamed(list, from, to));
        }
        let (place, list) = (Place::Account(list.account), Arc::clone(list));
        let (from, to) = (from.clone(), to.clone());
        // Boxed: nearly no list is long.
        Box::pin(self.context().large_permits.run(place, move || renamed(&list, &from, &to))).await
    }

    async fn rename_inbox(
        &self,
        account: AccountId,
        to: &MailboxName,
        mut permit: impl FnMut(&MailboxList, &mut ListDraft) -> Result<()> + Send,
    ) -> Result<Moved> {
        // INBOX keeps its id for ever.
        let inbox = self.list(account).await?.find(&MailboxName::inbox()).ok_or(StoreError::NoSuchName)?.id;
        let inbox = self.open_for(account, inbox).await?;
        let view = inbox.view();
        let (target, own, moving) = self
            .change_list(account, |list, draft| {
                permit(list, draft)?;
                if list.is_emptied() {
                    return Err(StoreError::AccountRemoved);
                }
                if list.find(to).is_some() {
                    return Err(StoreError::NameTaken);
                }
                let own = draft.own_messages_max();
                // The new mailbox is not made if it cannot hold them.
                if let Some(limit) = self.folder_messages_max(own).filter(|limit| view.exists() > *limit) {
                    return Err(StoreError::FolderFull { limit });
                }
                self.draft_parents(list, draft, to)?;
                Ok((self.draft_new(draft, to, None)?.id, own, draft.take_inbox_move()))
            })
            .await?;
        let target = self.destination_for(account, target);
        target.note_owner_limit(own);
        // Mail that comes meanwhile stays in INBOX.
        let mut uids = view.uids_of_seqs(&view.all());
        let Some(InboxMove { most, held }) = moving else { return inbox.move_to(&uids, &target).await };
        if uids.count() > most {
            let first = uids.slices(most).next();
            uids = first.unwrap_or_default();
        }
        inbox.move_to(&uids, &target.with_permit(held)).await
    }

    /// Subscribes a name, which need not exist (RFC 9051 §6.3.7).
    #[boxed]
    pub async fn subscribe(&self, account: AccountId, name: &MailboxName) -> Result<()> {
        self.change_list(account, |list, draft| {
            if !list.subscribed.contains(name) {
                draft.subscribe(name.clone());
            }
            Ok(())
        })
        .await
    }

    /// Unsubscribes a name; no error if it was not subscribed (RFC 9051 §6.3.8).
    #[boxed]
    pub async fn unsubscribe(&self, account: AccountId, name: &MailboxName) -> Result<()> {
        self.change_list(account, |list, draft| {
            if list.subscribed.contains(name) {
                draft.unsubscribe(name.clone());
            }
            Ok(())
        })
        .await
    }

    /// INBOX if it is missing; for an account that never had a mailbox, also these, all subscribed.
    #[boxed]
    pub async fn ensure_default_mailboxes(
        &self,
        account: AccountId,
        defaults: &[(MailboxName, SpecialUse)],
    ) -> Result<Arc<MailboxList>> {
        self.with_default_mailboxes(self.list(account).await?, defaults).await
    }

    /// [`Store::ensure_default_mailboxes`] for a list that was read. `AccountRemoved` if the list
    /// was emptied since then.
    #[boxed]
    pub async fn with_default_mailboxes(
        &self,
        list: Arc<MailboxList>,
        defaults: &[(MailboxName, SpecialUse)],
    ) -> Result<Arc<MailboxList>> {
        let inbox = MailboxName::inbox();
        // Each login and each delivery come here, and nearly always all is there: one read.
        if list.version != ModSeq::ZERO && list.find(&inbox).is_some() {
            return Ok(list);
        }
        let (account, read) = (list.account, list.version);
        let making = self.change_list(account, |list, draft| {
            if list.is_emptied() && list.version != read {
                return Err(StoreError::AccountRemoved);
            }
            // A mailbox that the user has deleted since is not created again.
            let is_new = list.version == ModSeq::ZERO;
            let defaults = defaults.iter().filter(|_| is_new).map(|(name, used)| (name, Some(*used)));
            for (name, special_use) in std::iter::once((&inbox, None)).chain(defaults) {
                if list.find(name).is_some() || draft.has(name) {
                    continue;
                }
                self.draft_parents(list, draft, name)?;
                self.draft_new(draft, name, special_use)?;
                draft.subscribe(name.clone());
            }
            Ok(())
        });
        Box::pin(making).await?;
        self.list(account).await
    }

    /// Removes all mailboxes and subscriptions of an account that the directory no longer has. The
    /// list stays, [emptied](MailboxList::is_emptied). So nothing that has begun creates a mailbox
    /// in it.
    #[boxed]
    pub async fn remove_account(&self, account: AccountId) -> Result<()> {
        self.change_list(account, |list, draft| {
            list.entries.iter().for_each(|entry| draft.remove(entry.id));
            list.subscribed.iter().for_each(|name| draft.unsubscribe(name.clone()));
            // The list of an account that never had a mailbox needs a version, too.
            draft.unsubscribe(MailboxName::inbox());
            Ok(())
        })
        .await
    }

    /// Drafts a new mailbox.
    fn draft_new(
        &self,
        draft: &mut ListDraft,
        name: &MailboxName,
        special_use: Option<SpecialUse>,
    ) -> Result<MailboxEntry> {
        let uid_validity = draft.new_uid_validity()?;
        let entry = MailboxEntry { id: self.new_mailbox_id(), name: name.clone(), uid_validity, special_use };
        draft.upsert(entry.clone());
        Ok(entry)
    }

    /// Drafts the missing levels above a name.
    fn draft_parents(&self, list: &MailboxList, draft: &mut ListDraft, name: &MailboxName) -> Result<()> {
        let above: BTreeSet<MailboxName> =
            std::iter::successors(name.parent(), MailboxName::parent).collect();
        for parent in above {
            let stays = list.find(&parent).is_some_and(|entry| !draft.renames(entry.id));
            if !stays && !draft.has(&parent) {
                self.draft_new(draft, &parent, None)?;
            }
        }
        Ok(())
    }
}

/// The entries of a list that get other names if one name and all below it are renamed.
fn renamed(list: &MailboxList, from: &MailboxName, to: &MailboxName) -> Result<Vec<MailboxEntry>> {
    if list.find(from).is_none() && !list.has_children(from) {
        return Err(StoreError::NoSuchName);
    }
    let moves = |name: &MailboxName| name == from || name.is_below(from);
    // Also where `from` is no mailbox, and only names below `to` would be new.
    if to == from || list.find(to).is_some_and(|other| !moves(&other.name)) {
        return Err(StoreError::NameTaken);
    }
    let mut entries = Vec::new();
    for entry in list.entries.iter().filter(|entry| moves(&entry.name)) {
        let Some(rest) = entry.name.as_str().get(from.as_str().len()..) else {
            debug_assert!(false, "{} is below {from}, but shorter", entry.name);
            return Err(StoreError::Corrupt(format!("mailbox name {} below {from}", entry.name)));
        };
        let name = MailboxName::new(&format!("{to}{rest}"))?;
        // A name that is itself renamed is free. Only a `to` above `from`, or in another
        // subtree, can meet a name that stays.
        if list.find(&name).is_some_and(|other| !moves(&other.name)) || name == *from {
            return Err(StoreError::NameTaken);
        }
        entries.push(MailboxEntry { name, ..entry.clone() });
    }
    Ok(entries)
}
