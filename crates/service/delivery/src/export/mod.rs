//! Mailboxes written as files: mbox (the mboxrd kind) or Maildir.
//!
//! A single mailbox is written to the named file or folder. A whole account goes into a folder:
//! `Archive/2024` becomes `Archive/2024.mbox`, or the Maildir `Archive/2024`. No existing file is
//! overwritten, and no link at or below that place is followed. An mbox that is not finished is
//! removed. An import of the files gives the same messages with the same flags and dates.
//!
//! Others may change a mailbox meanwhile. A message that was listed and cannot be found then was
//! expunged, or it has a new UID ([`crate::Renewals`], `posthaste convert`). Nothing
//! distinguishes the two. So the messages that came since the listing are written, too: those
//! with new UIDs are among them. A message that gets a new UID after it was written may be
//! written again.

mod folder;
mod maildir;
mod mbox;
mod outgoing;
mod path;

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use posthaste_mail_model::{AccountId, MailboxName, NumSet, Uid};
use posthaste_store::{Mailbox, StoreError, Unreadable, View};

use crate::deliver::Delivery;
use crate::error::DeliveryError;
use outgoing::Outgoing;
pub use path::MailFormat;
use path::path_of;

/// Messages whose rows are looked up at a time.
const ROWS: usize = 256;
/// Octets gathered before they are written: a few large writes, and little memory.
const GATHER_BYTES: usize = 4 << 20;
/// Faults reported with their text.
const FAULTS_MAX: usize = 100;
/// Times that newer messages are listed because some of the listed ones were expunged. Each time
/// lists only those that came since the one before. So the second one is the last, unless others
/// expunge new messages all the time.
const PASSES_MAX: usize = 10;
/// Why messages are left out after that.
const CHANGES: &str = "others change the mailbox all the time; export it again";

/// Why a mailbox is not written to a place that has mail.
const EXISTS: &str = "it exists, and nothing is overwritten: remove it, or name another target";

/// The progress of an export, and in the end its result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// Mailboxes written.
    pub mailboxes: u64,
    /// Messages written.
    pub messages: u64,
    /// The octets of these messages in the store.
    pub bytes: u64,
    /// Messages that could not be read.
    pub failed: u64,
    /// The reasons, for the first of them.
    pub faults: Vec<String>,
}

/// Why an export stopped.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A file could not be written.
    #[error("{path}: {error}")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The store failed.
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
}

/// The file or folder of a mailbox.
enum Writer {
    Mbox(mbox::MboxWriter),
    Maildir(maildir::MaildirWriter),
}

impl Writer {
    /// The writer of a mailbox of the export to `target`.
    fn create(format: MailFormat, target: &Path, path: &Path) -> io::Result<Self> {
        let folder = match format {
            MailFormat::Mbox => path.parent().unwrap_or(path),
            MailFormat::Maildir => path,
        };
        folder::create(target, folder)?;
        let writer = match format {
            MailFormat::Mbox => mbox::MboxWriter::create(path).map(Self::Mbox),
            MailFormat::Maildir => maildir::MaildirWriter::create(path).map(Self::Maildir),
        };
        writer.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => io::Error::other(EXISTS),
            _ => error,
        })
    }

    fn write(&mut self, messages: &[Outgoing]) -> io::Result<()> {
        messages.iter().try_for_each(|message| match self {
            Self::Mbox(writer) => writer.write(message),
            Self::Maildir(writer) => writer.write(message),
        })
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Mbox(writer) => writer.finish(),
            Self::Maildir(writer) => writer.finish(),
        }
    }
}

impl Delivery {
    /// Exports one mailbox of an account, or all. `progress` is called after each write.
    #[boxed]
    pub async fn export(
        &self,
        account: AccountId,
        mailbox: Option<&MailboxName>,
        format: MailFormat,
        target: &Path,
        progress: &mut (dyn FnMut(&ExportReport) + Send),
    ) -> Result<ExportReport, ExportError> {
        let list = self.store().list(account).await.map_err(DeliveryError::from)?;
        let mut report = ExportReport::default();
        let chosen: Vec<_> = match mailbox {
            Some(name) => {
                let entry = list.find(name).ok_or(DeliveryError::Store(StoreError::NoSuchName))?;
                vec![(entry.id, target.to_owned())]
            }
            None => list.entries.iter().map(|e| (e.id, path_of(target, &e.name, format))).collect(),
        };
        for (id, path) in chosen {
            let mailbox = self.store().open(id).await.map_err(DeliveryError::from)?;
            let writer = on_disk(&path, {
                let (target, path) = (target.to_owned(), path.clone());
                move || Writer::create(format, &target, &path)
            })
            .await?;
            export_mailbox(&mailbox, writer, path, &mut report, progress).await?;
            report.mailboxes += 1;
        }
        Ok(report)
    }
}

