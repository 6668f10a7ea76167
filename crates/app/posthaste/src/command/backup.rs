//! `posthaste backup`: accounts and all their mail into a directory, while a server may run.
//!
//! A backup is a store of the embedded engine, so that every command can read it, and a server can
//! serve it. Each run copies what changed. Three kinds of directory records, in JSON, make it a
//! backup:
//!
//! - `backup/run`: the last run. `begun` is its instant in unix milliseconds, later than that of
//!   any earlier run. `whole`: it was for all accounts. `done`: it finished.
//! - `backup/whole`: the last run of all accounts. A run of some accounts does not change it.
//!   `begun` and `done` are as above. `marked`: each of its accounts has its instant as `run`.
//! - `backup/account/<name>`: `id` is the account. `run` is the last run that it was part of, and
//!   `taken` the last run that copied it completely, both as `begun`.
//!
//! An account whose `run` is later than its `taken` may be half copied. The accounts whose `run` is
//! that of the last whole run, or later, are the backup's one state; others were removed before it.
//!
//! From the embedded engine, all accounts of a run are copied as they were at one instant: see
//! `LmdbEngine::snapshot`. A cluster has no such instant. There each mailbox is copied as it was at
//! one moment of the run. It is copied again until it compares equal.
//!
//! An account that was removed from the store stays in its backup, but is not part of a later run.
//! Mail that waits to be sent is in the backup, and is held: nothing is sent a second time
//! automatically.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use posthaste_directory::Account;
use posthaste_queue::{CopiedItems, QueueError, compare_queues, copy_queue};
use posthaste_store::{Compare, Engine, LeftOut, StoreError, set_directory_entry};
use posthaste_store_lmdb::EngineLock;
use serde::{Deserialize, Serialize};

use crate::cli::Backup;
use crate::command::ends::{OpenMode, StorePair, bar, open, open_instant};
use crate::command::names::full_name;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::logging::for_terminal;
use crate::private;

const RUN: &str = "backup/run";
const WHOLE: &str = "backup/whole";
/// The attempts to copy an account of a cluster that changes meanwhile. Each time only the last
/// changes are left to copy.
const ATTEMPTS_MAX: u32 = 5;
/// Differences that are printed.
const FAULTS_SHOWN: usize = 50;

/// `backup/run`
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BackupRun {
    /// Unix milliseconds.
    pub begun: u64,
    /// Whether all accounts of the store were meant.
    pub whole: bool,
    /// Whether the run came to its end.
    pub done: bool,
}

/// `backup/account/<name>`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountRecord {
    /// The account's id.
    pub id: String,
    /// Unix milliseconds; 0 if no run copied it whole.
    pub taken: u64,
    /// Unix milliseconds; none in backups of older programs, which wrote records of whole copies
    /// alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
}

impl AccountRecord {
    /// The last run that it was part of copied it whole.
    pub fn is_whole(&self) -> bool {
        self.run.is_none_or(|run| run == self.taken)
    }
}

/// `backup/whole`
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WholeRun {
    /// Unix milliseconds.
    pub begun: u64,
    /// Whether each of the run's accounts has it as its `run`.
    pub marked: bool,
    /// Whether the run came to its end.
    pub done: bool,
}

fn taken_name(account: &str) -> String {
    format!("backup/account/{account}")
}

pub async fn run(config: Config, options: Backup) -> Result<()> {
    let place = place_of(&config);
    prepare(&options.target, &config.data)?;
    let _lock = EngineLock::acquire(&options.target)?;
    let (from, loss) = open_instant(&config, &place).await?;
    let to = open(&config, &options.target.to_string_lossy(), OpenMode::Write).await?;
    let ends = StorePair::new(from, to)?;
    let last = last_run(&*ends.to).await?;
    if last.is_none() && !ends.there.accounts(None, 1).await?.is_empty() {
        return Err(Failure::Usage(format!(
            "{} is a store, not a backup; name an empty or missing directory",
            options.target.display()
        )));
    }
    // Two runs never have the same instant, even if the clock is set back.
    let begun = last.map_or(0, |last| last.begun + 1).max(unix_ms());
    let job = BackupJob { ends, options: &options, begun, attempts: attempts(&config), loss };
    job.run(&config).await
}

