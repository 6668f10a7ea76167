//! One run of an import, over any number of sources. It finds or creates mailboxes, appends
//! batches, and records each in the journal of its mailbox.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_recursion::async_recursion as boxed;
use posthaste_directory::Account;
use posthaste_mail_model::{Keyword, MailboxId, MailboxName};
use posthaste_store::{Mailbox, StoreError};
use tokio::sync::mpsc;

use super::batch::{Batch, Batcher, Event, Folder, SharedKnown};
use super::digest::ImportedCounts;
use super::doubt;
use super::folder::read;
use super::journal::{Journal, JournalError, forget};
use super::{BATCHES_AHEAD, Fault, ImportError, ImportOptions, ImportReport, Origin, Repeat};
use crate::deliver::Delivery;
use crate::error::DeliveryError;

/// Keywords named in a fault: the store reports more than a person reads.
const KEYWORDS_NAMED: usize = 50;

/// A run of an import. All sources of one run count together: a message that two of them contain
/// is imported twice.
pub struct Importer<'a> {
    delivery: &'a Delivery,
    account: &'a Account,
    options: &'a ImportOptions,
    /// By the relative name of their folder.
    targets: HashMap<String, (MailboxName, MailboxId)>,
    journals: HashMap<MailboxId, (Journal, SharedKnown)>,
    /// The mailbox of the last batch.
    last: Option<Arc<Mailbox>>,
}

/// A failure before its place in the source is known.
enum Stopped {
    Delivery(DeliveryError),
    Journal(JournalError),
}

impl<E: Into<DeliveryError>> From<E> for Stopped {
    fn from(error: E) -> Self {
        Self::Delivery(error.into())
    }
}

impl From<JournalError> for Stopped {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl Stopped {
    fn at(self, origin: Origin, imported: u64) -> ImportError {
        let error = match self {
            Self::Delivery(error) => error,
            Self::Journal(JournalError::Store(error)) => error.into(),
            Self::Journal(JournalError::Another) => return ImportError::Another { origin },
        };
        ImportError::Store { origin, imported, error }
    }
}

impl Delivery {
    /// Begins an import into an account. Journals of mailboxes that were deleted are removed first.
    #[boxed]
    pub async fn importer<'a>(
        &'a self,
        account: &'a Account,
        options: &'a ImportOptions,
    ) -> Result<Importer<'a>, DeliveryError> {
        let list = self.mailboxes(account).await?;
        let keep = |mailbox| list.entries.iter().any(|entry| entry.id == mailbox);
        forget(&**self.store().engine(), account.id, keep).await?;
        let (targets, journals) = (HashMap::new(), HashMap::new());
        Ok(Importer { delivery: self, account, options, targets, journals, last: None })
    }

    /// Imports one file or folder into an account. `progress` is called after each commit.
    #[boxed]
    pub async fn import(
        &self,
        account: &Account,
        source: &Path,
        options: &ImportOptions,
        progress: &mut (dyn FnMut(&ImportReport) + Send),
    ) -> Result<ImportReport, ImportError> {
        let mut importer = self.importer(account, options).await.map_err(ImportError::Begin)?;
        importer.import(source, progress).await
    }

    /// Removes the journals of all imports into an account: part of removing the account.
    #[boxed]
    pub async fn forget_imports(&self, account: &Account) -> Result<(), DeliveryError> {
        Ok(forget(&**self.store().engine(), account.id, |_| false).await?)
    }
}

