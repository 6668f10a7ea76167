//! The table `lists`: mailbox lists.
//!
//! A list is one record for its version and the number of the others, one per mailbox and one per
//! subscribed name. So a change costs the same in an account of ten thousand mailboxes as in one of
//! ten. Keys of `lists` are the account and a tag: 0 version, 1 mailbox (and its id), 2
//! subscription (and the checksum of the name). Names may be longer than LMDB's keys.

use std::collections::{BTreeSet, HashSet};

use heed::RoTxn;
use posthaste_mail_model::{AccountId, Id, MailboxId, MailboxName, ModSeq, UidValidity};
use posthaste_store::octets::{Octets, put_counted};
use posthaste_store::{ListCommit, MailboxEntry, MailboxList, Result, SpecialUse, StoreError};

use crate::index::checksum::{seed, sum32};
use crate::index::sealed::{open_value, seal, seed_of_key, unseal};
use crate::index::{Index, Indexed, Writing, beginning_with, damaged, due, expunging, heads, removed};

const TAG_MAILBOX: u8 = 1;
const TAG_SUBSCRIBED: u8 = 2;

/// Writes a list entry's fields.
pub(crate) fn put_entry(out: &mut Vec<u8>, entry: &MailboxEntry) {
    out.extend_from_slice(&entry.id.0.to_bytes());
    out.extend_from_slice(&entry.uid_validity.value().to_le_bytes());
    out.push(entry.special_use.map_or(0, |u| u as u8 + 1));
    put_counted(out, entry.name.as_str().as_bytes());
}

/// Reads what [`put_entry`] wrote.
pub(crate) fn read_entry(read: &mut Octets<'_>) -> Option<MailboxEntry> {
    let id = MailboxId(read.id()?);
    let uid_validity = UidValidity::new(read.u32()?)?;
    let special_use = match read.u8()? {
        0 => None,
        n => Some(*SpecialUse::ALL.get(usize::from(n) - 1)?),
    };
    let name = MailboxName::new(read.text()?).ok()?;
    Some(MailboxEntry { id, name, uid_validity, special_use })
}

/// The head of a mailbox list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ListHead {
    pub(crate) version: ModSeq,
    pub(crate) uid_validity_last: u32,
    /// The number of the list's other records: mailboxes and subscriptions. `None` in a list of
    /// formats 1 to 4 that was not counted yet.
    pub(crate) records: Option<u32>,
}

pub(crate) fn list_value(account: AccountId, list: ListHead) -> Vec<u8> {
    let mut out = open_value();
    out.extend_from_slice(&list.version.value().to_le_bytes());
    out.extend_from_slice(&list.uid_validity_last.to_le_bytes());
    out.extend(list.records.into_iter().flat_map(u32::to_le_bytes));
    seal(seed(account.0), out)
}

pub(crate) fn list_from(account: AccountId, value: &[u8]) -> Option<ListHead> {
    let mut read = unseal(seed(account.0), value)?;
    let (version, uid_validity_last) = (ModSeq::new(read.u64()?)?, read.u32()?);
    let records = if read.is_empty() { None } else { Some(read.u32()?) };
    read.is_empty().then_some(ListHead { version, uid_validity_last, records })
}

fn version_key(account: AccountId) -> [u8; 17] {
    let mut key = [0; 17];
    key[..16].copy_from_slice(&account.0.to_bytes());
    key
}

fn entry_key(account: AccountId, mailbox: MailboxId) -> [u8; 33] {
    let mut key = [TAG_MAILBOX; 33];
    key[..16].copy_from_slice(&account.0.to_bytes());
    key[17..].copy_from_slice(&mailbox.0.to_bytes());
    key
}

fn subscribed_key(account: AccountId, name: &MailboxName) -> [u8; 21] {
    let mut key = [TAG_SUBSCRIBED; 21];
    key[..16].copy_from_slice(&account.0.to_bytes());
    key[17..].copy_from_slice(&sum32(0, name.as_str().as_bytes()).to_be_bytes());
    key
}

/// The head of an account's list. An account without a list has an empty one.
fn list_head(index: &Index, txn: &RoTxn, account: AccountId) -> Result<ListHead> {
    if let Some(value) = index.lists.get(txn, &version_key(account)).indexed()? {
        return list_from(account, value)
            .ok_or_else(damaged(format_args!("mailbox list of account {account}")));
    }
    // Entries without a head: a bit flipped in its key, or in theirs.
    if index.lists.prefix_iter(txn, &account.0.to_bytes()).indexed()?.next().is_some() {
        return Err(damaged(format_args!("the head of the mailbox list of account {account} is missing"))());
    }
    Ok(ListHead { records: Some(0), ..ListHead::default() })
}

