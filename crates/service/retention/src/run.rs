//! Rules applied to accounts.

use std::ops::ControlFlow;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use posthaste_directory::{Account, AnnotationError, Directory, DirectoryError, Relocated, Scope, unix_time};
use posthaste_mail_model::{FlagSet, MailboxId, MailboxName, NumSet};
use posthaste_store::{
    Destination, Mailbox, MailboxEntry, MailboxList, Moved, Row, SpecialUse, Store, StoreError, View,
};

use crate::choose::{Conditions, looked_at};
use crate::folders;
use crate::rule::{Action, AgeFrom, Rule};

/// Accounts read at a time.
const PAGE: usize = 200;
/// Messages in one commit. Between two commits others change the folder.
const BATCH: u64 = 500;
/// Times that a batch is chosen again because clients change its messages meanwhile. A folder
/// that changes even then stays until the next run.
const TRIES: usize = 3;

/// Whether messages are moved, or only counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing is changed.
    DryRun,
    /// Messages go where the rules say.
    Apply,
}

/// The target of the messages of an outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Into this folder.
    Folder(MailboxName),
    /// Nowhere.
    Nowhere,
}

/// The outcome of one rule for one folder and one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The account's name.
    pub account: String,
    /// The folder they were in.
    pub folder: MailboxName,
    /// The rule's number in the list, from 0.
    pub rule: usize,
    /// Their target.
    pub target: Target,
    /// Messages.
    pub messages: u64,
    /// The octets of these messages.
    pub octets: u64,
}

/// Why rules were not applied.
#[derive(Debug, thiserror::Error)]
pub enum RetentionError {
    /// The accounts cannot be read.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// A folder cannot be read or changed.
    #[error("{account}, {folder}: {error}")]
    Folder {
        /// The account's name.
        account: String,
        /// The folder.
        folder: String,
        /// The error of the store.
        error: StoreError,
    },
    /// The target has no room for more messages. The rest stays where it is.
    #[error(
        "{account}, {folder}: {target} may hold {limit} messages, so the rest stays: delete or move some from \
         {target}, or raise the limit (`posthaste account set --folder-messages`, `limits.folder_messages_max`)"
    )]
    TargetFull {
        /// The account's name.
        account: String,
        /// The folder that the messages are in.
        folder: String,
        /// The folder that they should go to.
        target: String,
        /// How many messages it may hold.
        limit: u32,
    },
    /// The messages were moved, but not their annotations (RFC 5257).
    #[error("{account}, {folder}: messages were moved without their annotations: {error}")]
    Annotations {
        /// The account's name.
        account: String,
        /// The folder that the messages were in.
        folder: String,
        /// The error of the directory.
        error: Box<AnnotationError>,
    },
}

/// Gets the outcome for each folder, or why nothing was done.
pub type Report<'r> = dyn FnMut(Result<Outcome, RetentionError>) + Send + 'r;

/// Applies rules. Cheap to clone.
#[derive(Clone)]
pub struct Retention {
    store: Store,
    directory: Arc<Directory>,
}

/// The trash or the archive of an account.
struct SpecialFolder {
    name: MailboxName,
    wanted: SpecialUse,
}

/// One folder under one rule.
struct RuleRun<'a> {
    store: &'a Store,
    directory: &'a Directory,
    account: &'a Account,
    entry: &'a MailboxEntry,
    rule: &'a Rule,
    number: usize,
    mode: Mode,
    now: i64,
}

impl Retention {
    /// On a store and its accounts.
    pub const fn new(store: Store, directory: Arc<Directory>) -> Self {
        Self { store, directory }
    }

    /// Applies the rules to every account that they are for, in the order of the rules. `report`
    /// gets each outcome once it is on disk, and each folder that cannot be read or changed; the
    /// run continues with the others. Messages that were moved before an error are reported
    /// before it.
    #[boxed]
    pub async fn run(
        &self,
        rules: &[Rule],
        mode: Mode,
        report: &mut Report<'_>,
    ) -> Result<(), RetentionError> {
        let mut after: Option<String> = None;
        loop {
            let page = self.directory.accounts(after.as_deref(), PAGE).await?;
            for account in &page {
                self.run_account(account, rules, mode, report).await;
            }
            match page.last() {
                Some(last) if page.len() == PAGE => after = Some(last.name.clone()),
                _ => return Ok(()),
            }
        }
    }

