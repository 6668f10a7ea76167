//! Mailbox lists and the directory in the index.
//!
//! A list is one record for its version, one per mailbox and one per subscribed name, so that a
//! change costs the same in an account of ten thousand mailboxes as in one of ten. Keys of `lists`
//! are the account and a tag: 0 version, 1 mailbox (and its id), 2 subscription (and the checksum
//! of the name: names are longer than LMDB's keys may be).

use heed::{RoTxn, RwTxn};
use posthaste_mail_model::{AccountId, MailboxId, MailboxName, ModSeq, UidValidity};
use posthaste_store::{DirectoryChange, DirectoryEntry, ListCommit, MailboxList, Result};
use std::collections::BTreeSet;
use std::ops::Bound;

use crate::index::checksum::sum32;
use crate::index::values::{
    directory_from, directory_value, list_from, list_value, open_value, put_entry, read_entry, seal,
    seed_of_key, unseal,
};
use crate::index::{Index, Indexed, damaged, numbered_key};
use posthaste_store::octets::{Octets, put_counted};

/// Bytes of a directory record's name.
pub(crate) const NAME_MAX: usize = 400;

/// Stands for "every UID" in `expunging`: above every mod-sequence, which has 63 bits.
pub(crate) const ALL_OF_MAILBOX: u64 = u64::MAX;

const TAG_MAILBOX: u8 = 1;
const TAG_SUBSCRIBED: u8 = 2;

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

/// Version and highest UIDVALIDITY of an account's list.
pub(crate) fn version(index: &Index, txn: &RoTxn, account: AccountId) -> Result<(ModSeq, u32)> {
    let Some(value) = index.lists.get(txn, &version_key(account)).indexed()? else {
        return Ok((ModSeq::ZERO, 0));
    };
    list_from(account, value).ok_or_else(damaged(format_args!("mailbox list of account {account}")))
}

/// The names under one subscription key.
fn names_from(key: &[u8], value: &[u8]) -> Option<BTreeSet<MailboxName>> {
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
    (list.version, list.uid_validity_last) = version(index, txn, account)?;
    for item in index.lists.prefix_iter(txn, &account.0.to_bytes()).indexed()? {
        let (key, value) = item.indexed()?;
        let fault = || damaged(format!("entry in the mailbox list of account {account}"));
        match key.get(16) {
            Some(&TAG_MAILBOX) => {
                let entry = unseal(seed_of_key(key), value).and_then(|mut read| read_entry(&mut read));
                list.entries.push(entry.ok_or_else(fault())?);
            }
            Some(&TAG_SUBSCRIBED) => list.subscribed.extend(names_from(key, value).ok_or_else(fault())?),
            // Version and highest UIDVALIDITY, which were read above.
            Some(0) => {}
            _ => return Err(fault()()),
        }
    }
    list.entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(list)
}

/// Every account that has a list, once.
pub(crate) fn accounts(index: &Index, txn: &RoTxn) -> Result<Vec<AccountId>> {
    let mut all = Vec::new();
    for item in index.lists.iter(txn).indexed()? {
        let account =
            item.indexed()?.0.first_chunk().map(|id| AccountId(posthaste_mail_model::Id::from_bytes(*id)));
        let account = account.ok_or_else(damaged("key of a mailbox list"))?;
        if all.last() != Some(&account) {
            all.push(account);
        }
    }
    Ok(all)
}

/// Writes a whole list in the place of what is there, as a rebuild finds it in an old index.
pub(crate) fn put_list(index: &Index, txn: &mut RwTxn, list: &MailboxList) -> Result<()> {
    let there = load(index, txn, list.account)?;
    let gone = |e: &&posthaste_store::MailboxEntry| list.entries.iter().all(|new| new.id != e.id);
    let commit = ListCommit {
        account: list.account,
        expected: there.version,
        version: list.version,
        upsert: list.entries.clone(),
        remove: there.entries.iter().filter(gone).map(|e| e.id).collect(),
        subscribe: list.subscribed.iter().cloned().collect(),
        unsubscribe: there.subscribed.difference(&list.subscribed).cloned().collect(),
        uid_validity_last: list.uid_validity_last.max(there.uid_validity_last),
    };
    apply(index, txn, &commit)
}

/// Gives mailboxes of an account new UIDVALIDITYs, none of which was given before.
pub(crate) fn renew_uid_validity(
    index: &Index,
    txn: &mut RwTxn,
    account: AccountId,
    now_unix_s: u32,
    is_renewed: impl Fn(MailboxId) -> bool,
) -> Result<Vec<MailboxName>> {
    let mut list = load(index, txn, account)?;
    let mut last = list.uid_validity_last.max(now_unix_s);
    let mut renewed = Vec::new();
    for entry in list.entries.iter_mut().filter(|e| is_renewed(e.id)) {
        last = last.saturating_add(1);
        entry.uid_validity = UidValidity::new(last).unwrap_or(entry.uid_validity);
        renewed.push(entry.name.clone());
    }
    if !renewed.is_empty() {
        list.uid_validity_last = last;
        put_list(index, txn, &list)?;
    }
    Ok(renewed)
}

