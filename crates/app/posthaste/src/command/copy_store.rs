//! `posthaste copy-store`: accounts and all their mail from one store to another.
//!
//! An account's record comes last: until all its mail is there, nobody can log in to it at the other end, or send it mail.
//! Secrets and domains are copied where the other end has none.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use posthaste_directory::{Account, Directory};
use posthaste_store::{
    CommitOutcome, Compare, DirectoryChange, DirectoryEntry, Engine, StoreError, Transfer,
};
use posthaste_store_cassandra::CassandraEngine;
use posthaste_store_lmdb::LmdbEngine;

use crate::cli::{Common, CopyStore};
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::open::object_store;

/// Accounts and records read at a time.
const PAGE: usize = 256;
/// Differences that are printed.
const FAULTS_SHOWN: usize = 50;

pub async fn run(config: Config, common: &Common, options: CopyStore) -> Result<()> {
    if common.bodies.is_some() {
        return Err(Failure::Usage(
            "each keyspace says itself where its bodies are; leave out --bodies (`posthaste engine init --bodies` decides it)".into(),
        ));
    }
    if options.from == options.to {
        return Err(Failure::Usage("--from and --to name the same store".into()));
    }
    let from = open(&config, &options.from, Side::From).await?;
    let to = open(&config, &options.to, Side::To).await?;
    let job = Job::new(from, to, &options)?;
    let accounts = job.accounts(&options.account).await?;
    let total = job.messages(&accounts).await?;
    let bar = bar("copying", total);
    job.copy_records("secret/").await?;
    job.copy_records("domain/").await?;
    for account in &accounts {
        job.copy_account(account, &bar).await?;
    }
    job.copy_aliases(&accounts, options.account.is_empty()).await?;
    bar.finish_and_clear();
    println!("copied {} accounts with {total} messages; comparing both stores", accounts.len());
    job.audit(&accounts, total).await
}

/// Which end a store is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    From,
    To,
}

/// `cassandra://…`, or a data directory.
async fn open(config: &Config, place: &str, side: Side) -> Result<Arc<dyn Engine>> {
    if place.starts_with("cassandra://") {
        let mut options = posthaste_store_cassandra::Options::from_url(place).map_err(Failure::Usage)?;
        options.s3 = object_store(&config.s3)?;
        return Ok(Arc::new(CassandraEngine::open(options).await?));
    }
    if place.contains("://") {
        return Err(Failure::Usage(format!(
            "{place} is neither a data directory nor a cassandra:// address"
        )));
    }
    let directory = Path::new(place);
    if side == Side::From && !directory.is_dir() {
        return Err(Failure::Usage(format!(
            "{place} is not there; --from names a data directory or a cluster"
        )));
    }
    Ok(Arc::new(LmdbEngine::open(directory, crate::open::embedded())?))
}

