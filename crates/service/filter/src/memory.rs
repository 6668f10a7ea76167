//! The memory of scripts: senders that were answered, and ids of messages that were seen.
//!
//! Each is a record `sieve/<account id>/seen/<hash>` in the directory, so it outlives the server
//! and all nodes share it. Each write also removes some that have expired. Records are
//! named by hashes, so the ones that follow are a random choice, and all are met in time.

use std::fmt::Write as _;

use bytes::Bytes;
use posthaste_directory::records_of;
use posthaste_mail_model::AccountId;
use posthaste_store::{CommitOutcome, DirectoryChange, DirectoryEntry, Engine, StoreError};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const DAY_S: u64 = 86_400;
/// RFC 5230 §4.1: a vacation without `:days` has 7.
pub(crate) const ANSWERED_S: u64 = 7 * DAY_S;
/// RFC 7352 §3.3 leaves it to us: duplicates of a list come within minutes.
pub(crate) const DUPLICATE_S: u64 = 7 * DAY_S;
/// Records looked at for each that is written. One would keep up; more catch up after a rush.
const LOOKED_AT: usize = 4;

/// The version described here.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct ReplyRecord {
    v: u32,
    /// The time in unix seconds.
    at: u64,
    /// From then on it may be removed.
    until: u64,
}

/// One thing that may be remembered.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Key<'k> {
    /// This sender had this reply.
    Answered { key: &'k str, sender: &'k str },
    /// A message with this id came.
    Duplicate { key: &'k str },
}

fn prefix(account: AccountId) -> String {
    format!("{}seen/", records_of(account))
}

impl Key<'_> {
    fn record(self, account: AccountId) -> String {
        let (kind, key, sender) = match self {
            Key::Answered { key, sender } => ("answered", key, sender.to_lowercase()),
            Key::Duplicate { key } => ("duplicate", key, String::new()),
        };
        let mut hash = Sha256::new();
        for part in [kind, key, &sender] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let mut name = prefix(account);
        for byte in &hash.finalize()[..16] {
            let _ = write!(name, "{byte:02x}");
        }
        name
    }
}

fn read(entry: &DirectoryEntry) -> Option<ReplyRecord> {
    serde_json::from_slice(&entry.value).ok().filter(|seen: &ReplyRecord| seen.v == VERSION)
}

/// Whether something was remembered within this many seconds; without a number, until it expires.
fn holds(entry: &DirectoryEntry, now: u64, within: Option<u64>) -> bool {
    let Some(seen) = read(entry) else { return false };
    within.map_or(seen.until, |within| seen.at.saturating_add(within)) > now
}

/// Whether something is remembered.
pub(crate) async fn has(
    engine: &dyn Engine,
    account: AccountId,
    key: Key<'_>,
    now: u64,
    within: Option<u64>,
) -> Result<bool, StoreError> {
    let entry = engine.directory_entry(&key.record(account)).await?;
    Ok(entry.is_some_and(|entry| holds(&entry, now, within)))
}

/// Remembers something for this many seconds. False if it is remembered already, by another
/// delivery at the same time perhaps: of two, one alone gets true.
pub(crate) async fn remember(
    engine: &dyn Engine,
    account: AccountId,
    key: Key<'_>,
    now: u64,
    seconds: u64,
) -> Result<bool, StoreError> {
    let name = key.record(account);
    let entry = engine.directory_entry(&name).await?;
    // `duplicate :last` counts from the latest message (RFC 7352 §3.3).
    let is_renewed = matches!(key, Key::Duplicate { .. });
    if !is_renewed && entry.as_ref().is_some_and(|entry| holds(entry, now, Some(seconds))) {
        return Ok(false);
    }
    let seen = ReplyRecord { v: VERSION, at: now, until: now.saturating_add(seconds) };
    let value = serde_json::to_vec(&seen).map_err(|e| StoreError::Corrupt(e.to_string()))?;
    let expected = entry.map_or(0, |entry| entry.version);
    let change = DirectoryChange { name: name.clone(), expected, value: Some(Bytes::from(value)) };
    let done = engine.directory_commit(change).await? == CommitOutcome::Done;
    for old in engine.directory_scan(&prefix(account), Some(&name), LOOKED_AT).await? {
        if read(&old).is_none_or(|seen| seen.until <= now) {
            let change = DirectoryChange { name: old.name, expected: old.version, value: None };
            engine.directory_commit(change).await?;
        }
    }
    Ok(done)
}

/// Forgets a record of this time, because its action failed. An error is ignored: the record
/// expires.
pub(crate) async fn forget(
    engine: &dyn Engine,
    account: AccountId,
    key: Key<'_>,
    at: u64,
) -> Result<(), StoreError> {
    let Some(entry) = engine.directory_entry(&key.record(account)).await? else { return Ok(()) };
    if read(&entry).is_some_and(|seen| seen.at == at) {
        let change = DirectoryChange { name: entry.name, expected: entry.version, value: None };
        engine.directory_commit(change).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Id;
    use posthaste_store::MemoryEngine;

    use super::*;

    /// RFC 7352 §3.3: with `:last` the time begins again with each message. The interpreter calls
    /// this only if the time must begin again.
    #[tokio::test]
    async fn the_time_of_a_duplicate_begins_again_and_that_of_an_answer_does_not() {
        let (engine, account) = (MemoryEngine::new(), AccountId(Id::new(1, 1)));
        let duplicate = Key::Duplicate { key: "id" };
        let answered = Key::Answered { key: "id", sender: "bo@b.test" };
        for (key, is_renewed) in [(duplicate, true), (answered, false)] {
            assert!(remember(&engine, account, key, 1_000, 100).await.unwrap());
            assert_eq!(remember(&engine, account, key, 1_090, 100).await.unwrap(), is_renewed);
            assert_eq!(has(&engine, account, key, 1_150, Some(100)).await.unwrap(), is_renewed);
        }
    }

    #[tokio::test]
    async fn what_is_forgotten_is_that_of_one_time() {
        let (engine, account) = (MemoryEngine::new(), AccountId(Id::new(1, 1)));
        let key = Key::Answered { key: "id", sender: "bo@b.test" };
        assert!(remember(&engine, account, key, 1_000, 100).await.unwrap());
        forget(&engine, account, key, 999).await.unwrap();
        assert!(has(&engine, account, key, 1_000, None).await.unwrap());
        forget(&engine, account, key, 1_000).await.unwrap();
        assert!(!has(&engine, account, key, 1_000, None).await.unwrap());
        forget(&engine, account, key, 1_000).await.unwrap();
    }
}