async fn export_mailbox(
    mailbox: &Arc<Mailbox>,
    mut writer: Writer,
    path: PathBuf,
    report: &mut ExportReport,
    progress: &mut (dyn FnMut(&ExportReport) + Send),
) -> Result<(), ExportError> {
    let mut first = Uid::MIN;
    for pass in 1..=PASSES_MAX {
        let view = mailbox.current().await.map_err(DeliveryError::from)?;
        let all = view.all();
        let uids = view.rows(&all).map(|(_, row)| row.uid()).filter(|uid| *uid >= first);
        let uids: Vec<Uid> = uids.collect();
        let mut missed = Vec::new();
        for uids in uids.chunks(ROWS) {
            let LookedUp { waiting, unreadable, expunged } = outgoing(mailbox, &view, uids).await?;
            report.unreadable(&path, &unreadable.0);
            missed.extend(expunged.iter().filter_map(Uid::new));
            let mut rest = waiting.into_iter().peekable();
            while rest.peek().is_some() {
                let mut messages = Vec::new();
                let mut gathered = 0;
                while gathered < GATHER_BYTES
                    && let Some(mut message) = rest.next()
                {
                    let uid = message.outgoing.uid;
                    match read(mailbox, &message).await {
                        Ok(bytes) => {
                            gathered += bytes.len();
                            message.outgoing.bytes = bytes;
                            messages.push(message.outgoing);
                        }
                        Err(error) => match unless_expunged(mailbox, uid, error).await {
                            Some(error) => report.fault(&path, uid, &error),
                            None => missed.push(uid),
                        },
                    }
                }
                report.messages += messages.len() as u64;
                report.bytes += gathered as u64;
                writer = on_disk(&path, move || writer.write(&messages).map(|()| writer)).await?;
                progress(report);
            }
        }
        if missed.is_empty() {
            break;
        }
        if pass == PASSES_MAX {
            missed.into_iter().for_each(|uid| report.fault(&path, uid, &CHANGES));
        }
        first = view.head().uid_next;
    }
    on_disk(&path, move || writer.finish()).await
}

/// The error of a message that cannot be read; `None` if the message was expunged after it was
/// listed. One that is superseded has a new UID by now ([`crate::Renewals`]).
async fn unless_expunged(mailbox: &Mailbox, uid: Uid, error: StoreError) -> Option<StoreError> {
    let is_expunged = matches!(error, StoreError::Superseded(_))
        || mailbox.current().await.is_ok_and(|view| view.row_of_uid(uid).is_none());
    (!is_expunged).then_some(error)
}

/// A message whose bytes are still in the store.
struct Waiting {
    outgoing: Outgoing,
    body: posthaste_mail_model::BodyId,
}

/// The outcome for messages that were listed.
struct LookedUp {
    /// Those to write, without their bytes.
    waiting: Vec<Waiting>,
    /// Those that could not be looked up.
    unreadable: Unreadable,
    /// Those that were expunged since.
    expunged: NumSet,
}

/// Looks up messages of a view.
async fn outgoing(mailbox: &Mailbox, view: &View, uids: &[Uid]) -> Result<LookedUp, DeliveryError> {
    let set: NumSet = uids.iter().map(|uid| uid.value()).collect();
    let mut waiting = Vec::with_capacity(uids.len());
    let unreadable = mailbox
        .summaries(&set, &mut |stored| {
            if let Some((_, row)) = view.row_of_uid(stored.uid) {
                let flags = view.head().keywords.flags_of(row.flags()).collect();
                let outgoing = Outgoing { uid: stored.uid, flags, date: row.date(), bytes: Bytes::new() };
                waiting.push(Waiting { outgoing, body: stored.body });
            }
            ControlFlow::Continue(())
        })
        .await?;
    let found: NumSet = waiting.iter().map(|message| message.outgoing.uid.value()).collect();
    let expunged = set.difference(&found).difference(&unreadable.0);
    Ok(LookedUp { waiting, unreadable, expunged })
}

async fn read(mailbox: &Mailbox, message: &Waiting) -> Result<Bytes, StoreError> {
    mailbox.read_body(message.outgoing.uid, message.body, 0..u64::MAX).await
}

impl ExportReport {
    /// Messages that could not be looked up.
    fn unreadable(&mut self, path: &Path, uids: &NumSet) {
        for uid in uids.iter().filter_map(Uid::new) {
            let error = StoreError::Unreadable(NumSet::range(uid.value(), uid.value()));
            self.fault(path, uid, &error);
        }
    }

    fn fault(&mut self, path: &Path, uid: Uid, error: &dyn Display) {
        let text = format!("{}: message {uid} was left out: {error}", path.display());
        tracing::warn!("{text}");
        self.failed += 1;
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(text);
        }
    }
}

/// Work with files, on a thread that may wait for them.
async fn on_disk<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, ExportError> {
    let done = tokio::task::spawn_blocking(work).await.map_err(io::Error::other).and_then(|result| result);
    done.map_err(|error| ExportError::File { path: path.to_owned(), error })
}
