//! Mail from files: mbox, Maildir, `.eml`, and folders of them.
//!
//! Reading and summarising run on a blocking thread, appending on the runtime; between them is a channel of a few
//! batches. So both cores of a small machine work, memory stays the same however large the source is, and each batch
//! is one durable commit.
//!
//! Where things go: a folder becomes a mailbox, its levels the mailbox's levels, below [`ImportOptions::mailbox`] if
//! one is given. What lies at the top goes into that mailbox, or INBOX. Mailboxes that are missing are made.
//!
//! What always holds: no message is passed over for being broken; whatever was not taken is counted and reported with
//! file and offset; an import that fails says what it had taken.

mod batch;
mod folder;
mod looks;
mod maildir;
mod mbox;
mod status;
#[cfg(test)]
mod tests;

use posthaste_directory::Account;
use posthaste_mail_model::{Flag, Keyword, MailboxName};
use posthaste_store::Destination;
use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::mpsc;

use crate::deliver::Delivery;
use crate::error::DeliveryError;
use batch::{Batch, Batcher, Event};

/// Messages of one commit.
const BATCH_MESSAGES: usize = 500;
/// Octets of one commit. Both limits make a commit of some milliseconds: long enough that its sync does not count, and
/// short enough that mail coming in meanwhile does not wait.
const BATCH_BYTES: usize = 8 << 20;
/// Batches read ahead: one to work on while one is committed. More would only be more memory.
const BATCHES_AHEAD: usize = 2;
/// Faults kept with their text; the rest is only counted. A folder of a million unreadable files must not fill memory.
const FAULTS_MAX: usize = 100;

/// What an import is told.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// The mailbox for what lies at the top, and the level above all else.
    pub mailbox: Option<MailboxName>,
}

/// Where a message was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub path: Arc<Path>,
    /// Where in it, in octets.
    pub offset: u64,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A name may hold anything but a NUL: what would move a terminal's cursor is shown and not sent.
        for c in self.path.to_string_lossy().chars() {
            if c.is_control() { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
        }
        if self.offset > 0 { write!(f, ", byte {}", self.offset) } else { Ok(()) }
    }
}

/// A message as found in a file, with CRLF at its line ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The mailbox's name relative to the top: levels with `/` between them, empty for the top itself.
    pub mailbox: String,
    /// Flags.
    pub flags: Vec<Flag>,
    /// When it was received, unix seconds, if that is known.
    pub date: Option<u32>,
    /// The message.
    pub bytes: Vec<u8>,
    /// Where it was.
    pub origin: Origin,
}

/// Something that was not taken, or not whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub origin: Origin,
    /// Why.
    pub why: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.why)
    }
}

/// Takes what readers find. `Break` ends the reading.
pub trait Sink {
    /// A message.
    fn message(&mut self, found: Found) -> ControlFlow<()>;
    /// A message or file that could not be read.
    fn fault(&mut self, fault: Fault) -> ControlFlow<()>;
}

/// How far an import is, and in the end what came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Messages in the store.
    pub messages: u64,
    /// Their octets.
    pub bytes: u64,
    /// Messages and files that could not be taken.
    pub failed: u64,
    /// The first of them.
    pub faults: Vec<Fault>,
    /// The mailbox appended to last.
    pub mailbox: Option<MailboxName>,
}

impl ImportReport {
    fn fault(&mut self, fault: Fault) {
        tracing::warn!(%fault, "not imported");
        self.failed += 1;
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }
}

/// Why an import stopped.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ImportError {
    /// Nothing to read there.
    #[error("{path}: {why}")]
    Source {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The store did not take a batch. What came before it is in the store.
    #[error(
        "{origin}: {error}; {imported} messages before it were imported: import what is left from there on, or \
         remove them before starting again"
    )]
    Store {
        /// The first message that is not in the store.
        origin: Origin,
        /// Messages that are.
        imported: u64,
        /// Why.
        error: DeliveryError,
    },
    /// The reader was cut short.
    #[error("the import was interrupted: {0}")]
    Interrupted(String),
}

/// Reads a file or folder and gives everything in it to a sink, on this thread, in a lasting order.
///
/// Messages over `message_len_max` octets are reported and passed over in constant memory.
pub fn read(path: &Path, message_len_max: u64, sink: &mut dyn Sink) -> Result<(), ImportError> {
    folder::read_source(path, message_len_max, sink)
}