    /// Applies the rules to one account.
    #[boxed]
    pub async fn run_account(&self, account: &Account, rules: &[Rule], mode: Mode, report: &mut Report<'_>) {
        let rules: Vec<_> =
            rules.iter().enumerate().filter(|(_, rule)| rule.is_for_account(&account.name)).collect();
        if rules.is_empty() {
            return;
        }
        let failed = |folder: &str, error| RetentionError::Folder {
            account: account.name.clone(),
            folder: folder.to_owned(),
            error,
        };
        let list = match self.store.list(account.id).await {
            Ok(list) => list,
            Err(error) => return report(Err(failed("its folders", error))),
        };
        for entry in &list.entries {
            // Messages that an earlier rule has chosen. In a dry run they are still there.
            let mut claimed = NumSet::new();
            for &(number, rule) in rules.iter().filter(|(_, rule)| rule.is_for_folder(entry)) {
                let now = unix_time::signed(self.store.unix_ms() / 1000);
                let (store, directory) = (&self.store, &*self.directory);
                let run = RuleRun { store, directory, account, entry, rule, number, mode, now };
                match run.run(&list, &mut claimed, report).await {
                    // The folder was deleted meanwhile.
                    Ok(()) | Err(StoreError::NoMailbox(_) | StoreError::NoSuchName) => {}
                    Err(error) => report(Err(failed(entry.name.as_str(), error))),
                }
            }
        }
    }
}