/// The version of an account's list.
pub(crate) fn version(index: &Index, txn: &RoTxn, account: AccountId) -> Result<ModSeq> {
    list_head(index, txn, account).map(|head| head.version)
}

/// Whether the list of another account than this one has a mailbox.
///
/// A new mailbox has no head, so one or two keys are looked up. All lists are read only for a
/// mailbox that exists and is not in the account's list: one that is recovered, or a forgery.
pub(crate) fn is_in_another(
    index: &Index,
    txn: &RoTxn,
    account: AccountId,
    mailbox: MailboxId,
) -> Result<bool> {
    let is_own = index.lists.get(txn, &entry_key(account, mailbox)).indexed()?.is_some();
    if is_own || !heads::has(index, txn, mailbox)? {
        return Ok(false);
    }
    for item in index.lists.iter(txn).indexed()? {
        let (key, _) = item.indexed()?;
        if key.get(16) == Some(&TAG_MAILBOX) && key.get(17..) == Some(&mailbox.0.to_bytes()[..]) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Records of an account's list besides its head.
fn count(index: &Index, txn: &RoTxn, account: AccountId) -> Result<u32> {
    let all = index.lists.prefix_iter(txn, &account.0.to_bytes()).indexed()?.count();
    Ok(u32::try_from(all).unwrap_or(u32::MAX).saturating_sub(1))
}

/// Gives every list that has no count its count: those of formats 1 to 4. One that is damaged stays
/// as it is.
pub(crate) fn count_all(index: &Index, txn: &mut Writing) -> Result<()> {
    for account in accounts(index, txn)? {
        let Ok(head) = list_head(index, txn, account) else { continue };
        if head.records.is_none() {
            let records = Some(count(index, txn, account)?);
            let value = list_value(account, ListHead { records, ..head });
            index.lists.put(txn, &version_key(account), &value).indexed()?;
        }
    }
    Ok(())
}

/// The names under one subscription key.
pub(crate) fn names_from(key: &[u8], value: &[u8]) -> Option<BTreeSet<MailboxName>> {
    let mut read: Octets<'_> = unseal(seed_of_key(key), value)?;
    let mut names = BTreeSet::new();
    while !read.is_empty() {
        names.insert(MailboxName::new(read.text()?).ok()?);
    }
    Some(names)
}

/// An account's list.
pub(crate) fn load(index: &Index, txn: &RoTxn, account: AccountId) -> Result<MailboxList> {
    let mut list = MailboxList::empty(account);
    let head = list_head(index, txn, account)?;
    (list.version, list.uid_validity_last) = (head.version, head.uid_validity_last);
    let mut records = 0;
    for item in index.lists.prefix_iter(txn, &account.0.to_bytes()).indexed()? {
        let (key, value) = item.indexed()?;
        records += u32::from(key.len() > version_key(account).len());
        // A closure, because the text is needed for damaged entries only.
        let fault = || damaged(format_args!("entry in the mailbox list of account {account}"))();
        match key.get(16) {
            Some(&TAG_MAILBOX) => {
                let entry = unseal(seed_of_key(key), value).and_then(|mut read| read_entry(&mut read));
                list.entries.push(entry.ok_or_else(fault)?);
            }
            Some(&TAG_SUBSCRIBED) => list.subscribed.extend(names_from(key, value).ok_or_else(fault)?),
            // Version and highest UIDVALIDITY, which were read above.
            Some(0) => {}
            _ => return Err(fault()),
        }
    }
    // A flipped bit in a key moves an entry to another account.
    if head.records.is_some_and(|all| all != records) {
        return Err(damaged(format_args!("mailbox list of account {account}: entries are missing"))());
    }
    list.entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(list)
}

/// Every account that has a list, once.
pub(crate) fn accounts(index: &Index, txn: &RoTxn) -> Result<Vec<AccountId>> {
    let mut all = Vec::new();
    for account in accounts_of_records(index, txn)? {
        let account = account?.ok_or_else(damaged("key of a mailbox list"))?;
        if all.last() != Some(&account) {
            all.push(account);
        }
    }
    Ok(all)
}

/// The account of each record of all lists; `None` for a key that is no list's.
pub(crate) fn accounts_of_records<'t>(
    index: &Index,
    txn: &'t RoTxn,
) -> Result<impl Iterator<Item = Result<Option<AccountId>>> + use<'t>> {
    let records = index.lists.iter(txn).indexed()?;
    Ok(records.map(|item| Ok(item.indexed()?.0.first_chunk().map(|id| AccountId(Id::from_bytes(*id))))))
}

