//! The annotations of messages on their way into another store, and out of one.

use std::collections::BTreeMap;

use bytes::Bytes;
use posthaste_mail_model::{AccountId, MailboxId};
use posthaste_store::{DirectoryChange, Engine, Places, set_directory_entry};

use super::{PAGE, of_account, of_mailbox, parts, scan};
use crate::error::Result;

/// Makes what an account keeps of messages in another store, where account and mailboxes are at
/// these places, what it is here. Messages have the same UIDs there.
pub(crate) async fn copy_all(
    from: &dyn Engine,
    account: AccountId,
    to: &dyn Engine,
    places: &Places,
) -> Result<()> {
    let name_there = |mailbox: MailboxId, uid: &str| {
        format!("{}{uid}", of_mailbox(places.account, places.mailbox(mailbox)))
    };
    let mut here = BTreeMap::new();
    scan(from, &of_account(account), |entry| {
        let (mailbox, uid) = parts(account, &entry.name)?;
        here.insert(name_there(mailbox, uid), entry.value.clone());
        Ok(())
    })
    .await?;
    let mut gone = Vec::new();
    scan(to, &of_account(places.account), |entry| {
        if !here.contains_key(&entry.name) {
            gone.push(entry.name.clone());
        }
        Ok(())
    })
    .await?;
    for (name, value) in here {
        set_directory_entry(to, &name, Some(value)).await?;
    }
    for name in gone {
        set_directory_entry(to, &name, None).await?;
    }
    Ok(())
}

/// Whether an account keeps the same in both stores, where it has the same ids.
pub(crate) async fn same_all(from: &dyn Engine, account: AccountId, to: &dyn Engine) -> Result<bool> {
    let (here, there) = (records(from, account).await?, records(to, account).await?);
    Ok(here == there)
}

async fn records(engine: &dyn Engine, account: AccountId) -> Result<BTreeMap<String, Bytes>> {
    let mut found = BTreeMap::new();
    scan(engine, &of_account(account), |entry| {
        found.insert(entry.name.clone(), entry.value.clone());
        Ok(())
    })
    .await?;
    Ok(found)
}

/// Removes all records below a prefix.
pub(super) async fn remove_all(engine: &dyn Engine, prefix: &str) -> Result<()> {
    loop {
        let page = engine.directory_scan(prefix, None, PAGE).await?;
        for entry in &page {
            let (name, expected) = (entry.name.clone(), entry.version);
            // After a conflict with another change, the next page shows the record again.
            engine.directory_commit(DirectoryChange { name, expected, value: None }).await?;
        }
        if page.is_empty() {
            return Ok(());
        }
    }
}