impl Importer<'_> {
    /// Imports a file or folder. `progress` is called after each commit.
    #[boxed]
    pub async fn import(
        &mut self,
        source: &Path,
        progress: &mut (dyn FnMut(&ImportReport) + Send),
    ) -> Result<ImportReport, ImportError> {
        let (events, mut inbox) = mpsc::channel(BATCHES_AHEAD);
        let (delivery, path) = (self.delivery.clone(), source.to_owned());
        let limit = delivery.options().message_len_max;
        let mut batcher = Batcher::new(delivery, self.account, events);
        let reader = tokio::task::spawn_blocking(move || {
            let outcome = read(&path, limit, &mut batcher);
            batcher.finish();
            outcome
        });
        let mut report = ImportReport::default();
        while let Some(event) = inbox.recv().await {
            match event {
                Event::Fault(fault) => report.fault(fault),
                Event::Folder(folder) => self.enter(folder, &mut report).await?,
                Event::Present(present) => {
                    report.present += present.messages;
                    report.present_bytes += present.bytes;
                }
                Event::Batch(batch) => self.take(batch, &mut report).await?,
            }
            progress(&report);
        }
        let origin = Origin { path: Arc::from(source), offset: 0 };
        self.confirm(None).await.map_err(|error| Stopped::from(error).at(origin, report.messages))?;
        reader.await.map_err(|e| ImportError::Interrupted(e.to_string()))??;
        Ok(report)
    }

    /// Finds or makes the mailbox of a folder, and sends the reader the journal of earlier imports
    /// into it.
    async fn enter(&mut self, folder: Folder, report: &mut ImportReport) -> Result<(), ImportError> {
        let Folder { mailbox: relative, first, reply } = folder;
        let known = self.target(&relative).await.map_err(|error| error.at(first.clone(), report.messages))?;
        // Reported once per folder, with its first message.
        if name_below(self.options.mailbox.as_ref(), &relative).is_none()
            && let Some((name, _)) = self.targets.get(&relative)
        {
            let why =
                format!("no mailbox can have its folder's name, too long or too deep: it went into {name}");
            report.fault(Fault { origin: first, why });
        }
        // The error is ignored: the reader has ended, so nobody needs the answer.
        let _ = reply.send(known);
        Ok(())
    }

    async fn target(&mut self, relative: &str) -> Result<SharedKnown, Stopped> {
        let id = match self.targets.get(relative) {
            Some((_, id)) => *id,
            None => {
                let (name, id) = self.mailbox(relative).await?;
                self.targets.insert(relative.to_owned(), (name, id));
                id
            }
        };
        if let Some((_, known)) = self.journals.get(&id) {
            return Ok(Arc::clone(known));
        }
        let opened = Journal::open(self.delivery.store(), self.account.id, id, self.options.alone).await?;
        let (journal, known) = opened;
        let known = match self.options.repeat {
            Repeat::Skip => known,
            Repeat::Import => ImportedCounts::default(),
        };
        let known = Arc::new(Mutex::new(known));
        self.journals.insert(id, (journal, Arc::clone(&known)));
        Ok(known)
    }

    /// The mailbox of a relative name, made if it is missing.
    async fn mailbox(&self, relative: &str) -> Result<(MailboxName, MailboxId), DeliveryError> {
        let name = mailbox_name(self.options.mailbox.as_ref(), relative);
        let store = self.delivery.store();
        let list = self.delivery.mailboxes(self.account).await?;
        if let Some(entry) = list.find(&name) {
            return Ok((name, entry.id));
        }
        // Subscribed first: a run that is cut off here leaves a name without a mailbox, which the
        // next run makes.
        store.subscribe(self.account.id, &name).await?;
        let limit = self.account.quota_mailboxes;
        let made = store.create_within(self.account.id, &name, None, limit).await;
        if matches!(made, Err(StoreError::TooManyMailboxes { .. })) && !list.subscribed.contains(&name) {
            store.unsubscribe(self.account.id, &name).await?;
        }
        Ok((name, made?.id))
    }

    /// Appends a batch.
    async fn take(&mut self, batch: Batch, report: &mut ImportReport) -> Result<(), ImportError> {
        let (first, imported) = (batch.first.clone(), report.messages);
        let (count, bytes) = (batch.messages.len() as u64, batch.bytes as u64);
        let appended = self.append(batch, report).await;
        let name = appended.map_err(|stopped| stopped.at(first, imported))?;
        report.messages += count;
        report.bytes += bytes;
        report.mailbox = Some(name);
        Ok(())
    }

    async fn append(&mut self, batch: Batch, report: &mut ImportReport) -> Result<MailboxName, Stopped> {
        let Batch { mailbox: relative, mut messages, digests, first, .. } = batch;
        let (name, id) = self.targets.get(&relative).cloned().ok_or(StoreError::NoSuchName)?;
        self.confirm(Some(id)).await?;
        let mailbox = self.open(id).await?;
        let uid_next = mailbox.view().head().uid_next.value();
        let fresh = self.delivery.store().new_body_id();
        let noted =
            doubt::CommittedBatch::new(uid_next, fresh, u32::try_from(messages.len()).unwrap_or(u32::MAX));
        (0..).zip(&mut messages).for_each(|(n, message)| message.body = noted.body(n));
        let count = messages.len();
        let (journal, _) = self.journals.get_mut(&id).ok_or(StoreError::NoSuchName)?;
        journal.intend(&noted, &digests).await?;
        let target = self.delivery.store().destination(id);
        let appended = self.delivery.append(self.account, &target, messages).await?;
        if !appended.left_out.is_empty() {
            let named = appended.left_out.iter().take(KEYWORDS_NAMED).map(Keyword::as_str);
            let names = named.collect::<Vec<&str>>().join(" ");
            // Their number may not be known: the store reports only the first.
            let more = if appended.left_out.len() > KEYWORDS_NAMED { " and others" } else { "" };
            let why = format!(
                "{name} has as many keywords as it can hold: in {count} messages from here on these were left out: \
                 {names}{more}"
            );
            report.fault(Fault { origin: first, why });
        }
        journal.appended();
        Ok(name)
    }

    async fn open(&mut self, id: MailboxId) -> Result<Arc<Mailbox>, StoreError> {
        match &self.last {
            Some(mailbox) if mailbox.id() == id => Ok(Arc::clone(mailbox)),
            _ => Ok(Arc::clone(self.last.insert(self.delivery.store().open(id).await?))),
        }
    }

    /// Makes the last batch of every mailbox but one certain.
    async fn confirm(&mut self, but: Option<MailboxId>) -> Result<(), JournalError> {
        if but.is_some() && self.last.as_ref().map(|mailbox| mailbox.id()) == but {
            return Ok(());
        }
        for (id, (journal, _)) in &mut self.journals {
            if Some(*id) != but {
                journal.confirm().await?;
            }
        }
        Ok(())
    }
}