/// The first account whose list has this key or a later one.
pub(crate) fn account_from(index: &Index, txn: &RoTxn, key: &[u8]) -> Result<Option<AccountId>> {
    let mut records = index.lists.range(txn, &beginning_with(key)).indexed()?;
    let Some(item) = records.next() else { return Ok(None) };
    let account = item.indexed()?.0.first_chunk().map(|id| AccountId(Id::from_bytes(*id)));
    account.map(Some).ok_or_else(damaged("key of a mailbox list"))
}

/// A mailbox that is in no list: the list commit that made it was lost, or the one that removed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unlisted {
    /// The mailbox.
    pub mailbox: MailboxId,
    /// The mailbox's messages.
    pub messages: u32,
}

impl std::fmt::Display for Unlisted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { mailbox, messages } = self;
        write!(
            f,
            "mailbox {mailbox} with {messages} messages is in no account's list: nobody can open it. `posthaste check \
             --recover {mailbox} --account NAME` gives it to an account"
        )
    }
}

/// The mailboxes that are in no list. An error if a list cannot be read: it may name any of them.
pub(crate) fn unlisted(index: &Index, txn: &RoTxn) -> Result<Vec<Unlisted>> {
    let mut listed = HashSet::new();
    for account in accounts(index, txn)? {
        listed.extend(load(index, txn, account)?.entries.iter().map(|entry| entry.id));
    }
    let mut unlisted = Vec::new();
    for mailbox in heads::mailboxes(index, txn)? {
        let mailbox = mailbox?.ok_or_else(damaged("key of a head"))?;
        if !listed.contains(&mailbox) {
            // A damaged head is a fault of its own.
            let stored = index.head(txn, mailbox).ok().flatten();
            unlisted.push(Unlisted { mailbox, messages: stored.map_or(0, |s| s.head.counts.messages) });
        }
    }
    Ok(unlisted)
}

/// Writes a whole list in place of the present one, as a rebuild finds it in an old index.
pub(crate) fn put_list(index: &Index, txn: &mut Writing, list: &MailboxList) -> Result<()> {
    let there = load(index, txn, list.account)?;
    let new: HashSet<MailboxId> = list.entries.iter().map(|entry| entry.id).collect();
    let commit = ListCommit {
        account: list.account,
        expected: there.version,
        version: list.version,
        upsert: list.entries.clone(),
        remove: there.entries.iter().map(|entry| entry.id).filter(|id| !new.contains(id)).collect(),
        subscribe: list.subscribed.iter().cloned().collect(),
        unsubscribe: there.subscribed.difference(&list.subscribed).cloned().collect(),
        uid_validity_last: list.uid_validity_last.max(there.uid_validity_last),
    };
    apply(index, txn, &commit)
}

/// Gives mailboxes of an account new UIDVALIDITYs that were never used before.
pub(crate) fn renew_uid_validity(
    index: &Index,
    txn: &mut Writing,
    account: AccountId,
    now_unix_s: u32,
    is_renewed: impl Fn(MailboxId) -> bool,
) -> Result<Vec<MailboxName>> {
    let mut list = load(index, txn, account)?;
    let mut last = list.uid_validity_last.max(now_unix_s);
    let mut renewed = Vec::new();
    for entry in list.entries.iter_mut().filter(|e| is_renewed(e.id)) {
        let next = last.checked_add(1).and_then(UidValidity::new);
        entry.uid_validity = next.ok_or(StoreError::UidValiditiesExhausted)?;
        last = entry.uid_validity.value();
        renewed.push(entry.name.clone());
    }
    if !renewed.is_empty() {
        list.uid_validity_last = last;
        put_list(index, txn, &list)?;
    }
    Ok(renewed)
}

/// Applies a commit whose version was checked.
pub(crate) fn apply(index: &Index, txn: &mut Writing, commit: &ListCommit) -> Result<()> {
    let account = commit.account;
    let head = list_head(index, txn, account)?;
    let mut records = match head.records {
        Some(records) => records,
        None => count(index, txn, account)?,
    };
    for id in &commit.remove {
        let was_there = index.lists.delete(txn, &entry_key(account, *id)).indexed()?;
        records = records.saturating_sub(u32::from(was_there));
        remove_mailbox(index, txn, *id)?;
    }
    for entry in &commit.upsert {
        let key = entry_key(account, entry.id);
        let mut value = open_value();
        put_entry(&mut value, entry);
        records += u32::from(index.lists.get(txn, &key).indexed()?.is_none());
        index.lists.put(txn, &key, &seal(seed_of_key(&key), value)).indexed()?;
        index.create_mailbox(txn, entry.id)?;
    }
    for name in &commit.subscribe {
        let step = subscription(index, txn, account, name, |names| subscribe(names, name))?;
        records = records.saturating_add_signed(step);
    }
    for name in &commit.unsubscribe {
        let step = subscription(index, txn, account, name, |names| names.remove(name))?;
        records = records.saturating_add_signed(step);
    }
    let head = ListHead {
        version: commit.version,
        uid_validity_last: commit.uid_validity_last,
        records: Some(records),
    };
    let value = list_value(account, head);
    index.lists.put(txn, &version_key(account), &value).indexed()
}

