//! The tables, and their creation.
//!
//! | table | partition | rows | written |
//! | --- | --- | --- | --- |
//! | `mailbox` | a mailbox | a static one, chunks, log: below | only conditionally |
//! | `list` | an account | one | only conditionally |
//! | `directory` | one of 64 buckets | records by name | only conditionally |
//! | `summary` | 1,024 UIDs of a mailbox | UID, commit | before the commit that refers to it; removed by the sweep |
//! | `body` | a body | static: length; chunks of 256 KiB by number, or the description of an object | likewise |
//! | `bodyref` | a body | mailbox, UID, commit that (perhaps) refers to it | before the body; removed after it |
//! | `meta` | a name | one | by `init` and `upgrade` |
//! | `setting` | a name | one | by `init`: where bodies are kept |
//! | `lease` | a name | one: which node sweeps, when the last round ended | only conditionally |
//!
//! The static row of a mailbox has its mod-sequence, head, account and fence. Rows of kind 0 are
//! chunks by their lowest UID, and rows of kind 1 the log by mod-sequence.
//!
//! A table is written either by conditional statements or by plain ones, never by both: their
//! timestamps come from different clocks.

pub(crate) mod advice;
pub(crate) mod setting;

use std::collections::BTreeMap;

use posthaste_store::{Result, StoreError};

use crate::cluster::connection::Connection;
use crate::options::Options;

/// The migration of a keyspace to the next version: statements that change its tables. `{k}` is
/// the keyspace. Each may be run twice (`IF NOT EXISTS`), since a migration that was interrupted
/// is run again. Servers of the version before must work with its tables, since they run
/// meanwhile.
type Migration = &'static [&'static str];

/// The migrations: the first leads from version 1 to 2, and so on. A migration that is added here
/// changes [`TABLES`] too, from which new keyspaces are made.
const MIGRATIONS: &[Migration] = &[
    // Bodies may be kept elsewhere. Version 1 kept them in Cassandra.
    &[
        "CREATE TABLE IF NOT EXISTS {k}.setting (name text PRIMARY KEY, value text) WITH gc_grace_seconds = 86400",
        "INSERT INTO {k}.setting (name, value) VALUES ('bodies', 'cassandra')",
    ],
    // One node sweeps for all. Servers of version 2 sweep for themselves, which does no harm.
    &[
        "CREATE TABLE IF NOT EXISTS {k}.lease (name text PRIMARY KEY, holder blob, ended bigint) WITH gc_grace_seconds = 86400",
    ],
    // The sweep replaces fences. Servers of version 3 neither write fences nor compare them.
    &[
        "ALTER TABLE {k}.mailbox ADD IF NOT EXISTS fence blob static",
        "ALTER TABLE {k}.list ADD IF NOT EXISTS fence blob",
        "ALTER TABLE {k}.directory WITH gc_grace_seconds = 864000",
        "ALTER TABLE {k}.mailbox WITH gc_grace_seconds = 864000",
    ],
    // Tables stay. Bodies may have another form, and there are segments of a search index. Some
    // programs of version 4 know neither, and send such bodies to clients as they are stored.
    &[],
    // Removed contents do not come back with a node that was unreachable for days. Servers of
    // version 5 need no change.
    &[
        "ALTER TABLE {k}.summary WITH gc_grace_seconds = 864000",
        "ALTER TABLE {k}.body WITH gc_grace_seconds = 864000",
        "ALTER TABLE {k}.bodyref WITH gc_grace_seconds = 864000",
        "ALTER TABLE {k}.list WITH gc_grace_seconds = 864000",
        "ALTER TABLE {k}.lease WITH gc_grace_seconds = 864000",
        "ALTER TABLE {k}.setting WITH gc_grace_seconds = 864000",
        "ALTER TABLE {k}.meta WITH gc_grace_seconds = 864000",
    ],
    // Tables stay. Messages may have come without items. Programs of version 6 give them wrong
    // sizes and no summaries.
    &[],
    // Tables stay. Bodies may be compressed. Programs of version 7 cannot show them.
    &[],
    // Tables stay. A stored body may take another form. Programs of version 8 may have cached the
    // old form, and would send pieces of the new one as they are stored.
    &[],
    // The mod-sequences with which messages came. Servers of version 9 neither write them nor
    // read them.
    &["ALTER TABLE {k}.summary ADD IF NOT EXISTS created blob"],
];