/// The configured store.
pub fn place_of(config: &Config) -> String {
    if config.engine == "embedded" {
        config.data.to_string_lossy().into_owned()
    } else {
        config.engine.clone()
    }
}

/// A snapshot is complete after one attempt. On a cluster, mail changes meanwhile.
fn attempts(config: &Config) -> u32 {
    if config.engine == "embedded" { 1 } else { ATTEMPTS_MAX }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Makes the directory, for its owner alone, or refuses it.
fn prepare(target: &Path, data: &Path) -> Result<()> {
    let failed = |error: std::io::Error| Failure::Usage(format!("{}: {error}", target.display()));
    if !target.exists() {
        return fs::DirBuilder::new().recursive(true).mode(0o700).create(target).map_err(failed);
    }
    let same = |path: &Path| fs::canonicalize(path).ok();
    if same(target) == same(data) {
        return Err(Failure::Usage(format!("{} is the store itself", target.display())));
    }
    // Files of a run that was cut off while it made the store. The engine looks itself whether
    // there is mail in it.
    let is_ours = |entry: std::io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| {
            let name = entry.file_name();
            ["lock", "index", "packs"].iter().any(|ours| name == *ours)
                || name.to_string_lossy().starts_with("format")
        })
    };
    let is_new = fs::read_dir(target).map_err(failed)?.all(is_ours);
    if !is_new && !target.join("format").is_file() {
        return Err(Failure::Usage(format!(
            "{} is neither empty nor a backup; name another directory",
            target.display()
        )));
    }
    private::tighten_store(target)
}

/// The last run into a backup; `None` for a store that is no backup.
pub async fn last_run(engine: &dyn Engine) -> Result<Option<BackupRun>> {
    match engine.directory_entry(RUN).await? {
        Some(record) => parse(RUN, &record.value).map(Some),
        None => Ok(None),
    }
}

/// The last run of all accounts; `None` if there was none. Older programs note it as the last run
/// alone.
pub async fn last_whole_run(engine: &dyn Engine) -> Result<Option<WholeRun>> {
    let noted = match engine.directory_entry(WHOLE).await? {
        Some(record) => Some(parse::<WholeRun>(WHOLE, &record.value)?),
        None => None,
    };
    let is_later = |run: &BackupRun| noted.as_ref().is_none_or(|noted| run.begun > noted.begun);
    let last = last_run(engine).await?.filter(|run| run.whole && is_later(run));
    Ok(last.map(|BackupRun { begun, done, .. }| WholeRun { begun, marked: done, done }).or(noted))
}

/// The record of an account in a backup; `None` for one that no run took.
pub async fn account_record(engine: &dyn Engine, account: &str) -> Result<Option<AccountRecord>> {
    let name = taken_name(account);
    match engine.directory_entry(&name).await? {
        Some(record) => parse(&name, &record.value).map(Some),
        None => Ok(None),
    }
}

/// A record of this program.
pub fn parse<'v, T: Deserialize<'v>>(name: &str, value: &'v [u8]) -> Result<T> {
    serde_json::from_slice(value).map_err(|error| Failure::Incomplete(format!("the record {name}: {error}")))
}

/// Writes a record of this program.
pub async fn write(engine: &dyn Engine, name: &str, record: &impl Serialize) -> Result<()> {
    let value = serde_json::to_vec(record)
        .map_err(|error| Failure::Incomplete(format!("the record {name}: {error}")))?;
    Ok(set_directory_entry(engine, name, Some(value.into())).await?)
}