/// Applies a commit whose version was checked.
pub(crate) fn apply(index: &Index, txn: &mut RwTxn, commit: &ListCommit) -> Result<()> {
    let account = commit.account;
    for id in &commit.remove {
        index.lists.delete(txn, &entry_key(account, *id)).indexed()?;
        remove_mailbox(index, txn, *id)?;
    }
    for entry in &commit.upsert {
        let key = entry_key(account, entry.id);
        let mut value = open_value();
        put_entry(&mut value, entry);
        index.lists.put(txn, &key, &seal(seed_of_key(&key), value)).indexed()?;
        index.create_mailbox(txn, entry.id)?;
    }
    for name in &commit.subscribe {
        subscription(index, txn, account, name, |names| names.insert(name.clone()))?;
    }
    for name in &commit.unsubscribe {
        subscription(index, txn, account, name, |names| names.remove(name))?;
    }
    let value = list_value(account, commit.version, commit.uid_validity_last);
    index.lists.put(txn, &version_key(account), &value).indexed()
}

fn subscription(
    index: &Index,
    txn: &mut RwTxn,
    account: AccountId,
    name: &MailboxName,
    change: impl FnOnce(&mut BTreeSet<MailboxName>) -> bool,
) -> Result<()> {
    let key = subscribed_key(account, name);
    let mut names = match index.lists.get(txn, &key).indexed()? {
        Some(value) => {
            names_from(&key, value).ok_or_else(damaged(format_args!("subscriptions of account {account}")))?
        }
        None => BTreeSet::new(),
    };
    if !change(&mut names) {
        return Ok(());
    }
    if names.is_empty() {
        index.lists.delete(txn, &key).indexed()?;
        return Ok(());
    }
    let mut value = open_value();
    for name in &names {
        put_counted(&mut value, name.as_str().as_bytes());
    }
    index.lists.put(txn, &key, &seal(seed_of_key(&key), value)).indexed()
}

/// The mailbox answers `NoMailbox` from now on; what it held is left to maintenance.
fn remove_mailbox(index: &Index, txn: &mut RwTxn, mailbox: MailboxId) -> Result<()> {
    let key = mailbox.0.to_bytes();
    // A damaged head tells nothing of the log.
    if let Ok(Some(stored)) = index.head(txn, mailbox) {
        index.add_dead(txn, stored.logged.places.iter())?;
    }
    index.heads.delete(txn, &key).indexed()?;
    index.due.delete(txn, &key).indexed()?;
    index.removed.put(txn, &key, &[]).indexed()?;
    let note = numbered_key(mailbox, ALL_OF_MAILBOX);
    index.put_set(txn, index.expunging, &note, &posthaste_mail_model::NumSet::new())
}

/// One directory record.
pub(crate) fn directory_entry(index: &Index, txn: &RoTxn, name: &str) -> Result<Option<DirectoryEntry>> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Ok(None);
    }
    let Some(value) = index.directory.get(txn, name.as_bytes()).indexed()? else { return Ok(None) };
    directory_from(name, value).map(Some).ok_or_else(damaged(format_args!("directory record {name}")))
}

/// Directory records by prefix.
pub(crate) fn directory_scan(
    index: &Index,
    txn: &RoTxn,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<DirectoryEntry>> {
    let low = match after {
        Some(after) if after >= prefix => Bound::Excluded(after.as_bytes()),
        _ => Bound::Included(prefix.as_bytes()),
    };
    // LMDB has no empty key to start from.
    let low = if matches!(low, Bound::Included([])) { Bound::Unbounded } else { low };
    let mut found = Vec::new();
    for item in index.directory.range(txn, &(low, Bound::Unbounded)).indexed()?.take(limit) {
        let (key, value) = item.indexed()?;
        if !key.starts_with(prefix.as_bytes()) {
            break;
        }
        let entry = std::str::from_utf8(key).ok().and_then(|name| directory_from(name, value));
        found.push(entry.ok_or_else(damaged(format_args!("directory record under {prefix:?}")))?);
    }
    Ok(found)
}

/// Applies a change whose version was checked.
pub(crate) fn apply_directory(index: &Index, txn: &mut RwTxn, change: &DirectoryChange) -> Result<()> {
    let key = change.name.as_bytes();
    match &change.value {
        Some(content) => {
            let value = directory_value(&change.name, change.expected + 1, content);
            index.directory.put(txn, key, &value).indexed()
        }
        None => index.directory.delete(txn, key).indexed().map(|_| ()),
    }
}
