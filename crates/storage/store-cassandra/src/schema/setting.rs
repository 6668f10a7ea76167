//! The settings of a keyspace: where its bodies are stored. `init` writes them once.
//!
//! | row of `setting` | value |
//! | --- | --- |
//! | `bodies` | `cassandra` or `s3://BUCKET[/PREFIX]` |
//! | `bodies-owner` | the keyspace's id, which the object `PREFIX/posthaste` holds, too |
//!
//! Bodies do not move with a changed configuration: a server that is configured with another
//! storage is refused.

use posthaste_mail_model::Id;
use posthaste_store::{Result, StoreError};

use crate::bodies::backend::Backend;
use crate::bodies::objects::Objects;
use crate::cluster::connection::Connection;
use crate::options::Options;
use crate::options::body_storage::BodyStorage;

async fn read(connection: &Connection, keyspace: &str, name: &str) -> Result<Option<String>> {
    connection.value(&format!("SELECT value FROM {keyspace}.setting WHERE name = '{name}'")).await
}

/// Names and values are our own words, ids and storages. They cannot contain a quote.
async fn write(connection: &Connection, keyspace: &str, name: &str, value: &str) -> Result<()> {
    connection
        .define(&format!("INSERT INTO {keyspace}.setting (name, value) VALUES ('{name}', '{value}')"))
        .await
}

/// The storage of the keyspace's bodies; `None` if it is not decided yet.
async fn decided(connection: &Connection, keyspace: &str, options: &Options) -> Result<Option<BodyStorage>> {
    let Some(found) = read(connection, keyspace, "bodies").await? else { return Ok(None) };
    let unknown = |why| {
        StoreError::Unavailable(format!("the keyspace {keyspace} says where its bodies are, but: {why}"))
    };
    let found: BodyStorage = found.parse().map_err(unknown)?;
    match &options.bodies {
        Some(configured) if *configured != found => Err(StoreError::Unavailable(format!(
            "the keyspace {keyspace} keeps its bodies in {found}, and `bodies` says {configured}: say {found}, or nothing. To move \
             them, make a keyspace that keeps them in {configured} and copy to it with `posthaste copy-store`"
        ))),
        _ => Ok(Some(found)),
    }
}

fn objects(options: &Options, storage: BodyStorage, owner: Id) -> Result<Backend> {
    Ok(match &storage {
        BodyStorage::Cassandra => Backend::Chunks,
        BodyStorage::S3 { bucket, prefix } => {
            let store = options.s3.open(bucket)?;
            Backend::Objects(Objects::new(store, storage.clone(), prefix, owner))
        }
    })
}

async fn owner(connection: &Connection, keyspace: &str) -> Result<Option<Id>> {
    Ok(read(connection, keyspace, "bodies-owner").await?.and_then(|text| Id::parse(&text)))
}

/// Writes the setting once. A run that was interrupted is completed by the next one. A storage
/// that belongs to another keyspace is refused.
pub(crate) async fn decide_bodies(connection: &Connection, keyspace: &str, options: &Options) -> Result<()> {
    if decided(connection, keyspace, options).await?.is_some() {
        return Ok(());
    }
    let storage = options.bodies.clone().unwrap_or(BodyStorage::Cassandra);
    let owner = match owner(connection, keyspace).await? {
        Some(owner) => owner,
        None => {
            let owner = connection.new_id();
            write(connection, keyspace, "bodies-owner", &owner.to_string()).await?;
            owner
        }
    };
    if let Backend::Objects(objects) = objects(options, storage.clone(), owner)? {
        objects.claim().await?;
    }
    write(connection, keyspace, "bodies", &storage.to_string()).await
}

/// Opens the storage. A storage that does not answer is opened nevertheless, since it may answer
/// later.
pub(crate) async fn open_bodies(
    connection: &Connection,
    keyspace: &str,
    options: &Options,
) -> Result<Backend> {
    let undecided = || {
        StoreError::Unavailable(format!(
            "the keyspace {keyspace} does not say where its bodies are; finish it with `posthaste engine init`"
        ))
    };
    let storage = decided(connection, keyspace, options).await?.ok_or_else(undecided)?;
    if storage == BodyStorage::Cassandra {
        return Ok(Backend::Chunks);
    }
    let owner = owner(connection, keyspace).await?.ok_or_else(undecided)?;
    let bodies = objects(options, storage, owner)?;
    if let Backend::Objects(objects) = &bodies {
        objects.verify_at_start().await?;
    }
    Ok(bodies)
}