/// Prints the faults; an error if there is anything. `damaged`: why accounts, and the queue, are
/// not whole.
fn conclude(faults: &[String], damaged: &[String]) -> Result<()> {
    damaged.iter().take(FAULTS_SHOWN).for_each(|fault| println!("{}", for_terminal(fault)));
    faults.iter().take(FAULTS_SHOWN).for_each(|fault| println!("differs: {}", for_terminal(fault)));
    if !damaged.is_empty() {
        return Err(Failure::Incomplete(format!(
            "some accounts are incomplete in the backup, for the {} reasons above; everything else is in it. \
             `posthaste check` names all damaged messages: restore or expunge them, and run the same command again. \
             If they can be read again, back up into an empty directory",
            damaged.len()
        )));
    }
    if !faults.is_empty() {
        return Err(Failure::Incomplete(format!(
            "{} differences between the store and its backup; run the same command again",
            faults.len()
        )));
    }
    Ok(())
}

struct BackupJob<'o> {
    ends: StorePair,
    options: &'o Backup,
    /// Unix milliseconds.
    begun: u64,
    /// The number of times that an account is looked at.
    attempts: u32,
    /// Why the store may lack commits that it acknowledged.
    loss: Option<StoreError>,
}

/// The result of a run: copies, and faults.
#[derive(Default)]
struct Copied {
    /// The accounts of which nothing is left out.
    whole_accounts: Vec<Account>,
    damaged: Vec<String>,
    /// Differences from the store.
    faults: Vec<String>,
}

