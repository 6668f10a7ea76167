//! `posthaste restore`: accounts and all their mail out of a backup, into the configured store,
//! while its server runs.
//!
//! Nothing that is in the store is changed: an account of the same name is refused. An account
//! that comes back becomes visible when all its mail is there and was compared. Until then its
//! mailboxes belong to an account that has no record, so that nobody can log in or deliver.
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
//!
//! A backup may be forged, or may come from somebody else. So a restore takes from it what can
//! harm the restored accounts alone:
//!
//! - ids that nobody else has here (see `ids`), and records about the mailboxes in the list;
//! - summaries that are made again from the messages, and bodies that nobody else has
//!   ([`Verifier`]);
//! - a record of the account that a command could have made ([`Directory::adopt`]).
//!
//! With `--account`, all else in the backup is left out: domains, groups, secrets, keys, rights
//! over other accounts, and aliases that might divert mail of others (see `aliases`). Without it,
//! the backup's directory becomes that of the store where the store has none: such a backup must
//! be the administrator's own.

mod aliases;
mod ids;
mod job;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use indicatif::ProgressBar;
use posthaste_delivery::import::{ImportError, copy_journals};
use posthaste_delivery::{DeliveryError, verified_summary};
use posthaste_directory::{
    Account, Address, Directory, DirectoryError, QuotaRight, copy_acls, copy_annotations, copy_seen,
    print_fingerprint,
};
use posthaste_mail_model::{AccountId, Id, ModSeq};
use posthaste_queue::{
    QUEUE_ACCOUNT, QueueError, RestoredQueue, compare_restored_queue, has_other_items, restore_queue,
};
use posthaste_store::{Compare, LeftOut, Verifier};
use serde::{Deserialize, Serialize};

use self::job::{AccountToRestore, RestoreJob, RestoreRecord, Scope, underway_name};
use crate::cli::Restore;
use crate::command::account::own_limit_texts;
use crate::command::backup::{account_record, last_run, last_whole_run, parse, place_of, write};
use crate::command::ends::{OpenMode, StorePair, bar, open, open_instant};
use crate::command::names::full_name;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::logging::for_terminal;

/// `restore-queue`: what waited to be sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct QueueUnderway {
    /// The instant of the backup, unix milliseconds.
    source: u64,
    done: bool,
    /// Why items were left out, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
}

/// Proves what a backup says of its messages.
const VERIFIER: Verifier = Verifier { summarize: verified_summary, new_id: ids::new_id };

/// Accounts that may be half copied and are named in a refusal.
const HALF_SHOWN: usize = 5;

const QUEUE_UNDERWAY: &str = "restore-queue";

pub async fn run(config: Config, options: Restore) -> Result<()> {
    let place = place_of(&config);
    let same = |path: &str| std::fs::canonicalize(path).ok();
    let backup = options.backup.to_string_lossy().into_owned();
    if same(&backup).is_some() && same(&backup) == same(&place) {
        return Err(Failure::Usage(format!("{backup} is the store itself; name its backup")));
    }
    let (from, loss) = open_instant(&config, &backup).await?;
    let mut ends = StorePair::new(from, open(&config, &place, OpenMode::Write).await?)?;
    ends.there = Directory::with_policy(Arc::clone(&ends.to), config.login.policy())?;
    ends.there.share_domains(config.relay.relay_domains());
    if options.name.is_some() && options.account.len() != 1 {
        return Err(Failure::Usage("--as restores one account; give --account once".into()));
    }
    let named: Vec<String> = options.account.iter().map(|name| full_name(name, &config)).collect();
    let mut job = RestoreJob {
        account_ids: ids::of_accounts(&*ends.to).await?,
        ends,
        keeps_uid_validity: options.keep_uidvalidity,
        scope: if named.is_empty() { Scope::All } else { Scope::Named },
        postmaster: config.postmaster().and_then(|name| Address::parse(&name).ok()),
    };
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
            left_out => {
                damaged.extend(
                    left_out?.iter().map(|why| format!("left out: mail that waits to be sent: {why}")),
                );
            }
        }
    }
    conclude(&damaged, &backup)
}

