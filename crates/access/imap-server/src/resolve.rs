//! Resolves a command's mailbox: the user's own or another account's, and the user's rights there.
//!
//! Invariants: a user may have neither `l` nor the rights that a command needs. Then the
//! mailbox is treated as one that does not exist (RFC 4314 §6).

use std::borrow::Cow;
use std::sync::Arc;

use posthaste_directory::Account;
use posthaste_imap_codec::MailboxArg;
use posthaste_imap_codec::command::ListArgs;
use posthaste_imap_codec::response::Code;
use posthaste_mail_model::{AccountId, MailboxId, MailboxName, Rights, SEPARATOR};
use posthaste_net::BytePermit;
use posthaste_sharing::{Namespace, Owner, Visible};
use posthaste_store::{MailboxEntry, MailboxList, StoreError};

use crate::heavy::Pace;
use crate::list_memory::{ListMemory, copy_bytes, shown_bytes};
use crate::object_ids::WantedMailbox;
use crate::referred;
use crate::reply::{Failure, Reply};
use crate::rights::{Act, TO_CHANGE};
use crate::selected::Selected;
use crate::service::ImapService;

/// Mailboxes of others that LIST shows at most: more than anybody reads, and little enough to sort.
pub(crate) const LISTED_MAX: usize = 10_000;

/// Levels above mailboxes of others that LIST shows at most: fewer than it adds in all. So nobody
/// makes the LIST of another user fail by sharing deep names.
pub(crate) const LEVELS_MAX: usize = 40_000;

/// Levels that one owner of mailboxes may have of these: so many at first, and so many more with
/// each mailbox that is shown. Ordinary owners share mailboxes below each other, or a mailbox in
/// each of many trees of few levels.
const LEVELS_AT_FIRST: usize = 256;
const LEVELS_EACH: usize = 4;

/// Entries of a list that are copied or sorted on the session's thread at most. More of them are
/// another thread's work.
const ENTRIES_HERE_MAX: usize = 1000;

/// Steps of copying an entry of a list, and of sorting it in.
pub(crate) const ENTRY_STEPS: u64 = 300;

/// The user whose session this is.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'s> {
    pub(crate) service: &'s ImapService,
    pub(crate) login: &'s Account,
}

/// The account and the name that a client's name refers to.
pub(crate) struct ResolvedName {
    /// The owner of the list of mailboxes.
    pub(crate) owner: AccountId,
    /// The name in that list.
    pub(crate) name: MailboxName,
    /// The account of others that owns the mailbox; `None` for the user's own.
    pub(crate) others: Option<OtherAccount>,
}

/// The visible mailboxes of another account.
pub(crate) struct OtherAccount {
    visible: Arc<Visible>,
    /// The level above its mailboxes.
    pub(crate) top: String,
}

/// A mailbox that exists, and that the command may use.
pub(crate) struct ExistingMailbox {
    pub(crate) resolved: ResolvedName,
    /// The mailbox in its owner's list.
    pub(crate) entry: MailboxEntry,
    pub(crate) rights: Rights,
}

impl ResolvedName {
    /// The rights in one of the mailboxes of that list.
    pub(crate) fn rights(&self, mailbox: MailboxId) -> Rights {
        match &self.others {
            None => Rights::ALL,
            Some(others) => others.visible.rights(mailbox),
        }
    }

    /// The account whose list it is, as it was read; `None` for one's own.
    pub(crate) fn account(&self) -> Option<&Account> {
        let others = self.others.as_ref()?;
        others.visible.owner_below(&others.top).map(|owner| &owner.account)
    }

    /// The name by which the asker knows a mailbox of that list.
    pub(crate) fn shown(&self, name: &MailboxName) -> Result<MailboxName, Failure> {
        match &self.others {
            None => Ok(name.clone()),
            Some(others) => MailboxName::new(&format!("{}/{name}", others.top))
                .map_err(|error| StoreError::Name(error).into()),
        }
    }
}

impl<'s> Asker<'s> {
    /// Finds the account and the name that a client's name refers to. If the user sees nothing of
    /// an account, the answer is the one for a mailbox that does not exist. A mailbox of another
    /// server is answered with its URL.
    pub(crate) async fn resolve(self, name: MailboxName) -> Result<ResolvedName, Failure> {
        referred::check(self.login, &name)?;
        let own = |name| ResolvedName { owner: self.login.id, name, others: None };
        let Some(shown) = Namespace::split(&name) else { return Ok(own(name)) };
        let top = shown.namespace.top(shown.owner);
        // An account may have mailboxes of such names from the time before namespaces. It keeps
        // them.
        let list = self.service.store.list(self.login.id).await?;
        if shown.is_among(&list) {
            return Ok(own(name));
        }
        let visible = self.service.shared.visible_to(self.login).await?;
        let owner = visible.owner(&shown).map(|owner| owner.account.id);
        match (owner, shown.name) {
            (Some(owner), Some(name)) => {
                Ok(ResolvedName { owner, name, others: Some(OtherAccount { visible, top }) })
            }
            _ => Err(StoreError::NoSuchName.into()),
        }
    }

