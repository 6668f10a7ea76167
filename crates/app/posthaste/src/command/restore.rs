//! `posthaste restore`: accounts and all their mail out of a backup, into the configured store,
//! while its server runs.
//!
//! Nothing that is in the store is changed: an account of the same name is refused. An account that
//! comes back becomes visible when all its mail is there and was compared. Until then its mailboxes
//! belong to an account that has no record, so that nobody can log in or deliver.
//!
//! A record `restore/<name>` in the store describes a running restore, so that an interrupted one
//! can continue. The record is kept, so that the same command can be run again at any time, even
//! after it has finished:
//!
//! | JSON | |
//! | --- | --- |
//! | `account` | id of the account in the store |
//! | `fresh` | its mailboxes get new ids, because the old ids are in use here or were removed |
//! | `uid_validity` | the first of the new UIDVALIDITYs of its mailboxes, in the order of their names; none if they keep theirs |
//! | `source` | the backup that it comes from |
//! | `done` | all data of the account that the backup can read is here |
//! | `left_out` | the data that it cannot read, a line each |
//!
//! Mail that waited to be sent is restored, and held, if the store has no queue yet. A record
//! `restore-queue` notes this. An existing queue is not changed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use indicatif::ProgressBar;
use posthaste_delivery::DeliveryError;
use posthaste_delivery::import::{ImportError, copy_journals};
use posthaste_directory::{
    Account, DirectoryError, copy_acls, copy_annotations, copy_seen, print_fingerprint, unix_time,
};
use posthaste_mail_model::{AccountId, Id, MailboxId, ModSeq, UidValidity};
use posthaste_queue::{CopiedItems, QUEUE_ACCOUNT, QueueError, compare_queues, copy_queue, has_other_items};
use posthaste_store::{CommitOutcome, Compare, LeftOut, ListCommit, StoreError, TargetIds};
use serde::{Deserialize, Serialize};

use crate::cli::Restore;
use crate::command::backup::{account_record, last_run, last_whole_run, parse, place_of, write};
use crate::command::ends::{OpenMode, StorePair, bar, open, open_instant};
use crate::command::names::full_name;
use crate::config::Config;
use crate::failure::{Failure, Result};

/// `restore/<name>`
#[derive(Debug, Clone, Serialize, Deserialize)]
struct RestoreRecord {
    account: String,
    fresh: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uid_validity: Option<u32>,
    source: String,
    done: bool,
    /// The mail that the backup could not read, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
}

/// `restore-queue`: what waited to be sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct QueueUnderway {
    /// The instant of the backup, unix milliseconds.
    source: u64,
    done: bool,
}

/// Accounts that may be half copied and are named in a refusal.
const HALF_SHOWN: usize = 5;

const QUEUE_UNDERWAY: &str = "restore-queue";

fn underway_name(account: &str) -> String {
    format!("restore/{account}")
}

pub async fn run(config: Config, options: Restore) -> Result<()> {
    let place = place_of(&config);
    let same = |path: &str| std::fs::canonicalize(path).ok();
    let backup = options.backup.to_string_lossy().into_owned();
    if same(&backup).is_some() && same(&backup) == same(&place) {
        return Err(Failure::Usage(format!("{backup} is the store itself; name its backup")));
    }
    let (from, loss) = open_instant(&config, &backup).await?;
    let ends = StorePair::new(from, open(&config, &place, OpenMode::Write).await?)?;
    if options.name.is_some() && options.account.len() != 1 {
        return Err(Failure::Usage("--as restores one account; give --account once".into()));
    }
    let named: Vec<String> = options.account.iter().map(|name| full_name(name, &config)).collect();
    let job = RestoreJob { ends, keeps_uid_validity: options.keep_uidvalidity };
    let accounts = job.accounts(&named, options.incomplete).await?;
    let (mut wanted, mut damaged) = (Vec::new(), Vec::new());
    damaged.extend(loss.map(|why| format!("left out: the last commits of the backup: {why}")));
    for account in accounts {
        let name =
            options.name.as_deref().map_or_else(|| account.name.clone(), |name| full_name(name, &config));
        wanted.extend(job.wanted(account, name, &mut damaged).await?);
    }
    damaged.extend(job.restore(&wanted, &options.backup).await?);
    if named.is_empty() {
        // Last: their members are there.
        job.ends.copy_records("group/").await?;
        match job.restore_queue().await {
            Err(error) if is_damage(&error) => {
                damaged.push(format!("left out: the mail that waits to be sent, from this item on: {error}"))
            }
            outcome => outcome?,
        }
    }
    conclude(&damaged, &backup)
}