impl RuleRun<'_> {
    async fn run(
        &self,
        list: &MailboxList,
        claimed: &mut NumSet,
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        let special = self.special(list);
        if let Some(special) = &special
            && folders::is_within(&self.entry.name, &special.name)
        {
            // Messages in the trash or in the archive stay there.
            return Ok(());
        }
        let mailbox = self.store.open_for_upkeep(self.entry.id).await?;
        let view = mailbox.view();
        let chosen = self.chosen(&mailbox, &view).await?.difference(claimed);
        if chosen.is_empty() {
            return Ok(());
        }
        *claimed = claimed.union(&chosen);
        let messages = ChosenMessages { mailbox: &mailbox, view: &view, uids: &chosen };
        match special {
            Some(special) if self.rule.action == Action::Archive => {
                let all = chosen.clone();
                let months = looked_at(&view, move |view| folders::by_month(view, &all)).await;
                for (month, uids) in months {
                    let name = MailboxName::new(&format!("{}/{month}", special.name))?;
                    self.move_or_expunge(
                        ChosenMessages { uids: &uids, ..messages },
                        Some((&special, name)),
                        report,
                    )
                    .await?;
                }
                Ok(())
            }
            Some(special) => {
                let name = special.name.clone();
                self.move_or_expunge(messages, Some((&special, name)), report).await
            }
            None => self.move_or_expunge(messages, None, report).await,
        }
    }

    /// The trash or the archive of the account, there or to be made.
    fn special(&self, list: &MailboxList) -> Option<SpecialFolder> {
        let (wanted, usual) = match self.rule.action {
            Action::Trash => (SpecialUse::Trash, "Trash"),
            Action::Archive => (SpecialUse::Archive, "Archive"),
            Action::Delete => return None,
        };
        let name = match folders::of_use(list, wanted, usual) {
            Some(entry) => entry.name,
            // The usual names are valid.
            None => MailboxName::new(usual).ok()?,
        };
        Some(SpecialFolder { name, wanted })
    }

    /// The UIDs that the rule chooses.
    async fn chosen(&self, mailbox: &Mailbox, view: &Arc<View>) -> Result<NumSet, StoreError> {
        let before = self.rule.older_than.map(|age| self.now.saturating_sub(unix_time::seconds(age)));
        match (before, self.rule.age_from(self.entry)) {
            (Some(before), AgeFrom::Saved) => {
                let conditions = Conditions::of(self.rule, None);
                let chosen = looked_at(view, move |view| conditions.choose(view)).await;
                saved_before(mailbox, &chosen, before).await
            }
            (before, _) => {
                let conditions = Conditions::of(self.rule, before);
                Ok(looked_at(view, move |view| conditions.choose(view)).await)
            }
        }
    }

    /// Moves or expunges messages, a batch at a time, and reports them. What was moved before an
    /// error is reported, too.
    async fn move_or_expunge(
        &self,
        messages: ChosenMessages<'_>,
        target: Option<(&SpecialFolder, MailboxName)>,
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        let mut outcome = Outcome {
            account: self.account.name.clone(),
            folder: self.entry.name.clone(),
            rule: self.number,
            target: target.as_ref().map_or(Target::Nowhere, |(_, name)| Target::Folder(name.clone())),
            messages: 0,
            octets: 0,
        };
        if self.mode == Mode::DryRun {
            (outcome.messages, outcome.octets) = (messages.uids.count(), messages.octets_of(messages.uids));
            report(Ok(outcome));
            return Ok(());
        }
        let destination = match &target {
            Some((special, name)) => Some(self.destination(special, name).await?),
            None => None,
        };
        let done = self.move_or_expunge_all(messages, destination.as_ref(), &mut outcome, report).await;
        if outcome.messages > 0 {
            report(Ok(outcome));
        }
        match (done, target) {
            (Err(StoreError::FolderFull { limit }), Some((_, target))) => {
                let (account, folder) = (self.account.name.clone(), self.entry.name.to_string());
                let target = target.to_string();
                report(Err(RetentionError::TargetFull { account, folder, target, limit }));
                Ok(())
            }
            (done, _) => done,
        }
    }

    /// The folder that messages go to, which is made if it is not there. It keeps to its owner's
    /// limit of messages.
    async fn destination(
        &self,
        special: &SpecialFolder,
        name: &MailboxName,
    ) -> Result<Destination, StoreError> {
        let mut entry =
            folders::find_or_create(self.store, self.account, &special.name, Some(special.wanted)).await?;
        if *name != special.name {
            entry = folders::find_or_create(self.store, self.account, name, None).await?;
        }
        let destination = self.store.destination(entry.id);
        destination.note_owner_limit(self.account.folder_limits.max);
        Ok(destination)
    }

    /// Moves or expunges messages, and adds what is done to the outcome. `FolderFull` if the
    /// target took only those that it had room for.
    async fn move_or_expunge_all(
        &self,
        messages: ChosenMessages<'_>,
        destination: Option<&Destination>,
        outcome: &mut Outcome,
        report: &mut Report<'_>,
    ) -> Result<(), StoreError> {
        let ChosenMessages { mailbox, view, uids } = messages;
        let left = u64::from(view.exists());
        let mut progress = FolderProgress { view: Arc::clone(view), left, chosen: uids.clone() };
        for mut batch in uids.slices(BATCH) {
            let mut full = None;
            for _ in 0..TRIES {
                batch = self.still_chosen(mailbox, &mut progress, &batch).await?;
                if batch.is_empty() {
                    break;
                }
                let done = match self
                    .move_or_expunge_batch(mailbox, &progress.view, &batch, destination, report)
                    .await
                {
                    Err(StoreError::FolderFull { limit }) => {
                        batch = self.fitting(&batch, destination, limit).await?;
                        full = Some(limit);
                        continue;
                    }
                    done => done?,
                };
                progress.left = progress.left.saturating_sub(done.count());
                outcome.messages += done.count();
                outcome.octets += messages.octets_of(&done);
                batch = batch.difference(&done);
                tokio::task::yield_now().await;
            }
            if let Some(limit) = full {
                return Err(StoreError::FolderFull { limit });
            }
        }
        Ok(())
    }

    /// The first messages of a batch that fit into an almost full target.
    async fn fitting(
        &self,
        batch: &NumSet,
        destination: Option<&Destination>,
        limit: u32,
    ) -> Result<NumSet, StoreError> {
        let Some(destination) = destination else { return Ok(NumSet::new()) };
        let heads = self.store.status(&[destination.id()]).await?;
        let there = heads.into_iter().flatten().map(|head| head.counts.messages).next();
        let room = there.map_or(0, |there| limit.saturating_sub(there));
        Ok(batch.iter().take(room as usize).collect())
    }

    /// The messages of a batch that the rule still chooses. A client may have flagged some, or
    /// removed newer ones, so that these are among the newest.
    async fn still_chosen(
        &self,
        mailbox: &Mailbox,
        progress: &mut FolderProgress,
        batch: &NumSet,
    ) -> Result<NumSet, StoreError> {
        progress.view = mailbox.current().await?;
        let view = &progress.view;
        if self.rule.keep_newest.is_some() && u64::from(view.exists()) < progress.left {
            // Only then: it looks at the whole folder.
            progress.left = u64::from(view.exists());
            progress.chosen = self.chosen(mailbox, view).await?.intersection(&progress.chosen);
        }
        let batch = progress.chosen.intersection(batch);
        let stays = |row: &Row| self.rule.keep_flagged && row.flags().contains(FlagSet::FLAGGED);
        let rows = view.rows_of_uids(&batch).filter(|(_, row)| !stays(row));
        Ok(rows.map(|(_, row)| row.uid().value()).collect())
    }

    /// Moves or expunges the messages of a batch that did not change after a view; returns them.
    async fn move_or_expunge_batch(
        &self,
        mailbox: &Mailbox,
        view: &View,
        batch: &NumSet,
        destination: Option<&Destination>,
        report: &mut Report<'_>,
    ) -> Result<NumSet, StoreError> {
        let (done, annotated) = match destination {
            Some(destination) => {
                let moved = mailbox.move_unchanged(batch, view.modseq(), destination).await?;
                let annotated = self.move_annotations(&moved, destination.id()).await;
                (moved.expunged.uids, annotated)
            }
            None => {
                let removed = mailbox.remove_unchanged(batch, view.modseq()).await?.uids;
                let (owner, folder) = (self.account.id, self.entry.id);
                let forgotten = self.directory.message_annotations().forget(owner, folder, &removed).await;
                (removed, forgotten.map_err(AnnotationError::from))
            }
        };
        if let Err(error) = annotated {
            let (account, folder) = (self.account.name.clone(), self.entry.name.to_string());
            report(Err(RetentionError::Annotations { account, folder, error: Box::new(error) }));
        }
        Ok(done)
    }
}