    /// The mailbox of a name, if the asker may do that with it.
    pub(crate) async fn find(self, mailbox: &MailboxArg, act: Act) -> Result<ExistingMailbox, Failure> {
        self.find_name(mailbox.name()?, act).await
    }

    /// [`Self::find`] for a name that was parsed.
    pub(crate) async fn find_name(self, name: MailboxName, act: Act) -> Result<ExistingMailbox, Failure> {
        let found = self.find_name_unchecked(name).await?;
        found.permit(act)?;
        Ok(found)
    }

    /// The mailbox of a name, whatever the rights in it are: the caller checks them.
    pub(crate) async fn find_unchecked(self, mailbox: &MailboxArg) -> Result<ExistingMailbox, Failure> {
        self.find_name_unchecked(mailbox.name()?).await
    }

    async fn find_name_unchecked(self, name: MailboxName) -> Result<ExistingMailbox, Failure> {
        let resolved = self.resolve(name).await?;
        let list = self.service.store.list(resolved.owner).await?;
        let entry = list.find(&resolved.name).cloned().ok_or(StoreError::NoSuchName)?;
        let rights = resolved.rights(entry.id);
        Ok(ExistingMailbox { resolved, entry, rights })
    }

    /// The mailbox of these ids, if the asker may do that with it. `None` if there is none, or if
    /// the asker must not learn of it. If its name has a referral, the answer is the URL, as for
    /// the name.
    pub(crate) async fn find_by_id(
        self,
        wanted: WantedMailbox,
        act: Act,
    ) -> Result<Option<ExistingMailbox>, Failure> {
        let own = self.service.store.list(self.login.id).await?;
        if wanted.owner.is_none_or(|owner| owner == self.login.id)
            && let Some(entry) = with_id(&own, wanted.mailbox).cloned()
        {
            referred::check(self.login, &entry.name)?;
            let resolved = ResolvedName { owner: self.login.id, name: entry.name.clone(), others: None };
            return Ok(Some(ExistingMailbox { resolved, entry, rights: Rights::ALL }));
        }
        // For a mailbox without rights and for a missing one, the same is read.
        let visible = self.service.shared.visible_to(self.login).await?;
        let owner = visible.owner_of(wanted.mailbox);
        let owner = owner.filter(|owner| wanted.owner.is_none_or(|wanted| wanted == owner.account.id));
        let Some(owner) = owner else { return Ok(None) };
        let rights = owner.rights(wanted.mailbox);
        if !rights.contains(Rights::LOOKUP) && !act.is_permitted_with(rights) {
            // RFC 4314 §6: a refusal would say that the mailbox exists.
            return Ok(None);
        }
        let top = owner.top();
        if MailboxName::new(&top).is_ok_and(|top| own.find(&top).is_some() || own.has_children(&top)) {
            // That name is the asker's own, as for LIST.
            return Ok(None);
        }
        let list = self.service.store.list(owner.account.id).await?;
        let entry = with_id(&list, wanted.mailbox).cloned();
        let shown = entry.as_ref().and_then(|entry| owner.shown(&entry.name));
        let (Some(entry), Some(shown)) = (entry, shown) else { return Ok(None) };
        referred::check(self.login, &shown)?;
        let others = Some(OtherAccount { visible: Arc::clone(&visible), top });
        let resolved = ResolvedName { owner: owner.account.id, name: entry.name.clone(), others };
        let found = ExistingMailbox { resolved, entry, rights };
        found.permit(act)?;
        Ok(Some(found))
    }

