//! Copies an account's annotations from one store to another.

use std::collections::BTreeMap;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use posthaste_mail_model::AccountId;
use posthaste_store::{Engine, TargetIds, set_directory_entry};

use super::{Annotated, key, scan};
use crate::error::Result;
use crate::message_annotations;

/// Records by their names at the other end.
async fn records(
    engine: &dyn Engine,
    account: AccountId,
    places: &TargetIds,
) -> Result<BTreeMap<String, Bytes>> {
    let mut found = BTreeMap::new();
    scan(engine, account, |of, entry| {
        let of = match of {
            Annotated::Server => Annotated::Server,
            Annotated::Mailbox(mailbox) => Annotated::Mailbox(places.mailbox(mailbox)),
        };
        found.insert(key(places.account, of), entry.value.clone());
        Ok(())
    })
    .await?;
    Ok(found)
}

fn in_place(account: AccountId) -> TargetIds {
    TargetIds::with_ids(account, BTreeMap::new())
}

/// Copies the annotations of an account, its mailboxes and their messages to another store.
/// `places` says which account and mailboxes they have there. Other annotations there are removed.
#[boxed]
pub async fn copy_annotations(
    from: &dyn Engine,
    account: AccountId,
    to: &dyn Engine,
    places: &TargetIds,
) -> Result<()> {
    let here = records(from, account, places).await?;
    let there = records(to, places.account, &in_place(places.account)).await?;
    for (name, value) in &here {
        if there.get(name) != Some(value) {
            set_directory_entry(to, name, Some(value.clone())).await?;
        }
    }
    for name in there.keys().filter(|name| !here.contains_key(*name)) {
        set_directory_entry(to, name, None).await?;
    }
    message_annotations::copy_all(from, account, to, places).await
}

/// Whether an account has the same annotations in both stores, where it has the same ids.
#[boxed]
pub async fn same_annotations(from: &dyn Engine, account: AccountId, to: &dyn Engine) -> Result<bool> {
    let places = in_place(account);
    Ok(records(from, account, &places).await? == records(to, account, &places).await?
        && message_annotations::same_all(from, account, to).await?)
}