/// The mailbox for a relative name. If no mailbox can have that name, it is the top one.
pub(super) fn mailbox_name(base: Option<&MailboxName>, relative: &str) -> MailboxName {
    name_below(base, relative).or_else(|| base.cloned()).unwrap_or_else(MailboxName::inbox)
}

/// The mailbox name for a relative name, with `_` for characters that mailbox names cannot contain.
/// `None` if it is still too long or too deep.
fn name_below(base: Option<&MailboxName>, relative: &str) -> Option<MailboxName> {
    let joined = match (base, relative) {
        (None, "") => return Some(MailboxName::inbox()),
        (Some(base), "") => return Some(base.clone()),
        (None, relative) => relative.to_owned(),
        (Some(base), relative) => format!("{base}/{relative}"),
    };
    if let Ok(name) = MailboxName::new(&joined) {
        return Some(name);
    }
    let clean = |level: &str| match level {
        "." | ".." => "_".to_owned(),
        _ => level
            .chars()
            .map(|c| match c {
                '%' | '*' | '\u{2028}' | '\u{2029}' => '_',
                c if c.is_control() => '_',
                c => c,
            })
            .collect(),
    };
    let levels: Vec<String> = joined.split('/').filter(|level| !level.is_empty()).map(clean).collect();
    MailboxName::new(&levels.join("/")).ok()
}