    /// The account that a mailbox counts for, as it is now.
    pub(crate) async fn owner(self, resolved: &ResolvedName) -> Result<Cow<'s, Account>, Failure> {
        let Some(owner) = resolved.account() else { return Ok(Cow::Borrowed(self.login)) };
        let now = self.service.directory.account(&owner.name).await?;
        let now = now.filter(|now| now.id == owner.id);
        now.map(Cow::Owned).ok_or_else(|| StoreError::NoSuchName.into())
    }

    /// The user's own mailboxes, and those of others if patterns may match one of those.
    pub(crate) async fn list_for(self, args: &ListArgs) -> Result<ShownList, Failure> {
        let mut patterns = args.patterns.iter().filter_map(|pattern| pattern.text().ok());
        let reaches_others = args.reference.text().is_ok_and(|reference| {
            patterns.any(|pattern| Namespace::may_match(&format!("{reference}{pattern}")))
        });
        if reaches_others {
            return self.list_all().await;
        }
        let list = self.service.store.list(self.login.id).await?;
        Ok(ShownList::of_own(list))
    }

    /// A list that has the mailbox of this name and those around it, if it may be listed.
    pub(crate) async fn list_with(self, name: &MailboxName) -> Result<Arc<MailboxList>, Failure> {
        match Namespace::split(name) {
            None => Ok(self.service.store.list(self.login.id).await?),
            Some(_) => Ok(self.list_all().await?.list),
        }
    }

    /// The user's own mailboxes, and those of others that may be listed. Long lists are copied and
    /// sorted on another thread.
    pub(crate) async fn list_all(self) -> Result<ShownList, Failure> {
        let list = self.service.store.list(self.login.id).await?;
        let visible = self.service.shared.visible_to(self.login).await?;
        if visible.is_empty() {
            return Ok(ShownList { list, visible, paid: None });
        }
        let mut memory = ListMemory::new(self.service, self.login.id);
        memory.grow(copy_bytes(&list)).await?;
        let (own, mut pace) = (Arc::clone(&list), Pace::default());
        let count = list.entries.len() + list.subscribed.len();
        let mut all = self.with_entries(count, &mut pace, move || CombinedList::of(&own)).await?;
        for (top, owner) in visible.owners_fewest_first() {
            if all.room == 0 {
                break;
            }
            let name = MailboxName::new(top);
            if name.is_ok_and(|top| list.find(&top).is_some() || list.has_children(&top)) {
                continue;
            }
            let theirs = self.service.store.list(owner.account.id).await?;
            let count = theirs.entries.len();
            memory.grow(shown_bytes(owner, &theirs.entries, all.room)).await?;
            if count <= ENTRIES_HERE_MAX {
                all.add(owner, &theirs.entries);
                pace.worked(count as u64 * ENTRY_STEPS).await;
                continue;
            }
            let (visible, top) = (Arc::clone(&visible), top.to_owned());
            let work = move || {
                if let Some(owner) = visible.owner_below(&top) {
                    all.add(owner, &theirs.entries);
                }
                all
            };
            all = self.service.heavy.run(self.login.id, work).await?;
        }
        let count = all.len();
        let list = self.with_entries(count, &mut pace, move || all.sorted()).await?;
        Ok(ShownList { list, visible, paid: memory.into_permit() })
    }

    /// Does work on so many entries of lists: here if they are few, else on another thread.
    async fn with_entries<T: Send + 'static>(
        self,
        count: usize,
        pace: &mut Pace,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        if count > ENTRIES_HERE_MAX {
            return self.service.heavy.run(self.login.id, work).await;
        }
        let done = work();
        pace.worked(count as u64 * ENTRY_STEPS).await;
        Ok(done)
    }
}

/// The entry by the name under which the user knows the mailbox. Sent and Trash of others are not
/// one's own.
pub(crate) fn shown_entry(owner: &Owner, entry: &MailboxEntry) -> Option<MailboxEntry> {
    Some(MailboxEntry { name: owner.shown(&entry.name)?, special_use: None, ..entry.clone() })
}

/// A list to which the mailboxes of others are added.
pub(crate) struct CombinedList {
    list: MailboxList,
    /// How many more it may have.
    room: usize,
    levels: LevelRoom,
}

impl CombinedList {
    /// The user's own mailboxes.
    pub(crate) fn of(own: &MailboxList) -> Self {
        Self { list: own.clone(), room: LISTED_MAX, levels: LevelRoom::new() }
    }

    /// How many mailboxes it has.
    pub(crate) fn len(&self) -> usize {
        self.list.entries.len()
    }

    /// Adds those of these mailboxes that their owner shows.
    pub(crate) fn add(&mut self, owner: &Owner, theirs: &[MailboxEntry]) {
        for entry in theirs {
            if self.room == 0 {
                return;
            }
            if !owner.rights(entry.id).contains(Rights::LOOKUP) {
                continue;
            }
            let Some(entry) = shown_entry(owner, entry) else { continue };
            let before = self.list.entries.last().map(|entry| &entry.name);
            if self.levels.take(owner.account.id, before, &entry.name) {
                self.list.entries.push(entry);
                self.room -= 1;
            }
        }
    }

    /// The list, whose names are in order. The lists of accounts are sorted: few comparisons are
    /// left.
    pub(crate) fn sorted(mut self) -> Arc<MailboxList> {
        self.list.entries.sort_by(|a, b| a.name.cmp(&b.name));
        Arc::new(self.list)
    }
}

/// How many more levels above mailboxes of others a list may have.
struct LevelRoom {
    all: usize,
    /// The owner whose mailboxes are added.
    owner: Option<AccountId>,
    of_owner: usize,
}

impl LevelRoom {
    const fn new() -> Self {
        Self { all: LEVELS_MAX, owner: None, of_owner: 0 }
    }