/// The version of keyspaces that this program makes and works with. It counts changes of tables and
/// values.
const VERSION: i32 = 1 + MIGRATIONS.len() as i32;

/// The time for which tombstones are kept, in seconds: ten days, as Cassandra has it, and within
/// which every node is repaired. A node that was unreachable for longer and was not repaired
/// brings back removed rows. A directory record or a mailbox would be used again. A body without
/// a reference, or a summary of an erased mailbox, would stay for ever: no sweep looks for those.
const GRACE_S: u32 = 10 * 86_400;

const TABLES: [&str; 9] = [
    "meta (name text PRIMARY KEY, value int)",
    "setting (name text PRIMARY KEY, value text)",
    "lease (name text PRIMARY KEY, holder blob, ended bigint)",
    "mailbox (mailbox blob, kind tinyint, low bigint, modseq bigint static, head blob static, account blob static, \
     fence blob static, value blob, PRIMARY KEY (mailbox, kind, low))",
    "list (account blob PRIMARY KEY, version bigint, value blob, fence blob)",
    "directory (bucket int, name text, version bigint, commit blob, value blob, PRIMARY KEY (bucket, name))",
    "summary (mailbox blob, bucket int, uid bigint, commit blob, value blob, created blob, \
     PRIMARY KEY ((mailbox, bucket), uid, commit))",
    "body (body blob, n int, len bigint static, value blob, PRIMARY KEY (body, n))",
    "bodyref (body blob, mailbox blob, uid bigint, commit blob, PRIMARY KEY (body, mailbox, uid, commit))",
];

/// Creates keyspace and tables if they are missing, and decides where bodies are stored.
/// `replicas` applies to a new keyspace only.
pub(crate) async fn init(
    connection: &Connection,
    keyspace: &str,
    replicas: u32,
    options: &Options,
) -> Result<()> {
    connection
        .define(&format!(
            "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
             {{'class': 'NetworkTopologyStrategy', 'replication_factor': {replicas}}}"
        ))
        .await?;
    for table in TABLES {
        connection
            .define(&format!(
                "CREATE TABLE IF NOT EXISTS {keyspace}.{table} WITH gc_grace_seconds = {GRACE_S}"
            ))
            .await?;
    }
    let found = version(connection, keyspace).await?;
    found.map_or(Ok(()), expect_version)?;
    setting::decide_bodies(connection, keyspace, options).await?;
    // Last: a keyspace with a version is complete.
    match found {
        Some(_) => Ok(()),
        None => {
            connection
                .define(&format!("INSERT INTO {keyspace}.meta (name, value) VALUES ('version', {VERSION})"))
                .await
        }
    }
}

/// Upgrades a keyspace to the newest version, step by step. Answers the versions before and
/// after.
pub(crate) async fn upgrade(connection: &Connection, keyspace: &str) -> Result<(i32, i32)> {
    let found = existing_version(connection, keyspace).await?;
    for (step, to) in pending(MIGRATIONS, found)?.iter().zip(found + 1..) {
        for statement in *step {
            connection.define(&statement.replace("{k}", keyspace)).await?;
        }
        let note = format!("INSERT INTO {keyspace}.meta (name, value) VALUES ('version', {to})");
        connection.define(&note).await?;
    }
    Ok((found, VERSION))
}

