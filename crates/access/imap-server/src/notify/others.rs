//! Mailboxes of other accounts that a client watches (RFC 5465 §5), with their rights (RFC 4314).
//!
//! Invariants: rights are read again before each report. If the user has lost `l` in a
//! mailbox, it is treated as one that does not exist. Without `r`, events of its messages are not
//! reported.

use std::collections::BTreeMap;
use std::sync::Arc;

use posthaste_imap_codec::response::Code;
use posthaste_mail_model::{AccountId, MailboxId, MailboxName, Rights};
use posthaste_sharing::{Owner, SharedMailboxes, Visible};
use posthaste_store::{AccountWatch, MailboxList, MailboxNews, OwnArrivals};
use tokio::sync::watch;

use super::group::Group;
use crate::heavy::Pace;
use crate::kept_memory::{KeptMemory, NoMemory};
use crate::list_memory::{copy_bytes, shown_bytes};
use crate::reply::{Failure, Reply};
use crate::resolve::{Asker, CombinedList, ENTRY_STEPS, LISTED_MAX, shown_entry};
use crate::rights::Act;

/// Accounts of others that one session follows at most. The heads of all their mailboxes are kept,
/// once for all sessions that follow them.
const OWNERS_MAX: usize = 100;

/// Entries that are added between two counts of steps: less than a slice.
const ENTRIES_AT_ONCE: usize = 1000;
/// Steps of sorting an entry into lists that are sorted.
const SORTED_STEPS: u64 = 100;

/// The followed mailboxes other than the user's own.
pub(super) struct FollowedMailboxes {
    visible: Arc<Visible>,
    owners: BTreeMap<AccountId, AccountWatch>,
    /// Woken after changes of rights in this process.
    rights: watch::Receiver<()>,
    /// Whether it is time to look for those of other processes.
    look: bool,
    /// The last list, and the input that it was made from.
    listed: Option<KeptList>,
    /// Memory for that list.
    memory: KeptMemory,
}

struct KeptList {
    list: Arc<MailboxList>,
    own: Arc<MailboxList>,
    visible: Arc<Visible>,
    theirs: Vec<Arc<MailboxList>>,
}