/// Prints what could not be restored; an error if there is anything.
fn conclude(damaged: &[String], backup: &str) -> Result<()> {
    damaged.iter().for_each(|line| println!("{line}"));
    if damaged.is_empty() {
        return Ok(());
    }
    Err(Failure::Incomplete(format!(
        "the backup is damaged, and what is named above was not restored; all else was. `posthaste check --data {backup}` \
         names all that is damaged; an older backup may have it"
    )))
}

fn is_damage(error: &Failure) -> bool {
    let error = match error {
        Failure::Store(error)
        | Failure::Directory(DirectoryError::Store(error))
        | Failure::Queue(QueueError::Store(error))
        | Failure::Delivery(DeliveryError::Store(error))
        | Failure::Import(ImportError::Begin(DeliveryError::Store(error))) => error,
        _ => return false,
    };
    error.is_damage()
}

/// An account of the backup on its way into the store.
struct AccountToRestore {
    account: Account,
    /// The account's name in the store.
    name: String,
    source: String,
    /// The id it has in the store, if a restore that was cut off chose one.
    chosen: Option<RestoreRecord>,
    /// Whether a restore was cut off right after it made the account visible. By now its owner
    /// may use its mail.
    visible: bool,
}

struct RestoreJob {
    ends: StorePair,
    /// No UID was given since the backup was made.
    keeps_uid_validity: bool,
}

impl RestoreJob {
    /// The accounts that are named, or all of the last whole backup.
    async fn accounts(&self, named: &[String], incomplete: bool) -> Result<Vec<Account>> {
        let from = &*self.ends.from;
        let mut accounts = self.ends.accounts(named).await?;
        let Some(run) = last_run(from).await? else { return Ok(accounts) };
        let of_all = last_whole_run(from).await?;
        // An older program made this backup.
        let is_half = of_all.is_none() && !run.done;
        let is_half = is_half || named.is_empty() && of_all.as_ref().is_some_and(|of_all| !of_all.done);
        let begun = match of_all {
            Some(of_all) => Some(of_all.begun).filter(|_| of_all.marked),
            None => Some(run.begun).filter(|_| run.whole && run.done),
        };
        let (mut half, mut removed) = (Vec::new(), Vec::new());
        for account in &accounts {
            let taken = account_record(from, &account.name).await?;
            let last = taken.as_ref().map_or(0, |taken| taken.run.unwrap_or(taken.taken));
            if named.is_empty() && begun.is_some_and(|begun| last < begun) {
                removed.push(account.name.clone());
            } else if taken.is_some_and(|taken| !taken.is_whole()) {
                half.push(account.name.as_str());
            }
        }
        if (is_half || !half.is_empty()) && !incomplete {
            return Err(Failure::Usage(format!(
                "the last run of this backup did not finish, so some accounts are newer than others{}; run \
                 `posthaste backup` again, or say --incomplete",
                half.iter()
                    .take(HALF_SHOWN)
                    .map(|name| format!("; {name} may be half copied"))
                    .collect::<String>()
            )));
        }
        for name in &removed {
            println!("{name} is not part of the last backup and is left out; name it with --account");
        }
        accounts.retain(|account| !removed.contains(&account.name));
        Ok(accounts)
    }

    /// The steps for an account; `None` if an earlier restore did them. Messages that it could
    /// not read go to `damaged`.
    async fn wanted(
        &self,
        account: Account,
        name: String,
        damaged: &mut Vec<String>,
    ) -> Result<Option<AccountToRestore>> {
        let taken = account_record(&*self.ends.from, &account.name).await?;
        let instant = taken.map_or(0, |taken| taken.run.unwrap_or(taken.taken));
        let source = format!("{}@{instant}", account.id);
        let record = underway_name(&name);
        let chosen = match self.ends.to.directory_entry(&record).await? {
            Some(entry) => Some(parse::<RestoreRecord>(&record, &entry.value)?),
            None => None,
        };
        if self.ends.to.directory_entry(&format!("alias/{name}")).await?.is_some() {
            return Err(Failure::Usage(format!(
                "{name} is an alias in the store; remove it with `posthaste account set`, or restore under another name with --as"
            )));
        }
        match (self.ends.there.account(&name).await?, chosen) {
            (Some(there), Some(chosen))
                if chosen.source == source && there.id.to_string() == chosen.account =>
            {
                if chosen.done {
                    println!("{name} was restored from this backup already");
                    damaged.extend(chosen.left_out);
                    return Ok(None);
                }
                Ok(Some(AccountToRestore { account, name, source, chosen: Some(chosen), visible: true }))
            }
            (Some(_), _) => Err(Failure::Usage(format!(
                "account {name} is in the store, and restore overwrites nothing: restore it under another name with \
                 --account {} --as OTHER-NAME, or remove it first",
                account.name
            ))),
            (None, chosen) => {
                // An account that was restored and then removed is restored again as if it had
                // never been here.
                let chosen = chosen.filter(|chosen| !chosen.done);
                Ok(Some(AccountToRestore { account, name, source, chosen, visible: false }))
            }
        }
    }

