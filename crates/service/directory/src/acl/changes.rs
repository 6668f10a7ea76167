//! Counts the changes of access control lists, and their entries, for each owner.
//!
//! One read of the count of all changes shows that nothing has changed. After a change, the count
//! of each owner shows whether that owner's lists have changed. So a change by one owner does not
//! cause reads of other owners' lists.

use posthaste_mail_model::AccountId;
use posthaste_store::{CommitOutcome, DirectoryChange, Engine};
use serde::{Deserialize, Serialize};

use super::keys::{prefix, scan};
use super::read::count_in;
use crate::error::Result;
use crate::record;
use crate::records::TRIES;

/// The name of a record whose version counts the changes of all lists.
const ALL: &str = "sharing/changes";
/// After this many changes of an owner, its entries are counted again, because a crash or a lost
/// race loses what one change added. Not more often: each count reads all lists of the owner.
const COUNT_AGAIN_EVERY: u64 = 64;

/// `sharing/of/<account id>`: its version counts the changes of one owner's lists.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnerRecord {
    v: u32,
    /// Entries in all lists of the owner, about.
    entries: usize,
}

fn of(owner: AccountId) -> String {
    format!("sharing/of/{owner}")
}

/// The number of changes of all lists.
pub(super) async fn all(engine: &dyn Engine) -> Result<u64> {
    Ok(engine.directory_entry(ALL).await?.map_or(0, |entry| entry.version))
}

/// The number of changes of an owner's lists.
pub(super) async fn of_owner(engine: &dyn Engine, owner: AccountId) -> Result<u64> {
    Ok(engine.directory_entry(&of(owner)).await?.map_or(0, |entry| entry.version))
}

/// Whether an owner's lists may have this many entries more than they have.
pub(super) async fn has_room(
    engine: &dyn Engine,
    owner: AccountId,
    more: usize,
    limit: usize,
) -> Result<bool> {
    let entry = engine.directory_entry(&of(owner)).await?;
    let noted = entry.as_ref().map(record::parse::<OwnerRecord>).transpose()?;
    // The noted sum may be too high, so it alone refuses nothing.
    match noted {
        Some(noted) if noted.entries + more <= limit => Ok(true),
        _ => Ok(count(engine, owner).await? + more <= limit),
    }
}

/// Counts the entries of an owner's lists.
async fn count(engine: &dyn Engine, owner: AccountId) -> Result<usize> {
    let mut entries = 0;
    scan(engine, &prefix(owner), |entry| {
        entries += count_in(entry)?;
        Ok(())
    })
    .await?;
    Ok(entries)
}

/// The effect of a change on the number of entries.
#[derive(Clone, Copy)]
pub(super) enum Entries {
    /// From one number to another one.
    FromTo(usize, usize),
    /// In more than one list.
    Unknown,
}

/// Counts a change of an owner's lists that was made. After [`TRIES`] conflicts others have
/// counted since: the next check sees it.
pub(super) async fn note(engine: &dyn Engine, owner: AccountId, change: Entries) -> Result<()> {
    let name = of(owner);
    for _ in 0..TRIES {
        let entry = engine.directory_entry(&name).await?;
        let expected = entry.as_ref().map_or(0, |entry| entry.version);
        let noted = entry.as_ref().map(record::parse::<OwnerRecord>).transpose()?;
        let entries = match (noted, change) {
            (Some(noted), Entries::FromTo(from, to)) if expected % COUNT_AGAIN_EVERY != 0 => {
                (noted.entries + to).saturating_sub(from)
            }
            _ => count(engine, owner).await?,
        };
        let value = Some(record::print(&name, &OwnerRecord { v: record::VERSION, entries })?);
        let change = DirectoryChange { name: name.clone(), expected, value };
        if engine.directory_commit(change).await? == CommitOutcome::Done {
            break;
        }
    }
    // Last: a reader that sees this count also sees the one of the owner.
    note_all(engine).await
}

async fn note_all(engine: &dyn Engine) -> Result<()> {
    for _ in 0..TRIES {
        let expected = all(engine).await?;
        let (name, value) = (ALL.to_owned(), Some(bytes::Bytes::new()));
        let change = DirectoryChange { name, expected, value };
        if engine.directory_commit(change).await? == CommitOutcome::Done {
            return Ok(());
        }
    }
    Ok(())
}