/// Prints what could not be restored; an error if there is anything.
fn conclude(damaged: &[String], backup: &str) -> Result<()> {
    damaged.iter().for_each(|line| println!("{}", for_terminal(line)));
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
        Failure::Directory(DirectoryError::Record { .. }) => return true,
        _ => return false,
    };
    error.is_damage()
}

/// What was done for an account. `None` if damage of the backup kept it out, which is noted.
fn or_left_out<T>(outcome: Result<T>, account: &str, damaged: &mut Vec<String>) -> Result<Option<T>> {
    match outcome {
        Ok(done) => Ok(Some(done)),
        Err(error) if is_damage(&error) => {
            damaged.push(format!("left out: {account}: {error}"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl RestoreJob {
    /// The accounts that are named, or all of the last whole backup.
    async fn accounts(&self, named: &[String], incomplete: bool) -> Result<Vec<Account>> {
        let from = &*self.ends.from;
        let mut accounts = self.ends.accounts(named).await?;
        for Account { name, .. } in &accounts {
            if !Address::parse(name).is_ok_and(|address| address.as_str() == name) {
                let record = format!("account/{name}");
                return Err(Failure::Incomplete(format!(
                    "the record {record:?} of the backup is damaged or forged: no account has such a name; name the \
                     accounts to restore with --account"
                )));
            }
        }
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
    async fn restore(&mut self, wanted: &[AccountToRestore], backup: &Path) -> Result<Vec<String>> {
        let accounts: Vec<Account> = wanted.iter().map(|wanted| wanted.account.clone()).collect();
        let total = self.ends.messages(&accounts).await?;
        if self.scope == Scope::All {
            self.ends.copy_records("secret/").await?;
            self.ends.copy_records("domain/").await?;
            self.ends.copy_records("dkim/").await?;
        }
        // Each message is copied, and then compared.
        let bar = bar("restoring", total * 2);
        let (mut damaged, mut accounts) = (Vec::new(), 0);
        // Named accounts are all visible before the first of their aliases: it must divert no mail
        // of the others.
        let at_once = if self.scope == Scope::All { 1 } else { wanted.len().max(1) };
        for wanted in wanted.chunks(at_once) {
            let mut visible = Vec::new();
            for wanted in wanted {
                let underway = self.make_visible(wanted, &bar).await;
                let underway = or_left_out(underway, &wanted.name, &mut damaged)?;
                visible.extend(underway.map(|underway| (wanted, underway)));
            }
            for (wanted, underway) in visible {
                let messages = self.finish(wanted, underway, &bar).await;
                let messages = or_left_out(messages, &wanted.name, &mut damaged)?;
                accounts += usize::from(messages.is_some());
                damaged.extend(messages.unwrap_or_default());
            }
        }
        bar.finish_and_clear();
        let from = backup.display();
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

    /// Restores the mail that waited to be sent. All of it is held. Returns why items were left
    /// out, a line each.
    async fn restore_queue(&self) -> Result<Vec<String>> {
        let (from, to) = (&*self.ends.from, &*self.ends.to);
        if from.directory_names("queue/", None, 1).await?.is_empty() {
            return Ok(Vec::new());
        }
        let source = last_run(from).await?.map_or(0, |run| run.begun);
        let known = match to.directory_entry(QUEUE_UNDERWAY).await? {
            Some(entry) => Some(parse::<QueueUnderway>(QUEUE_UNDERWAY, &entry.value)?),
            None => None,
        };
        let known = known.filter(|known| known.source == source);
        let is_ours = known.is_some();
        if let Some(QueueUnderway { done: true, left_out, .. }) = known {
            return Ok(left_out);
        }
        let is_new = to.load_list(QUEUE_ACCOUNT).await?.version == ModSeq::ZERO;
        if !(is_new || is_ours) || has_other_items(from, to).await? {
            println!(
                "mail that waited to be sent was left out, as the store has a queue of its own; `posthaste queue list --data \
                 BACKUP` lists it"
            );
            return Ok(Vec::new());
        }
        ids::refuse_queue_of_others(from, to).await?;
        let mut underway = QueueUnderway { source, done: false, left_out: Vec::new() };
        write(to, QUEUE_UNDERWAY, &underway).await?;
        let RestoredQueue { held, left_out } = restore_queue(from, to, VERIFIER).await?;
        let faults = compare_restored_queue(from, to, VERIFIER).await?;
        if let Some(fault) = faults.first() {
            return Err(Failure::Incomplete(format!("{fault}; run the same command again")));
        }
        (underway.done, underway.left_out) = (true, left_out);
        write(to, QUEUE_UNDERWAY, &underway).await?;
        println!(
            "{held} messages that waited to be sent are held, as some may have been sent since; see `posthaste queue list` \
             and `posthaste queue release`"
        );
        Ok(underway.left_out)
    }

    /// Brings an account with its mail, unless an earlier run did.
    async fn make_visible(&mut self, wanted: &AccountToRestore, bar: &ProgressBar) -> Result<RestoreRecord> {
        let mut underway = self.begin(wanted).await?;
        if !wanted.visible {
            self.bring(wanted, &mut underway, bar).await?;
            self.account_ids.extend(Id::parse(&underway.account).map(AccountId));
        }
        Ok(underway)
    }

    /// Restores the aliases of an account, and notes that all of it is there. Returns the messages
    /// that the backup cannot read, a line for each mailbox.
    async fn finish(
        &self,
        wanted: &AccountToRestore,
        mut underway: RestoreRecord,
        bar: &ProgressBar,
    ) -> Result<Vec<String>> {
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
        let places = self.places(wanted, account, underway).await?;
        copy_journals(&*self.ends.from, wanted.account.id, &*self.ends.to, &places).await?;
        copy_annotations(&*self.ends.from, wanted.account.id, &*self.ends.to, &places).await?;
        copy_seen(&*self.ends.from, wanted.account.id, &*self.ends.to, &places).await?;
        let (from, to) = (&*self.ends.from, &*self.ends.to);
        let entries_left_out = copy_acls(from, &wanted.account, to, &wanted.name, &places).await?;
        if entries_left_out > 0 {
            println!(
                "{}: {entries_left_out} entries of access control lists were left out, as they give everybody rights or \
                 are too many; `posthaste acl set` makes new ones",
                wanted.name
            );
        }
        let transfer = self.ends.transfer().to_targets(places).leaving_out_damage().verified_by(VERIFIER);
        transfer.copy(wanted.account.id, &mut |n| bar.inc(n)).await?;
        let faults = transfer.audit(wanted.account.id, Compare::All, &mut |n| bar.inc(n)).await?;
        if let Some(fault) = faults.first() {
            // The next run gives this one up: an earlier program may have copied a message in
            // another way, and no run would change that.
            underway.source.clear();
            write(&*self.ends.to, &underway_name(&wanted.name), underway).await?;
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
        self.adopt(wanted, account).await?;
        self.name_certificates(wanted).await
    }

    /// Makes the account visible.
    async fn adopt(&self, wanted: &AccountToRestore, id: AccountId) -> Result<()> {
        let StorePair { here, there, .. } = &self.ends;
        let right = match self.scope {
            Scope::All => QuotaRight::Keep,
            Scope::Named => QuotaRight::Drop,
        };
        let adopted = there.adopt((here, wanted.account.name.as_str()), &wanted.name, id, right).await?;
        if self.scope == Scope::Named {
            // They may allow it more than others have.
            for limit in own_limit_texts(adopted.own_limits.as_deref()) {
                println!("{}: it has a limit of its own: {limit}", wanted.name);
            }
        }
        if wanted.account.sets_quotas && right == QuotaRight::Drop {
            println!(
                "{0}: the right to set the quotas of its domain was left out; `posthaste account set {0} --sets-quotas \
                 true` gives it",
                wanted.name
            );
        }
        Ok(())
    }

    /// Names the certificates that another account has by now, and those that log in to an
    /// account that was restored by its name: they may be somebody else's.
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
        if self.scope == Scope::Named {
            for fingerprint in &has {
                println!("{}: certificate {} logs in to it", wanted.name, print_fingerprint(fingerprint));
            }
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
}
