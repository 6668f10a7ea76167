//! Two stores, and the records that are copied in addition to mail: accounts' records, scripts,
//! annotations, rights, aliases, domains and secrets. For `copy-store`, `backup` and `restore`.
//!
//! An account's record is copied after its mail. Until then, no login or delivery to the account
//! succeeds in the target.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use posthaste_delivery::import::copy_journals;
use posthaste_directory::{
    Account, Directory, copy_acls, copy_annotations, copy_seen, same_acls, same_annotations,
};
use posthaste_mail_model::masked;
use posthaste_store::{
    Compare, DirectoryEntry, DirectoryPages, Engine, LeftOut, Progress, StoreError, TargetIds, Transfer,
    set_directory_entry,
};
use posthaste_store_lmdb::LmdbEngine;

use crate::cluster::{Cluster, SCHEME};
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::private;

/// Accounts and records read at a time.
const PAGE: usize = 256;

/// The way in which a store is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Source. It must exist.
    Read,
    /// Source, as a snapshot of this moment if the engine has snapshots: the embedded engine
    /// does, a cluster does not.
    ReadOneInstant,
    /// Target. A data directory is created if it is missing.
    Write,
}

/// Opens `cassandra://…`, or a data directory.
pub async fn open(config: &Config, place: &str, mode: OpenMode) -> Result<Arc<dyn Engine>> {
    if place.starts_with(SCHEME) {
        return Cluster::at(place, config)?.open().await;
    }
    if place.contains("://") {
        return Err(Failure::Usage(format!(
            "{} is neither a data directory nor a cassandra:// address",
            masked(place)
        )));
    }
    let directory = Path::new(place);
    if mode != OpenMode::Write {
        require(directory)?;
    }
    match mode {
        OpenMode::ReadOneInstant => return Ok(Arc::new(snapshot(config, directory)?)),
        OpenMode::Write => private::tighten_store(directory)?,
        OpenMode::Read => private::tighten(directory)?,
    }
    let engine = LmdbEngine::open(directory, crate::open::embedded(config))?;
    // Its last commits would be missing in a copy. A target would redo them at the first write, and
    // what was read of it before would be wrong.
    match engine.loss() {
        Some(why) => Err(Failure::Usage(format!("{place} was opened without its last commits: {why}"))),
        None => Ok(Arc::new(engine)),
    }
}

/// Opens a store as [`OpenMode::ReadOneInstant`]. Says why it may lack commits that were
/// acknowledged: a part of the embedded engine's log is damaged, or the disk cannot read it.
pub async fn open_instant(config: &Config, place: &str) -> Result<(Arc<dyn Engine>, Option<StoreError>)> {
    if place.contains("://") {
        return Ok((open(config, place, OpenMode::ReadOneInstant).await?, None));
    }
    let engine = snapshot(config, Path::new(place))?;
    let loss = engine.loss().cloned();
    Ok((Arc::new(engine), loss))
}

fn require(directory: &Path) -> Result<()> {
    match directory.join("format").is_file() {
        true => Ok(()),
        false => {
            Err(Failure::Usage(format!("{} does not exist, or is not a data directory", directory.display())))
        }
    }
}

fn snapshot(config: &Config, directory: &Path) -> Result<LmdbEngine> {
    require(directory)?;
    private::tighten(directory)?;
    Ok(LmdbEngine::snapshot(directory, crate::open::embedded(config))?)
}