impl BackupJob<'_> {
    async fn run(&self, config: &Config) -> Result<()> {
        let named: Vec<String> = self.options.account.iter().map(|name| full_name(name, config)).collect();
        let whole = self.is_of_all();
        let accounts = self.ends.accounts(&named).await?;
        let total = self.ends.messages(&accounts).await?;
        let of_all = last_whole_run(&*self.ends.to).await?;
        if let Some(of_all) = of_all.filter(|_| !whole) {
            // An older program noted it as the last run, which this one is now.
            write(&*self.ends.to, WHOLE, &of_all).await?;
        }
        write(&*self.ends.to, RUN, &BackupRun { begun: self.begun, whole, done: false }).await?;
        let mut of_all = WholeRun { begun: self.begun, marked: false, done: false };
        if whole {
            write(&*self.ends.to, WHOLE, &of_all).await?;
        }
        self.mark(&accounts).await?;
        if whole {
            of_all.marked = true;
            write(&*self.ends.to, WHOLE, &of_all).await?;
        }
        self.copy_settings().await?;
        let Copied { whole_accounts, mut damaged, faults } = self.copy_until_equal(&accounts, total).await?;
        damaged.extend(self.loss.iter().map(|why| {
            format!(
                "damaged: the store: {why}. Mail that was acknowledged last may be missing from this backup"
            )
        }));
        if faults.is_empty() && self.loss.is_none() {
            for account in &whole_accounts {
                let id = account.id.to_string();
                let taken = AccountRecord { id, taken: self.begun, run: Some(self.begun) };
                write(&*self.ends.to, &taken_name(&account.name), &taken).await?;
            }
        }
        conclude(&faults, &damaged)?;
        if whole {
            of_all.done = true;
            write(&*self.ends.to, WHOLE, &of_all).await?;
        }
        write(&*self.ends.to, RUN, &BackupRun { begun: self.begun, whole, done: true }).await?;
        let compared =
            if self.options.skip_bodies { "compared without bodies" } else { "read back and compared" };
        println!("backed up {} accounts with {total} messages, {compared}", accounts.len());
        if whole { self.name_removed(&accounts).await } else { Ok(()) }
    }

    /// Whether all accounts of the store are copied.
    fn is_of_all(&self) -> bool {
        self.options.account.is_empty()
    }

    /// Copies the records of the directory other than accounts.
    async fn copy_settings(&self) -> Result<()> {
        self.ends.copy_records("secret/").await?;
        self.ends.copy_records("domain/").await?;
        self.ends.mirror_records("dkim/").await?;
        if self.is_of_all() {
            self.ends.mirror_records("group/").await?;
            // A backup is one state, so accounts that were removed from the store are removed.
            self.ends.drop_records("group/").await?;
            self.ends.drop_records("dkim/").await?;
        }
        Ok(())
    }

    /// Copies and compares, again while the store changes meanwhile, up to a limit.
    async fn copy_until_equal(&self, accounts: &[Account], total: u64) -> Result<Copied> {
        let mut copied = Copied::default();
        for _ in 0..self.attempts {
            (copied.whole_accounts, copied.damaged) = self.copy(accounts, total).await?;
            copied.faults = self.compare(&copied.whole_accounts, total, &mut copied.damaged).await?;
            if self.is_of_all() {
                self.queue(&mut copied.damaged, &mut copied.faults).await?;
            }
            if copied.faults.is_empty() {
                break;
            }
        }
        Ok(copied)
    }

    /// Notes which accounts this run copies, before it does. It changes nothing of those that it
    /// leaves out.
    async fn mark(&self, accounts: &[Account]) -> Result<()> {
        for account in accounts {
            if self.is_left_out(account).await?.is_some() {
                continue;
            }
            let known = account_record(&*self.ends.to, &account.name).await?;
            let (id, taken) =
                known.map_or_else(|| (account.id.to_string(), 0), |known| (known.id, known.taken));
            let marked = AccountRecord { id, taken, run: Some(self.begun) };
            write(&*self.ends.to, &taken_name(&account.name), &marked).await?;
        }
        Ok(())
    }

    /// Copies accounts. The answer is those that are whole, and why the others are not.
    async fn copy(&self, accounts: &[Account], total: u64) -> Result<(Vec<Account>, Vec<String>)> {
        let bar = bar("copying", total);
        let (mut whole, mut damaged) = (Vec::new(), Vec::new());
        for account in accounts {
            if let Some(why) = self.is_left_out(account).await? {
                damaged.push(why);
                continue;
            }
            match self.ends.mirror_readable(account, &mut |n| bar.inc(n)).await {
                Ok(left_out) if left_out.is_empty() => whole.push(account.clone()),
                Ok(left_out) => {
                    damaged.extend(left_out.iter().flat_map(|one| left_out_words(&account.name, one)))
                }
                // Other damage is no reason to leave out the other accounts.
                Err(Failure::Store(error)) if error.is_damage() => {
                    self.ends.copy_account(account).await?;
                    damaged.push(format!("damaged: {}: {error}", account.name));
                }
                // The store was rolled back: it has new mail under UIDs that the backup has
                // expunged, or a mailbox that the backup has removed.
                Err(Failure::Store(error @ (StoreError::Refused(_) | StoreError::NoMailbox(_)))) => {
                    damaged.push(has_other_mail(&account.name, &error));
                }
                Err(error) => return Err(error),
            }
        }
        bar.finish_and_clear();
        self.copy_aliases(accounts).await?;
        Ok((whole, damaged))
    }

    /// Why an account is not copied, and what the backup has of it stays.
    async fn is_left_out(&self, account: &Account) -> Result<Option<String>> {
        let name = &account.name;
        let there = self.ends.there.account(name).await?;
        if there.is_some_and(|other| other.id != account.id) {
            // The backup may be the only place with the mail of a removed account.
            return Ok(Some(format!(
                "left out: {name}: the backup keeps an earlier account of that name, which was removed from the \
                 store or restored with new ids; `posthaste account remove {name} --data {}` makes room for the \
                 present one",
                self.options.target.display()
            )));
        }
        match self.ends.transfer().may_copy(account.id).await {
            Err(error @ StoreError::Refused(_)) => Ok(Some(has_other_mail(name, &error))),
            // Damage is met, and named, where the account is copied.
            Err(error) if error.is_damage() => Ok(None),
            outcome => Ok(outcome.map(|()| None)?),
        }
    }

    /// Copies the queue and compares it.
    async fn queue(&self, damaged: &mut Vec<String>, faults: &mut Vec<String>) -> Result<()> {
        let (from, to) = (&*self.ends.from, &*self.ends.to);
        match copy_queue(from, to, CopiedItems::Held).await {
            Ok(items) if items > 0 => println!("backed up {items} messages that wait to be sent, held"),
            Ok(_) => {}
            Err(QueueError::Store(error)) if error.is_damage() => {
                damaged.push(format!("damaged: the queue: {error}"));
                return Ok(());
            }
            Err(QueueError::Store(error @ StoreError::Refused(_))) => {
                damaged.push(has_other_mail("the queue", &error));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        faults.extend(compare_queues(from, to, CopiedItems::Held, self.how_compared()).await?);
        Ok(())
    }

    fn how_compared(&self) -> Compare {
        if self.options.skip_bodies { Compare::Summaries } else { Compare::All }
    }

    /// Makes the aliases of accounts the same as in the store.
    async fn copy_aliases(&self, accounts: &[Account]) -> Result<()> {
        let names: BTreeSet<&str> = accounts.iter().map(|account| account.name.as_str()).collect();
        let here = self.ends.aliases(|account| names.contains(account)).await?;
        self.ends.copy_aliases(&here).await?;
        for address in self.ends.aliases_there(|account| names.contains(account)).await? {
            if here.binary_search(&address).is_err() {
                set_directory_entry(&*self.ends.to, &format!("alias/{address}"), None).await?;
            }
        }
        Ok(())
    }

    async fn compare(
        &self,
        accounts: &[Account],
        total: u64,
        damaged: &mut Vec<String>,
    ) -> Result<Vec<String>> {
        let compare = self.how_compared();
        let bar = bar("comparing", total);
        let mut faults = Vec::new();
        for account in accounts {
            match self.ends.compare(account, compare, &mut |n| bar.inc(n)).await {
                Ok(found) => faults.extend(found),
                // Copies of an earlier run may have been damaged since.
                Err(Failure::Store(error)) if error.is_damage() => damaged.push(format!(
                    "damaged: {}: {error}; `posthaste check` and `posthaste check --data {}` show which of the two stores is damaged",
                    account.name,
                    self.options.target.display()
                )),
                Err(error) => return Err(error),
            }
        }
        bar.finish_and_clear();
        Ok(faults)
    }

    /// Names accounts that only the backup has.
    async fn name_removed(&self, accounts: &[Account]) -> Result<()> {
        let names: BTreeSet<&str> = accounts.iter().map(|account| account.name.as_str()).collect();
        let mut after: Option<String> = None;
        loop {
            let page = self.ends.there.accounts(after.as_deref(), 256).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.name.clone());
            for account in page.iter().filter(|account| !names.contains(account.name.as_str())) {
                println!(
                    "{} is only in the backup; `posthaste account remove {} --data {}` removes it there",
                    account.name,
                    account.name,
                    self.options.target.display()
                );
            }
        }
    }
}

/// Why messages of a mailbox are not in the backup.
fn left_out_words(name: &str, LeftOut { mailbox, unreadable, passed }: &LeftOut) -> Vec<String> {
    let mut words = Vec::new();
    if !unreadable.is_empty() {
        words.push(format!("damaged: {name}: {mailbox}: UID {unreadable} is left out: it cannot be read"));
    }
    if !passed.is_empty() {
        words.push(format!(
            "left out: {name}: {mailbox}: UID {passed} is not in the backup, which already has later messages: an earlier run \
             could not read it, or the store was set back to an earlier state since, and this is new mail. Back up into a \
             new directory, and keep this one for the earlier mail"
        ));
    }
    words
}

fn has_other_mail(name: &str, error: &StoreError) -> String {
    format!("left out: {name}: {error}; back up into a new directory, and keep this one for the earlier mail")
}