    /// Takes room for the levels that are above a name, and not above the name before it. Returns
    /// whether there is room. The names of an owner are in order, so no level is missed.
    fn take(&mut self, owner: AccountId, before: Option<&MailboxName>, name: &MailboxName) -> bool {
        if self.owner != Some(owner) {
            (self.owner, self.of_owner) = (Some(owner), LEVELS_AT_FIRST);
        }
        let before = before.map_or("", MailboxName::as_str).chars();
        let same = name.as_str().chars().zip(before).take_while(|(one, other)| one == other).count();
        let new = name.as_str().chars().skip(same).filter(|c| *c == SEPARATOR).count();
        if new > self.all.min(self.of_owner) {
            return false;
        }
        self.all -= new;
        self.of_owner = self.of_owner - new + LEVELS_EACH;
        true
    }
}

/// Mailboxes with the names by which the asker knows them.
pub(crate) struct ShownList {
    pub(crate) list: Arc<MailboxList>,
    pub(crate) visible: Arc<Visible>,
    /// Memory for the list, if it is long and was made for this command.
    pub(crate) paid: Option<BytePermit>,
}

impl ShownList {
    /// The user's own mailboxes, whose list all sessions share.
    pub(crate) fn of_own(list: Arc<MailboxList>) -> Self {
        Self { list, visible: Arc::default(), paid: None }
    }
}

impl ExistingMailbox {
    /// Whether the asker may do that with it. RFC 4314 §6: without `l`, a refusal would say that
    /// the mailbox exists.
    pub(crate) fn permit(&self, act: Act) -> Result<(), Failure> {
        act.permit(self.rights)
    }
}

/// The mailbox of an id. Lists are sorted by name and in memory: this compares the ids of all
/// entries, which takes some nanoseconds for each.
fn with_id(list: &MailboxList, id: MailboxId) -> Option<&MailboxEntry> {
    list.entries.iter().find(|entry| entry.id == id)
}

/// The answer where a new mailbox must not be made. It does not show whether the level above
/// exists.
pub(crate) fn not_there() -> Failure {
    Reply::no(Code::NoPerm, "You have no right to create a mailbox there").into()
}

/// A name that begins a namespace cannot be a mailbox.
pub(crate) fn check_new(name: &MailboxName) -> Result<(), Failure> {
    match Namespace::is_root(name.as_str()) {
        true => Err(Reply::no(Code::Cannot, "That name is reserved for mailboxes of other users").into()),
        false => Ok(()),
    }
}

/// Reads the rights in the selected mailbox again, if it is in another account. Returns whether it
/// may still be read.
pub(crate) async fn renew(
    service: &ImapService,
    login: &Account,
    selected: &mut Selected,
) -> Result<bool, Failure> {
    if selected.owner.is_none() {
        return Ok(true);
    }
    selected.rights = service.shared.visible_to(login).await?.rights(selected.mailbox.id());
    selected.read_only = selected.examined || !selected.rights.intersects(TO_CHANGE);
    Ok(selected.rights.contains(Act::Read.needs()))
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Id;

    use super::*;

    /// How many of an owner's mailboxes are shown.
    fn shown(room: &mut LevelRoom, owner: u64, names: impl IntoIterator<Item = String>) -> usize {
        let (mut before, mut count) = (None, 0);
        for name in names {
            let name = MailboxName::new(&format!("Other Users/{owner}/{name}")).unwrap();
            if room.take(AccountId(Id::new(owner, 1)), before.as_ref(), &name) {
                (before, count) = (Some(name), count + 1);
            }
        }
        count
    }

    #[test]
    fn deep_names_of_one_owner_leave_room_for_those_of_others() {
        let deep = |n: usize| format!("{n}{}", "/x".repeat(29));
        let mut room = LevelRoom::new();
        assert!((5..20).contains(&shown(&mut room, 1, (1000..3000).map(deep))));
        // The levels above are mailboxes, too.
        let tree = (1000..2000).flat_map(|n| [format!("{n}"), format!("{n}/a"), format!("{n}/a/b")]);
        assert_eq!(shown(&mut room, 2, tree), 3000);
        // Each has a level of its own above it.
        assert_eq!(shown(&mut room, 3, (1000..3000).map(|n| format!("{n}/a"))), 2000);
        // Each has a tree of its own, of which no other level is shared.
        assert_eq!(shown(&mut room, 4, (1000..2000).map(|n| format!("{n}/a/b/c/d"))), 1000);
        assert!(room.all > LEVELS_MAX / 2);
        for owner in 5..1000 {
            shown(&mut room, owner, (1000..1020).map(deep));
        }
        assert_eq!(shown(&mut room, 1000, ["a".repeat(10) + &"/x".repeat(29)]), 0);
    }
}
