//! An open data directory: engine, store, accounts and delivery.

use std::sync::Arc;

use posthaste_authentication::DomainKeys;
use posthaste_delivery::{Conversions, Delivery, DeliveryOptions, LongWork, Quota, Renewals};
use posthaste_directory::{Account, Directory};
use posthaste_mail_model::masked;
use posthaste_net::ByteBudget;
use posthaste_store::{Engine, Report, Serve, Store, StoreError, StoreOptions};
use posthaste_store_lmdb::{EngineLock, LmdbEngine, Options, Rebuild};

use crate::cluster::Cluster;
use crate::config::{Auto, Config};
use crate::failure::{Failure, Result};
use crate::logging;
use crate::memory::Plan;
use crate::private;

/// The divisor of `store.cache` that gives the part for converted messages. On a machine where it
/// is 256 MiB, that is some hundred of them, more than are read at a time.
const SERVED_SHARE: usize = 8;
/// The ways to switch on mail for other domains.
pub const TO_RELAY: &str = "`posthaste domain add NAME` sets a domain up, or set `relay.enabled`";

/// Everything that commands work with.
pub struct Opened {
    pub store: Store,
    pub directory: Arc<Directory>,
    pub delivery: Delivery,
    /// Gives new UIDs to mail that an earlier version converted in another way.
    pub renewals: Renewals,
}

impl Opened {
    /// Whether mail for other domains is taken: as `relay.enabled` says. If it says `auto`: whether
    /// a relay domain is named, or a domain has keys.
    pub async fn relays(&self, config: &Config) -> Result<bool> {
        match config.relay.enabled {
            Auto::Is(is_on) => Ok(is_on),
            Auto::Auto => {
                let is_named = config.relay.relay_domains().next().is_some();
                Ok(is_named || DomainKeys::any(&**self.store.engine()).await?)
            }
        }
    }

    /// An account that must be there.
    pub async fn found(&self, name: &str) -> Result<Account> {
        self.directory.account(name).await?.ok_or_else(|| {
            Failure::Usage(format!("there is no account {name}; `posthaste account list` names them all"))
        })
    }
}

/// The cluster that the configuration names; `None` for the embedded engine.
pub fn cluster(config: &Config) -> Result<Option<Cluster>> {
    let bodies = (!config.bodies.is_empty()).then_some(&config.bodies);
    if config.engine == "embedded" {
        return match bodies {
            Some(bodies) => Err(Failure::Usage(format!(
                "`bodies` is {}, but the embedded engine keeps bodies in its own packs; leave it out, or name a \
                 cluster with --engine",
                masked(bodies)
            ))),
            None => Ok(None),
        };
    }
    Cluster::configured(config).map(Some)
}

/// The options with which every command opens the embedded engine.
pub fn embedded(config: &Config) -> Options {
    Options {
        on_dead_index: end_process,
        map_bytes: config.store.index_map_bytes(),
        ..Options::new(posthaste_delivery::summarize_stored)
    }
}

/// Ends the process when it can no longer use the index: no read and no write would succeed
/// again. The service manager starts it again.
fn end_process(why: &StoreError) {
    logging::flush();
    eprintln!("posthaste: {why}");
    std::process::exit(1);
}

/// Opens the engine while a server may run; makes the data directory if it is embedded
/// there.
pub async fn create(config: &Config) -> Result<Opened> {
    if cluster(config)?.is_none() {
        private::tighten_store(&config.data)?;
    }
    // A command opens one mailbox after the other: it reads each of them, however large.
    open(config, usize::MAX, |options| LmdbEngine::open(&config.data, options)).await
}

/// Opens the engine for the server that holds the lock.
pub async fn serving(config: &Config, lock: Arc<EngineLock>) -> Result<Opened> {
    if let Some(cluster) = cluster(config)? {
        for advice in cluster.advice().await? {
            tracing::warn!("{advice}");
        }
    }
    let open_views_bytes = usize::try_from(Plan::of(config).open_views).unwrap_or(usize::MAX);
    open(config, open_views_bytes, |options| LmdbEngine::serve(lock, options)).await
}