impl KeptList {
    fn is_of(&self, own: &Arc<MailboxList>, visible: &Arc<Visible>, theirs: &[Arc<MailboxList>]) -> bool {
        Arc::ptr_eq(&self.own, own)
            && Arc::ptr_eq(&self.visible, visible)
            && self.theirs.len() == theirs.len()
            && self.theirs.iter().zip(theirs).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

impl FollowedMailboxes {
    /// Follows those whose mailboxes a group may name; `None` if no group does.
    pub(super) async fn begin(
        asker: Asker<'_>,
        groups: &[Group],
        own: &MailboxList,
    ) -> Result<Option<Box<Self>>, Failure> {
        if !groups.iter().any(|group| group.filter.may_reach_others(own)) {
            return Ok(None);
        }
        let shared = &asker.service.shared;
        let rights = shared.watch();
        let visible = shared.visible_to(asker.login).await?;
        let memory = KeptMemory::new(asker.service, asker.login.id);
        let owners = BTreeMap::new();
        let mut others = Box::new(Self { visible, owners, rights, look: false, listed: None, memory });
        others.follow(asker, groups, own).await?;
        Ok(Some(others))
    }

    /// Reads the rights again, and follows those who share something now.
    pub(super) async fn renew(
        &mut self,
        asker: Asker<'_>,
        groups: &[Group],
        own: &MailboxList,
    ) -> Result<(), Failure> {
        self.look = false;
        self.rights.mark_unchanged();
        self.visible = asker.service.shared.visible_to(asker.login).await?;
        self.follow(asker, groups, own).await
    }

    async fn follow(&mut self, asker: Asker<'_>, groups: &[Group], own: &MailboxList) -> Result<(), Failure> {
        let mut followed = BTreeMap::new();
        for (top, owner) in self.visible.owners() {
            let Ok(top) = MailboxName::new(top) else { continue };
            // An account may have mailboxes of such names from before there were namespaces.
            let is_own = own.find(&top).is_some() || own.has_children(&top);
            if is_own || !groups.iter().any(|group| group.filter.reaches(&top, own)) {
                continue;
            }
            if followed.len() == OWNERS_MAX {
                // RFC 5465 §5.8
                let text =
                    format!("NOTIFY is for mailboxes of at most {OWNERS_MAX} other accounts: name fewer");
                return Err(Reply::no(Code::NotificationOverflow, text).into());
            }
            let id = owner.account.id;
            let watch = match self.owners.remove(&id) {
                Some(watch) => watch,
                None => asker.service.store.follow(id).await?,
            };
            followed.insert(id, watch);
        }
        self.owners = followed;
        Ok(())
    }

    /// The user's own mailboxes, and those of others that may be listed. The same list while
    /// nothing has changed. It pauses for other tasks: the owners may have a million mailboxes.
    pub(super) async fn list_with(&mut self, own: &Arc<MailboxList>) -> Result<Arc<MailboxList>, NoMemory> {
        let theirs: Vec<_> = self.owners.values().map(AccountWatch::list).collect();
        if let Some(listed) = &self.listed
            && listed.is_of(own, &self.visible, &theirs)
        {
            return Ok(Arc::clone(&listed.list));
        }
        let Self { visible, owners, memory, .. } = self;
        let visible: &Visible = visible;
        let found = owners.keys().zip(&theirs);
        let found = found.filter_map(|(id, list)| Some((owner_of(visible, *id)?, list)));
        let mut owners: Vec<_> = found.collect();
        // In the order of LIST.
        owners.sort_by_cached_key(|(owner, _)| (owner.mailboxes(), owner.top()));
        let (mut bytes, mut room) = (copy_bytes(own), LISTED_MAX);
        for (owner, list) in &owners {
            bytes += shown_bytes(owner, &list.entries, room);
            room = room.saturating_sub(owner.mailboxes().min(list.entries.len()));
        }
        memory.resize(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        let (mut all, mut pace) = (CombinedList::of(own), Pace::default());
        pace.worked(all.len() as u64 * ENTRY_STEPS).await;
        for (owner, list) in owners {
            for entries in list.entries.chunks(ENTRIES_AT_ONCE) {
                all.add(owner, entries);
                pace.worked(entries.len() as u64 * ENTRY_STEPS).await;
            }
        }
        pace.worked(all.len() as u64 * SORTED_STEPS).await;
        let list = all.sorted();
        let (own, visible) = (Arc::clone(own), Arc::clone(&self.visible));
        self.listed = Some(KeptList { list: Arc::clone(&list), own, visible, theirs });
        Ok(list)
    }

    /// The owner of a mailbox, if that is another account.
    pub(super) fn account_of(&self, mailbox: MailboxId) -> Option<AccountId> {
        self.visible.owner_of(mailbox).map(|owner| owner.account.id)
    }

    /// Whether STATUS may report a mailbox, if it is another account's. RFC 5465 §5: `l` and `r`.
    pub(super) fn may_read(&self, mailbox: MailboxId) -> bool {
        let needed = Rights::LOOKUP.union(Act::Read.needs());
        self.visible.owner_of(mailbox).is_none_or(|owner| owner.rights(mailbox).contains(needed))
    }

    /// Adds what happened since the last call. Returns whether it was too much.
    pub(super) fn take(&mut self, max: usize, own: &[OwnArrivals], into: &mut Vec<MailboxNews>) -> bool {
        let mut overflow = false;
        let visible = &self.visible;
        for watch in self.owners.values_mut() {
            let news = watch.take(max.saturating_sub(into.len()), own);
            overflow |= news.overflow;
            into.extend(news.mailboxes.into_iter().filter_map(|news| as_shown(visible, news)));
        }
        overflow
    }

    /// One mailbox as it is now, if the user may learn something of it.
    pub(super) fn mailbox(&self, mailbox: MailboxId) -> Option<MailboxNews> {
        let news = self.owners.values().find_map(|watch| watch.mailbox(mailbox))?;
        as_shown(&self.visible, news)
    }

    /// Whether something may have happened.
    pub(super) fn has_changed(&self) -> bool {
        self.look
            || self.rights.has_changed().unwrap_or(false)
            || self.owners.values().any(AccountWatch::has_changed)
    }

    /// Waits until something may have happened. May be dropped and called again.
    pub(super) async fn changed(&mut self) {
        let Self { owners, rights, look, .. } = self;
        let mut changes: Vec<_> = owners.values_mut().map(|watch| Box::pin(watch.changed())).collect();
        let any = std::future::poll_fn(|cx| {
            match changes.iter_mut().any(|change| change.as_mut().poll(cx).is_ready()) {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        });
        tokio::select! {
            () = any => {}
            () = SharedMailboxes::wait(rights) => *look = true,
        }
    }
}

fn owner_of(visible: &Visible, id: AccountId) -> Option<&Owner> {
    visible.owners().map(|(_, owner)| owner).find(|owner| owner.account.id == id)
}

fn as_shown(visible: &Visible, news: MailboxNews) -> Option<MailboxNews> {
    let owner = visible.owner_of(news.entry.id)?;
    let needed = Rights::LOOKUP.union(Act::Read.needs());
    let may_read = owner.rights(news.entry.id).contains(needed);
    let entry = shown_entry(owner, &news.entry).filter(|_| may_read)?;
    Some(MailboxNews { entry, ..news })
}
