//! Counts the `grant` records that a user has caused.
//!
//! They stay when lists change, so the entries of lists do not bound them: a user could name ever
//! new accounts, one after another. The count is the user's own, and not that of the owner of the
//! mailbox. Who may administer a mailbox of another account uses up nothing of that account.

use posthaste_mail_model::AccountId;
use posthaste_store::{CommitOutcome, DirectoryChange, Engine, set_directory_entry};
use serde::{Deserialize, Serialize};

use crate::error::{DirectoryError, Result};
use crate::record;
use crate::records::TRIES;

/// Accounts that a user names in lists at most, in all mailboxes and one after another. Each has
/// a record that stays.
pub const NAMED_MAX: u64 = 100_000;

/// `sharing/named/<account id>`
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedRecord {
    v: u32,
    /// So many new records at most: a crash or a lost race counts one that was not written.
    grants: u64,
}

fn of(user: AccountId) -> String {
    format!("sharing/named/{user}")
}

/// Counts one more record, before it is written. Returns whether the user may have it.
pub(super) async fn count_one(engine: &dyn Engine, user: AccountId) -> Result<bool> {
    let name = of(user);
    for _ in 0..TRIES {
        let entry = engine.directory_entry(&name).await?;
        let known = entry.as_ref().map(record::parse::<NamedRecord>).transpose()?;
        let grants = known.map_or(0, |known| known.grants);
        if grants >= NAMED_MAX {
            return Ok(false);
        }
        let value = Some(record::print(&name, &NamedRecord { v: record::VERSION, grants: grants + 1 })?);
        let expected = entry.map_or(0, |entry| entry.version);
        let change = DirectoryChange { name: name.clone(), expected, value };
        if engine.directory_commit(change).await? == CommitOutcome::Done {
            return Ok(true);
        }
    }
    Err(DirectoryError::Busy(name))
}

/// Removes the count of a user who is removed.
pub(super) async fn forget(engine: &dyn Engine, user: AccountId) -> Result<()> {
    Ok(set_directory_entry(engine, &of(user), None).await?)
}