/// A bar of messages.
pub fn bar(what: &str, total: u64) -> ProgressBar {
    let style = format!("{what} {{wide_bar}} {{human_pos}}/{{human_len}} messages  {{eta}} left");
    let style = ProgressStyle::with_template(&style).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(total).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// The two stores.
pub struct StorePair {
    pub from: Arc<dyn Engine>,
    pub to: Arc<dyn Engine>,
    pub here: Directory,
    pub there: Directory,
}

impl StorePair {
    pub fn new(from: Arc<dyn Engine>, to: Arc<dyn Engine>) -> Result<Self> {
        let (here, there) = (Directory::new(Arc::clone(&from))?, Directory::new(Arc::clone(&to))?);
        Ok(Self { from, to, here, there })
    }

    pub fn transfer(&self) -> Transfer<'_> {
        Transfer::new(&*self.from, &*self.to)
    }

    /// The accounts that are named, or all.
    pub async fn accounts(&self, named: &[String]) -> Result<Vec<Account>> {
        let mut accounts = Vec::new();
        for name in named {
            let account = self.here.account(name).await?;
            let missing = || Failure::Usage(format!("--account {name}: there is no such account to copy"));
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

    /// Messages of accounts.
    pub async fn messages(&self, accounts: &[Account]) -> Result<u64> {
        let mut total = 0;
        for account in accounts {
            total += self.transfer().messages(account.id).await?;
        }
        Ok(total)
    }

    /// Makes an account at the other end the same as here: the same id, mail and record.
    pub async fn mirror(&self, account: &Account, progress: &mut Progress<'_>) -> Result<()> {
        self.mirror_by(&self.transfer(), account, progress).await
    }

    /// Mirrors an account without the messages that this end cannot read, and those that an
    /// earlier run skipped and that can no longer be added. Returns their mailboxes and UIDs.
    pub async fn mirror_readable(
        &self,
        account: &Account,
        progress: &mut Progress<'_>,
    ) -> Result<Vec<LeftOut>> {
        let transfer = self.transfer().leaving_out_damage();
        self.mirror_by(&transfer, account, progress).await?;
        Ok(transfer.left_out(account.id).await?)
    }

    async fn mirror_by(
        &self,
        transfer: &Transfer<'_>,
        account: &Account,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        if let Some(other) = self.there.account(&account.name).await?
            && other.id != account.id
        {
            return Err(Failure::Usage(format!(
                "the other store already has another account named {}; remove it there, or copy the others by \
                 naming each with --account",
                account.name
            )));
        }
        // Before anything is changed.
        transfer.may_copy(account.id).await?;
        let same = TargetIds::with_ids(account.id, std::collections::BTreeMap::new());
        copy_journals(&*self.from, account.id, &*self.to, &same).await?;
        copy_annotations(&*self.from, account.id, &*self.to, &same).await?;
        copy_seen(&*self.from, account.id, &*self.to, &same).await?;
        copy_acls(&*self.from, account, &*self.to, &account.name, &same).await?;
        self.there.scripts().mirror(self.here.scripts(), account.id).await?;
        transfer.copy(account.id, progress).await?;
        self.there.certificates().mirror(self.here.certificates(), &account.name).await?;
        self.copy_account(account).await
    }

    /// Makes an account visible at the other end.
    pub async fn copy_account(&self, account: &Account) -> Result<()> {
        let record = self.from.directory_entry(&format!("account/{}", account.name)).await?;
        match record {
            Some(record) => self.put(&record).await,
            // Removed meanwhile.
            None => Ok(()),
        }
    }

    /// The differences between both ends of a mirrored account, a sentence each.
    pub async fn compare(
        &self,
        account: &Account,
        compare: Compare,
        progress: &mut Progress<'_>,
    ) -> Result<Vec<String>> {
        let found = self.transfer().audit(account.id, compare, progress).await?;
        let mut faults: Vec<String> =
            found.into_iter().map(|fault| format!("{}: {fault}", account.name)).collect();
        let name = format!("account/{}", account.name);
        let (here, there) = (self.from.directory_entry(&name).await?, self.to.directory_entry(&name).await?);
        if here.map(|entry| entry.value) != there.map(|entry| entry.value) {
            faults.push(format!("{}: password or settings differ", account.name));
        }
        if !same_annotations(&*self.from, account.id, &*self.to).await? {
            faults.push(format!("{}: annotations of mailboxes differ", account.name));
        }
        if !same_acls(&*self.from, account.id, &*self.to).await? {
            faults.push(format!("{}: access rights to its mailboxes differ", account.name));
        }
        if !self.there.scripts().are_same_in(self.here.scripts(), account.id).await? {
            faults.push(format!("{}: Sieve scripts differ", account.name));
        }
        if !self.there.certificates().has_all_in(self.here.certificates(), &account.name).await? {
            faults.push(format!("{}: client certificates differ", account.name));
        }
        Ok(faults)
    }

    /// Makes each record of a kind at the other end the same as here.
    pub async fn mirror_records(&self, prefix: &str) -> Result<()> {
        let mut pages = DirectoryPages::new(&*self.from, prefix, PAGE);
        while let Some(page) = pages.next().await? {
            for record in &page {
                self.put(record).await?;
            }
        }
        Ok(())
    }

    /// Removes records of a kind from the other end that are not here.
    pub async fn drop_records(&self, prefix: &str) -> Result<()> {
        let mut pages = DirectoryPages::new(&*self.to, prefix, PAGE);
        while let Some(page) = pages.next().await? {
            for record in &page {
                if self.from.directory_entry(&record.name).await?.is_none() {
                    set_directory_entry(&*self.to, &record.name, None).await?;
                }
            }
        }
        Ok(())
    }

    /// Copies the records of a kind that the other end lacks.
    pub async fn copy_records(&self, prefix: &str) -> Result<()> {
        let mut pages = DirectoryPages::new(&*self.from, prefix, PAGE);
        while let Some(page) = pages.next().await? {
            for record in &page {
                if self.to.directory_entry(&record.name).await?.is_none() {
                    self.put(record).await?;
                }
            }
        }
        Ok(())
    }

    /// Aliases here that belong to one of these accounts, by address.
    pub async fn aliases(&self, of: impl Fn(&str) -> bool) -> Result<Vec<String>> {
        addresses(&self.here, of).await
    }

    /// Aliases there that belong to one of these accounts, by address.
    pub async fn aliases_there(&self, of: impl Fn(&str) -> bool) -> Result<Vec<String>> {
        addresses(&self.there, of).await
    }

    /// Copies aliases, by address.
    pub async fn copy_aliases(&self, addresses: &[String]) -> Result<()> {
        for address in addresses {
            if let Some(record) = self.from.directory_entry(&format!("alias/{address}")).await? {
                self.put(&record).await?;
            }
        }
        Ok(())
    }

    /// Makes a record at the other end the same as here.
    pub async fn put(&self, record: &DirectoryEntry) -> Result<()> {
        Ok(set_directory_entry(&*self.to, &record.name, Some(record.value.clone())).await?)
    }
}

async fn addresses(directory: &Directory, of: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let (mut found, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = directory.aliases().list(after.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.address.clone());
        found.extend(page.into_iter().filter(|alias| of(&alias.account)).map(|alias| alias.address));
    }
}