/// The migrations that a keyspace of this version lacks.
fn pending(steps: &'static [Migration], found: i32) -> Result<&'static [Migration]> {
    let done = usize::try_from(found).ok().and_then(|found| found.checked_sub(1));
    done.and_then(|done| steps.get(done..)).ok_or_else(|| later(found))
}

/// Refuses a keyspace of another program, or of another version.
pub(crate) async fn verify(connection: &Connection, keyspace: &str) -> Result<()> {
    expect_version(existing_version(connection, keyspace).await?)
}

/// Refuses options that name no data centre if the keyspace is in several. A conditional write is
/// decided within the data centre of the node that it reaches. Two that reached different ones
/// would both be applied, and one acknowledged change would hide the other.
pub(crate) async fn verify_datacenter(connection: &Connection, options: &Options) -> Result<()> {
    match connection.replication(&options.keyspace).await? {
        Some((replication, _)) if options.datacenter.is_none() => {
            one_datacenter(&options.keyspace, &replication)
        }
        _ => Ok(()),
    }
}

/// `replication` as in [`advice`]: with `NetworkTopologyStrategy`, copies by data centre.
fn one_datacenter(keyspace: &str, replication: &BTreeMap<String, String>) -> Result<()> {
    let places = replication.keys().filter(|place| *place != "class").map(String::as_str);
    let places: Vec<&str> = places.collect();
    if places.len() < 2 {
        return Ok(());
    }
    Err(StoreError::Unavailable(format!(
        "the keyspace {keyspace} is in the data centres {}: name one in the address (dc=NAME), the same for all servers; \
         changes made in two of them would overwrite each other",
        places.join(", ")
    )))
}

async fn existing_version(connection: &Connection, keyspace: &str) -> Result<i32> {
    match version(connection, keyspace).await {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(not_made(keyspace)),
        Err(StoreError::Unavailable(why)) if why.contains("does not exist") => Err(not_made(keyspace)),
        Err(error) => Err(error),
    }
}

async fn version(connection: &Connection, keyspace: &str) -> Result<Option<i32>> {
    connection.value(&format!("SELECT value FROM {keyspace}.meta WHERE name = 'version'")).await
}

fn expect_version(found: i32) -> Result<()> {
    match found {
        VERSION => Ok(()),
        found if pending(MIGRATIONS, found).is_ok() => Err(StoreError::Unavailable(format!(
            "the keyspace has version {found}, this program works with {VERSION}; run `posthaste engine upgrade`"
        ))),
        found => Err(later(found)),
    }
}

fn later(found: i32) -> StoreError {
    StoreError::Unavailable(format!(
        "the keyspace has version {found}, and this program knows none after {VERSION}: a later Posthaste made or upgraded it; \
         use that one"
    ))
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
    fn several_data_centres_are_refused_without_a_name() {
        let replication = |places: &[&str]| {
            let places = places.iter().map(|place| ((*place).to_owned(), "3".to_owned()));
            places.chain([("class".to_owned(), "x.NetworkTopologyStrategy".to_owned())]).collect()
        };
        assert!(one_datacenter("mail", &replication(&["east"])).is_ok());
        let why = one_datacenter("mail", &replication(&["east", "west"])).map_err(|e| e.to_string());
        assert!(why.is_err_and(|why| why.contains("east, west") && why.contains("dc=NAME")));
    }

    #[test]
    fn steps_that_lack_are_taken_and_later_versions_refused() {
        const THREE: &[Migration] = &[&["one"], &["two", "three"], &["four"]];
        assert_eq!(pending(THREE, 1).ok(), Some(THREE));
        assert_eq!(pending(THREE, 3).ok(), Some(&THREE[2..]));
        assert_eq!(pending(THREE, 4).ok(), Some(&[][..]));
        for unknown in [5, 0, -1] {
            let why = pending(THREE, unknown).map(drop).map_err(|e| e.to_string());
            assert!(why.as_ref().is_err_and(|why| why.contains("later Posthaste")), "{why:?}");
        }
    }
}