impl Delivery {
    /// Imports a file or folder into an account. `progress` is called after each commit.
    pub async fn import(
        &self,
        account: &Account,
        source: &Path,
        options: &ImportOptions,
        progress: &mut (dyn FnMut(&ImportReport) + Send),
    ) -> Result<ImportReport, ImportError> {
        let (events, mut inbox) = mpsc::channel(BATCHES_AHEAD);
        let (delivery, path) = (self.clone(), source.to_owned());
        let limit = self.options().message_len_max;
        let reader = tokio::task::spawn_blocking(move || {
            let mut batcher = Batcher::new(delivery, events);
            let outcome = read(&path, limit, &mut batcher);
            batcher.finish();
            outcome
        });
        let mut target = Target { delivery: self, account, options, open: None };
        let mut report = ImportReport::default();
        while let Some(event) = inbox.recv().await {
            match event {
                Event::Fault(fault) => report.fault(fault),
                Event::Batch(batch) => target.append(batch, &mut report).await?,
            }
            progress(&report);
        }
        reader.await.map_err(|e| ImportError::Interrupted(e.to_string()))??;
        Ok(report)
    }
}

/// Where batches go.
struct Target<'a> {
    delivery: &'a Delivery,
    account: &'a Account,
    options: &'a ImportOptions,
    /// The mailbox of the last batch, by its relative name.
    open: Option<(String, MailboxName, Destination)>,
}

impl Target<'_> {
    async fn append(&mut self, batch: Batch, report: &mut ImportReport) -> Result<(), ImportError> {
        let stopped = |imported, error| ImportError::Store { origin: batch.first.clone(), imported, error };
        let another = self.open.as_ref().is_none_or(|(last, ..)| *last != batch.mailbox);
        let (name, mailbox) = match self.mailbox(&batch.mailbox).await {
            Ok(found) => found,
            Err(error) => return Err(stopped(report.messages, error)),
        };
        let (count, bytes) = (batch.messages.len() as u64, batch.bytes as u64);
        let appended = self.delivery.append(self.account, &mailbox, batch.messages.clone()).await;
        let appended = appended.map_err(|error| stopped(report.messages, error))?;
        if !appended.left_out.is_empty() {
            let names: Vec<&str> = appended.left_out.iter().map(Keyword::as_str).collect();
            let names = names.join(" ");
            let why = format!(
                "{name} has as many keywords as it can hold: in {count} messages from here on these were left out: {names}"
            );
            report.fault(Fault { origin: batch.first.clone(), why });
        }
        // Once a folder: where all its messages are is told with the first.
        if another && name_below(self.options.mailbox.as_ref(), &batch.mailbox).is_none() {
            let why =
                format!("no mailbox can have its folder's name, too long or too deep: it went into {name}");
            report.fault(Fault { origin: batch.first.clone(), why });
        }
        report.messages += count;
        report.bytes += bytes;
        report.mailbox = Some(name);
        Ok(())
    }

    /// The mailbox of a relative name, made if it is missing.
    async fn mailbox(&mut self, relative: &str) -> Result<(MailboxName, Destination), DeliveryError> {
        if let Some((last, name, mailbox)) = &self.open
            && last == relative
        {
            return Ok((name.clone(), mailbox.clone()));
        }
        let name = mailbox_name(self.options.mailbox.as_ref(), relative);
        let store = self.delivery.store();
        let list = self.delivery.mailboxes(self.account.id).await?;
        let id = match list.find(&name) {
            Some(entry) => entry.id,
            None => {
                let entry = store.create(self.account.id, &name, None).await?;
                store.subscribe(self.account.id, &name).await?;
                entry.id
            }
        };
        let mailbox = store.destination(id);
        self.open = Some((relative.to_owned(), name.clone(), mailbox.clone()));
        Ok((name, mailbox))
    }
}

/// The mailbox for a relative name. Where no mailbox can have it, the last resort is the top.
fn mailbox_name(base: Option<&MailboxName>, relative: &str) -> MailboxName {
    name_below(base, relative).or_else(|| base.cloned()).unwrap_or_else(MailboxName::inbox)
}

/// The name for a relative one, with `_` for what no mailbox name can hold; none if it is too long or too deep even so.
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