fn bar(what: &str, total: u64) -> ProgressBar {
    let style = format!("{what} {{wide_bar}} {{human_pos}}/{{human_len}} messages  {{eta}} left");
    let style = ProgressStyle::with_template(&style).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(total).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Both ends.
struct Job {
    from: Arc<dyn Engine>,
    to: Arc<dyn Engine>,
    here: Directory,
    there: Directory,
    compare: Compare,
}

impl Job {
    fn new(from: Arc<dyn Engine>, to: Arc<dyn Engine>, options: &CopyStore) -> Result<Self> {
        let (here, there) = (Directory::new(Arc::clone(&from))?, Directory::new(Arc::clone(&to))?);
        let compare = if options.skip_bodies { Compare::Summaries } else { Compare::All };
        Ok(Self { from, to, here, there, compare })
    }

    fn transfer(&self) -> Transfer<'_> {
        Transfer::new(&*self.from, &*self.to)
    }

    /// The accounts that are named, or all.
    async fn accounts(&self, named: &[String]) -> Result<Vec<Account>> {
        let mut accounts = Vec::new();
        for name in named {
            let account = self.here.account(name).await?;
            let missing = || Failure::Usage(format!("--account {name}: there is no such account in --from"));
            accounts.push(account.ok_or_else(missing)?);
        }
        while named.is_empty() {
            let after = accounts.last().map(|account: &Account| account.name.clone());
            let page = self.here.accounts(after.as_deref(), PAGE).await?;
            if page.is_empty() {
                break;
            }
            accounts.extend(page);
        }
        Ok(accounts)
    }

    async fn messages(&self, accounts: &[Account]) -> Result<u64> {
        let mut total = 0;
        for account in accounts {
            total += self.transfer().messages(account.id).await?;
        }
        Ok(total)
    }

    async fn copy_account(&self, account: &Account, bar: &ProgressBar) -> Result<()> {
        if let Some(other) = self.there.account(&account.name).await?
            && other.id != account.id
        {
            return Err(Failure::Usage(format!(
                "account {} is in --to already, as another account of that name; remove it there, or copy the others by \
                 naming each with --account",
                account.name
            )));
        }
        self.transfer().copy(account.id, &mut |n| bar.inc(n)).await?;
        let record = self.from.directory_entry(&format!("account/{}", account.name)).await?;
        match record {
            Some(record) => self.put(&record).await,
            // Removed meanwhile.
            None => Ok(()),
        }
    }

    /// Records of a kind that the other end has none of.
    async fn copy_records(&self, prefix: &str) -> Result<()> {
        let mut after = None;
        loop {
            let page = self.from.directory_scan(prefix, after.as_deref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.name.clone());
            for record in &page {
                if self.to.directory_entry(&record.name).await?.is_none() {
                    self.put(record).await?;
                }
            }
        }
    }

    /// Aliases of these accounts.
    async fn copy_aliases(&self, accounts: &[Account], all: bool) -> Result<()> {
        let mut after: Option<String> = None;
        loop {
            let page = self.here.aliases(after.as_deref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.address.clone());
            for alias in page.iter().filter(|a| all || accounts.iter().any(|x| x.name == a.account)) {
                let name = format!("alias/{}", alias.address);
                if let Some(record) = self.from.directory_entry(&name).await? {
                    self.put(&record).await?;
                }
            }
        }
    }

    /// Makes a record at the other end what it is here.
    async fn put(&self, record: &DirectoryEntry) -> Result<()> {
        let there = self.to.directory_entry(&record.name).await?;
        if there.as_ref().is_some_and(|there| there.value == record.value) {
            return Ok(());
        }
        let change = DirectoryChange {
            name: record.name.clone(),
            expected: there.map_or(0, |there| there.version),
            value: Some(record.value.clone()),
        };
        match self.to.directory_commit(change).await? {
            CommitOutcome::Done => Ok(()),
            CommitOutcome::Conflict => Err(StoreError::Busy.into()),
        }
    }

    async fn audit(&self, accounts: &[Account], total: u64) -> Result<()> {
        let bar = bar("comparing", total);
        let mut faults = Vec::new();
        for account in accounts {
            let found = self.transfer().audit(account.id, self.compare, &mut |n| bar.inc(n)).await?;
            faults.extend(found.into_iter().map(|fault| format!("{}: {fault}", account.name)));
            let name = format!("account/{}", account.name);
            let (here, there) =
                (self.from.directory_entry(&name).await?, self.to.directory_entry(&name).await?);
            if here.map(|entry| entry.value) != there.map(|entry| entry.value) {
                faults.push(format!("{}: password or settings are other ones", account.name));
            }
        }
        bar.finish_and_clear();
        faults.iter().take(FAULTS_SHOWN).for_each(|fault| println!("differs: {fault}"));
        if faults.is_empty() {
            println!("both stores hold the same");
            return Ok(());
        }
        Err(Failure::Incomplete(format!(
            "{} differences: the first store was changed meanwhile; stop its servers and run the same command again, \
             which copies what is new",
            faults.len()
        )))
    }
}