    /// Restores accounts. Returns the mail that the backup cannot read: one damaged message is no
    /// reason to leave out everybody else.
    async fn restore(&self, wanted: &[AccountToRestore], backup: &Path) -> Result<Vec<String>> {
        let accounts: Vec<Account> = wanted.iter().map(|wanted| wanted.account.clone()).collect();
        let total = self.ends.messages(&accounts).await?;
        self.ends.copy_records("secret/").await?;
        self.ends.copy_records("domain/").await?;
        self.ends.copy_records("dkim/").await?;
        // Each message is copied, and then compared.
        let bar = bar("restoring", total * 2);
        let (mut damaged, mut left_out) = (Vec::new(), 0);
        for wanted in wanted {
            match self.restore_account(wanted, &bar).await {
                Ok(messages) => damaged.extend(messages),
                Err(error) if is_damage(&error) => {
                    left_out += 1;
                    damaged.push(format!("left out: {}: {error}", wanted.name));
                }
                Err(error) => return Err(error),
            }
        }
        bar.finish_and_clear();
        let (accounts, from) = (wanted.len() - left_out, backup.display());
        if damaged.is_empty() {
            println!(
                "restored {accounts} accounts with {total} messages from {from}, read back and compared"
            );
        } else {
            println!(
                "restored {accounts} accounts from {from}, read back and compared, except the following"
            );
        }
        Ok(damaged)
    }

    /// Restores the mail that waited to be sent. All of it is held.
    async fn restore_queue(&self) -> Result<()> {
        let (from, to) = (&*self.ends.from, &*self.ends.to);
        if from.directory_scan("queue/", None, 1).await?.is_empty() {
            return Ok(());
        }
        let source = last_run(from).await?.map_or(0, |run| run.begun);
        let known = match to.directory_entry(QUEUE_UNDERWAY).await? {
            Some(entry) => Some(parse::<QueueUnderway>(QUEUE_UNDERWAY, &entry.value)?),
            None => None,
        };
        if known.as_ref().is_some_and(|known| known.done && known.source == source) {
            return Ok(());
        }
        let is_ours = known.is_some_and(|known| !known.done && known.source == source);
        let is_new = to.load_list(QUEUE_ACCOUNT).await?.version == ModSeq::ZERO;
        if !(is_new || is_ours) || has_other_items(from, to).await? {
            println!(
                "mail that waited to be sent was left out, as the store has a queue of its own; `posthaste queue list --data \
                 BACKUP` lists it"
            );
            return Ok(());
        }
        write(to, QUEUE_UNDERWAY, &QueueUnderway { source, done: false }).await?;
        let items = copy_queue(from, to, CopiedItems::Held).await?;
        let faults = compare_queues(from, to, CopiedItems::Held, Compare::All).await?;
        if let Some(fault) = faults.first() {
            return Err(Failure::Incomplete(format!("{fault}; run the same command again")));
        }
        write(to, QUEUE_UNDERWAY, &QueueUnderway { source, done: true }).await?;
        println!(
            "{items} messages that waited to be sent are held, as some may have been sent since; see `posthaste queue list` \
             and `posthaste queue release`"
        );
        Ok(())
    }

