//! A data directory opened: engine, store, accounts and the way in for mail.

use std::sync::Arc;

use posthaste_delivery::{Delivery, DeliveryOptions};
use posthaste_directory::{Account, Directory};
use posthaste_store::{Engine, Report, Store, StoreOptions};
use posthaste_store_cassandra::CassandraEngine;
use posthaste_store_lmdb::{EngineLock, LmdbEngine, Options};

use crate::config::Config;
use crate::failure::{Failure, Result};

/// Everything that commands work with.
pub struct Opened {
    pub store: Store,
    pub directory: Arc<Directory>,
    pub delivery: Delivery,
}

impl Opened {
    /// An account that must be there.
    pub async fn found(&self, name: &str) -> Result<Account> {
        self.directory.account(name).await?.ok_or_else(|| {
            Failure::Usage(format!("there is no account {name}; `posthaste account list` names them all"))
        })
    }
}

/// The cluster that the configuration names; `None` for the embedded engine.
pub fn cluster(config: &Config) -> Result<Option<posthaste_store_cassandra::Options>> {
    match config.engine.as_str() {
        "embedded" => Ok(None),
        url => posthaste_store_cassandra::Options::from_url(url).map(Some).map_err(Failure::Usage),
    }
}

/// Opens the engine; makes the data directory if it is embedded there.
pub async fn create(config: &Config) -> Result<Opened> {
    let engine: Arc<dyn Engine> = match cluster(config)? {
        Some(options) => Arc::new(CassandraEngine::open(options).await?),
        None => Arc::new(LmdbEngine::open(&config.data, Options::default())?),
    };
    let cache_bytes = usize::try_from(config.store.cache.as_u64()).unwrap_or(usize::MAX);
    let store = Store::new(engine.clone(), StoreOptions { cache_bytes, ..StoreOptions::default() });
    let directory = Arc::new(Directory::new(engine)?);
    let options = DeliveryOptions { message_len_max: config.limits.message_size.as_u64() };
    let delivery = Delivery::new(store.clone(), Arc::clone(&directory), options);
    Ok(Opened { store, directory, delivery })
}

/// Opens a cluster, or a data directory that must be there.
pub async fn existing(config: &Config) -> Result<Opened> {
    if cluster(config)?.is_none() && !config.data.is_dir() {
        return Err(Failure::Usage(format!(
            "{} is not there; name the data directory with --data, or make it with `posthaste serve` or \
             `posthaste account add`",
            config.data.display()
        )));
    }
    create(config).await
}

/// Builds the index anew from the packs.
pub fn rebuild(config: &Config) -> Result<Report> {
    if cluster(config)?.is_some() {
        return Err(Failure::Usage("only the embedded engine has an index that is built anew".into()));
    }
    let lock = EngineLock::acquire(&config.data)?;
    Ok(posthaste_store_lmdb::rebuild(&lock, &Options::default(), &posthaste_delivery::summarize)?)
}
