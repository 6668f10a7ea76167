//! Copies the annotations of an account's messages from one store to another, for all accounts that
//! keep some. Those accounts have the same ids in both stores, except the owner.

use std::collections::BTreeMap;

use bytes::Bytes;
use posthaste_mail_model::{AccountId, MailboxId};
use posthaste_store::{CopiedRecords, Engine, TargetIds, set_directory_entry};

use super::keepers::{mailbox_of, name_of, of_owner, parse, print, remove_all};
use super::{
    Keeping, MESSAGE_ANNOTATION_BYTES_MAX, MESSAGE_ANNOTATIONS_MAX, MESSAGE_BYTES_MAX, MessageAnnotations,
    scan, uid_of, unreadable,
};
use crate::error::Result;
use crate::record::over_limits;

/// The accounts that keep values, for each mailbox.
type Keepers = BTreeMap<MailboxId, Vec<AccountId>>;

async fn keepers(engine: &dyn Engine, owner: AccountId) -> Result<Keepers> {
    let mut all = Keepers::new();
    scan(engine, &of_owner(owner), |entry| {
        all.insert(mailbox_of(owner, &entry.name)?, parse(entry)?);
        Ok(())
    })
    .await?;
    Ok(all)
}

async fn records(engine: &dyn Engine, keeping: Keeping) -> Result<BTreeMap<u32, Bytes>> {
    let (prefix, mut found) = (keeping.prefix(), BTreeMap::new());
    scan(engine, &prefix, |entry| {
        found.insert(uid_of(&prefix, &entry.name)?, entry.value.clone());
        Ok(())
    })
    .await?;
    Ok(found)
}

/// Refuses values of a message that no command could have made: all who read the message would
/// have them in memory.
fn refuse_over_limits(record: &str, value: &Bytes) -> Result<()> {
    let values = MessageAnnotations::parse(value).ok_or_else(|| unreadable(record))?;
    let is_long = values.iter().any(|(_, _, value)| value.len() > MESSAGE_ANNOTATION_BYTES_MAX);
    match is_long || values.len() > MESSAGE_ANNOTATIONS_MAX || values.octets() > MESSAGE_BYTES_MAX {
        true => Err(over_limits(record)),
        false => Ok(()),
    }
}

/// Makes what is kept of the messages of an account in another store, where account and mailboxes
/// are at these places, what it is here. Messages have the same UIDs there.
pub(crate) async fn copy_all(
    from: &dyn Engine,
    account: AccountId,
    to: &dyn Engine,
    places: &TargetIds,
) -> Result<()> {
    let keeper_there = |keeper| if keeper == account { places.account } else { keeper };
    let is_copied =
        |keeper: &AccountId| *keeper == account || places.records != CopiedRecords::OfListedAndOwn;
    let here = keepers(from, account).await?;
    let mut there = keepers(to, places.account).await?;
    for (mailbox, mut keepers) in here {
        let Some(place) = places.place_of_record(mailbox) else { continue };
        keepers.retain(is_copied);
        let names: Vec<AccountId> = keepers.iter().map(|keeper| keeper_there(*keeper)).collect();
        for removed in there.remove(&place).unwrap_or_default() {
            if !names.contains(&removed) {
                let removed = Keeping { keeper: removed, owner: places.account, mailbox: place };
                remove_all(to, &removed.prefix()).await?;
            }
        }
        set_directory_entry(to, &name_of(places.account, place), Some(print(&names))).await?;
        for (keeper, name) in keepers.into_iter().zip(names) {
            let kept = Keeping { keeper, owner: account, mailbox };
            let here = records(from, kept).await?;
            if places.checks_records() {
                here.iter().try_for_each(|(uid, value)| refuse_over_limits(&kept.record(*uid), value))?;
            }
            let at = Keeping { keeper: name, owner: places.account, mailbox: place };
            let there = records(to, at).await?;
            for (uid, value) in &here {
                if there.get(uid) != Some(value) {
                    set_directory_entry(to, &at.record(*uid), Some(value.clone())).await?;
                }
            }
            for uid in there.keys().filter(|uid| !here.contains_key(*uid)) {
                set_directory_entry(to, &at.record(*uid), None).await?;
            }
        }
    }
    for (mailbox, keepers) in there {
        for keeper in keepers {
            remove_all(to, &Keeping { keeper, owner: places.account, mailbox }.prefix()).await?;
        }
        set_directory_entry(to, &name_of(places.account, mailbox), None).await?;
    }
    Ok(())
}

/// Whether the same is kept of the messages of an account in both stores, where it has the same
/// ids.
pub(crate) async fn same_all(from: &dyn Engine, account: AccountId, to: &dyn Engine) -> Result<bool> {
    let here = keepers(from, account).await?;
    if here != keepers(to, account).await? {
        return Ok(false);
    }
    for (mailbox, keepers) in here {
        for keeper in keepers {
            let keeping = Keeping { keeper, owner: account, mailbox };
            if records(from, keeping).await? != records(to, keeping).await? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