/// Messages that leave a folder.
#[derive(Clone, Copy)]
struct ChosenMessages<'a> {
    mailbox: &'a Mailbox,
    /// The view in which they were chosen.
    view: &'a Arc<View>,
    uids: &'a NumSet,
}

impl ChosenMessages<'_> {
    /// The octets of some of them.
    fn octets_of(&self, uids: &NumSet) -> u64 {
        self.view.rows_of_uids(uids).map(|(_, row)| u64::from(row.size())).sum()
    }
}

/// A folder while a rule is applied to it.
struct FolderProgress {
    /// As it was last seen.
    view: Arc<View>,
    /// Messages that it has if nobody else removes some.
    left: u64,
    /// The messages that the rule chose at its last complete look.
    chosen: NumSet,
}

impl RuleRun<'_> {
    /// The annotations of messages follow them, those of all accounts. Where the folder never had
    /// any, this reads one record that is not there.
    async fn move_annotations(&self, moved: &Moved, to: MailboxId) -> Result<(), AnnotationError> {
        let relocated = Relocated {
            owner: self.account.id,
            from: self.entry.id,
            to,
            old: &moved.copied.source,
            new: &moved.copied.uids,
            scopes: Scope::ALL,
        };
        let annotated =
            self.directory.message_annotations().relocate(relocated, &moved.expunged.uids).await?;
        if annotated.uids.is_empty() {
            return Ok(());
        }
        let touched = match self.store.open_for_upkeep(to).await {
            Ok(folder) => folder.touch(&annotated.uids, None).await,
            Err(error) => Err(error),
        };
        if let Err(StoreError::NoMailbox(_)) = &touched {
            // Its deletion may have come before their annotations.
            self.directory
                .message_annotations()
                .forget_keepers(self.account.id, to, &annotated.keepers)
                .await?;
        }
        touched?;
        Ok(())
    }
}

/// The messages of `uids` that came into the folder before a time. UIDs are given in the order in
/// which messages come, so the boundary is found by halving. Each message below it is looked at
/// anyway: a clock may have been set back.
async fn saved_before(mailbox: &Mailbox, uids: &NumSet, before: i64) -> Result<NumSet, StoreError> {
    let all: Vec<u32> = uids.iter().collect();
    let (mut low, mut high) = (0, all.len());
    while low < high {
        let middle = low + (high - low) / 2;
        match saved(mailbox, all[middle]).await? {
            Some(saved) if saved >= before => high = middle,
            // Expunged meanwhile, or unreadable: it decides nothing.
            _ => low = middle + 1,
        }
    }
    let mut below = NumSet::new();
    all[..low].iter().for_each(|uid| below.push(*uid));
    let mut chosen = NumSet::new();
    let mut visit = |stored: posthaste_store::Stored<'_>| {
        if stored.saved < before {
            chosen.push(stored.uid.value());
        }
        ControlFlow::Continue(())
    };
    // A message without a readable record has no known age: it stays.
    let unreadable = mailbox.summaries(&below, &mut visit).await?;
    if unreadable.refuse().is_err() {
        tracing::warn!(mailbox = %mailbox.id(), "messages with damaged records stay, whatever their age: run `posthaste check`");
    }
    Ok(chosen)
}

async fn saved(mailbox: &Mailbox, uid: u32) -> Result<Option<i64>, StoreError> {
    let mut saved = None;
    let mut visit = |stored: posthaste_store::Stored<'_>| {
        saved = Some(stored.saved);
        ControlFlow::Break(())
    };
    let unreadable = mailbox.summaries(&NumSet::range(uid, uid), &mut visit).await?;
    Ok(saved.filter(|_| unreadable.refuse().is_ok()))
}
