//! Copies an account's annotations from one store to another.

use std::collections::BTreeMap;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use posthaste_mail_model::AccountId;
use posthaste_store::{DirectoryEntry, Engine, TargetIds, set_directory_entry};

use super::{ANNOTATIONS_MAX, Annotated, MAILBOX_ANNOTATION_BYTES_MAX, key, read, scan};
use crate::error::Result;
use crate::limits::ANNOTATION_BYTES_MAX;
use crate::message_annotations;
use crate::record::over_limits;

/// Records by their names at the other end.
async fn records(
    engine: &dyn Engine,
    account: AccountId,
    places: &TargetIds,
) -> Result<BTreeMap<String, Bytes>> {
    let mut found = BTreeMap::new();
    scan(engine, account, |of, entry| {
        let of = match of {
            Annotated::Server => Some(Annotated::Server),
            Annotated::Mailbox(mailbox) => places.place_of_record(mailbox).map(Annotated::Mailbox),
        };
        let Some(of) = of else { return Ok(()) };
        if places.checks_records() {
            refuse_over_limits(entry)?;
        }
        found.insert(key(places.account, of), entry.value.clone());
        Ok(())
    })
    .await?;
    Ok(found)
}

/// Refuses annotations of a mailbox that no command could have made: all who read the mailbox
/// would have them in memory.
fn refuse_over_limits(entry: &DirectoryEntry) -> Result<()> {
    let annotations = read(entry)?;
    let is_long = annotations.iter().any(|one| one.value.len() > ANNOTATION_BYTES_MAX);
    let is_over = annotations.len() > ANNOTATIONS_MAX || annotations.octets() > MAILBOX_ANNOTATION_BYTES_MAX;
    match is_long || is_over {
        true => Err(over_limits(&entry.name)),
        false => Ok(()),
    }
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