    /// Restores an account. Returns the messages that the backup cannot read, a line for each
    /// mailbox.
    async fn restore_account(&self, wanted: &AccountToRestore, bar: &ProgressBar) -> Result<Vec<String>> {
        let mut underway = self.begin(wanted).await?;
        if !wanted.visible {
            self.bring(wanted, &mut underway, bar).await?;
        }
        if wanted.name == wanted.account.name {
            self.restore_aliases(&wanted.name, bar).await?;
        }
        underway.done = true;
        write(&*self.ends.to, &underway_name(&wanted.name), &underway).await?;
        Ok(underway.left_out)
    }

    /// Brings an account's mail, compares it, and makes the account visible. Messages that the
    /// backup cannot read are left out and noted: there is no other place to copy them from.
    async fn bring(
        &self,
        wanted: &AccountToRestore,
        underway: &mut RestoreRecord,
        bar: &ProgressBar,
    ) -> Result<()> {
        let account = Id::parse(&underway.account).map(AccountId);
        let account = account.ok_or_else(|| Failure::Incomplete("the id of a restore is damaged".into()))?;
        let places = self.places(wanted.account.id, account, underway).await?;
        copy_journals(&*self.ends.from, wanted.account.id, &*self.ends.to, &places).await?;
        copy_annotations(&*self.ends.from, wanted.account.id, &*self.ends.to, &places).await?;
        copy_seen(&*self.ends.from, wanted.account.id, &*self.ends.to, &places).await?;
        copy_acls(&*self.ends.from, &wanted.account, &*self.ends.to, &wanted.name, &places).await?;
        let transfer = self.ends.transfer().to_targets(places).leaving_out_damage();
        transfer.copy(wanted.account.id, &mut |n| bar.inc(n)).await?;
        let faults = transfer.audit(wanted.account.id, Compare::All, &mut |n| bar.inc(n)).await?;
        if let Some(fault) = faults.first() {
            return Err(Failure::Incomplete(format!(
                "{}: {fault}; the account was not made visible: run the same command again",
                wanted.name
            )));
        }
        let named = |LeftOut { mailbox, unreadable, passed }: LeftOut| {
            // UIDs that an earlier run skipped were unreadable, too: the backup does not change,
            // and no client sees the account before this run ends.
            let uids = unreadable.union(&passed);
            format!("left out: {}: {mailbox}: UID {uids} cannot be read in the backup", wanted.name)
        };
        let left_out = transfer.left_out(wanted.account.id).await?;
        underway.left_out = left_out.into_iter().map(named).collect();
        // Before the account is visible: a later run does not look at its mail again.
        write(&*self.ends.to, &underway_name(&wanted.name), underway).await?;
        let StorePair { here, there, .. } = &self.ends;
        there.adopt(here, &wanted.account.name, &wanted.name, account).await?;
        self.name_certificates(wanted).await
    }

    /// Names the certificates that another account has by now.
    async fn name_certificates(&self, wanted: &AccountToRestore) -> Result<()> {
        let StorePair { here, there, .. } = &self.ends;
        let (listed, has) = (
            here.certificates().of(&wanted.account.name).await?,
            there.certificates().of(&wanted.name).await?,
        );
        for fingerprint in listed.iter().filter(|one| !has.contains(one)) {
            println!(
                "{}: certificate {} was left out: another account has it",
                wanted.name,
                print_fingerprint(fingerprint)
            );
        }
        if has.is_empty() && !listed.is_empty() {
            println!(
                "{}: it no longer lists a certificate. If `login.certificates` lets certificates name their \
                 account, any certificate that names it is accepted. `posthaste account set {0} --certificate FILE` \
                 lists one",
                wanted.name
            );
        }
        Ok(())
    }

    /// Chooses the account's id and notes it, unless that was done.
    async fn begin(&self, wanted: &AccountToRestore) -> Result<RestoreRecord> {
        if let Some(chosen) = &wanted.chosen {
            if chosen.source == wanted.source {
                let keeps = chosen.uid_validity.is_none();
                if keeps != self.keeps_uid_validity && !wanted.visible {
                    return Err(Failure::Usage(format!(
                        "the interrupted restore of {} was started {} --keep-uidvalidity; start it the same way",
                        wanted.name,
                        if keeps { "with" } else { "without" }
                    )));
                }
                return Ok(chosen.clone());
            }
            // Half of an account from another backup: nobody ever saw it.
            if let Some(id) = Id::parse(&chosen.account) {
                self.give_up(AccountId(id)).await?;
            }
        }
        let to = &*self.ends.to;
        // A store that never had mailboxes of this account has not removed any of its ids either.
        let unknown = to.load_list(wanted.account.id).await?.version == ModSeq::ZERO;
        let fresh = !unknown || wanted.name != wanted.account.name;
        let id = if fresh { new_id()? } else { wanted.account.id.0 };
        let uid_validity = match self.keeps_uid_validity {
            true => None,
            false => Some(self.uid_validity_for(wanted.account.id, AccountId(id)).await?),
        };
        let underway = RestoreRecord {
            account: id.to_string(),
            fresh,
            uid_validity,
            source: wanted.source.clone(),
            done: false,
            left_out: Vec::new(),
        };
        write(to, &underway_name(&wanted.name), &underway).await?;
        Ok(underway)
    }