/// Names under one key of subscriptions: those with the same checksum. Each change writes them all
/// again. No account has so many by chance, but somebody may calculate them.
const ALIKE_MAX: usize = 64;

/// Whether a name cannot be subscribed, because too many others have its checksum.
pub(crate) fn is_crowded(index: &Index, txn: &RoTxn, account: AccountId, name: &MailboxName) -> Result<bool> {
    let key = subscribed_key(account, name);
    let Some(value) = index.lists.get(txn, &key).indexed()? else { return Ok(false) };
    let names = names_from(&key, value);
    let names = names.ok_or_else(damaged(format_args!("subscriptions of account {account}")))?;
    Ok(names.len() >= ALIKE_MAX && !names.contains(name))
}

/// Adds a name to those with its checksum. Returns whether that changed them.
fn subscribe(names: &mut BTreeSet<MailboxName>, name: &MailboxName) -> bool {
    if names.len() >= ALIKE_MAX && !names.contains(name) {
        tracing::warn!(
            name = name.as_str(),
            "a mailbox is not subscribed, because {ALIKE_MAX} other names have its checksum"
        );
        return false;
    }
    names.insert(name.clone())
}

/// Changes the subscribed names under the key of one. Answers by how much the number of the
/// list's records grows: a key has all names of one checksum.
fn subscription(
    index: &Index,
    txn: &mut Writing,
    account: AccountId,
    name: &MailboxName,
    change: impl FnOnce(&mut BTreeSet<MailboxName>) -> bool,
) -> Result<i32> {
    let key = subscribed_key(account, name);
    let value = index.lists.get(txn, &key).indexed()?;
    let was_there = value.is_some();
    let mut names = match value {
        Some(value) => {
            names_from(&key, value).ok_or_else(damaged(format_args!("subscriptions of account {account}")))?
        }
        None => BTreeSet::new(),
    };
    if !change(&mut names) {
        return Ok(0);
    }
    if names.is_empty() {
        return Ok(-i32::from(index.lists.delete(txn, &key).indexed()?));
    }
    let mut value = open_value();
    for name in &names {
        put_counted(&mut value, name.as_str().as_bytes());
    }
    index.lists.put(txn, &key, &seal(seed_of_key(&key), value)).indexed()?;
    Ok(i32::from(!was_there))
}

