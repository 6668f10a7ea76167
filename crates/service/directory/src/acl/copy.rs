//! Copies an account's access control lists from one store to another.

use std::collections::BTreeMap;

use async_recursion::async_recursion as boxed;
use posthaste_mail_model::{AccountId, Rights};
use posthaste_store::{CopiedRecords, Engine, TargetIds, set_directory_entry};

use super::changes::{Entries, note};
use super::keys::{key, mailbox_of, prefix, scan};
use super::{ACCOUNT_ENTRIES_MAX, ACL_ENTRIES_MAX, Acl, Identifier, Who, grant};
use crate::account::Account;
use crate::error::Result;

/// Lists by the names of their records at the other end.
async fn lists(engine: &dyn Engine, account: AccountId, places: &TargetIds) -> Result<BTreeMap<String, Acl>> {
    let mut found = BTreeMap::new();
    scan(engine, &prefix(account), |entry| {
        let place = mailbox_of(account, &entry.name).and_then(|mailbox| places.place_of_record(mailbox));
        if let Some(place) = place {
            // A list without entries equals no list.
            let acl = Some(Acl::read(entry)?).filter(|acl| !acl.is_empty());
            found.extend(acl.map(|acl| (key(places.account, place), acl)));
        }
        Ok(())
    })
    .await?;
    Ok(found)
}

/// Leaves out what may be forged, as SETACL would refuse it: lists beyond the bounds and, if only
/// one account is copied, entries that give everybody rights. Returns the number of entries.
fn leave_out_forged(lists: &mut BTreeMap<String, Acl>, places: &TargetIds) -> usize {
    if !places.checks_records() {
        return 0;
    }
    let everybody = Identifier { who: Who::Anyone, negative: false };
    let (mut kept, mut left_out) = (0, 0);
    lists.retain(|_, acl| {
        let had = acl.len();
        if places.records == CopiedRecords::OfListedAndOwn {
            acl.set(&everybody, Rights::NONE);
        }
        let has = acl.len();
        if has > ACL_ENTRIES_MAX || kept + has > ACCOUNT_ENTRIES_MAX {
            left_out += had;
            return false;
        }
        (kept, left_out) = (kept + has, left_out + had - has);
        has > 0
    });
    left_out
}

fn in_place(account: AccountId) -> TargetIds {
    TargetIds::with_ids(account, BTreeMap::new())
}

/// Makes the lists of an account in another store, where it has this name and is at these places,
/// the same as here. Rights that other accounts have here, they have there. Returns the number of
/// entries that were left out, as they may be forged.
#[boxed]
pub async fn copy_acls(
    from: &dyn Engine,
    account: &Account,
    to: &dyn Engine,
    name: &str,
    places: &TargetIds,
) -> Result<usize> {
    let mut here = lists(from, account.id, places).await?;
    let left_out = leave_out_forged(&mut here, places);
    let there = lists(to, places.account, &in_place(places.account)).await?;
    if here == there {
        return Ok(left_out);
    }
    let owner = Account { id: places.account, name: name.to_owned(), ..account.clone() };
    for (record, acl) in &here {
        for who in acl.named() {
            let (key, value) = grant(who, &owner)?;
            set_directory_entry(to, &key, Some(value)).await?;
        }
        if there.get(record) != Some(acl) {
            set_directory_entry(to, record, Some(acl.print(record)?)).await?;
        }
    }
    for record in there.keys().filter(|record| !here.contains_key(*record)) {
        set_directory_entry(to, record, None).await?;
    }
    note(to, places.account, Entries::Unknown).await?;
    Ok(left_out)
}

/// Whether an account has the same lists in both stores, where it has the same ids.
#[boxed]
pub async fn same_acls(from: &dyn Engine, account: AccountId, to: &dyn Engine) -> Result<bool> {
    let places = in_place(account);
    Ok(lists(from, account, &places).await? == lists(to, account, &places).await?)
}
