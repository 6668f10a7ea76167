//! The tables, and the making of them.
//!
//! | table | partition | rows | written |
//! | --- | --- | --- | --- |
//! | `mailbox` | a mailbox | static: mod-sequence, head, account; kind 0: chunks by lowest UID; kind 1: log by mod-sequence | conditionally alone |
//! | `list` | an account | one | conditionally alone |
//! | `directory` | one of 64 buckets | records by name | conditionally alone |
//! | `summary` | 1,024 UIDs of a mailbox | UID, commit | before the commit that refers to it; removed by the sweep |
//! | `body` | a body | static: length; chunks of 256 KiB by number | likewise |
//! | `bodyref` | a body | mailbox, UID, commit that (perhaps) refers to it | before the body; removed after it |
//! | `meta` | a name | one | by `init` |
//!
//! A table is written either by conditional statements or by plain ones, never by both: their timestamps come from
//! different clocks.

use posthaste_store::{Result, StoreError};

use crate::session::Database;

/// Counts incompatible changes of tables and values.
pub(crate) const VERSION: i32 = 1;

/// UIDs in one partition of `summary`: about 1 MiB at 1 KiB a summary, so that a page of a listing is one read.
pub(crate) const SUMMARY_BUCKET: u32 = 1024;

/// Buckets of the directory: at 10 million records of 1 KiB a bucket holds 160 MB, at which Cassandra begins to sigh;
/// more buckets make each listing of accounts ask more partitions.
pub(crate) const DIRECTORY_BUCKETS: u32 = 64;

/// Tombstones are kept for a day, not ten: every node must be repaired, or have been down, within it.
const TABLES: [&str; 7] = [
    "meta (name text PRIMARY KEY, value int)",
    "mailbox (mailbox blob, kind tinyint, low bigint, modseq bigint static, head blob static, account blob static, \
     value blob, PRIMARY KEY (mailbox, kind, low))",
    "list (account blob PRIMARY KEY, version bigint, value blob)",
    "directory (bucket int, name text, version bigint, commit blob, value blob, PRIMARY KEY (bucket, name))",
    "summary (mailbox blob, bucket int, uid bigint, commit blob, value blob, PRIMARY KEY ((mailbox, bucket), uid, commit))",
    "body (body blob, n int, len bigint static, value blob, PRIMARY KEY (body, n))",
    "bodyref (body blob, mailbox blob, uid bigint, commit blob, PRIMARY KEY (body, mailbox, uid, commit))",
];

/// A keyspace name is put into statements as it is: letters, digits and `_` only, at most 48, as Cassandra has it.
pub(crate) fn keyspace_is_valid(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= 48
        && bytes.next().is_some_and(|b| b.is_ascii_lowercase())
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// Makes keyspace and tables where they are missing. `replicas` counts for a keyspace that is new.
pub(crate) async fn init(database: &Database, keyspace: &str, replicas: u32) -> Result<()> {
    database
        .define(&format!(
            "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
             {{'class': 'NetworkTopologyStrategy', 'replication_factor': {replicas}}}"
        ))
        .await?;
    for table in TABLES {
        database
            .define(&format!("CREATE TABLE IF NOT EXISTS {keyspace}.{table} WITH gc_grace_seconds = 86400"))
            .await?;
    }
    match version(database, keyspace).await? {
        None => {
            database
                .define(&format!("INSERT INTO {keyspace}.meta (name, value) VALUES ('version', {VERSION})"))
                .await
        }
        Some(found) => expect_version(found),
    }
}

/// Refuses a keyspace that is not one of ours, or of another version.
pub(crate) async fn verify(database: &Database, keyspace: &str) -> Result<()> {
    match version(database, keyspace).await {
        Ok(Some(found)) => expect_version(found),
        Ok(None) => Err(not_made(keyspace)),
        Err(StoreError::Unavailable(why)) if why.contains("does not exist") => Err(not_made(keyspace)),
        Err(error) => Err(error),
    }
}

async fn version(database: &Database, keyspace: &str) -> Result<Option<i32>> {
    database.number(&format!("SELECT value FROM {keyspace}.meta WHERE name = 'version'")).await
}

fn expect_version(found: i32) -> Result<()> {
    if found == VERSION {
        return Ok(());
    }
    Err(StoreError::Unavailable(format!("the keyspace has version {found}, this program wants {VERSION}")))
}

fn not_made(keyspace: &str) -> StoreError {
    StoreError::Unavailable(format!(
        "the keyspace {keyspace} holds no mail store; make it with `posthaste engine init`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyspace_names() {
        for (name, valid) in [
            ("mail", true),
            ("m_2", true),
            ("", false),
            ("2m", false),
            ("a b", false),
            ("Mail", false),
            ("a;b", false),
        ] {
            assert_eq!(keyspace_is_valid(name), valid, "{name}");
        }
        assert!(!keyspace_is_valid(&"a".repeat(49)));
    }
}