async fn open(
    config: &Config,
    open_views_bytes: usize,
    embedded_engine: impl FnOnce(Options) -> posthaste_store::Result<LmdbEngine>,
) -> Result<Opened> {
    let engine: Arc<dyn Engine> = match cluster(config)? {
        Some(cluster) => cluster.open().await?,
        None => {
            posthaste_store_lmdb::report_fault_signals(&config.data);
            Arc::new(embedded_engine(embedded(config))?)
        }
    };
    let plan = Plan::of(config);
    let cache_bytes = usize::try_from(plan.cache).unwrap_or(usize::MAX);
    let served_bytes = cache_bytes / SERVED_SHARE;
    let summaries = ByteBudget::new(usize::try_from(plan.summaries).unwrap_or(usize::MAX));
    let limits = &config.limits;
    let long_work = LongWork::new();
    let conversions = Conversions::new(summaries.clone()).with_precompute(config.store.precompute);
    let conversions = Arc::new(conversions.with_long_work(long_work.clone()));
    let store_options = StoreOptions {
        cache_bytes: cache_bytes - served_bytes,
        served_bytes,
        old_views_bytes: usize::try_from(plan.old_views).unwrap_or(usize::MAX),
        open_views_bytes,
        serve: Arc::clone(&conversions) as Arc<dyn Serve>,
        folder_messages_max: (limits.folder_messages_max > 0).then_some(limits.folder_messages_max),
        ..StoreOptions::default()
    };
    let store = Store::new(engine.clone(), store_options);
    let directory = Arc::new(Directory::with_policy(engine, config.login.policy())?);
    directory.share_domains(config.relay.relay_domains());
    let limit = |most: u64| (most > 0).then_some(most);
    let options = DeliveryOptions {
        message_len_max: limits.message_len(),
        quota: Quota { bytes: limit(limits.account_size.as_u64()), messages: limit(plan.account_messages) },
        folder_messages_warn: limits.folder_messages_warn,
        format: config.store.format_settings(),
        precompute: config.store.precompute,
        compress: config.store.compression(),
    };
    let delivery = Delivery::new(store.clone(), Arc::clone(&directory), options)
        .with_summaries(summaries)
        .with_long_work(long_work)
        .with_finished(ByteBudget::new(usize::try_from(plan.finished).unwrap_or(usize::MAX)));
    let renewals = Renewals::begin(&delivery, &conversions);
    Ok(Opened { store, directory, delivery, renewals })
}

/// Opens a cluster, or a data directory that must be there.
pub async fn existing(config: &Config) -> Result<Opened> {
    if cluster(config)?.is_none() && !config.data.is_dir() {
        return Err(Failure::Usage(format!(
            "{} does not exist; name the data directory with --data, or make it with `posthaste serve` or \
             `posthaste account add`",
            config.data.display()
        )));
    }
    create(config).await
}

/// Makes the index again from the packs. `progress`: the share done.
pub fn rebuild(config: &Config, mode: Rebuild, progress: &mut dyn FnMut(f64)) -> Result<Report> {
    if cluster(config)?.is_some() {
        return Err(Failure::Usage("only the embedded engine has an index that can be made again".into()));
    }
    private::tighten_store(&config.data)?;
    let lock = EngineLock::acquire(&config.data)?;
    Ok(posthaste_store_lmdb::rebuild(&lock, &embedded(config), mode, progress)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_engine_keeps_bodies_itself() {
        let config = Config { bodies: "s3://u:SECRET@mail".into(), ..Config::default() };
        let refusal = cluster(&config).unwrap_err().to_string();
        assert!(refusal.contains("name a cluster with --engine") && !refusal.contains("SECRET"), "{refusal}");
        assert!(cluster(&Config::default()).unwrap().is_none());
    }
}