/// The mailbox answers `NoMailbox` from now on. Maintenance removes its messages.
fn remove_mailbox(index: &Index, txn: &mut Writing, mailbox: MailboxId) -> Result<()> {
    // A damaged head does not show which packs have its log.
    if let Ok(Some(stored)) = index.head(txn, mailbox) {
        index.add_dead(txn, stored.logged.by_pack.iter())?;
    }
    heads::remove(index, txn, mailbox)?;
    due::forget(index, txn, mailbox)?;
    removed::note(index, txn, mailbox)?;
    expunging::note_all(index, txn, mailbox)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNT: AccountId = AccountId(Id::from_bytes([7; 16]));

    fn a_commit() -> ListCommit {
        let entry = |n: u64, name: &str| MailboxEntry {
            id: MailboxId(Id::new(n, 1)),
            name: MailboxName::new(name).unwrap(),
            uid_validity: UidValidity::MIN,
            special_use: None,
        };
        ListCommit {
            account: ACCOUNT,
            expected: ModSeq::ZERO,
            version: ModSeq::ZERO.next(),
            upsert: vec![entry(1, "INBOX"), entry(2, "a")],
            remove: vec![],
            subscribe: vec![MailboxName::new("a").unwrap()],
            unsubscribe: vec![],
            uid_validity_last: 1,
        }
    }

    #[test]
    fn a_list_entry_comes_back() {
        for special_use in [None, Some(SpecialUse::All), Some(SpecialUse::Trash)] {
            let entry = MailboxEntry {
                id: MailboxId(Id::new(1, 1)),
                name: MailboxName::new("a/ü").unwrap(),
                uid_validity: UidValidity::MIN,
                special_use,
            };
            let mut out = Vec::new();
            put_entry(&mut out, &entry);
            assert_eq!(read_entry(&mut Octets(&out)), Some(entry));
        }
    }

    #[test]
    fn a_list_of_an_older_format_is_counted_at_the_upgrade() {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::open(dir.path(), 1 << 24, 8).unwrap();
        let mut txn = index.write().unwrap();
        apply(&index, &mut txn, &a_commit()).unwrap();
        let head = list_head(&index, &txn, ACCOUNT).unwrap();
        assert_eq!(head.records, Some(3));
        let old = list_value(ACCOUNT, ListHead { records: None, ..head });
        assert_eq!(old.len(), 16, "as format 4 has it");
        index.lists.put(&mut txn, &version_key(ACCOUNT), &old).unwrap();
        txn.commit().unwrap();

        index.upgrade().unwrap();
        index.upgrade().unwrap();
        let mut txn = index.write().unwrap();
        assert_eq!(list_head(&index, &txn, ACCOUNT).unwrap(), head);
        assert_eq!(load(&index, &txn, ACCOUNT).unwrap().entries.len(), 2);
        index.lists.delete(&mut txn, &entry_key(ACCOUNT, MailboxId(Id::new(2, 1)))).unwrap();
        assert!(matches!(load(&index, &txn, ACCOUNT), Err(StoreError::Corrupt(_))));
    }

    #[test]
    fn renewed_values_are_new_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::open(dir.path(), 1 << 24, 8).unwrap();
        let mut txn = index.write().unwrap();
        for (last, renewed) in [(u32::MAX - 2, true), (u32::MAX - 1, false)] {
            apply(&index, &mut txn, &ListCommit { uid_validity_last: last, ..a_commit() }).unwrap();
            let outcome = renew_uid_validity(&index, &mut txn, ACCOUNT, 1, |_| true);
            assert_eq!(outcome.is_ok(), renewed, "{last}: {outcome:?}");
            if renewed {
                let entries = load(&index, &txn, ACCOUNT).unwrap().entries;
                let mut values: Vec<_> = entries.iter().map(|entry| entry.uid_validity.value()).collect();
                values.sort_unstable();
                assert_eq!(values, [u32::MAX - 1, u32::MAX]);
            }
        }
    }

    /// Each subscription of a forged list wrote all others of its checksum again.
    #[test]
    fn a_key_has_few_names() {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::open(dir.path(), 1 << 24, 8).unwrap();
        let mut txn = index.write().unwrap();
        let name = MailboxName::new("a name").unwrap();
        let key = subscribed_key(ACCOUNT, &name);
        apply(&index, &mut txn, &a_commit()).unwrap();
        for (there, after) in [(0, 1), (ALIKE_MAX - 1, ALIKE_MAX), (ALIKE_MAX, ALIKE_MAX)] {
            let mut value = open_value();
            (0..there).for_each(|n| put_counted(&mut value, format!("other {n}").as_bytes()));
            index.lists.put(&mut txn, &key, &seal(seed_of_key(&key), value)).unwrap();
            assert_eq!(is_crowded(&index, &txn, ACCOUNT, &name).unwrap(), there >= ALIKE_MAX);
            let commit = ListCommit { subscribe: vec![name.clone()], ..a_commit() };
            apply(&index, &mut txn, &commit).unwrap();
            let value = index.lists.get(&txn, &key).unwrap().unwrap();
            let names = names_from(&key, value).unwrap();
            assert_eq!((names.len(), names.contains(&name)), (after, there < ALIKE_MAX), "{there}");
        }
    }

    #[test]
    fn a_count_follows_the_records() {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::open(dir.path(), 1 << 24, 8).unwrap();
        let mut txn = index.write().unwrap();
        apply(&index, &mut txn, &a_commit()).unwrap();
        // Again: nothing is new.
        apply(&index, &mut txn, &a_commit()).unwrap();
        let a = MailboxName::new("a").unwrap();
        let nothing = ListCommit { upsert: vec![], subscribe: vec![], ..a_commit() };
        let less = ListCommit { unsubscribe: vec![a.clone(), a], ..nothing.clone() };
        apply(&index, &mut txn, &less).unwrap();
        let id = MailboxId(Id::new(2, 1));
        apply(&index, &mut txn, &ListCommit { remove: vec![id, id], ..nothing }).unwrap();
        assert_eq!(list_head(&index, &txn, ACCOUNT).unwrap().records, Some(1));
        assert_eq!(load(&index, &txn, ACCOUNT).unwrap().entries.len(), 1);
    }
}