    /// The first of the UIDVALIDITYs for an account's mailboxes: higher than any that it had,
    /// also after the backup was made. The clock gave those numbers.
    async fn uid_validity_for(&self, account: AccountId, there: AccountId) -> Result<u32> {
        let (list, known) = (self.ends.from.load_list(account).await?, self.ends.to.load_list(there).await?);
        // The list of an account that was removed is there still.
        let earlier = self.ends.to.load_list(account).await?;
        let now = u32::try_from(unix_time::now()).unwrap_or(0);
        let known = known.uid_validity_last.max(earlier.uid_validity_last);
        let last = now.max(list.uid_validity_last).max(known);
        let mailboxes = u32::try_from(list.entries.len()).unwrap_or(u32::MAX);
        let has_room = last.checked_add(1).and_then(|first| first.checked_add(mailboxes)).is_some();
        match has_room {
            true => Ok(last + 1),
            false => Err(Failure::Incomplete("no UIDVALIDITY is left; use --keep-uidvalidity".into())),
        }
    }

    /// Removes the mailboxes, annotations and rights of a restore that is not continued.
    async fn give_up(&self, account: AccountId) -> Result<()> {
        self.ends.there.remove_all_annotations(account).await?;
        self.ends.there.acls().remove_all(account).await?;
        let list = self.ends.to.load_list(account).await?;
        if list.entries.is_empty() {
            return Ok(());
        }
        let commit = ListCommit {
            account,
            expected: list.version,
            version: list.version.next(),
            upsert: Vec::new(),
            remove: list.entries.iter().map(|entry| entry.id).collect(),
            subscribe: Vec::new(),
            unsubscribe: list.subscribed.into_iter().collect(),
            uid_validity_last: list.uid_validity_last,
        };
        match self.ends.to.commit_list(commit).await? {
            CommitOutcome::Done => Ok(()),
            CommitOutcome::Conflict => Err(StoreError::Busy.into()),
        }
    }

    /// The targets of the mailboxes of an account. The mailboxes of an earlier run are found by
    /// their names.
    async fn places(
        &self,
        account: AccountId,
        there: AccountId,
        underway: &RestoreRecord,
    ) -> Result<TargetIds> {
        let (list, known) = (self.ends.from.load_list(account).await?, self.ends.to.load_list(there).await?);
        let mut places = TargetIds::with_ids(there, BTreeMap::new());
        for (entry, n) in list.entries.iter().zip(0..) {
            let id = match known.find(&entry.name) {
                Some(known) => known.id,
                None if underway.fresh => MailboxId(new_id()?),
                None => entry.id,
            };
            places.mailboxes.insert(entry.id, id);
            let uid_validity =
                underway.uid_validity.and_then(|first| UidValidity::new(first.checked_add(n)?));
            places.uid_validities.extend(uid_validity.map(|uid_validity| (entry.id, uid_validity)));
        }
        Ok(places)
    }

    /// Aliases of the account, except for those that are taken.
    async fn restore_aliases(&self, account: &str, bar: &ProgressBar) -> Result<()> {
        for address in self.ends.aliases(|owner| owner == account).await? {
            match self.ends.there.aliases().add(&address, account).await {
                Ok(_) => {}
                Err(DirectoryError::AliasExists { account: owner, .. }) if owner == account => {}
                Err(DirectoryError::AliasExists { .. } | DirectoryError::AccountExists(_)) => {
                    bar.suspend(|| {
                        eprintln!("posthaste: alias {address} was left out: the address is taken")
                    });
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// An id that was never used.
fn new_id() -> Result<Id> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| Failure::Incomplete(format!("randomness: {error}")))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    Ok(Id::new(u64::try_from(now).unwrap_or(u64::MAX), u128::from_le_bytes(random)))
}
