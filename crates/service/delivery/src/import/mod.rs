//! Mail from files: mbox, Maildir, `.eml`, and folders of them.
//!
//! Reading and summarising run on a blocking thread, appending on the runtime; between them is a
//! channel of a few batches. So both cores of a small machine work, memory stays the same however
//! large the source is, and each batch is one durable commit.
//!
//! A folder becomes a mailbox, its levels the mailbox's levels, below [`ImportOptions::mailbox`] if
//! one is given. Messages at the top go into that mailbox, or INBOX. Missing mailboxes are made.
//!
//! An import can be repeated, however the one before ended. Each mailbox has a journal of its
//! imports: digests of messages, each as often as it was imported. A run skips the number of
//! copies that the journal has. So a message that a source contains twice is imported twice,
//! never three times. If a source has grown, only its new messages are imported. Mail that came
//! into the mailbox in another way is not compared. A message that a user moved or expunged since
//! stays where it is, or stays expunged.
//!
//! Invariants: no message is skipped for being broken. Each message that was not imported is
//! counted and reported with file and offset. A failed import says what it has imported, and the
//! next run imports the rest.

mod batch;
mod digest;
mod doubt;
mod file_kind;
mod folder;
mod importer;
mod journal;
mod maildir;
mod mbox;
#[cfg(test)]
mod resume_tests;
mod source_folder;
mod source_path;
mod status;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use posthaste_mail_model::{Flag, MailboxName};

use crate::error::DeliveryError;

pub use folder::read;
pub use importer::Importer;
pub use journal::copy_journals;

#[cfg(test)]
use importer::mailbox_name;

/// Messages of one commit.
const BATCH_MESSAGES: usize = 500;
/// Octets of one commit. Both limits make a commit of some milliseconds. That is long enough that
/// its sync does not count, and short enough that incoming mail does not wait.
const BATCH_BYTES: usize = 8 << 20;
/// Batches prefetched: one is prepared while another is committed. More would only use more memory.
const BATCHES_AHEAD: usize = 2;
/// Faults kept with their text; the rest is only counted. A folder of a million unreadable files
/// must not fill memory.
const FAULTS_MAX: usize = 100;

/// The options of an import.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// The mailbox for messages at the top, and the level above all others.
    pub mailbox: Option<MailboxName>,
    /// The treatment of messages that were imported before.
    pub repeat: Repeat,
    /// The proof that no other import writes into the same mailboxes.
    pub alone: Alone,
}

/// The treatment of messages that were imported into the same mailbox before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repeat {
    /// The messages are counted and skipped.
    #[default]
    Skip,
    /// The messages are imported again.
    Import,
}

/// The proof that no other import writes into the same mailboxes. It matters where an earlier one
/// left a batch of which nobody knows whether it was appended: that import may still be running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alone {
    /// A lock that ends with its process says so, and the engine keeps no body of a commit that
    /// failed.
    Locked,
    /// If a journal did not change for this time, its import counts as ended.
    Watched(Duration),
}

impl Default for Alone {
    /// 30 s: longer than one commit takes with all its retries. With twice this, a user who knows
    /// that the other import has ended would wait for nothing.
    fn default() -> Self {
        Self::Watched(Duration::from_secs(30))
    }
}

/// The place where a message was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub path: Arc<Path>,
    /// The offset in octets.
    pub offset: u64,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A name may hold anything but a NUL: what would move a terminal's cursor is shown and not
        // sent.
        for c in self.path.to_string_lossy().chars() {
            if c.is_control() { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
        }
        if self.offset > 0 { write!(f, ", byte {}", self.offset) } else { Ok(()) }
    }
}

/// A message read from a file, with CRLF at its line ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedMessage {
    /// The mailbox's name relative to the top: levels with `/` between them, empty for the top
    /// itself.
    pub mailbox: String,
    /// Flags.
    pub flags: Vec<Flag>,
    /// The time when the message was received, unix seconds, if that is known.
    pub date: Option<u32>,
    /// The message.
    pub bytes: Vec<u8>,
    /// The place where the message was found.
    pub origin: Origin,
}

/// Something that was not taken, or not whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The place of the message in the source.
    pub origin: Origin,
    /// The reason.
    pub why: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.why)
    }
}

/// Receives what readers read. `Break` ends the reading.
pub trait Sink {
    /// A message.
    fn message(&mut self, message: ImportedMessage) -> ControlFlow<()>;
    /// A message or file that could not be read.
    fn fault(&mut self, fault: Fault) -> ControlFlow<()>;
}

/// The progress of an import, and in the end its outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Messages that this run imported.
    pub messages: u64,
    /// The octets of the imported messages.
    pub bytes: u64,
    /// Messages that were imported before.
    pub present: u64,
    /// The octets of these messages.
    pub present_bytes: u64,
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
        /// The fault.
        why: String,
    },
    /// The store did not begin.
    #[error(transparent)]
    Begin(DeliveryError),
    /// The store did not take a batch. Earlier batches are in the store.
    #[error(
        "{origin}: {error}; {imported} messages before it were imported: the same command again brings the rest"
    )]
    Store {
        /// The first message that is not in the store.
        origin: Origin,
        /// Messages that are.
        imported: u64,
        /// The error of the delivery.
        error: DeliveryError,
    },
    /// A mailbox into which another import writes.
    #[error(
        "{origin}: another import into the same mailbox is running; wait for its end, then run this one again"
    )]
    Another {
        /// The first message that this one did not take.
        origin: Origin,
    },
    /// The reader was cut short.
    #[error("the import was interrupted: {0}")]
    Interrupted(String),
}
